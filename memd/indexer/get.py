"""Gives one memory by its key, or lines of a memory file by its path."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from memd.errors import NotFound, UsageError
from memd.indexer import recall
from memd.indexer.scan import is_memory_path, refusal
from memd.indexer.stores import Shelf, Stores
from memd.models import Memory, Note
from memd.notes.parse import parse
from memd.notes.read import Reading, Skipped, Unreadable, read


def by_key(stores: Stores, shelves: Sequence[Shelf], key: str, max_bytes: int) -> dict[str, Any]:
    """The memory that `key` names, as its file has it now."""
    base, _, slug = key.partition("#")
    found = [(shelf, row) for shelf in shelves for row in recall.memories(stores.ledger.reader, shelf.id, base, slug)]
    if not found:
        raise NotFound(f"no memory has the key `{key}`", _near(stores, shelves, key))
    if len(found) > 1:
        names = ", ".join(f"{shelf.workspace.ns}:{row['path']}" for shelf, row in found)
        raise UsageError(
            f"`{key}` names several memories ({names})", "use the path as the key, or name the workspace: -n NS"
        )
    shelf, row = found[0]
    note = _note(shelf, row["path"], max_bytes)
    memory = next((memory for memory in note.memories if memory.slug == slug), None)
    if memory is None:
        raise NotFound(f"`{key}` is no longer in {row['path']}", _near(stores, shelves, key))
    return {**_told(shelf, note, memory), "key": key, "tier": row["tier"]}


def _told(shelf: Shelf, note: Note, memory: Memory) -> dict[str, Any]:
    return {
        "ns": shelf.workspace.ns,
        "root": str(shelf.workspace.root),
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


def by_path(shelves: Sequence[Shelf], path: str, first: int, count: int, max_bytes: int) -> dict[str, Any]:
    """Lines of a file; all of them when `count` is 0."""
    for shelf in shelves:
        known = inside(shelf, path)
        if known and (shelf.workspace.root / known).exists():
            return _lines(shelf, known, first, count, max_bytes)
    names = sorted(name for shelf in shelves for name in shelf.files)
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.4)
    raise NotFound(f"no memory file is called {path}", f"near it: {', '.join(near)}" if near else "memd workspaces")


def inside(shelf: Shelf, path: str) -> str:
    """The path relative to the workspace, if it is one of its memory files."""
    pure = PurePosixPath(path)
    if pure.is_absolute():
        root = PurePosixPath(shelf.workspace.root)
        path = str(pure.relative_to(root)) if pure.is_relative_to(root) else ""
    safe = path and ".." not in PurePosixPath(path).parts
    return path if safe and is_memory_path(shelf.workspace, path) and not refusal(shelf.workspace, path) else ""


def _lines(shelf: Shelf, path: str, first: int, count: int, max_bytes: int) -> dict[str, Any]:
    lines = _reading(shelf, path, max_bytes).text.split("\n")
    last = len(lines) if count == 0 else min(len(lines), first + count - 1)
    if first > len(lines):
        raise NotFound(f"{path} has {len(lines)} lines", "ask for an earlier line")
    return {
        "ns": shelf.workspace.ns,
        "root": str(shelf.workspace.root),
        "path": path,
        "start_line": first,
        "end_line": last,
        "text": "\n".join(lines[first - 1 : last]),
    }


def _note(shelf: Shelf, path: str, max_bytes: int) -> Note:
    reading = _reading(shelf, path, max_bytes)
    return parse(path, reading.text, reading.day)


def _reading(shelf: Shelf, path: str, max_bytes: int) -> Reading:
    try:
        return read(shelf.workspace.root / path, max_bytes)
    except FileNotFoundError as error:
        raise NotFound(f"{path} is not there any more", "memd sync") from error
    except (Skipped, Unreadable) as error:
        raise NotFound(f"{path} cannot be read: {error}", "memd status") from error


def _near(stores: Stores, shelves: Sequence[Shelf], key: str) -> str:
    known = [name for shelf in shelves for name in recall.keys(stores.ledger.reader, shelf.id)]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(f'`{name}`' for name in near)}?" if near else 'look for it: memd query "…"'
