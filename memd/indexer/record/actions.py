"""The actions of memd: who asked for each, what it changed and how it ended; the runs of jobs, and proposed writes."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from sqlite3 import Connection, Row
from typing import Any

from memd.errors import Busy, Conflict
from memd.indexer.store.queries import queries
from memd.models import digest_of
from memd.notes.read import common_prefix

SQL = queries(__file__)
SETTLE = "settle"
"""The action that makes one note of two versions: the team's too, since both are there already."""
PURGED = "(purged)"
"""Stands in the log for words of a memory that was forgotten for good."""


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
    inserted = connection.execute(SQL["begin"], (at or now(), workspace, who, what, key, request or None, detail))
    return int(inserted.lastrowid or 0)


def finish(connection: Connection, action: int, detail: dict[str, Any], state: str = "done") -> None:
    connection.execute(SQL["finish"], (state, json.dumps(detail, ensure_ascii=False), action))


def add(connection: Connection, workspace: int | None, who: str, what: str, at: str = "", **detail: Any) -> int:
    """Record an action that is done already; returns its number."""
    action = begin(connection, workspace, who, what, at=at)
    finish(connection, action, detail)
    return action


def mark_undone(connection: Connection, action: int, by: int) -> None:
    """Mark an action as undone; undoing an undo makes the first action stand again."""
    connection.execute("UPDATE actions SET undone = ? WHERE id = ?", (by, action))
    connection.execute("UPDATE actions SET undone = NULL WHERE undone = ?", (action,))


def by_request(connection: Connection, request: str) -> Row | None:
    """The action that a repeated request already carried out; None without a request id."""
    row: Row | None = connection.execute(SQL["by_request"], (request,)).fetchone() if request else None
    return row


def begun(connection: Connection, workspace: int) -> list[Row]:
    """Actions of a workspace that neither finished nor failed."""
    return connection.execute(SQL["begun"], (workspace,)).fetchall()


def author(
    connection: Connection, workspace: int, path: str, digest: str | None, text: str,
    *, since: str = "", column: str = "inserted",
) -> tuple[str, int | None]:  # fmt: skip
    """Who gave a file its digest or put a text into it, with the action; `editor` if memd did not.

    Actions before `since` do not count. `column="removed"`: who took the text out of the file.
    """
    rows = connection.execute(SQL["touching"], (workspace, path, since)).fetchall()
    sought = text.strip()

    def spliced(row: Row) -> str:
        return zlib.decompress(row[column]).decode(errors="replace")

    row = (
        # The whole text first: others may have written to the file since.
        next((row for row in rows if sought and sought in spliced(row)), None)
        or next((row for row in rows if row["after"] == digest), None)
        or next((row for row in rows if sought and (piece := spliced(row).strip()) and piece in text), None)
    )
    return (row["who"], row["id"]) if row else ("editor", None)


def rewrote(connection: Connection, workspace: int, path: str, digest: str) -> bool:
    """Whether a file is as memd left it when it wrote a memory's text anew."""
    return connection.execute(SQL["rewrote"], (workspace, path, digest)).fetchone() is not None


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
    values = (action, nth, memory, what, json.dumps(before), json.dumps(after))
    connection.execute(SQL["keep_change"], values)


def changes_of(connection: Connection, action: int) -> list[LifeChange]:
    """The changes of an action, in order."""
    rows = connection.execute("SELECT * FROM shifts WHERE action = ? ORDER BY nth", (action,))
    return [LifeChange(row["memory"], row["what"], json.loads(row["before"]), json.loads(row["after"])) for row in rows]


# --- when each job last ran and its result, so that a start knows what was missed -----------------------------


def keep_run(connection: Connection, name: str, last: str, took_ms: float, result: str) -> None:
    """Remember the last run of a job, by when it began."""
    connection.execute(SQL["keep_run"], (name, last, took_ms, result))


def last_runs(connection: Connection) -> dict[str, Row]:
    return {row["name"]: row for row in connection.execute("SELECT name, last, took_ms, result FROM jobs")}


# --- the bytes that an action took out of a file and put into it --------------------------------------------


CONTEXT = 64
"""Bytes kept around a splice, to find its place again after the file changed elsewhere."""

DISTINCTIVE = 24
"""Bytes that occur once in a file and are at least this many are the ones meant, whatever surrounds them now."""


@dataclass(frozen=True, slots=True)
class Splice:
    """One change of one file: at `start`, `removed` became `inserted`."""

    path: str
    start: int
    removed: bytes
    inserted: bytes
    before: str | None
    """Digest of the file before the change; None: there was no file."""
    after: str | None
    leading: bytes = b""
    trailing: bytes = b""


def splice_of(path: str, before: bytes | None, after: bytes | None) -> Splice:
    """The smallest run of whole lines in which two versions of a file differ.

    Whole lines keep the written text readable in the splice, whatever happens to the lines around it.
    """
    old, new = before or b"", after or b""
    start = common_prefix(old, new)
    tail = common_prefix(old[start:][::-1], new[start:][::-1])
    start, tail = _to_lines(old, new, start, tail)
    end_old, end_new = len(old) - tail, len(new) - tail
    return Splice(
        path, start, old[start:end_old], new[start:end_new], digest_or_none(before), digest_or_none(after),
        old[max(0, start - CONTEXT) : start], old[end_old : end_old + CONTEXT],
    )  # fmt: skip


def digest_or_none(data: bytes | None) -> str | None:
    """The digest of a file's bytes; None for a file that does not exist."""
    return None if data is None else digest_of(data)


