"""Finds the memories that name a piece of code: a symbol as it is written in prose, or the path of a file."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from memd.indexer.query import lookup
from memd.indexer.store import catalog
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import JsonObject

if TYPE_CHECKING:
    from memd.outline.queries import SymbolTree

QUOTED = re.compile(r"`+([^`\n]+)`+")
NAME = re.compile(r"[^\W\d]\w*(?:(?:\.|::|->|#)[^\W\d]\w*)*")
PATH = re.compile(r"[\w@+-][\w@+./-]*\.[A-Za-z+]{1,4}(?![\w])")
CODE = re.compile(r"_|\d|[a-z][A-Z]|[A-Z]{2}[a-z]")
"""A word that looks like an identifier."""
JOINTS = re.compile(r"\.|::|->|#")
RECEIVER = re.compile(r"\(\s*\*?\s*(\w+)\s*\)")


class CodeMention(NamedTuple):
    """A name in a chunk, part by part, as it is written."""

    chunk: int
    parts: tuple[str, ...]
    text: str


@dataclass(slots=True, eq=False)
class _WorkspaceNames:
    """The names in the chunks of one workspace. A chunk never changes under its number, so each is read once."""

    chunks: dict[int, list[CodeMention]] = field(default_factory=dict)
    named: dict[str, set[CodeMention]] = field(default_factory=lambda: defaultdict(set))
    """By the last part of each name."""
    clock: str = ""


class CodeNames:
    """The names in the notes of every workspace, kept as long as the chunks are."""

    def __init__(self) -> None:
        self._read: dict[int, _WorkspaceNames] = {}
        self._lock = threading.Lock()

    def of(self, stores: Stores, index: WorkspaceIndex, wanted: list[SymbolTree]) -> list[list[JsonObject]]:
        """For each piece of code the memories that name it, each memory once, by path and line."""
        with self._lock:
            read = self._update(stores, index)
            mentions = [list(_mentions(read, tree)) for tree in wanted]
        rows = _rows(stores, {mention.chunk for some in mentions for mention in some})
        return [_memories(some, rows) for some in mentions]

    def _update(self, stores: Stores, index: WorkspaceIndex) -> _WorkspaceNames:
        read = self._read.setdefault(index.id, _WorkspaceNames())
        clock = stores.ledger.clock
        if read.clock == clock:
            return read
        now = catalog.chunk_ids(stores.reader, index.id)
        for gone in read.chunks.keys() - now:
            for mention in read.chunks.pop(gone):
                read.named[mention.parts[-1]].discard(mention)
        for number, text in lookup.texts(stores.reader, now - read.chunks.keys()).items():
            read.chunks[number] = list(_names(number, text))
            for mention in read.chunks[number]:
                read.named[mention.parts[-1]].add(mention)
        read.clock = clock
        return read


def _names(chunk: int, text: str) -> Iterator[CodeMention]:
    """Every name in a text: quoted as code, or recognizable as code."""
    seen: set[str] = set()
    for piece, sure in [*((quoted, True) for quoted in QUOTED.findall(text)), (text, False)]:
        plain = RECEIVER.sub(r"\1", piece)
        for match in NAME.finditer(plain):
            parts = tuple(JOINTS.split(match[0]))
            called = plain[match.end() : match.end() + 1] == "("
            if match[0] not in seen and (sure or called or len(parts) > 1 or CODE.search(match[0])):
                seen.add(match[0])
                yield CodeMention(chunk, parts, match[0])
        for match in PATH.finditer(plain):
            yield CodeMention(chunk, ("", *match[0].removeprefix("./").split("/")), match[0])


def _mentions(read: _WorkspaceNames, wanted: SymbolTree) -> Iterator[CodeMention]:
    """The mentions that mean a symbol; those of its path mean its file."""
    if wanted.whole_file:
        whole = ("", *wanted.path.split("/"))
        for mention in read.named.get(whole[-1], ()):
            if mention.parts[0] == "" and whole[-len(mention.parts) + 1 :] == mention.parts[1:]:
                yield mention
    for mention in read.named.get(wanted.segments[-1], ()) if wanted.segments else ():
        qualified = len(mention.parts) > 1
        fits = mention.parts[0] and wanted.segments[-len(mention.parts) :] == mention.parts
        if fits and (qualified or wanted.alone):
            yield mention


def _rows(stores: Stores, chunks: Iterable[int]) -> dict[int, JsonObject]:
    """Where chunks stand now, with the keys of their memories; expired memories are left out."""
    clause = f"c.id IN (SELECT value FROM json_each(?)) AND {lookup.ALIVE}"
    columns = "c.id AS chunk, c.text, c.start_line, m.heading"
    keyed = lookup.keyed_rows(stores.reader, columns, clause, (json.dumps(list(chunks)),), lookup.TABLES)
    return {row["chunk"]: {**dict(row), "key": key} for key, row in keyed}


def _memories(mentions: Iterable[CodeMention], rows: dict[int, JsonObject]) -> list[JsonObject]:
    """Each memory once, at the first line that names the code."""
    found: dict[str, JsonObject] = {}
    for mention in sorted(mentions):
        row = rows.get(mention.chunk)
        if row is not None:
            line = row["start_line"] + row["text"][: max(row["text"].find(mention.text), 0)].count("\n")
            memory = {"key": row["key"], "path": row["path"], "line": line, "heading": row["heading"]}
            known = found.get(row["key"])
            found[row["key"]] = memory if known is None or line < known["line"] else known
    return sorted(found.values(), key=lambda memory: (memory["path"], memory["line"]))
