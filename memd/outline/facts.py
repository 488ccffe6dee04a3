"""The facts of source files, independent of their paths: symbols, imports, references; and the cache of them.

The cache is by the digest of a file's bytes, in an SQLite file that may be deleted at any time.
"""

import logging
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

import msgspec

from memd.models import FileStat
from memd.outline.languages import suffix_of

log = logging.getLogger("memd.outline")

FORMAT = 5
"""Grows when the same bytes give other facts, so that cached ones are discarded."""

CLASSES = frozenset({"class", "interface", "type"})
HOLDERS = CLASSES | {"module"}
"""Kinds whose members can be reached from elsewhere."""

MODULE = 0
"""The number of the file's own symbol."""


class Symbol(NamedTuple):
    """A definition. `parent` is the number of the symbol around it; `owner` the type it belongs to from outside."""

    name: str
    kind: str
    parent: int
    line: int
    end_line: int
    signature: str
    owner: tuple[str, ...] = ()


class ImportFact(NamedTuple):
    """One imported name, as written: `from ..a import b as c` is ("..a", "b", "c")."""

    module: str
    name: str
    alias: str
    line: int
    source: int
    """The number of the symbol around it."""

    @property
    def kind(self) -> str:
        """The relation that it is, as a reference has it."""
        return "imports"


class Reference(NamedTuple):
    """A use of a name in a symbol.

    `via` says what the first part of the name is: `symbol` (of this file, number `target`), `import` (number
    `target`), `super` (what `target` inherits), `value` (of unknown type) or `free` (nothing in this file).
    """

    kind: str
    source: int
    via: str
    target: int
    chain: tuple[str, ...]
    """The rest of the name, part by part."""
    line: int
    typed: int = 0
    """1 if the name was resolved through the type of a value."""


class Facts(NamedTuple):
    """The facts of a file; `package` is its package clause, if the language has one."""

    language: str
    package: str
    symbols: tuple[Symbol, ...]
    imports: tuple[ImportFact, ...]
    references: tuple[Reference, ...]
    problem: str = ""
    """Why the file could not be read, or not completely."""


encode = msgspec.json.encode


def decode(body: bytes) -> Facts:
    facts: Facts = _interned(msgspec.json.decode(body, type=Facts))
    return facts


def _interned(value: Any) -> Any:
    """Each text once in memory, since a project repeats names thousands of times."""
    if isinstance(value, tuple):
        return getattr(value, "_make", tuple)(map(_interned, value))
    return intern(value) if isinstance(value, str) else value


def no_facts(language: str, problem: str) -> Facts:
    """The facts of a file that could not be read."""
    return Facts(language, "", (Symbol("", "module", -1, 1, 1, ""),), (), (), problem)


# --- the cache ----------------------------------------------------------------------------------------------

SCHEMA = Path(__file__).with_suffix(".sql")
SPARE = 2_000
"""Facts kept although no file has them now: a branch may come back."""


class CacheRow(NamedTuple):
    """One file for the cache; `body` has its encoded facts if they are new."""

    path: str
    stamp: FileStat
    digest: str
    body: bytes | None


class FactsCache:
    """The facts of one workspace on disk. Used by one thread at a time."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._open(file)
        except sqlite3.DatabaseError as error:
            log.warning("the outline's cache is recreated: %s", error)
            self._connection.close()
            for ending in ("", "-wal", "-shm"):
                file.with_name(file.name + ending).unlink(missing_ok=True)
            self._open(file)

    def _open(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        (known,) = self._connection.execute("PRAGMA user_version").fetchone()
        if known not in (0, FORMAT):
            self._connection.executescript("DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS facts;")
        self._connection.executescript(SCHEMA.read_text(encoding="utf-8"))
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._connection.execute("SELECT COUNT(*) FROM files").fetchone()

    def close(self) -> None:
        self._connection.close()

    def files(self) -> dict[str, tuple[FileStat, str]]:
        """Every cached file: its stat and the digest of its bytes."""
        rows = self._connection.execute("SELECT path, size, mtime_ns, ctime_ns, inode, digest FROM files")
        return {path: (FileStat(*rest), digest) for path, *rest, digest in rows}

    def facts(self, digest: str, path: str) -> Facts | None:
        """The facts of these bytes in a file with this suffix."""
        select = "SELECT body FROM facts WHERE digest = ? AND suffix = ?"
        row = self._connection.execute(select, (digest, suffix_of(path))).fetchone()
        return decode(zlib.decompress(row[0])) if row else None

    def save(self, rows: Iterable[CacheRow], gone: Iterable[str] = ()) -> None:
        """Store rows, and forget the files that are gone."""
        with self._connection:
            for path, stamp, digest, body in rows:
                file = (path, *stamp, digest, suffix_of(path))
                self._connection.execute("INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?)", file)
                if body is not None:
                    facts = (digest, suffix_of(path), zlib.compress(body, 1))
                    insert = "INSERT OR REPLACE INTO facts (digest, suffix, body) VALUES (?,?,?)"
                    self._connection.execute(insert, facts)
            self._connection.executemany("DELETE FROM files WHERE path = ?", ((path,) for path in gone))

    def tidy(self) -> None:
        """Delete the oldest facts that no file has now, beyond the spare ones."""
        used = "SELECT 1 FROM files f WHERE f.digest = c.digest AND f.suffix = c.suffix"
        older = f"SELECT c.id FROM facts c WHERE NOT EXISTS ({used}) ORDER BY c.id DESC LIMIT -1 OFFSET {SPARE}"
        with self._connection:
            self._connection.execute(f"DELETE FROM facts WHERE id IN ({older})")
