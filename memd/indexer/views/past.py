"""The past: a memory's versions and how they differ, the log of everything that was done, and the trash."""

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from pathlib import PurePosixPath
from sqlite3 import Connection, Row
from typing import Any

from memd.errors import NotFound, in_shell
from memd.indexer.indexing.read_files import LOSSES, RENAMED
from memd.indexer.indexing.scan import is_memory_path
from memd.indexer.query import lookup
from memd.indexer.record import actions, history
from memd.indexer.store.queries import queries
from memd.indexer.store.stores import Indexes, Stores, WorkspaceIndex
from memd.indexer.views import keys
from memd.models import JsonObject, pick
from memd.prose import LINE

NUMBERED = re.compile(r"(?P<key>.+)~(?P<number>\d{1,18})")
"""A memory by its own number: several that are gone may have had one key."""

MOST_NAMED = 20
"""Keys and paths that a log entry names; the others are counted."""

SQL = queries(__file__)


Known = tuple[WorkspaceIndex, Row]
"""A memory that is in the files, or was: its workspace, and `id`, `slug`, `path` and when it was `gone`."""


def known(stores: Stores, indexes: Indexes, key: str) -> Known:
    """The memory that has a key, else the last one that had it; `key~NUMBER` names one of several."""
    try:
        return keys.find_memory(stores, indexes, key)
    except NotFound:
        if (memory := last_gone(stores, indexes, key) or _by_number(stores, indexes, key)) is None:
            raise
        return memory


def last_gone(stores: Stores, indexes: Indexes, key: str) -> Known | None:
    """The last of the memories that had a key when they left the files."""
    gone = [(index, row) for index in indexes for row in lookup.gone(stores.reader, index.id, key)]
    return max(gone, key=lambda one: (one[1]["gone"] or "", one[1]["id"]), default=None)


def _by_number(stores: Stores, indexes: Indexes, key: str) -> Known | None:
    parts = NUMBERED.fullmatch(key)
    if parts is None:
        return None
    row = stores.reader.execute(SQL["by_number"], (int(parts["number"]),)).fetchone()
    return next(((index, row) for index in indexes if row and index.id == row["workspace"]), None)


# --- versions -----------------------------------------------------------------------------------------------


def versions(stores: Stores, indexes: Indexes, key: str) -> JsonObject:
    """Every version of a memory, newest first."""
    memory = known(stores, indexes, key)
    kept = history.versions(stores.reader, memory[1]["id"])
    return {**_where(memory, key), "versions": [_version(stores, one, one is kept[-1]) for one in reversed(kept)]}


def _where(memory: Known, key: str) -> JsonObject:
    index, row = memory
    return {**index.place, "key": key, "path": row["path"], "gone": row["gone"]}


def _version(stores: Stores, version: history.MemoryVersion, current: bool) -> JsonObject:
    text = history.text_of(stores.reader, version.digest)
    return {
        "version": version.number,
        **{name: getattr(version, name) for name in ("at", "who", "action", "path", "heading")},
        "gone": version.digest is None,
        "current": current,
        "characters": None if text is None else len(text),
    }


def by_version(stores: Stores, indexes: Indexes, key: str, number: int) -> JsonObject:
    """A memory that is in the files, or was, in one of its versions."""
    index, row = known(stores, indexes, key)
    version, text = text_of(stores, row["id"], key, number)
    last = history.latest(stores.reader, row["id"])
    return keys.shown_version(index, key, asdict(version), text, last == version)


def text_of(stores: Stores, memory: int, key: str, number: int) -> tuple[history.MemoryVersion, str]:
    """A version and its text; without a number the last text before the current one."""
    kept = history.versions(stores.reader, memory)
    with_text = [version for version in kept if version.digest]
    current = kept[-1].digest if kept else None
    fitting = [one for one in with_text if (one.number == number if number else one.digest != current)]
    text = history.text_of(stores.reader, fitting[-1].digest) if fitting else None
    if text is None:
        numbers = ", ".join(str(version.number) for version in with_text) or "none"
        which = f"version {number} with a text" if number else "earlier text"
        raise NotFound(f"`{key}` has no {which}", f"there are: {numbers} (memd history {in_shell(key)})")
    return fitting[-1], text


