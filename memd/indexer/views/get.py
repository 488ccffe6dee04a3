"""Gives one memory by its key, or lines of a memory file by its path."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from sqlite3 import Row
from typing import Any

from memd.errors import NotFound, UsageError
from memd.indexer.indexing.scan import is_memory_path, refusal
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.catalog import digest_of_memory
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Memory, Note
from memd.notes.read import FileContent, SkippedFile, UnreadableFile, read

LIFE = ("importance", "accesses", "days", "accessed", "useful", "first_seen", "moved", "moved_by", "moved_why")
"""What was observed of a memory, besides its tier."""

TOKEN = 4
"""Characters to a token, on average."""


def by_key(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, max_bytes: int) -> tuple[int, dict[str, Any]]:
    """The memory that `key` names, by its number in the ledger and as its file has it now."""
    index, row = named(stores, indexes, key)
    note = _note(index, row["path"], max_bytes)
    memory = next((memory for memory in note.memories if memory.slug == row["slug"]), None)
    if memory is None:
        raise NotFound(f"`{key}` is no longer in {row['path']}", near(stores, indexes, key))
    return row["id"], {
        **_told(index, note, memory),
        "key": key,
        "tier": row["tier"],
        "expires": row["expires"],
        "life": {name: row[name] for name in LIFE},
        **_counted(_number(stores, row, memory), memory.text),
    }


def by_version(stores: Stores, index: WorkspaceIndex, memory: int, key: str, number: int) -> dict[str, Any]:
    """A memory that is there, or was, in one of its versions."""
    kept = history.versions(stores.ledger.reader, memory)
    found = next((version for version in kept if version.number == number), None)
    text = history.text_of(stores.ledger.reader, found.digest) if found and found.digest else None
    if found is None or text is None:
        there = ", ".join(str(version.number) for version in kept if version.digest)
        raise NotFound(f"`{key}` has no text as version {number}", f"there are: {there}; memd history {key}")
    return {
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "key": key,
        "path": found.path,
        "heading": found.heading,
        "text": text,
        "at": found.at,
        "who": found.who,
        "current": kept[-1].number == number,
        **_counted(number, text),
    }


def named(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> tuple[WorkspaceIndex, Row]:
    """The one memory that a key names, with the workspace it is in."""
    base, _, slug = key.partition("#")
    found = [(index, row) for index in indexes for row in lookup.memories(stores.ledger.reader, index.id, base, slug)]
    if not found:
        raise NotFound(f"no memory has the key `{key}`", near(stores, indexes, key))
    if len(found) > 1:
        names = ", ".join(f"{index.workspace.ns}:{row['path']}" for index, row in found)
        raise UsageError(
            f"`{key}` names several memories ({names})", "use the path as the key, or name the workspace: -n NS"
        )
    return found[0]


def _number(stores: Stores, row: Row, memory: Memory) -> int | None:
    """The number of the version that the file has; None where the ledger has not heard of that text yet."""
    last = history.latest(stores.ledger.reader, row["id"])
    return last.number if last is not None and last.digest == digest_of_memory(memory) else None


def _counted(number: int | None, text: str) -> dict[str, Any]:
    supersedes = number - 1 if number is not None and number > 1 else None
    return {"version": number, "supersedes": supersedes, "estimated_tokens": tokens(text)}


def tokens(text: str) -> int:
    """Roughly how many tokens a text is to a language model."""
    return -(-len(text) // TOKEN)


def _told(index: WorkspaceIndex, note: Note, memory: Memory) -> dict[str, Any]:
    return {
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "path": note.path,
        "start_line": memory.start_line,
        "end_line": memory.end_line,
        "heading": memory.heading,
        "text": memory.text,
        "kind": memory.kind,
        "role": note.role,
        "tags": list(memory.declared.tags),
        "date": memory.date,
        "declared": {
            name: value for name, value in asdict(memory.declared).items() if value not in ("", (), None, False)
        },
    }


def by_path(indexes: Sequence[WorkspaceIndex], path: str, first: int, count: int, max_bytes: int) -> dict[str, Any]:
    """Lines of a file; all of them when `count` is 0."""
    for index in indexes:
        known = inside(index, path)
        if known and (index.workspace.root / known).exists():
            return _lines(index, known, first, count, max_bytes)
    names = sorted(name for index in indexes for name in index.files)
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.4)
    raise NotFound(f"no memory file is called {path}", f"near it: {', '.join(near)}" if near else "memd workspaces")


def inside(index: WorkspaceIndex, path: str) -> str:
    """The path relative to the workspace, if it is one of its memory files."""
    pure = PurePosixPath(path)
    if pure.is_absolute():
        root = PurePosixPath(index.workspace.root)
        path = str(pure.relative_to(root)) if pure.is_relative_to(root) else ""
    safe = path and ".." not in PurePosixPath(path).parts
    return path if safe and is_memory_path(index.workspace, path) and not refusal(index.workspace, path) else ""


def _lines(index: WorkspaceIndex, path: str, first: int, count: int, max_bytes: int) -> dict[str, Any]:
    lines = _reading(index, path, max_bytes).text.split("\n")
    last = len(lines) if count == 0 else min(len(lines), first + count - 1)
    if first > len(lines):
        raise NotFound(f"{path} has {len(lines)} lines", "ask for an earlier line")
    return {
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "path": path,
        "start_line": first,
        "end_line": last,
        "text": "\n".join(lines[first - 1 : last]),
    }


def _note(index: WorkspaceIndex, path: str, max_bytes: int) -> Note:
    reading = _reading(index, path, max_bytes)
    return index.parse_cache.parse(path, reading.text, reading.day)


def _reading(index: WorkspaceIndex, path: str, max_bytes: int) -> FileContent:
    try:
        return read(index.workspace.root / path, max_bytes)
    except FileNotFoundError as error:
        raise NotFound(f"{path} is not there any more", "memd sync") from error
    except (SkippedFile, UnreadableFile) as error:
        raise NotFound(f"{path} cannot be read: {error}", "memd status") from error


def near(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> str:
    """What someone may have meant by a key that is not known."""
    known = [name for index in indexes for name in lookup.keys(stores.ledger.reader, index.id)]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(f'`{name}`' for name in near)}?" if near else 'look for it: memd query "…"'
