"""Scans a workspace: its memory files with their stat, and which files are skipped and why."""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from os.path import isdir, isfile, islink
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from memd.config.ignore_rules import Exclusions
from memd.config.paths import is_utf8
from memd.models import NEVER, FileStat, Workspace, grouped
from memd.notes import documents
from memd.notes.merging import original_of

SWAP = re.compile(
    r"^[.#~]|~$|\.(sw[a-p]|bak|orig|tmp|temp|part|crdownload)$|\.(sync-)?conflict-|conflicted copy|^4913$",
    re.IGNORECASE,
)

LINK = "a symbolic link; `follow = true` in the config allows it"
NOWHERE = "a symbolic link to nothing, or in a circle"
ODD = "it is no regular file"


@dataclass(slots=True)
class ScanResult:
    """The findings of a scan of a workspace."""

    files: dict[str, FileStat] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    missing: bool = False
    """The directory itself does not exist."""

    def copied(self) -> frozenset[int]:
        """The minutes in which so many files were last written that they were copied, not written, then."""
        minutes = Counter(minute_of(seen.mtime_ns) for seen in self.files.values())
        return frozenset(minute for minute, files in minutes.items() if files >= COPIED)


COPIED = 6
"""So many files of one minute came from a copy, a clone or an archive: their time says nothing about the notes."""


def minute_of(mtime_ns: int) -> int:
    return mtime_ns // 60_000_000_000


def scan(workspace: Workspace) -> ScanResult:
    """Every memory file of the workspace."""
    result, exclusions = ScanResult(missing=not isdir(workspace.root)), Exclusions(workspace)
    for folder, globs in _globs_by_folder(workspace.globs).items() if not result.missing else ():
        if why := exclusions.why_in_all(f"{folder}/") if folder else "":
            result.skipped[f"{folder}/"] = why
        elif _leads_out(workspace, workspace.root / folder):
            result.skipped[folder] = LINK
        else:
            _Walk(workspace, tuple(globs), result, exclusions).folder(folder)
    result.skipped |= exclusions.problems
    return result


