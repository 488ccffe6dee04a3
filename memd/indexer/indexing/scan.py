"""Finds a workspace's memory files: what is there, by stat, and what is left out and why."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from memd.models import Workspace

NEVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
SWAP = re.compile(
    r"(^[.#~])|(~$)|(\.(sw[a-p]|bak|orig|tmp|temp|part|crdownload)$)|(\.conflict-)|(\.sync-conflict-)"
    r"|(conflicted copy)|(^4913$)",
    re.IGNORECASE,
)

LINK = "a symbolic link; `follow = true` in the config allows it"
NOWHERE = "a symbolic link to nothing, or in a circle"
ODD = "it is no regular file"


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file's stat: when none of it changed, its bytes did not."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(slots=True)
class ScanResult:
    """One look at a workspace."""

    files: dict[str, FileStat] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    missing: bool = False
    """The directory itself is not there."""


def scan(workspace: Workspace) -> ScanResult:
    """Every memory file of the workspace."""
    found = ScanResult()
    if not workspace.root.is_dir():
        found.missing = True
        return found
    for folder, patterns in _sources(workspace.globs).items():
        if _leads_out(workspace, workspace.root / folder):
            found.skipped[folder] = LINK
        else:
            _walk(workspace, folder, patterns, found, set())
    return found


def watched_folders(workspace: Workspace) -> list[tuple[str, bool]]:
    """The folders to watch, relative to the root, and whether what is below them counts.

    The root itself is watched alone, so that a repository's build folders cost nothing.
    """
    deep = {folder: any("**" in glob or "/" in glob[len(folder) + 1 :] for glob in globs)
            for folder, globs in _sources(workspace.globs).items()}  # fmt: skip
    return sorted({"": deep.get("", False), **deep}.items())


def is_memory_path(workspace: Workspace, path: str) -> bool:
    """Whether the globs take in this relative path."""
    return (
        not _hidden(path, workspace.globs)
        and NEVER.isdisjoint(path.split("/"))
        and any(matcher(glob).fullmatch(path) for glob in workspace.globs)
    )


def refusal(workspace: Workspace, path: str) -> str:
    """Why a path with the right name is left out all the same; empty when it may be read.

    The scan asks the same of what it meets; this is for paths that came another way, as an event or a wish.
    """
    place = workspace.root / path
    if _leads_out(workspace, place):
        return LINK
    try:
        mode = place.stat().st_mode
    except OSError:
        return NOWHERE if place.is_symlink() else ""
    return "" if stat.S_ISREG(mode) else ODD


def _leads_out(workspace: Workspace, place: Path) -> bool:
    if workspace.follow:
        return False
    root, target = os.path.realpath(workspace.root), os.path.realpath(place)
    return target != root and not target.startswith(root.rstrip("/") + "/")


@lru_cache(maxsize=1_000)
def matcher(glob: str) -> re.Pattern[str]:
    """A glob as a pattern: `*` stays within a folder, `**/` is any number of folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(special.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _sources(globs: Iterable[str]) -> dict[str, list[str]]:
    """The globs by the folder that stands before their first wildcard."""
    folders: dict[str, list[str]] = {}
    for glob in globs:
        plain = re.split(r"[*?]", glob, maxsplit=1)[0]
        folders.setdefault(plain.rpartition("/")[0], []).append(glob)
    return folders


def _walk(
    workspace: Workspace, folder: str, globs: list[str], found: ScanResult, visited: set[tuple[int, int]]
) -> None:
    try:
        entries = sorted(os.scandir(workspace.root / folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        found.skipped[folder or "."] = error.strerror or str(error)
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if not _speakable(path):
            found.skipped[path.encode("utf-8", "replace").decode()] = "its name is not UTF-8"
            continue
        if _hidden(path, globs) or entry.name in NEVER:
            continue
        _visit(workspace, entry, path, globs, found, visited)


def _visit(
    workspace: Workspace,
    entry: os.DirEntry[str],
    path: str,
    globs: list[str],
    found: ScanResult,
    visited: set[tuple[int, int]],
) -> None:
    wanted = any(matcher(glob).fullmatch(path) for glob in globs)
    inner = any(_reaches(glob, path) for glob in globs)
    if not wanted and not inner:
        return
    if entry.is_symlink() and not _link_allowed(workspace, entry, path, wanted, found):
        return
    try:
        status = entry.stat()
    except OSError as error:
        if wanted:
            found.skipped[path] = error.strerror or str(error)
        return
    if stat.S_ISDIR(status.st_mode):
        if inner and (status.st_dev, status.st_ino) not in visited:
            visited.add((status.st_dev, status.st_ino))
            _walk(workspace, path, globs, found, visited)
    elif wanted and stat.S_ISREG(status.st_mode):
        found.files[path] = FileStat(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    elif wanted:
        found.skipped[path] = ODD


def _reaches(glob: str, folder: str) -> bool:
    """Whether a glob can match something below a folder."""
    if "**" in glob:
        return folder.startswith(plain) if (plain := glob.split("**", 1)[0]) and len(folder) > len(plain) else True
    parts, wanted = folder.split("/"), glob.split("/")
    return len(parts) < len(wanted) and all(
        matcher(pattern).fullmatch(part) for part, pattern in zip(parts, wanted, strict=False)
    )


def _link_allowed(workspace: Workspace, entry: os.DirEntry[str], path: str, wanted: bool, found: ScanResult) -> bool:
    """A link to a file inside the workspace is read; one that leads out, or to a folder, only with `follow`."""
    if workspace.follow:
        return True
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        if wanted:
            found.skipped[path] = NOWHERE
        return False
    if target.is_relative_to(workspace.root.resolve()) and not target.is_dir():
        return True
    found.skipped[path] = LINK
    return False


def _speakable(path: str) -> bool:
    """Whether a name can be written down; Linux allows any bytes in it."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _hidden(path: str, globs: Iterable[str]) -> bool:
    """Hidden, swap and backup names are no memory, unless a glob itself names the hidden folder."""
    parts = path.split("/")
    if SWAP.search(parts[-1]) and not parts[-1].startswith("."):
        return True
    if not any(part.startswith(".") for part in parts):
        return False
    return not any(_names_hidden(glob, parts) for glob in globs)


def _names_hidden(glob: str, parts: list[str]) -> bool:
    plain = glob.split("/")
    dotted = [nth for nth, part in enumerate(parts) if part.startswith(".")]
    return all(nth < len(plain) and plain[nth] == parts[nth] for nth in dotted)


def newest_first(paths: Iterable[str], seen: dict[str, FileStat]) -> Iterator[str]:
    """The order of a first import: what was written last is found first."""
    return iter(sorted(paths, key=lambda path: -seen[path].mtime_ns))
