"""Exact search in the files themselves, which is right even when the index is not."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memd.errors import UsageError
from memd.indexer.indexing.scan import LINK, scan
from memd.indexer.language.words import terms_of
from memd.indexer.query.pattern import MAX_LINE, Pattern
from memd.indexer.store.catalog import FileRow
from memd.indexer.store.postings import SizedCache
from memd.indexer.store.stores import Indexes, WorkspaceIndex
from memd.models import FileStat, JsonObject, Workspace
from memd.notes.documents import read_note
from memd.notes.names import date_of
from memd.notes.read import FileContent, SkippedFile, UnreadableFile
from memd.prose import composed

MAX_CHARS = 1_000_000
"""An answer ends with the block that reaches this; `next` says where the rest begins."""

MOST_READ_TEXT = 8_000_000
"""Characters of files that are kept in memory, to look for words that the index does not know."""

PIECE_BYTES, PIECE_BITS = 5, 21
"""Of the pieces of texts by which a word is known to stand in none of them: their length, and that of their numbers."""
PIECE_SHIFT, NUMBER_SHIFT = np.uint64(64 - 8 * PIECE_BYTES), np.uint64(64 - PIECE_BITS)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number near 2⁶⁴ divided by the golden ratio: the upper bits of a product with it are spread evenly."""

Place = tuple[int, int, str, str]
"""Sorts files, newest first: by the day in the name, or else of the last change; then by the last change."""


@dataclass(frozen=True, slots=True)
class GrepQuery:
    """The text to search for, and how much to show."""

    pattern: Pattern
    context: int = 3
    limit: int = 10
    path: str = ""
    after: str = ""


@dataclass(slots=True)
class GrepMatches:
    """The blocks, where the rest begins if there is more, and the files that could not be read."""

    blocks: list[JsonObject] = field(default_factory=list)
    """Lines of a file around one match, or around several near each other, as the wire has them."""
    next: str = ""
    skipped: list[dict[str, str]] = field(default_factory=list)


def grep(indexes: Indexes, query: GrepQuery, max_bytes: int) -> GrepMatches:
    """The blocks of every file that match, newest file first."""
    result = GrepMatches()
    begin, passed = _place_in(query.after)
    last, size = "", 0
    workspaces = [index.workspace for index in indexes]
    for place, workspace, path, content in contents(workspaces, max_bytes, result, query.path, begin):
        for block in _blocks(workspace, path, content.text, query, result, passed if place == begin else 0):
            if len(result.blocks) == query.limit or size >= MAX_CHARS:
                result.next = last
                return result
            result.blocks.append(block)
            size += sum(len(line) + 1 for line in block["lines"])
            last = json.dumps([*place, block["end_line"]])
    return result


def lines_with(index: WorkspaceIndex, needle: str, max_bytes: int) -> Iterator[tuple[str, list[int], str]]:
    """Each file that has the text, newest first, with its matching lines and its digest."""
    pattern = Pattern(needle)
    for *_, path, content in contents([index.workspace], max_bytes, GrepMatches()):
        if lines := pattern.matches(content.text):
            yield path, list(lines), content.digest


def contents(
    workspaces: Sequence[Workspace], max_bytes: int, result: GrepMatches, wanted: str = "", begin: Place | None = None
) -> Iterator[tuple[Place, Workspace, str, FileContent]]:
    """The wanted files of some workspaces, newest first, from a place on; the result has those that cannot be read."""
    for place, workspace, path in _files(workspaces, wanted, result):
        if (begin is None or place >= begin) and (content := _content(workspace, path, max_bytes, result)):
            yield place, workspace, path, content


def holding(index: WorkspaceIndex, words: Iterable[str], max_bytes: int, seconds: float) -> dict[str, str]:
    """The indexed files that have any of some words, with the word, the last changed first, as far as the time allows.

    A file that was looked into before is left out unless one of the words may stand in such a file.
    """
    sought, until = set(words), time.monotonic() + seconds
    likely, looked = any(map(_may_stand, sought)), index.looked_into
    files = [row for path, row in index.files.items() if likely or row.racy or looked.get(path) is not row]
    paths: dict[str, str] = {}
    for row in sorted(files, key=lambda row: -row.mtime_ns):
        if time.monotonic() > until:
            break
        read = partial(_folded, index.workspace, row.path, max_bytes)
        # The stamps of a file that was read too soon after a change may not tell the next one.
        text = read() if row.racy else _read_texts.get((index.workspace.root, row), read)
        looked[row.path] = row
        if any(word in text for word in sought):
            # Whole words only: "cat" is in "location" too, and no index would find it there.
            there = sought.intersection(terms_of(text)[1])
            paths |= {row.path: min(there)} if there else {}
    return paths


