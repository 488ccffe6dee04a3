"""Reads one memory by its key, or lines of a memory file by its path."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from sqlite3 import Row

from memd.errors import NotFound, UsageError
from memd.indexer.indexing.scan import is_memory_path, refusal
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.catalog import digest_of_memory
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import JsonObject
from memd.notes.read import FileContent, SkippedFile, UnreadableFile, read

LIFE = ("importance", "accesses", "days", "accessed", "useful", "first_seen", "moved", "moved_by", "moved_why")
"""What was observed of a memory, besides its tier."""

CHARACTERS_PER_TOKEN = 4
"""On average."""


def by_key(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, max_bytes: int) -> tuple[int, JsonObject]:
    """The memory that `key` names: its number in the ledger, and its text as the file has it now."""
    index, row = find_memory(stores, indexes, key)
    content = _read(index, row["path"], max_bytes)
    note = index.parse_cache.parse(row["path"], content.text, content.day)
    memory = next((memory for memory in note.memories if memory.slug == row["slug"]), None)
    if memory is None:
        raise NotFound(f"`{key}` is no longer in {row['path']}", suggest_keys(stores, indexes, key))
    last = history.latest(stores.ledger.reader, row["id"])
    # None: the ledger has not heard of the text that the file has.
    number = last.number if last is not None and last.digest == digest_of_memory(memory) else None
    return row["id"], {
        **index.place,
        "path": note.path,
        **{name: getattr(memory, name) for name in ("start_line", "end_line", "heading", "text", "kind", "date")},
        "role": note.role,
        "tags": list(memory.declared.tags),
        "declared": declared_facts(asdict(memory.declared)),
        "key": key,
        "tier": row["tier"],
        "expires": row["expires"],
        "life": {name: row[name] for name in LIFE},
        **version_facts(number, memory.text),
    }


def find_memory(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> tuple[WorkspaceIndex, Row]:
    """The one memory that a key names, and its workspace."""
    rows = [(index, row) for index in indexes for row in lookup.memories(stores.ledger.reader, index.id, key)]
    if not rows:
        raise NotFound(f"no memory has the key `{key}`", suggest_keys(stores, indexes, key))
    return only_one(rows, f"`{key}` names several memories")


def only_one(rows: Sequence[tuple[WorkspaceIndex, Row]], problem: str) -> tuple[WorkspaceIndex, Row]:
    """The single row that a key matched; `problem` says what is wrong with more."""
    if len(rows) > 1:
        names = ", ".join(f"{index.workspace.ns}:{row['path']}" for index, row in rows)
        raise UsageError(f"{problem} ({names})", "use the path as the key, or name the workspace: -n NS")
    return rows[0]


def suggest_keys(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> str:
    """A hint for a key that no memory has."""
    keys = [name for index in indexes for name in lookup.keys(stores.ledger.reader, index.id)]
    similar = difflib.get_close_matches(key, keys, n=3, cutoff=0.4)
    return f"did you mean {', '.join(f'`{name}`' for name in similar)}?" if similar else 'look for it: memd query "…"'


def version_facts(number: int | None, text: str) -> JsonObject:
    """What is said of a version beside its text."""
    supersedes = number - 1 if number is not None and number > 1 else None
    return {"version": number, "supersedes": supersedes, "estimated_tokens": estimate_tokens(text)}


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a text is to a language model."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def declared_facts(declared: JsonObject) -> JsonObject:
    """What a memory declares, without what it leaves out."""
    return {name: value for name, value in declared.items() if value not in ("", (), [], None, False)}


# --- lines of a file ----------------------------------------------------------------------------------------


def by_path(indexes: Sequence[WorkspaceIndex], path: str, first: int, count: int, max_bytes: int) -> JsonObject:
    """Lines of a file; all of them when `count` is 0."""
    for index in indexes:
        inner = inside(index, path)
        if inner and (index.workspace.root / inner).exists():
            return _lines(index, inner, first, count, max_bytes)
    names = sorted(name for index in indexes for name in index.files)
    similar = ", ".join(difflib.get_close_matches(path, names, n=3, cutoff=0.4))
    raise NotFound(f"no memory file is called {path}", f"similar names: {similar}" if similar else "memd workspaces")


def inside(index: WorkspaceIndex, path: str) -> str:
    """The path relative to the workspace if it is one of its memory files, else empty."""
    pure = PurePosixPath(path)
    if pure.is_absolute():
        root = PurePosixPath(index.workspace.root)
        path = str(pure.relative_to(root)) if pure.is_relative_to(root) else ""
    safe = path and ".." not in PurePosixPath(path).parts
    return path if safe and is_memory_path(index.workspace, path) and not refusal(index.workspace, path) else ""


def _lines(index: WorkspaceIndex, path: str, first: int, count: int, max_bytes: int) -> JsonObject:
    lines = _read(index, path, max_bytes).text.split("\n")
    last = len(lines) if count == 0 else min(len(lines), first + count - 1)
    if first > len(lines):
        raise NotFound(f"{path} has {len(lines)} lines", "ask for an earlier line")
    text = "\n".join(lines[first - 1 : last])
    return {**index.place, "path": path, "start_line": first, "end_line": last, "text": text}


def _read(index: WorkspaceIndex, path: str, max_bytes: int) -> FileContent:
    try:
        return read(index.workspace.root / path, max_bytes)
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist any more", "memd sync") from error
    except (SkippedFile, UnreadableFile) as error:
        raise NotFound(f"{path} cannot be read: {error}", "memd status") from error