def difference(stores: Stores, indexes: Indexes, key: str, old: int | None, new: int | None) -> JsonObject:
    """A unified diff of two versions: of the last two without numbers, from `old` to the last one with one."""
    memory, reader = known(stores, indexes, key), stores.reader
    digests = {version.number: version.digest for version in history.versions(reader, memory[1]["id"])}
    new = new or max(digests, default=0)
    old = old or max((number for number in digests if number < new), default=0)
    for number in (old, new):
        if number and number not in digests:
            there = ", ".join(map(str, digests))
            raise NotFound(f"`{key}` has no version {number}", f"there are: {there} (memd history {in_shell(key)})")
    texts = [history.text_of(reader, digest) if (digest := digests.get(number)) else "" for number in (old, new)]
    if None in texts:
        raise NotFound(f"a text of `{key}` is no longer kept", f"memd history {in_shell(key)}")
    one, other = (LINE.findall(text or "") for text in texts)
    lines = difflib.unified_diff(one, other, f"{key}@{old}", f"{key}@{new}")
    diff = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    result = {**_where(memory, key), "old": old, "new": new, "diff": diff}
    return history.with_authors(reader, [(memory[1]["id"], result)])[0]


# --- the log ------------------------------------------------------------------------------------------------


def entries(stores: Stores, indexes: Indexes, who: str, what: str, since: str, key: str, limit: int) -> JsonObject:
    """Everything that was done, newest first: memd's own actions, and what editors saved."""
    connection, names = stores.reader, {index.id: index.workspace.ns for index in indexes}
    memories = [memory for number in names for memory in _same_key(connection, number, key)] if key else []
    values = {"who": who, "what": what, "since": _begin(since), "key": key, "workspaces": keys.workspace_ids(indexes),
              "memories": json.dumps(memories) if key else None, "renamed": RENAMED}  # fmt: skip
    done = islice(_actions(connection, names, values), limit)
    saved = islice(_edits(connection, names, values), limit)
    merged = sorted([*done, *saved], key=lambda entry: (entry["at"], entry["action"] or 0), reverse=True)
    return {"entries": merged[:limit]}


def _begin(date: str) -> str:
    """When a day, a month or a year began here, as the ledger writes it."""
    form = ("%Y", "%Y-%m", "%Y-%m-%d")[date.count("-")]
    return actions.in_utc(datetime.strptime(date, form).astimezone()) if date else ""


def _same_key(connection: Connection, workspace: int, key: str) -> list[int]:
    """The memories that have or had a key."""
    rows = [*lookup.gone(connection, workspace, key), *lookup.memories(connection, workspace, key)]
    return [row["id"] for row in rows]


def _actions(connection: Connection, names: dict[int, str], values: dict[str, Any]) -> Iterator[JsonObject]:
    for row in connection.execute(SQL["actions"], values):
        detail = json.loads(row["detail"])
        yield {
            "action": row["id"],
            "at": row["at"],
            "ns": names.get(row["workspace"]),
            **pick(row, "who", "what", "key", "state", "undone"),
            "undoable": bool(row["undoable"]),
            "paths": list(dict.fromkeys(detail.pop("paths", ()))),
            "detail": {name: value for name, value in detail.items() if value not in ([], ())},
        }


def _edits(connection: Connection, names: dict[int, str], values: dict[str, Any]) -> Iterator[JsonObject]:
    """The edits of editors: all memories that one batch found changed are one entry."""
    if values["who"] not in ("", "editor"):
        return
    for at, workspace in connection.execute(SQL["times_of_edits"], values):
        entry = _edit(connection, at, workspace, names[workspace])
        if values["what"] in ("", entry["what"]):
            yield entry