_read_texts: SizedCache[tuple[Path, FileRow], str] = SizedCache(MOST_READ_TEXT, len)
"""The texts of files in lower case; what a file said before goes as the least recently used do."""

_pieces = np.zeros(1 << PIECE_BITS, bool)
"""Whether a text that was read has a piece with this number; of two pieces with one number either may."""


def _folded(workspace: Workspace, path: str, max_bytes: int) -> str:
    content = _content(workspace, path, max_bytes, GrepMatches())
    text = content.text.casefold() if content else ""
    _pieces[_piece_numbers(text)] = True
    return text


def _may_stand(word: str) -> bool:
    """Whether a word may stand in a text that was read: all its pieces do."""
    return bool(_pieces[_piece_numbers(word)].all())


def _piece_numbers(text: str) -> NDArray[np.uint64]:
    """The numbers of all pieces of a text, each as many bytes in a row; none for a text that is shorter."""
    data = text.encode("utf-8", "surrogatepass")
    eight = np.ndarray(max(0, len(data) - PIECE_BYTES + 1), "<u8", data + bytes(8), strides=1)
    return (eight << PIECE_SHIFT) * SPREAD >> NUMBER_SHIFT


def under(path: str, wanted: str) -> bool:
    """Whether a path is the wanted file, is below the wanted folder, or matches the wanted pattern."""
    path, wanted = composed(path), composed(wanted)
    return not wanted or path == wanted or path.startswith(f"{wanted}/") or fnmatchcase(path, wanted)


# --- files --------------------------------------------------------------------------------------------------


def _files(workspaces: Iterable[Workspace], wanted: str, result: GrepMatches) -> list[tuple[Place, Workspace, str]]:
    files = []
    for workspace in workspaces:
        listing = scan(workspace)
        if listing.missing:
            _skip(result, workspace, "", "the directory is not there")
        for path, why in listing.skipped.items():
            if why != LINK and under(path, wanted):
                _skip(result, workspace, path, why)
        files += [(_place(workspace, path, stat), workspace, path) for path, stat in listing.files.items()]
    return sorted((file for file in files if under(file[2], wanted)), key=lambda file: file[0])


def _place(workspace: Workspace, path: str, stat: FileStat) -> Place:
    day = date_of(path) or datetime.fromtimestamp(stat.mtime_ns / 1e9).date().isoformat()
    return -int(day.replace("-", "")), -stat.mtime_ns, workspace.ns, path


def _place_in(after: str) -> tuple[Place | None, int]:
    """Where the previous answer ended: the file, and the last line that was shown."""
    if not after:
        return None, 0
    try:
        day, changed, ns, path, line = json.loads(after)
        return (int(day), int(changed), str(ns), str(path)), int(line)
    except (ValueError, TypeError) as error:
        raise UsageError("`after` must be the `next` of the previous answer") from error


def _content(workspace: Workspace, path: str, max_bytes: int, result: GrepMatches) -> FileContent | None:
    try:
        return read_note(workspace.root / path, max_bytes)
    except FileNotFoundError:
        return None
    except (SkippedFile, UnreadableFile) as error:
        _skip(result, workspace, path, str(error))
        return None


def _skip(result: GrepMatches, workspace: Workspace, path: str, why: str) -> None:
    result.skipped.append({"ns": workspace.ns, "path": path, "why": why})


# --- blocks -------------------------------------------------------------------------------------------------


def _blocks(
    workspace: Workspace, path: str, text: str, query: GrepQuery, result: GrepMatches, passed: int
) -> Iterator[JsonObject]:
    """The matches of a file below the line `passed`, each with its context; contexts that touch are one block."""
    matches = query.pattern.matches(text)
    if query.pattern.cut:
        query.pattern.cut = False
        _skip(result, workspace, path, f"only the first {MAX_LINE:,} characters of a line are searched")
    lines = text.removesuffix("\n").split("\n")
    for numbers in _neighbours((number for number in matches if number <= len(lines)), 2 * query.context + 1):
        start, end = max(1, numbers[0] - query.context), min(len(lines), numbers[-1] + query.context)
        if end > passed:
            yield {
                "ns": workspace.ns,
                "root": str(workspace.root),
                "path": path,
                "line": numbers[0],
                "start_line": start,
                "end_line": end,
                "lines": [line.removesuffix("\r") for line in lines[start - 1 : end]],
                "matches": [{"line": number, "spans": matches[number]} for number in numbers],
            }


def _neighbours(numbers: Iterable[int], gap: int) -> list[list[int]]:
    """Line numbers in groups, with at most `gap` from one to the next."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number - groups[-1][-1] <= gap:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
