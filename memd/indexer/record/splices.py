"""The bytes that an action took out of a file and put into it, so that the change can be undone."""

from __future__ import annotations

import sqlite3
import zlib
from dataclasses import astuple, dataclass, fields, replace

from memd.errors import Conflict
from memd.notes.read import common_prefix, digest_of

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


def keep(connection: sqlite3.Connection, action: int, nth: int, splice: Splice) -> None:
    packed = replace(splice, removed=zlib.compress(splice.removed), inserted=zlib.compress(splice.inserted))
    columns = 'action, nth, path, start, removed, inserted, "before", "after", leading, trailing'
    query = f"INSERT OR REPLACE INTO splices ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, (action, nth, *astuple(packed)))


def of(connection: sqlite3.Connection, action: int) -> list[Splice]:
    """The splices of an action, in order."""
    rows = connection.execute("SELECT * FROM splices WHERE action = ? ORDER BY nth", (action,))
    packed = (Splice(**{field.name: row[field.name] for field in fields(Splice)}) for row in rows)
    return [replace(one, removed=zlib.decompress(one.removed), inserted=zlib.decompress(one.inserted))
            for one in packed]  # fmt: skip


# --- undoing ------------------------------------------------------------------------------------------------


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
