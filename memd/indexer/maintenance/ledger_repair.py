"""Mends a ledger that is damaged or gone: by the newest sound backup, by what can be read of it, or by a new one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from memd.errors import StoreBroken
from memd.indexer.maintenance.backups import check, copy, put_in_place, remove
from memd.indexer.store.ledger import PROMISED, RESTORING, Ledger, backups
from memd.indexer.store.ledger_check import is_whole, listed, problem_in

FROM_NOTES = ("chunks", "pages", "names", "mentions")
"""Tables that are made again from the notes."""

NOT_TAKEN = ("id", "notes_format", PROMISED)
"""Settings that a ledger has for itself. Without the second the next start cuts all notes anew."""

OBSERVED = "what memd observed (history, tiers, uses, links by rules, proposals)"
GONE = "could not be brought back"


def mend(folder: Path, why: str) -> str:
    """Put a sound ledger in the place of a broken one, which goes to the quarantine; says what could not be saved."""
    fresh = folder / RESTORING
    remove(fresh)
    instead = _from_backup(folder, fresh) or _from_remains(folder / "state.db", fresh) or _from_notes(fresh)
    aside = put_in_place(folder, fresh)
    return "; ".join([why, *([f"put aside as {aside}"] if aside else []), instead])


def _from_backup(folder: Path, fresh: Path) -> str:
    """Of the backups, the newest that is sound."""
    for backup in sorted(backups(folder), key=lambda file: -file.stat().st_mtime):
        with suppress(StoreBroken):
            check(backup)
            copy(backup, fresh)
            made = datetime.fromtimestamp(backup.stat().st_mtime)
            return f"the backup {backup.name} took its place; {OBSERVED} since {made:%Y-%m-%d %H:%M} {GONE}"
    return ""


def _from_notes(fresh: Path) -> str:
    Ledger(fresh).close()
    return f"the notes are read again into a new one; {OBSERVED} {GONE}"


# --- what can be read of it ---------------------------------------------------------------------------------


def _from_remains(damaged: Path, fresh: Path) -> str:
    """Copy every row that can be read, and whose owners can; empty if there is nothing worth it."""
    if not damaged.exists():
        return ""
    with closing(Ledger(fresh)) as ledger, closing(sqlite3.connect(damaged)) as old, ledger.write() as new:
        old.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        torn = [table for table in _tables(new) if not _copied(old, new, table)]
        worth_it = new.execute("SELECT 1 FROM memories LIMIT 1").fetchone() and not problem_in(new)
    if not worth_it:
        remove(fresh)
        return ""
    lost = f"of {OBSERVED}, rows of {', '.join(torn)} {GONE}" if torn else "nothing seems to be lost"
    return f"what can be read of it took its place; {lost}; the notes are read again"


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Those that are copied, in the order in which they were made: what others refer to comes first."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid").fetchall()
    return [row[0] for row in rows if not row[0].startswith("sqlite_") and row[0] not in FROM_NOTES]


def _copied(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> bool:
    """Copy a table from its beginning, and from its end where it is torn; says whether that was all of it."""
    columns = new.execute(f"PRAGMA table_info({table})").fetchall()
    names = [column["name"] for column in columns]
    keys = [column["name"] for column in sorted(columns, key=lambda column: column["pk"]) if column["pk"]]
    whole = True
    for order in ("ASC", "DESC"):
        by = ", ".join(f'"{key}" {order}' for key in keys)
        try:
            for row in old.execute(f"SELECT {listed(names)} FROM {table} ORDER BY {by}"):
                whole = _taken_over(new, table, names, row) and whole
            break
        except sqlite3.Error:
            whole = False
    return whole


def _taken_over(new: sqlite3.Connection, table: str, names: list[str], row: tuple[Any, ...]) -> bool:
    """Save a row, unless it is not what was written or belongs to one that was lost."""
    if table == "meta" and row[0] in NOT_TAKEN:
        return True
    if not is_whole(table, row, names):
        return False
    places = ", ".join("?" * len(names))
    try:
        new.execute(f"INSERT OR REPLACE INTO {table} ({listed(names)}) VALUES ({places})", row)
    except (sqlite3.IntegrityError, UnicodeEncodeError):
        return False
    return True
