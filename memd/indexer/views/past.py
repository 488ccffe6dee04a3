"""Tells what was: a memory's versions and how they differ, everything that was done, and what went from the files."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import PurePosixPath
from sqlite3 import Connection, Row
from typing import Any

from memd.errors import NotFound
from memd.indexer.indexing.file_copies import LOSSES
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.record.history import MemoryVersion
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.views import get

NUMBERED = re.compile(r"(?P<key>.+)~(?P<number>\d{1,18})")
"""A memory by its own number: several that went may have had one key."""

MOST_NAMED = 20
"""Keys and paths that an entry of the log names; it counts the others."""

CHANGED = (
    "EXISTS (SELECT 1 FROM splices s WHERE s.action = a.id) AS spliced,"
    " EXISTS (SELECT 1 FROM shifts h WHERE h.action = a.id) AS shifted"
)
"""Whether an action changed a text, or what is observed of a memory."""


@dataclass(frozen=True, slots=True)
class KnownMemory:
    """A memory that is there, or was."""

    index: WorkspaceIndex
    memory: int
    slug: str
    path: str
    gone: str | None
    """When it went from the files."""


def known(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> KnownMemory:
    """The memory that has a key, else the one that had it and went last; `key~NUMBER` is one of several."""
    try:
        index, row = get.named(stores, indexes, key)
        return KnownMemory(index, row["id"], row["slug"], row["path"], None)
    except NotFound:
        gone = [_known(index, row) for index in indexes for row in lookup.gone(stores.ledger.reader, index.id, key)]
        found = max(gone, key=lambda one: (one.gone or "", one.memory), default=None) or _numbered(stores, indexes, key)
        if found is None:
            raise
        return found


def _known(index: WorkspaceIndex, row: Row) -> KnownMemory:
    return KnownMemory(index, row["id"], row["slug"], row["path"], row["gone"])


def _numbered(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> KnownMemory | None:
    parts = NUMBERED.fullmatch(key)
    if parts is None:
        return None
    rows = stores.ledger.reader.execute(
        "SELECT m.id, m.workspace, m.slug, m.gone, COALESCE(f.path, v.path) AS path FROM memories m"
        " LEFT JOIN files f ON f.id = m.file JOIN versions v ON v.memory = m.id"
        " WHERE m.id = ? ORDER BY v.number DESC LIMIT 1",
        (int(parts["number"]),),
    ).fetchall()
    return next((_known(index, row) for row in rows for index in indexes if index.id == row["workspace"]), None)


# --- versions -----------------------------------------------------------------------------------------------


def versions(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> dict[str, Any]:
    """Every version of a memory, the newest first."""
    found = known(stores, indexes, key)
    kept = history.versions(stores.ledger.reader, found.memory)
    return {**_where(found, key), "versions": [_told(stores, version, version is kept[-1]) for version in kept[::-1]]}


def _where(found: KnownMemory, key: str) -> dict[str, Any]:
    workspace = found.index.workspace
    return {"ns": workspace.ns, "root": str(workspace.root), "key": key, "path": found.path, "gone": found.gone}


def _told(stores: Stores, version: MemoryVersion, current: bool) -> dict[str, Any]:
    text = _text(stores, version)
    said = {name: value for name, value in asdict(version).items() if name not in ("memory", "number", "digest")}
    return {
        "version": version.number,
        **said,
        "gone": version.digest is None,
        "current": current,
        "characters": None if text is None else len(text),
    }


def _text(stores: Stores, version: MemoryVersion) -> str | None:
    return history.text_of(stores.ledger.reader, version.digest) if version.digest else None


def text_of(stores: Stores, found: KnownMemory, key: str, number: int) -> tuple[MemoryVersion, str]:
    """A version with its text; without a number the last text before the one that is there now."""
    kept = history.versions(stores.ledger.reader, found.memory)
    with_text = [version for version in kept if version.digest]
    here = kept[-1].digest if kept else None
    fit = [one for one in with_text if (one.number == number if number else one.digest != here)]
    wanted = fit[-1] if fit else None
    text = _text(stores, wanted) if wanted else None
    if wanted is None or text is None:
        there = ", ".join(str(version.number) for version in with_text) or "none"
        which = f"version {number} with a text" if number else "earlier text"
        raise NotFound(f"`{key}` has no {which}", f"there are: {there} (memd history {key})")
    return wanted, text


def difference(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str, old: int, new: int) -> dict[str, Any]:
    """How two versions differ, as a unified diff: the last change without numbers, the rest from `old` on with one."""
    found = known(stores, indexes, key)
    kept = history.versions(stores.ledger.reader, found.memory)
    numbers = {version.number: version for version in kept}
    last = kept[-1].number if kept else 0
    new = new or last
    old = old or max((number for number in numbers if number < new), default=0)
    for number in (old, new):
        if number and number not in numbers:
            there = ", ".join(map(str, numbers))
            raise NotFound(f"`{key}` has no version {number}", f"there are: {there} (memd history {key})")
    one, other = (_text(stores, numbers[number]) or "" if number else "" for number in (old, new))
    return {**_where(found, key), "old": old, "new": new, "diff": unified(key, old, one, new, other)}


def unified(key: str, old: int, one: str, new: int, other: str) -> str:
    """A unified diff of two texts; only a line feed ends a line."""
    lines = difflib.unified_diff(_lines(one), _lines(other), f"{key}@{old}", f"{key}@{new}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


# --- the log ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which entries of the log."""

    who: str = ""
    what: str = ""
    since: str = ""
    """A moment, as the ledger writes them."""
    key: str = ""
    limit: int = 50


