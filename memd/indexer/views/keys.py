"""Finds the memory that a key means to whoever wants to write it, and lists memories by tag, by file and by age."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from sqlite3 import Row
from typing import Any

from memd.errors import NotFound, Refused, UsageError
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.catalog import digest_of_memory
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import get
from memd.notes.layout import INDEX, Layout
from memd.notes.names import DATE, is_long_term
from memd.notes.sections import memory_in, same_tag
from memd.notes.topics import topic_name

INDEX_HEADINGS = ("general project knowledge", "specialized knowledge")


@dataclass(frozen=True, slots=True)
class KeyTarget:
    """Where a key's memory stands, or will; `memory` is its number, None while there is none."""

    key: str
    path: str
    slug: str
    memory: int | None = None
    version: int = 0
    """0 while there is none."""
    digest: str | None = None
    """Of the text of that version."""


def existing(stores: Stores, index: WorkspaceIndex, key: str) -> KeyTarget:
    """The memory that a key names; the list of topics is nobody's but the topics' own."""
    _, row = get.named(stores, [index], key)
    if row["path"] == INDEX or (is_long_term(row["path"]) and row["heading"].casefold() in INDEX_HEADINGS):
        raise Refused(f"`{key}` is the index of the topics", "memd topic changes it")
    last = history.latest(stores.ledger.reader, row["id"])
    return KeyTarget(
        key, row["path"], row["slug"], row["id"],
        last.number if last else 1, last.digest if last else row["digest"],
    )  # fmt: skip


def wanted(stores: Stores, index: WorkspaceIndex, key: str, layout: Layout) -> KeyTarget:
    """The memory that a key names, or the topic file that it will be."""
    base, _, slug = key.partition("#")
    if lookup.memories(stores.ledger.reader, index.id, base, slug):
        return existing(stores, index, key)
    if slug or "#" in key:
        raise NotFound(f"no memory has the key `{key}`", get.near(stores, [index], key))
    name = topic_name(key)
    path = layout.topic(name)
    others = [known for known in list(index.files) if PurePosixPath(known).stem == name and known != path]
    if others:
        raise UsageError(f"`{key}` is a file of several memories ({others[0]})", get.near(stores, [index], key))
    if DATE.fullmatch(name) or PurePosixPath(name).suffix in (".md", ".mdk"):
        raise UsageError(f"`{key}` cannot be the key of a new memory", "a day is written with memd note; leave out .md")
    if not get.inside(index, path) or path == INDEX:
        raise Refused(f"{path} would not be a memory of this workspace", "its globs leave it out: memd workspaces")
    return KeyTarget(name, path, "")


def digest_in(target: KeyTarget, text: str | None) -> str | None:
    """The digest of a target's text in its file as it is read now; None where it has none."""
    whole = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    memory = memory_in(target.path, whole, target.slug)
    return digest_of_memory(memory) if memory is not None else None


# --- lists --------------------------------------------------------------------------------------------------


def _rows(stores: Stores, index: WorkspaceIndex, clause: str, values: Sequence[Any] = ()) -> list[tuple[str, Row]]:
    """The memories of a workspace that are there and pass a clause, with their keys."""
    connection = stores.ledger.reader
    rows = connection.execute(
        "SELECT m.*, f.path, f.stem FROM memories m JOIN files f ON f.id = m.file"
        f" WHERE m.workspace = ? AND {clause} ORDER BY f.path, m.start_line",
        (index.id, *values),
    ).fetchall()
    shared = lookup.shared_stems(connection, index.id, (row["stem"] for row in rows))
    return [(lookup.key_of(row["stem"], row["path"], row["slug"], shared), row) for row in rows]


def _told(index: WorkspaceIndex, key: str, row: Row) -> dict[str, Any]:
    return {"ns": index.workspace.ns, "key": key, "path": row["path"], "start_line": row["start_line"],
            "heading": row["heading"]}  # fmt: skip


def expired(stores: Stores, indexes: Iterable[WorkspaceIndex]) -> list[dict[str, Any]]:
    """The memories whose ttl has run out, the oldest first."""
    found = [
        {**_told(index, key, row), "ttl": json.loads(row["declared"])["ttl"], "expires": row["expires"]}
        for index in indexes
        for key, row in _rows(stores, index, f"NOT {lookup.ALIVE}")
    ]
    return sorted(found, key=lambda told: (told["expires"], told["key"]))


def tags(stores: Stores, indexes: Iterable[WorkspaceIndex]) -> list[dict[str, Any]]:
    """Every tag with the number of memories that have it, the commonest first; one spelling for all of them."""
    counts: Counter[str] = Counter()
    spellings: dict[str, Counter[str]] = {}
    for index in indexes:
        for _, row in _rows(stores, index, "m.tags <> '[]'"):
            for tag in json.loads(row["tags"]):
                spellings.setdefault(tag.casefold(), Counter())[tag] += 1
            counts.update({tag.casefold() for tag in json.loads(row["tags"])})
    named = [
        {"tag": max((times, one) for one, times in spellings[tag].items())[1], "memories": count}
        for tag, count in counts.items()
    ]
    return sorted(named, key=lambda told: (-int(told["memories"]), str(told["tag"])))


def tagged_files(stores: Stores, index: WorkspaceIndex, tag: str) -> list[str]:
    """The files of which a memory has this tag."""
    rows = _rows(stores, index, "m.tags <> '[]'")
    having = (row["path"] for _, row in rows if any(same_tag(one, tag) for one in json.loads(row["tags"])))
    return list(dict.fromkeys(having))


def files_of(stores: Stores, index: WorkspaceIndex, key: str) -> list[str]:
    """The files that a memory declares, as `path:rel`."""
    _, row = get.named(stores, [index], key)
    return list(json.loads(row["declared"]).get("files", ()))


def touching(stores: Stores, indexes: Iterable[WorkspaceIndex], given: str, cwd: str) -> list[dict[str, Any]]:
    """The memories that speak of a file, or of one in a folder, with what was done to it."""
    found = []
    for index in indexes:
        path = file_named(index, given, cwd)
        for key, row in _rows(stores, index, "json_array_length(m.declared, '$.files') > 0"):
            told = [file_told(entry) for entry in json.loads(row["declared"])["files"]]
            found += [{**_told(index, key, row), **file} for file in told if _is_or_holds(path, file["file"])]
    return found


def _is_or_holds(path: str, file: str) -> bool:
    return path in (file, ".") or file.startswith(f"{path.rstrip('/')}/")


def file_told(entry: str) -> dict[str, str]:
    """`src/app.py:modified` as the wire has it."""
    file, _, rel = entry.rpartition(":")
    return {"file": file, "rel": rel} if file else {"file": entry, "rel": ""}


def file_named(index: WorkspaceIndex, given: str, cwd: str) -> str:
    """A file as memories name it: relative to the workspace where it is in there, else as it was given."""
    place = Path(cwd or index.workspace.root) / given
    root = index.workspace.root
    resolved = place.resolve()
    inside = resolved.is_relative_to(root) and (PurePosixPath(given).is_absolute() or resolved.exists())
    return str(resolved.relative_to(root)) if inside else str(PurePosixPath(given))
