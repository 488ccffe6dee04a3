"""Copies of the ledger: made by SQLite itself while it is in use, kept for a week, put back when asked for."""

from __future__ import annotations

import errno
import sqlite3
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memd.errors import DiskFull, MemdError, NotFound, StoreBroken
from memd.indexer.store.ledger import Ledger, translated
from memd.indexer.store.migrations import VERSION
from memd.indexer.store.stores import CACHES_OF, quarantine

FOLDER = "backups"
NIGHTLY = "state-night-*.db"
KEEP = 7
"""Nightly copies that stay."""

FULL = (errno.ENOSPC, errno.EDQUOT)
COMPANIONS = ("state.db-wal", "state.db-shm", CACHES_OF)


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A copy that was made."""

    file: Path
    size: int


def make(ledger: Ledger, folder: Path, now: datetime, nightly: bool = False) -> BackupFile:
    """A copy under a name with the time; it has its name only when it is whole."""
    name = f"state-{'night-' if nightly else ''}{now:%Y%m%dT%H%M%S}.db"
    part = folder / f".{name}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch(0o600)
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
    """A copy for this night, and the end of those that are older than a week; what was done, in a few words."""
    made = make(ledger, state / FOLDER, now, nightly=True)
    copies = _nights(state)
    for old in copies[:-KEEP]:
        old.unlink(missing_ok=True)
    return f"{made.file.name}, {made.size / 1e6:.1f} MB; {min(len(copies), KEEP)} kept"


def _nights(state: Path) -> list[Path]:
    return sorted((state / FOLDER).glob(NIGHTLY))


# --- putting back -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """What took the ledger's place, and where the old one is now."""

    backup: Path
    aside: Path | None


def restore(state: Path, backup: Path) -> RestoredBackup:
    """Put a copy in the ledger's place; the caller holds the lock. Caches are made again by the next start."""
    check(backup)
    fresh = state / ".state.db.restoring"
    fresh.unlink(missing_ok=True)
    try:
        with translated():
            _copy(backup, fresh)
    except MemdError:
        fresh.unlink(missing_ok=True)
        raise
    _settle(state / "state.db")
    aside = quarantine(state, state / "state.db")
    for companion in COMPANIONS:
        (state / companion).unlink(missing_ok=True)
    fresh.rename(state / "state.db")
    return RestoredBackup(backup, aside)


def check(backup: Path) -> None:
    """Refuse what is no sound ledger of a memd that this one understands."""
    if not backup.is_file():
        raise NotFound(f"there is no file {backup}", "memd backup makes one; the nightly ones are in state/backups")
    try:
        with _opened(backup) as source:
            number = source.execute("PRAGMA user_version").fetchone()[0]
            source.execute("SELECT value FROM meta WHERE key = 'id'").fetchone()
            said = "; ".join(str(row[0]) for row in source.execute("PRAGMA quick_check(3)"))
    except sqlite3.Error as error:
        raise StoreBroken(f"{backup} is not a ledger of memd: {error}", "take another one") from error
    if number > VERSION:
        raise StoreBroken(f"{backup} was written by a newer memd (schema {number}, this one knows {VERSION})")
    if said != "ok":
        raise StoreBroken(f"{backup} is damaged: {said}", "take another one")


def _opened(file: Path) -> _Closing:
    # Immutable: a copy on a read-only disk can be read too, and nothing is left beside it. One that was copied by
    # hand may have a part of its text in a second file, which counts.
    how = "mode=rw" if file.with_name(f"{file.name}-wal").exists() else "immutable=1"
    return _Closing(sqlite3.connect(f"{file.resolve().as_uri()}?{how}", uri=True))


class _Closing:
    """A connection that is closed at the end; SQLite's own only ends the transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> sqlite3.Connection:
        return self.connection

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def _copy(backup: Path, fresh: Path) -> None:
    """A ledger of its own: its numbers go other ways than those that caches were made from."""
    with _opened(backup) as source, _Closing(sqlite3.connect(fresh)) as copy:
        source.backup(copy)
        copy.execute("UPDATE meta SET value = ? WHERE key = 'id'", (uuid.uuid4().hex[:8],))
        copy.commit()
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fresh.chmod(0o600)
    for companion in ("-wal", "-shm"):
        fresh.with_name(fresh.name + companion).unlink(missing_ok=True)


def _settle(ledger: Path) -> None:
    """Bring what a killed daemon left beside the old ledger into it, as far as it can be read."""
    if ledger.exists():
        with suppress(sqlite3.Error), _Closing(sqlite3.connect(ledger)) as old:
            old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
