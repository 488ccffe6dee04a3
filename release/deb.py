"""A Debian package of memd: an environment of its own under /usr/lib/memd, on the Python of the system.

It is put together from wheels that the lock names, each checked by its hash; nothing of them is run, so a package for
another Debian can be made here, and nothing is downloaded when it is installed. Debian 12 has Python 3.11, 13 has 3.13.

It has no unit for all users: `memd service install` writes one that knows the user's workspaces.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = {"3.11": "12", "3.13": "13"}
"""The Debian whose Python it is."""
HOME = "usr/lib/memd"
GLIBC = (17, 24, 26, 27, 28, 31, 34, 35)
"""The versions of glibc for which wheels are made, up to the one of Debian 12."""
MAINTAINER = "The memd project <noreply@users.noreply.github.com>"

CONTROL = """\
Package: memd
Version: {version}-1~deb{debian}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: python3, python{python}, libc6 (>= 2.36), libstdc++6, libgcc-s1, zlib1g
Section: utils
Priority: optional
Description: memory for AI agents in plain Markdown, found in milliseconds
 A background daemon that watches Markdown notes, keeps them searchable by word
 and by meaning, and answers over a Unix socket. It needs no network and no API
 key: the models are part of the package.
 .
 "memd service install" starts it at login, for your user only.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    /usr/lib/memd/bin/python -W ignore -m compileall -q -j 0 /usr/lib/memd/lib || true
fi
"""
PRERM = """\
#!/bin/sh
set -e
find /usr/lib/memd -type d -name __pycache__ -prune -exec rm -r {} +
"""
LAUNCHER = """\
#!/usr/lib/memd/bin/python
import sys

from memd.cli import main

sys.exit(main())
"""


def build(wheel: Path, python: str, out: Path) -> Path:
    """The package for the Debian that has this Python."""
    version = wheel.name.split("-")[1]
    architecture = _run("dpkg", "--print-architecture").strip()
    wheels = ROOT / "build" / f"wheels-{python}"
    download(python, wheels)
    with tempfile.TemporaryDirectory(prefix="memd-deb-") as made:
        tree = Path(made, "memd")
        tree.mkdir(mode=0o755)
        _environment(tree, wheel, wheels, python)
        _shared(tree, version)
        _control(tree, version=version, architecture=architecture, python=python, debian=DEBIAN[python])
        _age(tree)
        file = out / f"memd_{version}-1~deb{DEBIAN[python]}_{architecture}.deb"
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--threads-max=2", "--build", str(tree), str(file))
    print(f"{file.name}: {file.stat().st_size / 1e6:.0f} MB")
    return file


def download(python: str, wheels: Path) -> None:
    """The wheels that memd needs, each with the hash that the lock has."""
    wheels.mkdir(parents=True, exist_ok=True)
    lock = wheels / "needed.txt"
    lock.write_text(_run(sys.executable, "release/dependencies.py", "needed"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--requirement", str(lock)]
    _run(*pip, *_target(python), "--find-links", str(wheels), "--dest", str(wheels))
    # An sdist is built where it is installed.
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    _run(*pip[:5], *_target(python), "--dest", str(wheels), *build)


def _target(python: str) -> list[str]:
    """The Python and the system for which wheels are chosen, as options of pip."""
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC] + [f"manylinux2014_{machine}"]
    named = [option for one in platforms for option in ("--platform", one)]
    return ["--only-binary=:all:", "--python-version", python, "--implementation", "cp", *named]


def _environment(tree: Path, wheel: Path, wheels: Path, python: str) -> None:
    home = tree / HOME
    packages = home / "lib" / f"python{python}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    needed = ["--require-hashes", "--find-links", str(wheels), "--requirement", str(wheels / "needed.txt")]
    for what in (needed, [str(wheel)]):
        _run(*pip, *_target(python), "--target", str(packages), *what)
    # Commands of other packages have the path of this build in them; what is shared goes where Debian has it.
    for folder in ("bin", "share"):
        shutil.rmtree(packages / folder, ignore_errors=True)
    (home / "bin").mkdir()
    (home / "bin" / "python").symlink_to(f"../../../bin/python{python}")
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
    _write(home / "bin" / "memd", LAUNCHER, 0o755)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/memd").symlink_to("../lib/memd/bin/memd")


def _shared(tree: Path, version: str) -> None:
    """The man page, the completions and the documents, where Debian has them."""
    share, given = tree / "usr/share", ROOT / "share"
    _write(share / "man/man1/memd.1.gz", _packed(given / "man/memd.1"))
    _write(share / "bash-completion/completions/memd", (given / "completions/memd.bash").read_bytes())
    _write(share / "zsh/vendor-completions/_memd", (given / "completions/_memd").read_bytes())
    _write(share / "fish/vendor_completions.d/memd.fish", (given / "completions/memd.fish").read_bytes())
    when = _run("date", "-R", "-u", "-d", f"@{os.environ['SOURCE_DATE_EPOCH']}").strip()
    news = f"memd ({version}-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {MAINTAINER}  {when}\n"
    _write(share / "doc/memd/changelog.Debian.gz", gzip.compress(news.encode(), 9, mtime=0))
    _write(share / "doc/memd/changelog.gz", _packed(ROOT / "CHANGELOG.md"))
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    others = "The packages in /usr/lib/memd/lib have their own licences, in their *.dist-info folders.\n"
    _write(share / "doc/memd/copyright", f"{licence}\n{others}")
    _write(share / "lintian/overrides/memd", (ROOT / "release/lintian-overrides").read_bytes())


def _packed(file: Path) -> bytes:
    return gzip.compress(file.read_bytes(), 9, mtime=0)


def _control(tree: Path, **facts: str) -> None:
    size = sum(file.lstat().st_size for file in tree.rglob("*") if file.is_file() and not file.is_symlink()) // 1024
    _write(tree / "DEBIAN/control", CONTROL.format(maintainer=MAINTAINER, size=size, **facts))
    _write(tree / "DEBIAN/postinst", POSTINST, 0o755)
    _write(tree / "DEBIAN/prerm", PRERM, 0o755)


def _age(tree: Path) -> None:
    """Every file as old as the commit, and none a program but ours: the same bytes for whoever builds it."""
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    programs = (tree / HOME / "bin" / "memd", tree / "DEBIAN/postinst", tree / "DEBIAN/prerm")
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)


def _write(file: Path, content: str | bytes, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(mode)


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
