"""What memd itself did to files: each action with the bytes it took out and put in, so that it can be undone."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memd.notes.read import digest_of

CONTEXT = 64
"""Bytes around a splice that are kept, to find its place again in a file that went on."""

TELLING = 24
"""So many bytes that stand once in a file are beyond doubt the ones meant, whatever is around them now."""


@dataclass(frozen=True, slots=True)
class Splice:
    """One change of one file: at `start`, `removed` became `inserted`."""

    path: str
    start: int
    removed: bytes
    inserted: bytes
    before: str | None
    """The digest of the file before, None when there was none."""
    after: str | None
    leading: bytes = b""
    trailing: bytes = b""


def splice_of(path: str, before: bytes | None, after: bytes | None) -> Splice:
    """The smallest run of whole lines in which two versions of a file differ.

    Whole lines, so that what was written can be read in the splice, whatever becomes of the lines around it.
    """
    old, new = before or b"", after or b""
    start = _common(old, new)
    tail = _common(old[start:][::-1], new[start:][::-1])
    start, tail = _to_lines(old, new, start, tail)
    end_old, end_new = len(old) - tail, len(new) - tail
    return Splice(
        path, start, old[start:end_old], new[start:end_new],
        None if before is None else digest_of(before), None if after is None else digest_of(after),
        old[max(0, start - CONTEXT) : start], old[end_old : end_old + CONTEXT],
    )  # fmt: skip


def _to_lines(old: bytes, new: bytes, start: int, tail: int) -> tuple[int, int]:
    """Where the lines begin and end that a difference touches; lines that only came or went are moved to their own."""
    back = start - (old.rfind(b"\n", 0, start) + 1)
    removed, inserted = old[start : len(old) - tail], new[start : len(new) - tail]
    # "B … ## " before "C" is "## B … " before "## C".
    slid = old[start - back : start]
    if back and not (removed and inserted) and (removed or inserted).endswith(b"\n" + slid):
        return start - back, tail + back
    start -= back
    parts = (old[start : len(old) - tail], new[start : len(new) - tail])
    if tail and not all(not part or part.endswith(b"\n") for part in parts):
        line = old.find(b"\n", len(old) - tail)
        tail = len(old) - line - 1 if line >= 0 else 0
    return start, tail


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their start, found by halving."""
    if other.startswith(one):
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def now() -> str:
    return in_utc(datetime.now(UTC))


def in_utc(moment: datetime) -> str:
    """A moment as the ledger writes it: such texts are in order when the moments are."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def begin(
    connection: sqlite3.Connection, workspace: int | None, who: str, what: str, key: str, request: str,
    paths: Sequence[str] = (),
) -> int:  # fmt: skip
    """Write down that something is about to be done, to these files."""
    detail = json.dumps({"paths": list(paths)}, ensure_ascii=False) if paths else "{}"
    made = connection.execute(
        "INSERT INTO actions (at, workspace, who, what, key, request, state, detail)"
        " VALUES (?, ?, ?, ?, ?, ?, 'begun', ?)",
        (now(), workspace, who, what, key, request or None, detail),
    )
    return int(made.lastrowid or 0)


def keep_splice(connection: sqlite3.Connection, action: int, nth: int, splice: Splice) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO splices"
        ' (action, nth, path, start, removed, inserted, "before", "after", leading, trailing)'
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (action, nth, splice.path, splice.start, zlib.compress(splice.removed), zlib.compress(splice.inserted),
         splice.before, splice.after, splice.leading, splice.trailing),
    )  # fmt: skip


def finish(connection: sqlite3.Connection, action: int, detail: dict[str, Any], state: str = "done") -> None:
    connection.execute(
        "UPDATE actions SET state = ?, detail = ? WHERE id = ?", (state, json.dumps(detail, ensure_ascii=False), action)
    )


def note(
    connection: sqlite3.Connection, workspace: int | None, who: str, what: str, key: str = "", **detail: Any
) -> int:
    """Write down something that was done and needs no undoing."""
    action = begin(connection, workspace, who, what, key, "")
    finish(connection, action, detail)
    return action


def splices(connection: sqlite3.Connection, action: int) -> list[Splice]:
    rows = connection.execute("SELECT * FROM splices WHERE action = ? ORDER BY nth", (action,))
    return [
        Splice(
            row["path"], row["start"], zlib.decompress(row["removed"]), zlib.decompress(row["inserted"]),
            row["before"], row["after"], row["leading"], row["trailing"],
        )
        for row in rows
    ]  # fmt: skip


def by_request(connection: sqlite3.Connection, request: str) -> sqlite3.Row | None:
    """What was done already for a request that is repeated; a wish without a number is none."""
    asked = "SELECT * FROM actions WHERE request = ? AND state = 'done'"
    found: sqlite3.Row | None = connection.execute(asked, (request,)).fetchone() if request else None
    return found


def begun(connection: sqlite3.Connection, workspace: int) -> list[sqlite3.Row]:
    """Actions of a workspace of which nobody said how they ended."""
    asked = "SELECT * FROM actions WHERE workspace = ? AND state = 'begun' ORDER BY id"
    return connection.execute(asked, (workspace,)).fetchall()


def author(
    connection: sqlite3.Connection, workspace: int, path: str, digest: str | None, text: str,
    *, since: str = "", column: str = "inserted",
) -> tuple[str, int | None]:  # fmt: skip
    """Who made a file what it is, or put a text into it; an editor, when nobody here did.

    What was done before `since` is not asked; with `column` "removed": who took the text out of it.
    """
    rows = connection.execute(
        'SELECT a.id, a.who, s."after", s.inserted, s.removed FROM splices s JOIN actions a ON a.id = s.action'
        " WHERE a.workspace = ? AND s.path = ? AND a.at >= ? AND a.state <> 'failed' ORDER BY a.id DESC LIMIT 200",
        (workspace, path, since),
    ).fetchall()
    sought = text.strip()
    for row in rows if sought else ():
        # All of it at once, as a note is added: others may have written to the file since.
        if sought in zlib.decompress(row[column]).decode(errors="replace"):
            return row["who"], row["id"]
    for row in rows:
        if row["after"] == digest:
            return row["who"], row["id"]
    for row in rows if sought else ():
        put = zlib.decompress(row[column]).decode(errors="replace").strip()
        if put and put in text:
            return row["who"], row["id"]
    return "editor", None


# --- undoing ------------------------------------------------------------------------------------------------


def undone(splice: Splice, found: bytes | None) -> bytes | str | None:
    """The file without the splice, or, as text, why that cannot be said."""
    if (None if found is None else digest_of(found)) == splice.after:
        return _exactly(splice, found)
    if found is None:
        return f"{splice.path} is gone"
    return _merged(splice, found)


def _exactly(splice: Splice, found: bytes | None) -> bytes | None:
    if splice.before is None:
        return None
    have = found or b""
    return have[: splice.start] + splice.removed + have[splice.start + len(splice.inserted) :]


def _merged(splice: Splice, found: bytes) -> bytes | str:
    """The same in a file that someone changed elsewhere since: only where the place is beyond doubt."""
    for leading, trailing in (
        (splice.leading, splice.trailing),
        (splice.leading, b""),
        (b"", splice.trailing),
        (b"", b""),
    ):
        sought = leading + splice.inserted + trailing
        sure = len(sought) >= TELLING and (splice.inserted or (leading and trailing))
        if sure and found.count(sought) == 1:
            at = found.index(sought) + len(leading)
            return found[:at] + splice.removed + found[at + len(splice.inserted) :]
    return f"{splice.path} was changed since, at the same place"
