"""Reads Ghost's own store, `~/.ghost/memory.db`, as an export: a topic for each key, with versions, life and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from memd.errors import UsageError
from memd.indexer.transfer.import_plan import ExportedWorkspace, seconds_of
from memd.indexer.transfer.import_sources import facts_of, file_name, opened, texts_of
from memd.models import JsonObject, digest_of, grouped
from memd.notes.merging import read_incoming
from memd.notes.topics import topic_file

IS_GHOST = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memory_edges'"
MEMORIES = "SELECT * FROM memories WHERE deleted_at IS NULL ORDER BY ns, key, version"
EDGES = "SELECT * FROM memory_edges WHERE rel <> 'merged_into' ORDER BY created_at, from_id, to_id, rel"


def load(file: Path) -> list[ExportedWorkspace]:
    """Each namespace of a store; what was deleted there is left out."""
    with closing(opened(file)) as connection:
        if not connection.execute(IS_GHOST).fetchone():
            raise UsageError(f"{file} is neither an export of memd nor Ghost's store", "memd ingest takes other files")
        rows = [dict(row) for row in connection.execute(MEMORIES)]
        edges = [dict(row) for row in connection.execute(EDGES)]
    by_ns = grouped((row["ns"], row) for row in rows)
    return [_workspace(str(file), ns, some, edges) for ns, some in by_ns.items()]


def _workspace(file: str, ns: str, rows: Iterable[JsonObject], edges: Iterable[JsonObject]) -> ExportedWorkspace:
    versions = grouped((row["key"], row) for row in rows)
    names = _names(versions)
    stems = {versions[key][-1]["id"]: name for key, name in names.items()}
    links: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        if edge["to_id"] in stems:
            links[edge["from_id"]].append(f"{edge['rel']}({edge['weight']}):{stems[edge['to_id']]}")
    files, lives = [], {}
    for key, name in names.items():
        row, path = versions[key][-1], f"memory/topics/{name}.md"
        row |= {"tags": texts_of(row, "tags[]"), "pinned": bool(row["pinned"])}
        front = {**facts_of(row, key, name, row["created_at"]), "links": links[row["id"]]}
        note = topic_file(front, row["content"].replace("\r\n", "\n"))
        incoming = read_incoming(path, note.encode("utf-8", "replace"), file, seconds_of(row["created_at"]))
        files.append(incoming)
        for item in incoming.items:
            lives[path, item.slug] = {**_life(versions[key], path), "key": name, "slug": item.slug, "text": item.text}
    return ExportedWorkspace(ns, tuple(files), lives, ())


def _names(keys: Iterable[str]) -> dict[str, str]:
    """The name of the file for each key: no two are the same."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in keys:
        name, nth = file_name(key), 2
        while name in taken:
            name, nth = f"{file_name(key)}-{nth}", nth + 1
        taken.add(name)
        names[key] = name
    return names


def _life(versions: list[JsonObject], path: str) -> JsonObject:
    """What was observed of a memory, and its texts from the first to the last."""
    last = versions[-1]
    life = {
        "tier": last["tier"], "first_seen": versions[0]["created_at"], "changed": last["created_at"],
        "accesses": last["access_count"], "accessed": last["last_accessed_at"], "useful": last["utility_count"],
        "expires": last["expires_at"], "importance": last["importance"],
    }  # fmt: skip
    texts = [(row, row["content"].replace("\r\n", "\n").strip("\n")) for row in versions]
    told = [
        {"at": row["created_at"], "who": "ghost", "path": path, "digest": digest_of(text), "text": text}
        for row, text in texts
    ]
    return {"life": life, "versions": told}
