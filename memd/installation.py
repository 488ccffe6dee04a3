"""How memd was installed, so that every hint to install something is right for this machine.

The distribution is called `memd-daemon`: `memd` in the package index is another project, with a command of that name.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

DISTRIBUTION = "memd-daemon"
COMMAND = "memd"
FIRST_LINES = 500
"""Bytes of a script that say which Python runs it."""


def extra(name: str) -> str:
    """The command that installs memd again with one of its extras."""
    what = _source(name)
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return shlex.join(["uv", "tool", "install", "--force", *what])
    return shlex.join(["pipx", "install", "--force", *what]) if _is_pipx() else _pip("install", *what)


def packages(*names: str, again: bool = False) -> str:
    """The command that installs packages into memd's environment; `again`: also where they are, but broken."""
    return _pip("install", *(["--force-reinstall"] if again else []), *names)


def _pip(verb: str, *arguments: str) -> str:
    if _is_pipx():
        return shlex.join(["pipx", "runpip", Path(sys.prefix).name, verb, *arguments])
    if metadata_of("pip"):
        return shlex.join([sys.executable, "-m", "pip", verb, *arguments])
    # An environment that uv made has no pip of its own.
    return shlex.join(["uv", "pip", verb, "--python", sys.executable, *arguments])


def _is_pipx() -> bool:
    return Path(sys.prefix, "pipx_metadata.json").is_file()


def _source(extra: str) -> list[str]:
    """The argument for an installer of memd with an extra: by its name, or from where it was installed before."""
    own = metadata_of(DISTRIBUTION)
    direct: dict[str, Any] = json.loads((own and own.read_text("direct_url.json")) or "{}")
    named = f"{DISTRIBUTION}[{extra}]"
    if not direct:
        return [named]
    url = urlsplit(direct["url"])
    if url.scheme != "file":
        return [f"{named} @ {direct['vcs_info']['vcs'] + '+' if 'vcs_info' in direct else ''}{direct['url']}"]
    editable = ["--editable"] if direct.get("dir_info", {}).get("editable") else []
    return [*editable, f"{unquote(url.path)}[{extra}]"]


def metadata_of(name: str) -> Distribution | None:
    """The facts of a distribution in this environment."""
    # Takes longer to import than everything else here.
    from importlib import metadata

    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


# --- another one of that name ---------------------------------------------------------------------------------


def others(path: str) -> list[tuple[str, str]]:
    """Other programs called `memd` that may be taken for this one, and what to do about each. `path` is where the
    shell looks for commands."""
    found = []
    if (other := metadata_of(COMMAND)) is not None:
        what = f"the package {COMMAND} {other.version} is another project, with files and a command of the same name"
        found.append((what, f"{_pip('uninstall', COMMAND)}; then install {DISTRIBUTION} again"))
    programs = [Path(folder or ".", COMMAND) for folder in path.split(os.pathsep)]
    first = next((file for file in programs if file.is_file() and os.access(file, os.X_OK)), None)
    if first is not None and not _is_ours(first):
        what = f"{first} is another program; the shell and agents run that one when they are told `{COMMAND}`"
        found.append((what, f"put {Path(sys.executable).parent} before {first.parent} in PATH, or remove it"))
    return found


def _is_ours(program: Path) -> bool:
    """Whether a program is what runs now, or runs this Python."""
    if program.resolve() in (Path(sys.argv[0]).resolve(), Path(sys.executable).with_name(COMMAND).resolve()):
        return True
    with program.open("rb") as file:
        return f"{Path(sys.executable).parent}/python".encode() in file.read(FIRST_LINES)
