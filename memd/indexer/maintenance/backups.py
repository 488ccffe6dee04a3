"""Backups of the ledger: made by SQLite itself while it is in use, kept for a week; and what mends a damaged ledger.

A backup is restored on request. A ledger that is damaged or gone is mended by the newest sound backup, by what can be
read of it, or by a new one.
"""

import errno
import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from memd.errors import DiskFull, MemdError, NotFound, StoreBroken
from memd.indexer.store.cache_folder import CACHES_OF, quarantine
from memd.indexer.store.ledger import PROMISED, RESTORING, Ledger, backups, companions, copy_ledger, translated
from memd.indexer.store.ledger_check import VERSION, is_whole, listed, problem_in

FOLDER = "backups"
NIGHTLY = "state-night-*.db"
KEEP = 7
"""Nightly backups that are kept."""

FULL = (errno.ENOSPC, errno.EDQUOT)

FROM_NOTES = ("chunks", "pages", "names", "mentions")
"""Tables that are made again from the notes."""

NOT_TAKEN = ("id", "notes_format", PROMISED)
"""Settings that a ledger has for itself. Without the second the next start cuts all notes anew."""

OBSERVED = "what memd observed (history, tiers, uses, links by rules, proposals)"
GONE = "could not be brought back"


def make(ledger: Ledger, folder: Path, now: datetime, nightly: bool = False) -> Path:
    """Make a backup named after the time; it gets its name only when it is complete."""
    name = f"state-{'night-' if nightly else ''}{now:%Y%m%dT%H%M%S}.db"
    part = folder / f".{name}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch(0o600, exist_ok=False)
        with ledger.copying, translated():
            ledger.backup(part)
            part.rename(folder / name)
    except OSError as error:
        kind = DiskFull if error.errno in FULL else MemdError
        raise kind(f"{folder} cannot be written: {error.strerror}", "name a directory that can be") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return folder / name


def nightly(ledger: Ledger, state: Path, now: datetime) -> str:
    """Make this night's backup and remove those older than a week; says what was done."""
    made = make(ledger, state / FOLDER, now, nightly=True)
    nights = sorted((state / FOLDER).glob(NIGHTLY))
    for old in nights[:-KEEP]:
        old.unlink(missing_ok=True)
    return f"{made.name}, {made.stat().st_size / 1e6:.1f} MB; {min(len(nights), KEEP)} kept"


# --- restoring ----------------------------------------------------------------------------------------------


def restore(state: Path, backup: Path) -> Path | None:
    """Put a backup in the ledger's place; returns where the old ledger was put aside.

    The caller holds the lock. The next start makes the caches again.
    """
    check(backup)
    fresh = state / RESTORING
    copy(backup, fresh)
    return put_in_place(state, fresh)


def put_in_place(state: Path, fresh: Path) -> Path | None:
    """Let another ledger take the place; returns where in the quarantine the old one is."""
    ledger = state / "state.db"
    if ledger.exists():
        # What a killed daemon left in its log goes with it, as far as that can be read.
        with suppress(sqlite3.Error), closing(sqlite3.connect(ledger)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    aside = quarantine(state, ledger)
    for beside in (*companions(ledger), state / CACHES_OF):
        beside.unlink(missing_ok=True)
    fresh.rename(ledger)
    return aside


def check(backup: Path) -> None:
    """Refuse what is not a sound ledger that this memd understands."""
    if not backup.is_file():
        raise NotFound(f"there is no file {backup}", "memd backup makes one; the nightly ones are in state/backups")
    try:
        with closing(_open(backup)) as source:
            number = source.execute("PRAGMA user_version").fetchone()[0]
            problem = problem_in(source)
    except sqlite3.Error as error:
        raise StoreBroken(f"{backup} is not a ledger of memd: {error}", "take another one") from error
    if number > VERSION:
        raise StoreBroken(f"{backup} was written by a newer memd (schema {number}, this one knows {VERSION})")
    if problem:
        raise StoreBroken(f"{backup} is damaged: {problem}", "take another one")


def _open(file: Path) -> sqlite3.Connection:
    # Immutable: works on a read-only disk and leaves nothing beside the file. A backup that was copied by hand
    # may have a log beside it, which counts.
    mode = "mode=rw" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    return sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True)


def schema_of(ledger: Path) -> int:
    """The schema that a ledger says it has, which is not changed by that; 0 where it cannot be read."""
    with suppress(sqlite3.Error), closing(_open(ledger)) as opened:
        return int(opened.execute("PRAGMA user_version").fetchone()[0])
    return 0


def copy(backup: Path, fresh: Path) -> None:
    """Copy a backup as a ledger that can take the place."""
    remove(fresh)
    try:
        with translated(), closing(_open(backup)) as source:
            copy_ledger(source, fresh)
    except MemdError:
        remove(fresh)
        raise
    fresh.chmod(0o600)
    for companion in companions(fresh):
        companion.unlink(missing_ok=True)


def remove(ledger: Path) -> None:
    """Remove a ledger that nobody needs, with what belongs to it."""
    for file in (ledger, *companions(ledger)):
        file.unlink(missing_ok=True)


# --- mending ------------------------------------------------------------------------------------------------


def mend(folder: Path, why: str) -> str:
    """Put a sound ledger in the place of a broken one, which goes to the quarantine; says what could not be saved."""
    fresh = folder / RESTORING
    remove(fresh)
    instead = _from_backup(folder, fresh) or _from_remains(folder / "state.db", fresh) or _from_notes(fresh)
    aside = put_in_place(folder, fresh)
    return "; ".join([why, *([f"put aside as {aside}"] if aside else []), instead])


def _from_backup(folder: Path, fresh: Path) -> str:
    """The newest backup that is sound."""
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
    return f"its readable rows took its place; {lost}; the notes are read again"


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
    with suppress(sqlite3.IntegrityError, UnicodeEncodeError):
        new.execute(f"INSERT OR REPLACE INTO {table} ({listed(names)}) VALUES ({places})", row)
        return True
    return False
