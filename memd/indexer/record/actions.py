"""What memd itself did: each action with who asked for it and how it ended, what it changed, and the runs of jobs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from sqlite3 import Connection, Row
from typing import Any


def now() -> str:
    return in_utc(datetime.now(UTC))


def in_utc(moment: datetime) -> str:
    """A moment as the ledger writes it: sorting the texts sorts the moments."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def begin(
    connection: Connection, workspace: int | None, who: str, what: str, key: str = "", request: str = "",
    paths: Sequence[str] = (), at: str = "",
) -> int:  # fmt: skip
    """Record that an action is about to change these files; returns its number."""
    detail = json.dumps({"paths": list(paths)}, ensure_ascii=False) if paths else "{}"
    inserted = connection.execute(
        "INSERT INTO actions (at, workspace, who, what, key, request, state, detail)"
        " VALUES (?, ?, ?, ?, ?, ?, 'begun', ?)",
        (at or now(), workspace, who, what, key, request or None, detail),
    )
    return int(inserted.lastrowid or 0)


def finish(connection: Connection, action: int, detail: dict[str, Any], state: str = "done") -> None:
    connection.execute(
        "UPDATE actions SET state = ?, detail = ? WHERE id = ?", (state, json.dumps(detail, ensure_ascii=False), action)
    )


def add(
    connection: Connection, workspace: int | None, who: str, what: str, key: str = "", at: str = "",
    **detail: Any,
) -> int:  # fmt: skip
    """Record an action that is done already; returns its number."""
    action = begin(connection, workspace, who, what, key, at=at)
    finish(connection, action, detail)
    return action


def mark_undone(connection: Connection, action: int, by: int) -> None:
    """Mark an action as undone; undoing an undo makes the first action stand again."""
    connection.execute("UPDATE actions SET undone = ? WHERE id = ?", (by, action))
    connection.execute("UPDATE actions SET undone = NULL WHERE undone = ?", (action,))


def by_request(connection: Connection, request: str) -> Row | None:
    """The action that a repeated request already carried out; None without a request id."""
    query = "SELECT * FROM actions WHERE request = ? AND state = 'done'"
    row: Row | None = connection.execute(query, (request,)).fetchone() if request else None
    return row


def begun(connection: Connection, workspace: int) -> list[Row]:
    """Actions of a workspace that neither finished nor failed."""
    query = "SELECT * FROM actions WHERE workspace = ? AND state = 'begun' ORDER BY id"
    return connection.execute(query, (workspace,)).fetchall()


def author(
    connection: Connection, workspace: int, path: str, digest: str | None, text: str,
    *, since: str = "", column: str = "inserted",
) -> tuple[str, int | None]:  # fmt: skip
    """Who gave a file its digest or put a text into it, with the action; `editor` if memd did not.

    Actions before `since` do not count. `column="removed"`: who took the text out of the file.
    """
    rows = connection.execute(
        # By the path first: there may be thousands of actions, and a few that touched this file.
        'SELECT a.id, a.who, s."after", s.inserted, s.removed FROM splices s CROSS JOIN actions a ON a.id = s.action'
        " WHERE a.workspace = ? AND s.path = ? AND a.at >= ? AND a.state <> 'failed' ORDER BY a.id DESC LIMIT 200",
        (workspace, path, since),
    ).fetchall()
    sought = text.strip()

    def spliced(row: Row) -> str:
        return zlib.decompress(row[column]).decode(errors="replace")

    rules: tuple[Callable[[Row], bool], ...] = (
        # The whole text first: others may have written to the file since.
        lambda row: bool(sought) and sought in spliced(row),
        lambda row: row["after"] == digest,
        lambda row: bool(sought) and bool(piece := spliced(row).strip()) and piece in text,
    )
    matches = (next(filter(rule, rows), None) for rule in rules)
    row = next((row for row in matches if row is not None), None)
    return (row["who"], row["id"]) if row else ("editor", None)


# --- what an action changed of a memory's life, so that it can be read and undone -----------------------------


@dataclass(frozen=True, slots=True)
class LifeChange:
    """One change of a memory's life.

    `tier`: the columns that a move changes. `useful`: the count of useful votes. `edge`: `{one, other, rel, removed}`.
    """

    memory: int
    what: str
    before: Any
    after: Any


def keep_change(connection: Connection, action: int, nth: int, memory: int, what: str, before: Any, after: Any) -> None:
    connection.execute(
        'INSERT INTO shifts (action, nth, memory, what, "before", "after") VALUES (?, ?, ?, ?, ?, ?)',
        (action, nth, memory, what, json.dumps(before), json.dumps(after)),
    )


def changes_of(connection: Connection, action: int) -> list[LifeChange]:
    """What an action changed, in order."""
    rows = connection.execute("SELECT * FROM shifts WHERE action = ? ORDER BY nth", (action,))
    return [LifeChange(row["memory"], row["what"], json.loads(row["before"]), json.loads(row["after"])) for row in rows]


# --- when each job last ran and its result, so that a start knows what was missed -----------------------------


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job."""

    name: str
    last: str
    """When it began."""
    took_ms: float
    result: str


def keep_run(connection: Connection, run: LastRun) -> None:
    connection.execute("INSERT OR REPLACE INTO jobs (name, last, took_ms, result) VALUES (?, ?, ?, ?)", astuple(run))


def last_runs(connection: Connection) -> dict[str, LastRun]:
    rows = connection.execute("SELECT name, last, took_ms, result FROM jobs")
    return {row["name"]: LastRun(**dict(row)) for row in rows}