def _to_lines(old: bytes, new: bytes, start: int, tail: int) -> tuple[int, int]:
    """Widen a difference to whole lines; lines that were only added or removed are shifted to line borders."""
    back = start - (old.rfind(b"\n", 0, start) + 1)
    removed, inserted = old[start : len(old) - tail], new[start : len(new) - tail]
    # "B … ## " before "C" is "## B … " before "## C".
    shifted = old[start - back : start]
    if back and not (removed and inserted) and (removed or inserted).endswith(b"\n" + shifted):
        return start - back, tail + back
    start -= back
    parts = (old[start : len(old) - tail], new[start : len(new) - tail])
    if tail and not all(not part or part.endswith(b"\n") for part in parts):
        line = old.find(b"\n", len(old) - tail)
        tail = len(old) - line - 1 if line >= 0 else 0
    return start, tail


# --- in the ledger ------------------------------------------------------------------------------------------


def keep_splice(connection: Connection, action: int, nth: int, splice: Splice) -> None:
    packed = replace(splice, removed=zlib.compress(splice.removed), inserted=zlib.compress(splice.inserted))
    connection.execute(SQL["keep_splice"], (action, nth, *astuple(packed)))


def splices_of(connection: Connection, action: int) -> list[Splice]:
    """The splices of an action, in order."""
    return list(map(_unpacked, connection.execute("SELECT * FROM splices WHERE action = ? ORDER BY nth", (action,))))


def done_since(connection: Connection, workspace: int, path: str, digest: str | None) -> list[Splice]:
    """What memd did to a file since that had a digest, one upon the other; nothing where others came in between."""
    found: list[Splice] = []
    for splice in map(_unpacked, connection.execute(SQL["done_to"], (workspace, path))):
        if splice.after == digest or (found and splice.after != found[0].before):
            break
        found.insert(0, splice)
        if splice.before == digest:
            return found
    return []


def removed(connection: Connection, workspace: int, path: str) -> bool:
    """Whether the last thing that memd did to a file was to remove it."""
    row = connection.execute(SQL["done_to"], (workspace, path)).fetchone()
    return row is not None and row["after"] is None


def _unpacked(row: Row) -> Splice:
    packed = Splice(**{field.name: row[field.name] for field in fields(Splice)})
    return replace(packed, removed=zlib.decompress(packed.removed), inserted=zlib.decompress(packed.inserted))


# --- undoing ------------------------------------------------------------------------------------------------


def redo_splice(splice: Splice, data: bytes) -> bytes:
    """The file with the splice, of the bytes that it had before."""
    return data[: splice.start] + splice.inserted + data[splice.start + len(splice.removed) :]


def undo_splice(splice: Splice, data: bytes | None) -> bytes | None:
    """The file without the splice: exact where nobody changed it since, else merged where the place is certain."""
    if digest_or_none(data) != splice.after:
        if data is None:
            raise _conflict(f"{splice.path} is gone")
        return _merged(splice, data)
    if splice.before is None:
        return None
    now = data or b""
    return now[: splice.start] + splice.removed + now[splice.start + len(splice.inserted) :]


def _merged(splice: Splice, data: bytes) -> bytes:
    leading, trailing = splice.leading, splice.trailing
    for before, behind in ((leading, trailing), (leading, b""), (b"", trailing), (b"", b"")):
        sought = before + splice.inserted + behind
        certain = len(sought) >= DISTINCTIVE and (splice.inserted or (before and behind))
        if certain and data.count(sought) == 1:
            at = data.index(sought) + len(before)
            return data[:at] + splice.removed + data[at + len(splice.inserted) :]
    raise _conflict(f"{splice.path} was changed since, at the same place")


def _conflict(why: str) -> Conflict:
    return Conflict(f"it cannot be undone: {why}", "memd log shows what happened; memd diff shows the texts")


# --- writes that wait for a person, gone as soon as they are decided ----------------------------------------


MOST_PROPOSALS = 500
"""Proposals of one workspace that may wait."""
ONCE_MORE = ("now", "request_id")
"""Parameters that differ when someone asks for the same once more."""


def add_proposal(connection: Connection, workspace: int, who: str, method: str, params: dict[str, Any]) -> int:
    """Keep a request; the number of the proposal, which is the old one where the same waits already."""
    asked = {name: value for name, value in params.items() if name not in ONCE_MORE}
    digest = hashlib.sha256(json.dumps([who, method, asked], sort_keys=True).encode()).hexdigest()
    if row := connection.execute(SQL["same_proposal"], (workspace, digest)).fetchone():
        return int(row["id"])
    (waiting,) = connection.execute("SELECT COUNT(*) FROM proposals WHERE workspace = ?", (workspace,)).fetchone()
    if waiting >= MOST_PROPOSALS:
        raise Busy(f"{MOST_PROPOSALS} proposals wait here already, and this one was not kept", "memd proposal list")
    # An id, so that a repeated acceptance is carried out once.
    signed = {"request_id": f"proposal:{digest}:{now()}", **params}
    values = (workspace, now(), who, method, json.dumps(signed, ensure_ascii=False), digest)
    return int(connection.execute(SQL["add_proposal"], values).lastrowid or 0)


def waiting_proposals(connection: Connection, workspaces: list[int]) -> list[Row]:
    """The proposals of some workspaces, oldest first."""
    return connection.execute(SQL["waiting_proposals"], (json.dumps(workspaces),)).fetchall()


def drop_proposal(connection: Connection, proposal: int) -> None:
    connection.execute("DELETE FROM proposals WHERE id = ?", (proposal,))
