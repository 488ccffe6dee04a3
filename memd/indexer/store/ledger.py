"""`state.db`, the one commit point: its connections, migrations and clock."""

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeVar

from memd.errors import DiskFull, LedgerDamaged, LedgerMoved, MemdError, StoreBroken, TooLarge, in_shell
from memd.failpoints import failpoint
from memd.indexer.store.cache_folder import CACHES_OF
from memd.indexer.store.catalog import TextState
from memd.indexer.store.ledger_check import LONGEST, STEPS, VERSION, problem_in, schema_version
from memd.notes import safe_write
from memd.prose import composed

FIX = "memd doctor --fix"
PATIENCE = 5.0
"""Seconds to wait for readers before the write-ahead log can be emptied."""


MAPPED = 1 << 31

T = TypeVar("T")
STATE = """
SELECT
    (SELECT value FROM meta WHERE key = 'seq'),
    (SELECT MAX(number) FROM changed),
    (SELECT json_group_array(id) FROM workspaces WHERE text_dirty = ?)
"""
LEDGER_FILE = "state.db"
RESTORING = ".state.db.restoring"
"""The file in which another ledger is made, before it takes the place."""

READY = b"ready version="
"""The words that a daemon writes to its log once it has opened a ledger."""

TOO_MUCH = ("too large", "too complex", "too many", "too big")
"""What SQLite says of a statement that is beyond its bounds, and of nothing that is damaged."""
UNREADABLE = ("could not decode to utf-8", "no such table", "no such column", "no such index", "malformed")
"""The messages of SQLite for damage that it has no code for."""

PROMISED = "promised"
"""The setting that has the open promises; one whose count the clock has reached is kept."""

UNTRANSLATED = (sqlite3.Error, UnicodeDecodeError)

FileId = tuple[int, int]
"""Device and inode: which file it is, whatever its name."""


class LedgerPlace(Enum):
    """Whether the file that was opened still stands under its name; each value is a sentence for a person."""

    HERE = "state.db is where it was opened"
    GONE = "state.db, or what belongs to it, was removed or moved away while memd runs"
    TAKEN = "another file took the place of state.db while memd runs"
    PUT_BACK = "state.db has just been put back; memd starts again with it"


class LedgerState(NamedTuple):
    """What questions ask of the ledger again and again."""

    seq: int
    """The clock's count."""
    change: int
    """The number of the last change of what ranks chunks."""
    outdated: frozenset[int]
    """The workspaces whose text index is outdated."""


