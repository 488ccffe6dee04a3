"""Finds the memories that name a piece of code: a symbol as code is written in prose, or the path of a file."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memd.indexer.query import lookup
from memd.indexer.store.stores import Stores, WorkspaceIndex

QUOTED = re.compile(r"`+([^`\n]+)`+")
NAME = re.compile(r"[^\W\d]\w*(?:(?:\.|::|->|#)[^\W\d]\w*)*")
PATH = re.compile(r"[\w@+-][\w@+./-]*\.[A-Za-z+]{1,4}(?![\w])")
CODE = re.compile(r"_|\d|[a-z][A-Z]|[A-Z]{2}[a-z]")
"""What looks like an identifier and not like a word of a sentence."""
JOINTS = re.compile(r"\.|::|->|#")
RECEIVER = re.compile(r"\(\s*\*?\s*(\w+)\s*\)")


class CodeMention(NamedTuple):
    """A name in a chunk, part by part, as it is written."""

    chunk: int
    parts: tuple[str, ...]
    text: str


class CodeName(NamedTuple):
    """A symbol or file to look for."""

    path: str
    parts: tuple[str, ...]
    whole_file: bool
    alone: bool
    """Whether the last part by itself can mean only this."""


@dataclass(slots=True, eq=False)
class _WorkspaceNames:
    """What one workspace's chunks name. A chunk's text never changes under its number, so it is read once."""

    chunks: dict[int, list[tuple[str, CodeMention]]] = field(default_factory=dict)
    named: dict[str, set[CodeMention]] = field(default_factory=lambda: defaultdict(set))
    clock: str = ""


class CodeNames:
    """The names in the notes of every workspace, kept as long as the chunks are."""

    def __init__(self) -> None:
        self._read: dict[int, _WorkspaceNames] = {}
        self._lock = threading.Lock()

    def of(self, stores: Stores, index: WorkspaceIndex, wanted: list[CodeName]) -> list[list[dict[str, Any]]]:
        """For each wanted one the memories that name it, each memory once, by path and line."""
        with self._lock:
            read = self._update(stores, index)
            found = [list(_fitting(read, one)) for one in wanted]
        rows = _rows(stores, index, {mention.chunk for mentions in found for mention in mentions})
        return [_told(mentions, rows) for mentions in found]

    def _update(self, stores: Stores, index: WorkspaceIndex) -> _WorkspaceNames:
        read = self._read.setdefault(index.id, _WorkspaceNames())
        clock = stores.ledger.clock
        if read.clock == clock:
            return read
        connection = stores.ledger.reader
        now = {row[0] for row in connection.execute("SELECT id FROM chunks WHERE workspace = ?", (index.id,))}
        for gone in read.chunks.keys() - now:
            for name, mention in read.chunks.pop(gone):
                read.named[name].discard(mention)
        new = now - read.chunks.keys()
        for number, text in (
            connection.execute("SELECT id, text FROM chunks WHERE workspace = ?", (index.id,)) if new else ()
        ):
            if number in new:
                read.chunks[number] = names = list(_names(number, text))
                for name, mention in names:
                    read.named[name].add(mention)
        read.clock = clock
        return read


def _names(chunk: int, text: str) -> Iterator[tuple[str, CodeMention]]:
    """Every name in a text, by its last part: what is written as code, and what can only be code."""
    seen: set[str] = set()
    quoted = [match[1] for match in QUOTED.finditer(text)]
    for piece, sure in [*((one, True) for one in quoted), (text, False)]:
        plain = RECEIVER.sub(r"\1", piece)
        for match in NAME.finditer(plain):
            parts = tuple(JOINTS.split(match[0]))
            called = plain[match.end() : match.end() + 1] == "("
            if match[0] not in seen and (sure or called or len(parts) > 1 or CODE.search(match[0])):
                seen.add(match[0])
                yield parts[-1], CodeMention(chunk, parts, match[0])
        for match in PATH.finditer(plain):
            path = match[0].removeprefix("./")
            yield path.rpartition("/")[2], CodeMention(chunk, ("", *path.split("/")), match[0])


def _fitting(read: _WorkspaceNames, wanted: CodeName) -> Iterator[CodeMention]:
    """The mentions that mean a symbol; those of its path mean its file."""
    if wanted.whole_file:
        whole = ("", *wanted.path.split("/"))
        for one in read.named.get(whole[-1], ()):
            if one.parts[0] == "" and whole[-len(one.parts) + 1 :] == one.parts[1:]:
                yield one
    for one in read.named.get(wanted.parts[-1], ()) if wanted.parts else ():
        bare = len(one.parts) == 1
        if one.parts[0] and wanted.parts[-len(one.parts) :] == one.parts and (not bare or wanted.alone):
            yield one


def _rows(stores: Stores, index: WorkspaceIndex, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Where chunks stand now, with the keys of their memories; memories that have run out are none."""
    connection = stores.ledger.reader
    marks = ",".join(str(int(number)) for number in chunks)
    rows = connection.execute(
        f"SELECT c.id, c.text, c.start_line, f.path, f.stem, m.slug, m.heading FROM {lookup.TABLES}"
        f" WHERE c.id IN ({marks}) AND {lookup.ALIVE}"
    ).fetchall()
    shared = lookup.shared_stems(connection, index.id, (row["stem"] for row in rows))
    return {
        row["id"]: {**row, "key": lookup.key_of(row["stem"], row["path"], row["slug"], shared)}
        for row in map(dict, rows)
    }


def _told(mentions: Iterable[CodeMention], rows: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(mentions):
        row = rows.get(one.chunk)
        if row is not None:
            line = row["start_line"] + row["text"][: max(row["text"].find(one.text), 0)].count("\n")
            told = {"key": row["key"], "path": row["path"], "line": line, "heading": row["heading"]}
            known = found.get(row["key"])
            found[row["key"]] = told if known is None or line < known["line"] else known
    return sorted(found.values(), key=lambda told: (told["path"], told["line"]))