def entries(stores: Stores, indexes: Sequence[WorkspaceIndex], wanted: LogFilter) -> list[dict[str, Any]]:
    """Everything that was done, the newest first: memd's own actions, and what was saved in an editor."""
    names = {index.id: index.workspace.ns for index in indexes}
    memories = _memories(stores, indexes, wanted.key) if wanted.key else None
    connection = stores.ledger.reader
    done = islice(_actions(connection, names, wanted, memories), wanted.limit)
    saved = islice(_edits(connection, names, wanted, memories), wanted.limit)
    merged = sorted([*done, *saved], key=lambda entry: (entry["at"], entry["action"] or 0), reverse=True)
    return merged[: wanted.limit]


def _memories(stores: Stores, indexes: Sequence[WorkspaceIndex], key: str) -> str:
    """The memories that have or had a key, as a JSON list."""
    base, _, slug = key.partition("#")
    connection = stores.ledger.reader
    found = [row["id"] for index in indexes for row in lookup.memories(connection, index.id, base, slug)]
    found += [row["id"] for index in indexes for row in lookup.gone(connection, index.id, key)]
    return json.dumps(found)


def _actions(
    connection: Connection, names: dict[int, str], wanted: LogFilter, memories: str | None
) -> Iterator[dict[str, Any]]:
    rows = connection.execute(
        f"SELECT a.*, {CHANGED} FROM actions a"
        " WHERE (a.workspace IS NULL OR a.workspace IN (SELECT value FROM json_each(:names)))"
        " AND (:who = '' OR a.who = :who OR substr(a.who, 1, length(:who) + 1) = :who || ':')"
        " AND (:what = '' OR a.what = :what) AND a.at >= :since AND (:memories IS NULL OR a.key = :key OR a.id IN"
        " (SELECT action FROM versions WHERE memory IN (SELECT value FROM json_each(:memories))) OR a.id IN"
        " (SELECT action FROM shifts WHERE memory IN (SELECT value FROM json_each(:memories))))"
        " ORDER BY a.at DESC, a.id DESC",
        {**asdict(wanted), "names": json.dumps(list(names)), "memories": memories},
    )
    for row in rows:
        detail = json.loads(row["detail"])
        yield {
            "action": row["id"],
            "at": row["at"],
            "ns": names.get(row["workspace"]),
            **{name: row[name] for name in ("who", "what", "key", "state", "undone")},
            "undoable": bool(row["spliced"] or row["shifted"]) and row["state"] == "done" and row["undone"] is None,
            "paths": list(dict.fromkeys(detail.pop("paths", ()))),
            "detail": {name: value for name, value in detail.items() if value not in ([], ())},
        }