@lru_cache(maxsize=1_000)
def watched_folders(globs: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """The folders to watch, relative to the root, outer ones first, and whether to watch what is below them too.

    The root is watched without its folders, so that the build folders of a repository cost nothing. The folders that
    lead to those of the globs are watched as well: what is not there yet may come.
    """
    deep = {folder: any("**" in glob or "/" in glob[len(folder) + 1 :] for glob in same)
            for folder, same in _globs_by_folder(globs).items()}  # fmt: skip
    folders = {"": False, **deep}
    for folder in deep:
        for above in PurePosixPath(folder).parents:
            folders.setdefault("" if above == PurePosixPath() else str(above), False)
    watched: dict[str, bool] = {}
    for folder, whole in sorted(folders.items()):
        around = [wholly for other, wholly in watched.items() if not other or folder.startswith(f"{other}/")]
        watched[folder] = whole or any(around)
    return tuple(watched.items())


def is_memory_path(workspace: Workspace, path: str) -> bool:
    """Whether the globs take in this relative path, and no rule excludes it."""
    return not left_out(workspace, path)


def left_out(workspace: Workspace, path: str) -> str:
    """Why a relative path is no memory file, by its name; empty when it is one."""
    if not any(matcher(glob).fullmatch(path) for glob in workspace.globs):
        return f"it matches none of the globs of {workspace.ns}: {', '.join(workspace.globs)}"
    return _passed_over(workspace, path) or Exclusions(workspace).why_in_all(path)


def _passed_over(workspace: Workspace, path: str) -> str:
    if _hidden(path, workspace.globs):
        return "it is hidden, or a copy that an editor or a synchroniser made"
    return "it is in a folder of a program" if not NEVER.isdisjoint(path.split("/")) else ""


def may_hold_memories(workspace: Workspace, folder: str) -> bool:
    """Whether a scan would look into this folder, where a glob reaches it."""
    return not _passed_over(workspace, folder) and not Exclusions(workspace).why_in_all(f"{folder}/")


def refusal(workspace: Workspace, path: str) -> str:
    """Why a path that the globs take in is skipped; empty when it may be read.

    The scan checks the same of what it meets; this is for paths that an event or a request named.
    """
    file = workspace.root / path
    if "\0" in path:
        return ODD
    if _leads_out(workspace, file):
        return LINK
    try:
        mode = file.stat().st_mode
    except OSError:
        return NOWHERE if islink(file) else ""
    return documents.lacking(path) if stat.S_ISREG(mode) else ODD


def linked_note(workspace: Workspace, path: str) -> str:
    """The note that a path is a link to, where that is read by its own name; empty for what is no such link."""
    file = workspace.root / path
    if not islink(file):
        return ""
    target, root = os.path.realpath(file), os.path.realpath(workspace.root)
    note = os.path.relpath(target, root)
    there = note != path and is_memory_path(workspace, note) and isfile(target)
    return note if there and not refusal(workspace, note) else ""


class NamesOnDisk:
    """The names of files as a scan lists them: where case does not matter, a file is found by others too, and a link
    to another note is that note. A file is read by one name, and written by it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._root, self._given = workspace, workspace.root, dict(watched_folders(workspace.globs))
        self._names_in = lru_cache(maxsize=None)(names_in)

    def spelled(self, path: str) -> str:
        """This path by the names that are there; what is new has the name that it is given."""
        if note := linked_note(self._workspace, path):
            return note
        file, (folder, _, name) = self._root / path, path.rpartition("/")
        exists = os.path.lexists(file)
        if path in self._given or (exists and not os.path.lexists(file.with_name(name.swapcase()))):
            return path
        names = self._names_in(file.parent) if exists else {}
        return f"{self.spelled(folder)}/{names.get(name) or names.get(name.lower(), name)}".lstrip("/")


def names_in(folder: Path) -> dict[str, str]:
    """The names in a folder, by themselves and in small letters; none of a folder that may not be listed."""
    _, folders, files = next(os.walk(folder), ("", [], []))
    return {name.lower(): name for name in folders + files} | {name: name for name in folders + files}


def _leads_out(workspace: Workspace, file: Path) -> bool:
    if workspace.follow or not _through_link(workspace.root, file):
        return False
    return not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(workspace.root))


def _through_link(root: Path, file: Path) -> bool:
    """Whether a link is on the way from the root to a file: where there is none, nothing leads out."""
    path = str(root)
    for part in file.parts[len(root.parts) :]:
        path = f"{path}/{part}"
        if islink(path):
            return True
    return False


@lru_cache(maxsize=1_000)
def matcher(glob: str) -> re.Pattern[str]:
    """A glob as a pattern: `*` stays within a folder, `**/` is any number of folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    special = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(special.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _globs_by_folder(globs: Iterable[str]) -> dict[str, list[str]]:
    """The globs by the folder before their first wildcard."""
    return grouped((re.split(r"[*?]", glob, maxsplit=1)[0].rpartition("/")[0], glob) for glob in globs)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk through the folders that some globs can reach."""

    workspace: Workspace
    globs: tuple[str, ...]
    result: ScanResult
    exclusions: Exclusions
    visited: set[tuple[int, int]] = field(default_factory=set)

    def folder(self, folder: str) -> None:
        try:
            entries = sorted(os.scandir(self.workspace.root / folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.result.skipped[folder or "."] = error.strerror or str(error)
            return
        ruled = self.exclusions.hold_in(folder)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            known = _by_name(path, self.globs)
            if not known.readable:
                self.result.skipped[path.encode("utf-8", "replace").decode()] = "its name is not UTF-8"
            elif not known.left_out:
                if (known.wanted or known.inner) and not (ruled and self._excluded(entry, path)):
                    self._visit(entry, path, known)
            elif (note := original_of(path)) is not None and is_memory_path(self.workspace, note):
                self.result.skipped[path] = f"another version of {note}: memd conflict list"

    def _excluded(self, entry: os.DirEntry[str], path: str) -> bool:
        named = f"{path}/" if entry.is_dir(follow_symlinks=False) else path
        if why := self.exclusions.why(named):
            self.result.skipped[named] = why
        return bool(why)

    def _visit(self, entry: os.DirEntry[str], path: str, known: "_Name") -> None:
        if entry.is_symlink() and not self._link_allowed(entry, path, known.wanted):
            return
        try:
            status = entry.stat()
        except OSError as error:
            if known.wanted:
                self.result.skipped[path] = error.strerror or str(error)
            return
        if stat.S_ISDIR(status.st_mode):
            if known.inner and (status.st_dev, status.st_ino) not in self.visited:
                self.visited.add((status.st_dev, status.st_ino))
                self.folder(path)
        elif known.wanted and (why := known.lacking if stat.S_ISREG(status.st_mode) else ODD):
            self.result.skipped[path] = why
        elif known.wanted:
            self.result.files[path] = FileStat.of(status)

    def _link_allowed(self, entry: os.DirEntry[str], path: str, wanted: bool) -> bool:
        """A link to a file inside the workspace is read, unless that is read by its own name; one that leads out, or to
        a folder, only with `follow`."""
        if wanted and linked_note(self.workspace, path):
            return False
        if self.workspace.follow:
            return True
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):
            if wanted:
                self.result.skipped[path] = NOWHERE
            return False
        if target.is_relative_to(self.workspace.root.resolve()) and not target.is_dir():
            return True
        self.result.skipped[path] = LINK
        return False


class _Name(NamedTuple):
    """All that the name of a path says."""

    readable: bool
    left_out: bool
    """Hidden, a swap file, or in a folder that is never looked into."""
    wanted: bool
    inner: bool
    """Whether something that is wanted may stand below it."""
    lacking: str
    """Why a document of this name cannot be read here."""


@lru_cache(maxsize=10_000)
def _by_name(path: str, globs: tuple[str, ...]) -> _Name:
    """Cached: every scan meets the same names, and an answer without hits waits for one."""
    return _Name(
        is_utf8(path),
        _hidden(path, globs) or path.rpartition("/")[2] in NEVER,
        any(matcher(glob).fullmatch(path) for glob in globs),
        any(_reaches(glob, path) for glob in globs),
        documents.lacking(path),
    )


def _reaches(glob: str, folder: str) -> bool:
    """Whether a glob can match something in a folder."""
    if "**" in glob:
        return folder.startswith(plain) if (plain := glob.split("**", 1)[0]) and len(folder) > len(plain) else True
    parts, wanted = folder.split("/"), glob.split("/")
    pairs = zip(parts, wanted, strict=False)
    return len(parts) < len(wanted) and all(matcher(pattern).fullmatch(part) for part, pattern in pairs)


def _hidden(path: str, globs: Iterable[str]) -> bool:
    """Hidden, swap and backup files are skipped, unless a glob names the hidden folder itself."""
    parts = path.split("/")
    if SWAP.search(parts[-1]) and not parts[-1].startswith("."):
        return True
    dotted = [nth for nth, part in enumerate(parts) if part.startswith(".")]
    named = (all(glob.split("/")[nth : nth + 1] == parts[nth : nth + 1] for nth in dotted) for glob in globs)
    return bool(dotted) and not any(named)


def newest_first(paths: Iterable[str], files: dict[str, FileStat]) -> list[str]:
    """The order of a first import: what was written last is searchable first."""
    return sorted(paths, key=lambda path: -files[path].mtime_ns)
