"""Sets a workspace up for git: who merges notes, what is kept out, and where memd's own file is merged line by line."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from memd.errors import MemdError
from memd.models import TEAM_GLOB

DRIVER = "memd-note"
NOTES = ("MEMORY.md", "memory/**/*.md", "daily/**/*.md", TEAM_GLOB)
STATE = "memory/.memd/*.jsonl merge=union"
IGNORED = ("*.sync-conflict-*", "*conflicted copy*", "*.conflict-*", "*.orig", ".~*", "*.sw[a-p]", "*.tmp")


@dataclass(frozen=True, slots=True)
class GitWorkspace:
    """What was set up."""

    root: str
    repository: str
    """The repository's own directory."""
    created: bool
    attributes: list[str]
    """Lines that were added to `.gitattributes`."""
    ignored: list[str]
    """Lines that were added to `.gitignore`."""
    driver: str


def set_up(root: Path, globs: Iterable[str] = ()) -> GitWorkspace:
    """Make a repository unless there is one, and have memd merge its notes; nothing is committed, nothing is sent."""
    attributes = (*(f"{glob} merge={DRIVER}" for glob in globs or NOTES), STATE)
    created = _git(root, "rev-parse", "--show-toplevel", check=False) == ""
    if created:
        _git(root, "init", "--quiet", "--initial-branch=main")
    driver = f"{_memd()} merge-note %O %A %B %P"
    _git(root, "config", "--local", f"merge.{DRIVER}.name", "memd merges notes section by section")
    _git(root, "config", "--local", f"merge.{DRIVER}.driver", driver)
    added = _with_lines(root / ".gitattributes", attributes), _with_lines(root / ".gitignore", IGNORED)
    return GitWorkspace(str(root), _git(root, "rev-parse", "--show-toplevel"), created, *added, driver)


def _memd() -> str:
    """The command as git can run it."""
    return shlex.quote(found) if (found := shutil.which("memd")) else f"{shlex.quote(sys.executable)} -P -m memd"


def _with_lines(file: Path, lines: tuple[str, ...]) -> list[str]:
    """Add the lines that a file lacks; returns those."""
    text = file.read_text() if file.exists() else ""
    missing = [line for line in lines if line not in text.splitlines()]
    if missing:
        file.write_text(text + ("\n" if text and not text.endswith("\n") else "") + "\n".join(missing) + "\n")
    return missing


def _git(root: Path, *arguments: str, check: bool = True) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MemdError("git is not installed", "install it, then try again") from None
    if done.returncode and check:
        raise MemdError(f"git {arguments[0]} failed: {done.stderr.strip()}", f"look at it: git -C {root} status")
    return done.stdout.strip()