def _edits(
    connection: Connection, names: dict[int, str], wanted: LogFilter, memories: str | None
) -> Iterator[dict[str, Any]]:
    """What was saved in an editor: all memories that one look at the files found changed are one entry."""
    if wanted.who not in ("", "editor"):
        return
    times = connection.execute(
        "SELECT DISTINCT v.at, m.workspace FROM versions v JOIN memories m ON m.id = v.memory"
        " WHERE v.who = 'editor' AND v.action IS NULL AND v.at >= :since"
        " AND m.workspace IN (SELECT value FROM json_each(:names))"
        " AND (:memories IS NULL OR m.id IN (SELECT value FROM json_each(:memories))) ORDER BY v.at DESC",
        {"since": wanted.since, "names": json.dumps(list(names)), "memories": memories},
    )
    for at, workspace in times:
        entry = _edit(connection, at, workspace, names[workspace])
        if wanted.what in ("", entry["what"]):
            yield entry


def _edit(connection: Connection, at: str, workspace: int, ns: str) -> dict[str, Any]:
    rows = connection.execute(
        "SELECT v.number, v.digest, v.path, m.slug FROM versions v JOIN memories m ON m.id = v.memory"
        " WHERE v.at = ? AND m.workspace = ? AND v.who = 'editor' AND v.action IS NULL ORDER BY v.path, m.start_line",
        (at, workspace),
    ).fetchall()
    whats = {"removed" if not row["digest"] else "added" if row["number"] == 1 else "changed" for row in rows}
    keys = [key_at(row["path"], row["slug"]) for row in rows]
    paths = list(dict.fromkeys(row["path"] for row in rows))
    return {
        "action": None, "at": at, "ns": ns, "who": "editor", "what": whats.pop() if len(whats) == 1 else "changed",
        "key": keys[0] if len(keys) == 1 else "", "state": "done", "undone": None, "undoable": False,
        "paths": paths[:MOST_NAMED],
        "detail": {"keys": keys[:MOST_NAMED], "memories": len(keys), "files": len(paths)},
    }  # fmt: skip


def key_at(path: str, slug: str) -> str:
    """A memory's key while no other file had its stem."""
    stem = PurePosixPath(path).stem
    return f"{stem}#{slug}" if slug else stem


ACTION = f"SELECT a.*, {CHANGED} FROM actions a WHERE "


def action(stores: Stores, indexes: Sequence[WorkspaceIndex], number: int) -> Row | None:
    """One action of these workspaces."""
    ids = json.dumps([index.id for index in indexes])
    found: Row | None = stores.ledger.reader.execute(
        f"{ACTION} a.id = ? AND a.workspace IN (SELECT value FROM json_each(?))", (number, ids)
    ).fetchone()
    return found


def last(stores: Stores, indexes: Sequence[WorkspaceIndex], who: str) -> Row | None:
    """The last change that someone made and nobody has taken back; a job's is never the one that is meant."""
    ids = json.dumps([index.id for index in indexes])
    found: Row | None = stores.ledger.reader.execute(
        f"{ACTION} (spliced OR shifted) AND a.who = ? AND a.who NOT LIKE 'job:%' AND a.who <> 'editor'"
        " AND a.what <> 'undo' AND a.state = 'done' AND a.undone IS NULL"
        " AND a.workspace IN (SELECT value FROM json_each(?)) ORDER BY a.id DESC LIMIT 1",
        (who, ids),
    ).fetchone()
    return found


