"""Exact search: reads the files themselves, so that it is right even when the index is not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from memd.errors import UsageError
from memd.indexer.indexing.scan import LINK, FileStat, scan
from memd.indexer.language.words import terms_of
from memd.indexer.query.pattern import MAX_LINE, Matches, Pattern
from memd.indexer.store.stores import WorkspaceIndex
from memd.models import Workspace
from memd.notes.names import date_of
from memd.notes.read import FileContent, SkippedFile, UnreadableFile, read

MAX_CHARS = 1_000_000
"""An answer ends with the block that reaches this; `next` says where to go on."""

Place = tuple[int, int, str, str]
"""Sorts files: newest first, by the day in the name or else of the last change, then by the last change."""


@dataclass(frozen=True, slots=True)
class GrepBlock:
    """Lines of a file around one match or several that are near each other."""

    ns: str
    root: str
    path: str
    line: int
    """Of the first match."""
    start_line: int
    end_line: int
    lines: list[str]
    matches: list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class GrepQuery:
    """What to look for, and how much to show of it."""

    pattern: Pattern
    context: int = 3
    limit: int = 10
    path: str = ""
    after: str = ""


@dataclass(slots=True)
class GrepMatches:
    """The blocks, where to go on when there are more, and which files could not be read."""

    blocks: list[GrepBlock] = field(default_factory=list)
    next: str = ""
    skipped: list[dict[str, str]] = field(default_factory=list)


def grep(indexes: Sequence[WorkspaceIndex], wanted: GrepQuery, max_bytes: int) -> GrepMatches:
    """The blocks of every file that match, newest file first."""
    found = GrepMatches()
    begin, passed = _place_in(wanted.after)
    last, size = "", 0
    for place, workspace, path in _files([index.workspace for index in indexes], wanted.path, found):
        if begin and place < begin:
            continue
        text = _text(workspace, path, max_bytes, found)
        for block in _blocks(workspace, path, text, wanted, found, passed if place == begin else 0):
            if len(found.blocks) == wanted.limit or size >= MAX_CHARS:
                found.next = last
                return found
            found.blocks.append(block)
            size += sum(len(line) + 1 for line in block.lines)
            last = json.dumps([*place, block.end_line])
    return found


def lines_with(index: WorkspaceIndex, needle: str, max_bytes: int) -> Iterator[tuple[str, list[int], str]]:
    """Each file that has the text, newest first, with the lines it stands on and the digest of the file."""
    pattern, found = Pattern(needle), GrepMatches()
    for _, workspace, path in _files([index.workspace], "", found):
        reading = _reading(workspace, path, max_bytes, found)
        lines = pattern.matches(reading.text) if reading else {}
        if reading and lines:
            yield path, list(lines), reading.digest


def holding(index: WorkspaceIndex, sought: Iterable[str], max_bytes: int, seconds: float) -> dict[str, str]:
    """The files that have any of some words, with the word, as far as time allows to look, the newest first."""
    wanted, found, until = set(sought), GrepMatches(), time.monotonic() + seconds
    paths: dict[str, str] = {}
    for _, workspace, path in _files([index.workspace], "", found):
        if not wanted or time.monotonic() > until:
            break
        text = _text(workspace, path, max_bytes, found)
        folded = text.casefold()
        if any(word in folded for word in wanted):
            # As a whole word: "cat" is in "location" too, and no index would find it there.
            there = wanted.intersection(terms_of(text)[1])
            paths |= {path: min(there)} if there else {}
    return paths


def under(path: str, wanted: str) -> bool:
    """Whether a file is the one that is meant, stands below it, or has a name of that pattern."""
    wanted = wanted.rstrip("/")
    return not wanted or path == wanted or path.startswith(f"{wanted}/") or fnmatchcase(path, wanted)


# --- files --------------------------------------------------------------------------------------------------


def _files(workspaces: Iterable[Workspace], wanted: str, found: GrepMatches) -> list[tuple[Place, Workspace, str]]:
    files = []
    for workspace in workspaces:
        seen = scan(workspace)
        if seen.missing:
            _skip(found, workspace, "", "the directory is not there")
        for path, why in seen.skipped.items():
            if why != LINK and under(path, wanted):
                _skip(found, workspace, path, why)
        files += [(_place(workspace, path, stat), workspace, path) for path, stat in seen.files.items()]
    return sorted((file for file in files if under(file[2], wanted)), key=lambda file: file[0])


def _place(workspace: Workspace, path: str, stat: FileStat) -> Place:
    day = date_of(path) or datetime.fromtimestamp(stat.mtime_ns / 1e9).date().isoformat()
    return -int(day.replace("-", "")), -stat.mtime_ns, workspace.ns, path


def _place_in(after: str) -> tuple[Place | None, int]:
    """Where the answer before ended: the file, and its last line that was told."""
    if not after:
        return None, 0
    try:
        day, changed, ns, path, line = json.loads(after)
        place = int(day), int(changed), str(ns), str(path)
        return place, int(line)
    except (ValueError, TypeError) as error:
        raise UsageError("`after` must be the `next` of the answer before") from error


def _reading(workspace: Workspace, path: str, max_bytes: int, found: GrepMatches) -> FileContent | None:
    try:
        return read(workspace.root / path, max_bytes)
    except FileNotFoundError:
        return None
    except (SkippedFile, UnreadableFile) as error:
        _skip(found, workspace, path, str(error))
        return None


def _text(workspace: Workspace, path: str, max_bytes: int, found: GrepMatches) -> str:
    reading = _reading(workspace, path, max_bytes, found)
    return reading.text if reading else ""


def _skip(found: GrepMatches, workspace: Workspace, path: str, why: str) -> None:
    found.skipped.append({"ns": workspace.ns, "path": path, "why": why})


# --- blocks -------------------------------------------------------------------------------------------------


def _blocks(
    workspace: Workspace, path: str, text: str, wanted: GrepQuery, found: GrepMatches, passed: int
) -> Iterator[GrepBlock]:
    """The matches of a file below the line `passed`, each with its context; contexts that touch are one."""
    matches = wanted.pattern.matches(text)
    if wanted.pattern.cut:
        wanted.pattern.cut = False
        _skip(found, workspace, path, f"a line is looked at up to its character {MAX_LINE:,}")
    if not matches:
        return
    lines = text.removesuffix("\n").split("\n")
    together: list[int] = []
    for number in (number for number in matches if number <= len(lines)):
        if together and number - together[-1] > 2 * wanted.context + 1:
            yield from _block(workspace, path, lines, matches, together, wanted.context, passed)
            together = []
        together.append(number)
    yield from _block(workspace, path, lines, matches, together, wanted.context, passed)


def _block(
    workspace: Workspace, path: str, lines: list[str], matches: Matches, together: list[int], context: int, passed: int
) -> Iterator[GrepBlock]:
    if not together:
        return
    start, end = max(1, together[0] - context), min(len(lines), together[-1] + context)
    if end > passed:
        yield GrepBlock(
            ns=workspace.ns,
            root=str(workspace.root),
            path=path,
            line=together[0],
            start_line=start,
            end_line=end,
            lines=[line.removesuffix("\r") for line in lines[start - 1 : end]],
            matches=[{"line": number, "spans": matches[number]} for number in together],
        )