def _edit(connection: Connection, at: str, workspace: int, ns: str) -> JsonObject:
    rows = connection.execute(SQL["edited"], (at, workspace)).fetchall()
    whats = {"removed" if not row["digest"] else "added" if row["number"] == 1 else "changed" for row in rows}
    keys = [_key_at(row) for row in rows[:MOST_NAMED]]
    paths = list(dict.fromkeys(row["path"] for row in rows))
    return {
        "action": None, "at": at, "ns": ns, "who": "editor", "what": whats.pop() if len(whats) == 1 else "changed",
        "key": keys[0] if len(rows) == 1 else "", "state": "done", "undone": None, "undoable": False,
        "paths": paths[:MOST_NAMED],
        "detail": {"keys": keys, "memories": len(rows), "files": len(paths)},
    }  # fmt: skip


def _key_at(row: Row) -> str:
    """The key of a memory that may be gone, as if no other file had its stem."""
    return lookup.key_of(PurePosixPath(row["path"]).stem, row["path"], row["slug"], set())


# --- what can be undone -------------------------------------------------------------------------------------


def action(stores: Stores, indexes: Indexes, number: int, who: str = "") -> Row | None:
    """One action of these workspaces; 0: the last change that someone made and nobody undid.

    A job's is never the one that is meant.
    """
    values = {"id": number, "who": who, "workspaces": keys.workspace_ids(indexes)}
    row: Row | None = stores.reader.execute(SQL["action"], values).fetchone()
    return row


def forgotten_since(stores: Stores, indexes: Indexes, number: int, who: str) -> int:
    """The last change that someone made after an action and that was forgotten for good; 0 for none."""
    values = {"id": number, "who": who, "workspaces": keys.workspace_ids(indexes), "purged": actions.PURGED}
    row = stores.reader.execute(SQL["forgotten_since"], values).fetchone()
    return int(row["id"]) if row is not None else 0


def since(stores: Stores, workspace: int, action: int) -> str:
    """Who changed the files of an action after it, in words."""
    rows = stores.reader.execute(SQL["changed_since"], {"id": action, "workspace": workspace})
    return ", ".join(f"{row['name']} at {row['at'][:16]}Z" for row in rows)


# --- the trash ----------------------------------------------------------------------------------------------


def trash(stores: Stores, indexes: Indexes, limit: int) -> JsonObject:
    """The memories and the whole files that are gone, last first, each with the command that restores it.

    What is excluded by now is not gone, nor is a title that has sections below it now.
    """
    connection, known = stores.reader, {index.id: index for index in indexes}
    found = connection.execute(SQL["gone"], {"workspaces": keys.workspace_ids(indexes)})
    rows = [row for row in found if is_memory_path(known[row["workspace"]].workspace, row["path"])
            and not keys.is_title(stores, known[row["workspace"]], row)]  # fmt: skip
    shown = [_gone_memory(connection, row, known[row["workspace"]].workspace.ns) for row in rows[:limit]]
    files = [file for index in indexes for file in _gone_files(stores, index)]
    return {"memories": shown, "total": len(rows), "files": files[:limit]}


def _gone_memory(connection: Connection, row: Row, ns: str) -> JsonObject:
    key = _key_at(row)
    name = key if _same_key(connection, row["workspace"], key) == [row["id"]] else f"{key}~{row['id']}"
    version = in_shell(f"{name}@{row['text']}")
    columns = pick(row, "path", "heading", "gone", "who", "action")
    return {"ns": ns, "key": name, **columns, "version": row["text"], "restore": f"memd restore {version}"}


def _gone_files(stores: Stores, index: WorkspaceIndex) -> Iterator[JsonObject]:
    """Whole files that an editor removed or emptied and that did not come back."""
    # The new name of a renamed file may be seen a moment after the old one is gone.
    present = {row.digest for row in index.files.values()}
    for row in lost(stores, index):
        there = (index.workspace.root / row["path"]).exists()
        if row["before"] not in present and (row["what"] == "file-emptied" or not there):
            undo = {"action": row["id"], "restore": f"memd undo {row['id']}"}
            yield {"ns": index.workspace.ns, **pick(row, "path", "what", "at"), **undo}


def lost(stores: Stores, index: WorkspaceIndex, path: str = "") -> list[Row]:
    """The losses of whole files that nobody has undone, last first."""
    values = {"workspace": index.id, "losses": json.dumps(LOSSES), "path": path}
    return stores.reader.execute(SQL["lost"], values).fetchall()