def since(stores: Stores, workspace: int, action: int) -> str:
    """Who changed the files of an action after it, in words."""
    rows = stores.ledger.reader.execute(
        "SELECT a.who || ' (' || a.what || ', action ' || a.id || ')' AS name, a.at AS at FROM actions a"
        " JOIN splices s ON s.action = a.id WHERE a.id > :id AND a.workspace = :workspace AND a.state = 'done'"
        " AND s.path IN (SELECT path FROM splices WHERE action = :id)"
        " UNION SELECT 'an editor', v.at FROM versions v JOIN memories m ON m.id = v.memory"
        " WHERE m.workspace = :workspace AND v.who = 'editor' AND v.at > (SELECT at FROM actions WHERE id = :id)"
        " AND v.path IN (SELECT path FROM splices WHERE action = :id) ORDER BY at DESC LIMIT 3",
        {"id": action, "workspace": workspace},
    ).fetchall()
    return ", ".join(f"{row['name']} at {row['at'][:16]}Z" for row in rows)


# --- what went ----------------------------------------------------------------------------------------------


def trash(stores: Stores, indexes: Sequence[WorkspaceIndex], limit: int) -> dict[str, Any]:
    """The memories and the whole files that went, the last ones first, each with the way back."""
    names = {index.id: index.workspace.ns for index in indexes}
    connection = stores.ledger.reader
    rows = connection.execute(
        "SELECT m.id, m.workspace, m.slug, m.heading, m.gone, v.path, v.who, v.action, v.number,"
        " (SELECT MAX(t.number) FROM versions t JOIN texts x ON x.digest = t.digest WHERE t.memory = m.id) AS text"
        " FROM memories m JOIN versions v ON v.memory = m.id"
        " AND v.number = (SELECT MAX(number) FROM versions WHERE memory = m.id)"
        " WHERE m.gone IS NOT NULL AND m.workspace IN (SELECT value FROM json_each(?)) ORDER BY m.gone DESC, m.id DESC",
        (json.dumps(list(names)),),
    ).fetchall()
    rows = [row for row in rows if row["text"] is not None]
    shown = [_gone(connection, row, names) for row in rows[:limit]]
    return {"memories": shown, "total": len(rows), "files": list(_lost_files(connection, indexes))[:limit]}


def _gone(connection: Connection, row: Row, names: dict[int, str]) -> dict[str, Any]:
    key = key_at(row["path"], row["slug"])
    same = [other["id"] for other in lookup.gone(connection, row["workspace"], key)]
    base, _, slug = key.partition("#")
    same += [other["id"] for other in lookup.memories(connection, row["workspace"], base, slug)]
    name = key if same == [row["id"]] else f"{key}~{row['id']}"
    return {
        "ns": names[row["workspace"]], "key": name, "path": row["path"], "heading": row["heading"],
        "gone": row["gone"], "who": row["who"], "action": row["action"], "version": row["text"],
        "restore": f"memd restore {name}@{row['text']}",
    }  # fmt: skip


def _lost_files(connection: Connection, indexes: Iterable[WorkspaceIndex]) -> Iterator[dict[str, Any]]:
    """Whole files that an editor removed or emptied and that are not there again."""
    for index in indexes:
        # The new name of a renamed file may be seen a moment after the old one has gone.
        present = {row.digest for row in list(index.files.values())}
        for row in lost(connection, index):
            there = (index.workspace.root / row["path"]).exists()
            if row["before"] not in present and (row["what"] == "file-emptied" or not there):
                yield {
                    "ns": index.workspace.ns, "path": row["path"], "what": row["what"], "at": row["at"],
                    "action": row["id"], "restore": f"memd undo {row['id']}",
                }  # fmt: skip


def lost(connection: Connection, index: WorkspaceIndex, path: str = "") -> list[Row]:
    """The losses of whole files that nobody has undone, the last first."""
    return connection.execute(
        'SELECT a.id, a.at, a.what, s.path, s."before" FROM actions a JOIN splices s ON s.action = a.id'
        " WHERE a.workspace = ? AND a.what IN (?, ?) AND a.undone IS NULL AND (? = '' OR s.path = ?)"
        " ORDER BY a.id DESC",
        (index.id, *LOSSES, path, path),
    ).fetchall()