class Ledger:
    """One writing connection for the writer thread, one reading connection for every other thread."""

    pragmas: tuple[str, ...] = ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON")

    def __init__(self, path: Path, file: FileId | None = None) -> None:
        self.path = path
        self.file = file
        """Which file it is, once it is open."""
        self.copy: Path | None = None
        """The file that new connections read while another one has taken its place."""
        self.damage: LedgerDamaged | None = None
        """The damage that was found; nothing is written any more."""
        self.committed: Callable[[], None] = lambda: None
        """Called after each transaction of the writer."""
        self._companions = dict[Path, FileId]()
        self.is_replaced = False
        """Whether another file stands in its place, with which this process must start again."""
        self._local = threading.local()
        self._opened: list[tuple[threading.Thread, sqlite3.Connection]] = []
        """The connections, each with the thread that opened it."""
        self._lock = threading.Lock()
        self.copying = threading.Lock()
        """Held while a backup is made: until it is complete it has no name under which anybody finds it."""
        self.id, self.seq = self._begin()

    def _begin(self) -> tuple[str, int]:
        """Open the file, and make it one of this version; returns the ledger's id and the clock's count."""
        try:
            _refuse_lost(self.path)
            with translated():
                self._writer = self._connect()
                self._migrate()
                identity = self._identity()
                # The log beside it counts: what was committed last stands only there.
                self._companions = {name: known for name in companions(self.path) if (known := file_id(name))}
        except LedgerDamaged as error:
            self.close()
            raise _pointing_to_backup(error, self.path.parent) from error
        return identity

    def _connect(self) -> sqlite3.Connection:
        connection = self.unshared_connection()
        with self._lock:
            self._opened.append((threading.current_thread(), connection))
        return connection

    def unshared_connection(self) -> sqlite3.Connection:
        """A connection to what the open file holds, which the caller closes; never to another file of its name."""
        if self.copy is None:
            self.confirm_place()
        connection = self._open(self.copy or self.path, "rw" if self.file else "rwc")
        self.file = self.file or file_id(self.path)
        try:
            if self.copy is None:
                self.confirm_place()
            connection.row_factory = sqlite3.Row
            connection.create_function("casefold", 1, str.casefold, deterministic=True)
            connection.create_function("composed", 1, composed, deterministic=True)
            for pragma in (*self.pragmas, "temp_store = MEMORY"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, path: Path, mode: str) -> sqlite3.Connection:
        file = f"{path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(file, uri=True, isolation_level=None, check_same_thread=False, timeout=10)

    def _migrate(self) -> None:
        found = self._writer.execute("PRAGMA user_version").fetchone()[0]
        if found > VERSION:
            why = f"{self.path} was written by a newer memd (schema {found}, this one knows {VERSION})"
            back = f"memd restore-backup {in_shell(self.path.with_name(f'state.before-{found}.db'))}"
            raise StoreBroken(why, f"install the newer memd again; or go back to the copy that it made before: {back}")
        if found < VERSION:
            # By its tables: a number that was lost must not cost what is in them.
            known = schema_version(self._writer)
            if known is None:
                raise LedgerDamaged("state.db is damaged: its tables are not those of a ledger", FIX)
            self._writer.execute(f"PRAGMA user_version = {known}")
            found = known
        if 0 < found < VERSION:
            self.backup(self.path.with_name(f"state.before-{VERSION}.db"))
        for number in range(found, VERSION):
            self._writer.executescript(f"BEGIN;{STEPS[number]};PRAGMA user_version = {number + 1};COMMIT;")

    def _identity(self) -> tuple[str, int]:
        self._writer.execute("INSERT OR IGNORE INTO meta VALUES ('id', ?), ('seq', '0')", (uuid.uuid4().hex[:8],))
        rows = dict(self._writer.execute("SELECT key, value FROM meta WHERE key IN ('id', 'seq')").fetchall())
        return rows["id"], int(rows["seq"])

    @property
    def clock(self) -> str:
        return self.clock_at(self.seq)

    def clock_at(self, seq: int) -> str:
        return f"c:{self.id}:{seq}"

    @property
    def reader(self) -> sqlite3.Connection:
        """This thread's own connection for reading."""
        return self._own_connection("connection")

    @property
    def latest(self) -> sqlite3.Connection:
        """This thread's connection for what all threads share: never within a snapshot, which may be an older one."""
        return self._own_connection("latest")

    def _own_connection(self, name: str) -> sqlite3.Connection:
        """This thread's connection of a name; it is opened to the copy while the file cannot be."""
        copied = self.copy is not None and not hasattr(self._local, name)
        name = f"{name} of {self.copy}" if copied else name
        connection: sqlite3.Connection | None = getattr(self._local, name, None)
        if connection is None:
            connection = self._connect()
            # Each thread has one, and the system caches the file anyway.
            connection.executescript("PRAGMA query_only = ON; PRAGMA cache_size = -500")
            setattr(self._local, name, connection)
        return connection

    def problem(self) -> str:
        """The problem of the file as the disk has it; empty when it is sound. A connection may know older pages."""
        try:
            with closing(self.unshared_connection()) as connection:
                return problem_in(connection)
        except UNTRANSLATED as error:
            if isinstance(meaning := translate(error), LedgerDamaged):
                return str(error)[:LONGEST]
            raise meaning from error

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """This thread's reader, for which nothing changes meanwhile: what several statements read belongs together."""
        connection = self.reader
        if connection.in_transaction:
            yield connection
            return
        connection.execute("BEGIN")
        self._local.state = None
        try:
            yield connection
        finally:
            connection.execute("COMMIT")

    @property
    def state(self) -> LedgerState:
        """The state that this thread's reader sees; in a snapshot it is read once."""
        connection, known = self.reader, getattr(self._local, "state", None)
        if known is None or not connection.in_transaction:
            seq, change, outdated = connection.execute(STATE, (TextState.OUTDATED,)).fetchone()
            known = self._local.state = LedgerState(int(seq), change or 0, frozenset(json.loads(outdated)))
        return known

    def seq_seen(self) -> int:
        """The clock's count as this thread's reader sees it, in its snapshot."""
        return self.state.seq

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction of the writer thread: all of it or nothing, and never into a file that is gone."""
        self.confirm_place()
        if self.damage is not None:
            raise LedgerDamaged(self.damage.message, self.damage.hint)
        with translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                failpoint("ledger-commit")
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
        self.confirm_place()
        self.committed()

    def transact(self, work: Callable[..., T], *args: object) -> T:
        """Call a function with the connection and some arguments, in one transaction."""
        with self.write() as connection:
            return work(connection, *args)

    @contextmanager
    def forgetting(self) -> Iterator[sqlite3.Connection]:
        """`write` that overwrites the bytes of deleted rows."""
        self._writer.execute("PRAGMA secure_delete = ON")
        try:
            with self.write() as connection:
                yield connection
            failpoint("forgotten")
        finally:
            self._writer.execute("PRAGMA secure_delete = OFF")

    def compact(self) -> str:
        """Rewrite the file without its free pages and empty the write-ahead log; returns why if that failed."""
        self.confirm_place()
        with translated():
            self._writer.execute("VACUUM")
            until = time.monotonic() + PATIENCE
            while self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > until:
                    return "another connection is reading; the next checkpoint empties the log"
                time.sleep(0.02)
        return ""

    def pages(self) -> tuple[int, int, int]:
        """The used pages of the file, its free pages, and the bytes per page."""
        names = "page_count", "freelist_count", "page_size"
        total, free, size = (int(self.reader.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
        return total - free, free, size

    def tick(self, connection: sqlite3.Connection) -> None:
        """Advance the clock, inside a transaction."""
        connection.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'seq'")
        self.seq = int(connection.execute("SELECT value FROM meta WHERE key = 'seq'").fetchone()[0])

    def promises(self) -> dict[int, tuple[int, list[str]]]:
        """The files that memd wrote and has not indexed yet, by workspace, with the count at which they will be.

        For the writer thread. Each workspace has one tick of its own, and none is reached before its files are indexed.
        """
        row = self._writer.execute("SELECT value FROM meta WHERE key = ?", (PROMISED,)).fetchone()
        kept = json.loads(row["value"]) if row else []
        return {workspace: (seq, paths) for workspace, seq, paths in kept if seq > self.seq}

    def promise(self, connection: sqlite3.Connection, workspace: int, paths: Iterable[str]) -> None:
        """Promise a tick to files that were just written, inside the transaction that finishes the write."""
        waiting = self.promises()
        following = max((seq for seq, _ in waiting.values()), default=self.seq) + 1
        seq, known = waiting.get(workspace, (following, []))
        waiting[workspace] = seq, list(dict.fromkeys([*known, *paths]))
        self.save_setting(connection, PROMISED, json.dumps([(one, *rest) for one, rest in waiting.items()]))

    def setting(self, key: str) -> str:
        """A value that is kept for the whole ledger; empty if it was never set."""
        row = self.reader.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row["value"]) if row else ""

    def save_setting(self, connection: sqlite3.Connection, key: str, value: str) -> None:
        """Keep such a value, inside a transaction."""
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def backup(self, target: Path) -> None:
        """A consistent copy, made by SQLite itself."""
        # By a reader: an open transaction of the writer is neither copied nor held up.
        copy_ledger(self.reader, target)

    # --- its place --------------------------------------------------------------------------------------------

    @property
    def place(self) -> LedgerPlace:
        """Whether the file that was opened, with its log, still stands under its name."""
        if self.is_replaced:
            return LedgerPlace.PUT_BACK
        found = file_id(self.path)
        if found is not None and found != self.file:
            return LedgerPlace.TAKEN
        whole = found is not None and all(file_id(name) == known for name, known in self._companions.items())
        return LedgerPlace.HERE if whole else LedgerPlace.GONE

    def confirm_place(self) -> None:
        """Refuse to go on in a file that nobody would find again."""
        if self.file is not None and (place := self.place) is not LedgerPlace.HERE:
            raise LedgerMoved(f"{place.value}; nothing is written", "memd status")

    def put_back(self) -> None:
        """Put a copy of what the open file holds where it stood; then this process must start again."""
        fresh = self.path.with_name(RESTORING)
        fresh.unlink(missing_ok=True)
        fresh.touch(0o600)
        with translated(), closing(sqlite3.connect(fresh)) as copy:
            self._writer.backup(copy)
        for name in companions(self.path):
            name.unlink(missing_ok=True)
        if file_id(self.path) is None:
            # Not by renaming: what somebody puts there in this moment must stay.
            os.link(fresh, self.path)
            fresh.unlink()
        else:
            fresh.rename(self.path)
        safe_write.sync(self.path)
        self.is_replaced = True

    def close(self) -> None:
        """Close the connections, but for those of other threads that live: closing what is in use is a crash."""
        with self._lock:
            for thread, connection in reversed(self._opened):
                if thread is threading.current_thread() or not thread.is_alive():
                    with suppress(sqlite3.Error):
                        # The file is whole without its log, whoever else still has it open; nobody is waited for.
                        connection.execute("PRAGMA busy_timeout = 0")
                        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    connection.close()
            self._opened.clear()


class FollowedLedger(Ledger):
    """The ledger of another process, for reading."""

    # Pages are read where the file is mapped, which all readers share, instead of copied into a cache of each.
    pragmas = (f"mmap_size = {MAPPED}",)

    def _begin(self) -> tuple[str, int]:
        with translated():
            return str(self.reader.execute("SELECT value FROM meta WHERE key = 'id'").fetchone()[0]), self.seq_seen()

    def _open(self, path: Path, mode: str) -> sqlite3.Connection:
        return super()._open(path, "ro")


def copy_ledger(source: sqlite3.Connection, target: Path) -> None:
    """A copy with an id of its own: its chunk numbers will mean other chunks than those of the caches."""
    with closing(sqlite3.connect(target)) as copy, copy:
        source.backup(copy)
        copy.execute("UPDATE meta SET value = ? WHERE key = 'id'", (uuid.uuid4().hex[:8],))


def file_id(path: Path) -> FileId | None:
    """Which file stands under a name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def companions(path: Path) -> tuple[Path, Path]:
    """The write-ahead log of a ledger and the index of it, which belong to the file."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def backups(folder: Path) -> list[Path]:
    """The copies of the ledger in its folder."""
    copies = [file for file in folder.glob("**/state*.db") if "quarantine" not in file.parts]
    return sorted(file for file in copies if file != folder / LEDGER_FILE)


def newest_backup(folder: Path) -> Path | None:
    """The newest copy of the ledger."""
    return max(backups(folder), key=lambda file: file.stat().st_mtime, default=None)


def _pointing_to_backup(error: LedgerDamaged, folder: Path) -> LedgerDamaged:
    backup = newest_backup(folder)
    takes = f"the newest backup, {backup}" if backup else "what can be read of it, and the notes: there is no backup"
    return LedgerDamaged(error.message, f"{FIX}   (it takes {takes})")


def _refuse_lost(path: Path) -> None:
    """Refuse to begin anew where a ledger stood before: what it knew would be gone in silence."""
    # What stands beside it belongs to the file of this name.
    if path.name != LEDGER_FILE or (path.exists() and path.stat().st_size):
        return
    beside = [name for name in (CACHES_OF, "text", "chroma") if (path.parent / name).exists()]
    beside += [file.name for file in backups(path.parent)]
    beside += [file.name for file in path.parent.glob("memd.log*") if READY in file.read_bytes()]
    if beside:
        what = "is empty" if path.exists() else "is missing"
        raise LedgerDamaged(f"{path} {what}, and was there before (beside it: {', '.join(beside)})", FIX)


@contextmanager
def translated() -> Iterator[None]:
    """SQLite's errors as memd's."""
    try:
        yield
    except UNTRANSLATED as error:
        raise translate(error) from error


def translate(error: sqlite3.Error | UnicodeDecodeError) -> MemdError:
    """The meaning of an error of SQLite; one whose message it cannot even decode is damage too."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    undecodable = isinstance(error, UnicodeDecodeError) or any(sign in str(error).lower() for sign in UNREADABLE)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return DiskFull(f"state.db could not be written: {error}", "make room on the disk; memd goes on by itself")
    if undecodable or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerDamaged(f"state.db is damaged: {str(error)[:LONGEST]}", FIX)
    if any(sign in str(error) for sign in TOO_MUCH):
        return TooLarge(f"so much cannot be asked for at once ({error})", "ask with fewer or shorter filters")
    return StoreBroken(f"state.db: {error}", "memd doctor")
