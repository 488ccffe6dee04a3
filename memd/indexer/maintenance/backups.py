"""Backups of the ledger: made by SQLite itself while it is in use, kept for a week, restored on request."""

from __future__ import annotations

import errno
import sqlite3
import uuid
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memd.errors import DiskFull, MemdError, NotFound, StoreBroken
from memd.indexer.store.ledger import CACHES_OF, RESTORING, Ledger, companions, translated
from memd.indexer.store.ledger_check import problem_in
from memd.indexer.store.migrations import VERSION
from memd.indexer.store.stores import quarantine

FOLDER = "backups"
NIGHTLY = "state-night-*.db"
KEEP = 7
"""Nightly backups that are kept."""

FULL = (errno.ENOSPC, errno.EDQUOT)
COMPANIONS = ("state.db-wal", "state.db-shm", CACHES_OF)


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A backup that was made."""

    file: Path
    size: int


def make(ledger: Ledger, folder: Path, now: datetime, nightly: bool = False) -> BackupFile:
    """Make a backup named after the time; it gets its name only when it is complete."""
    name = f"state-{'night-' if nightly else ''}{now:%Y%m%dT%H%M%S}.db"
    part = folder / f".{name}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch(0o600, exist_ok=False)
        with translated():
            ledger.backup(part)
        part.rename(folder / name)
    except OSError as error:
        kind = DiskFull if error.errno in FULL else MemdError
        raise kind(f"{folder} cannot be written: {error.strerror}", "name a directory that can be") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return BackupFile(folder / name, (folder / name).stat().st_size)


def nightly(ledger: Ledger, state: Path, now: datetime) -> str:
    """Make this night's backup and remove those older than a week; says what was done."""
    made = make(ledger, state / FOLDER, now, nightly=True)
    nights = sorted((state / FOLDER).glob(NIGHTLY))
    for old in nights[:-KEEP]:
        old.unlink(missing_ok=True)
    return f"{made.file.name}, {made.size / 1e6:.1f} MB; {min(len(nights), KEEP)} kept"


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
    """Let another ledger take the place; returns where the old one was put aside."""
    aside = set_aside(state)
    fresh.rename(state / "state.db")
    return aside


def set_aside(state: Path) -> Path | None:
    """Move the ledger to the quarantine, with what a killed daemon left in its log as far as that can be read."""
    ledger = state / "state.db"
    if ledger.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(ledger)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    aside = quarantine(state, ledger)
    for companion in COMPANIONS:
        (state / companion).unlink(missing_ok=True)
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


def copy(backup: Path, fresh: Path) -> None:
    """Copy a backup as a ledger with a new id: its chunk numbers mean other chunks than those of old caches."""
    remove(fresh)
    try:
        with translated(), closing(_open(backup)) as source, closing(sqlite3.connect(fresh)) as copied:
            source.backup(copied)
            copied.execute("UPDATE meta SET value = ? WHERE key = 'id'", (uuid.uuid4().hex[:8],))
            copied.commit()
            copied.execute("PRAGMA wal_checkpoint(TRUNCATE)")
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
