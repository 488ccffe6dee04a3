"""Keeps the facts of files by the hash of their bytes, in an SQLite file that can be thrown away at any time."""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from memd.outline import facts as forms
from memd.outline.facts import Facts
from memd.outline.sources import Stamp

log = logging.getLogger("memd.outline")

SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, digest TEXT, suffix TEXT
);
CREATE TABLE IF NOT EXISTS facts (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL, suffix TEXT NOT NULL, body BLOB NOT NULL, UNIQUE (digest, suffix)
);
"""
SPARE = 2_000
"""Facts that no file has now and that are kept all the same: a branch may come back."""

Row = tuple[str, Stamp, str]
"""A file's path, its stat and the hash of its bytes."""
Kept = tuple[Row, str, str | None]
"""A row with the file's ending and, where they are new, its facts."""


class Cache:
    """One workspace's facts on disk. Used by one thread at a time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            log.warning("the outline's cache is made again: %s", error)
            self._begin_anew()

    def _open(self) -> None:
        self._link = sqlite3.connect(self.file, check_same_thread=False, isolation_level=None)
        self._link.execute("PRAGMA journal_mode = WAL")
        self._link.execute("PRAGMA synchronous = NORMAL")
        (known,) = self._link.execute("PRAGMA user_version").fetchone()
        if known not in (0, forms.FORMAT):
            self._link.executescript("DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS facts;")
        self._link.executescript(SCHEMA)
        self._link.execute(f"PRAGMA user_version = {forms.FORMAT}")
        self._link.execute("SELECT COUNT(*) FROM files").fetchone()

    def _begin_anew(self) -> None:
        """It is a cache: what cannot be read is not worth keeping."""
        self._link.close()
        for ending in ("", "-wal", "-shm"):
            self.file.with_name(self.file.name + ending).unlink(missing_ok=True)
        self._open()

    def close(self) -> None:
        self._link.close()

    def files(self) -> dict[str, tuple[Stamp, str]]:
        """Every file that was taken in: its stat then, and the hash of its bytes."""
        rows = self._link.execute("SELECT path, size, mtime_ns, ctime_ns, inode, digest FROM files")
        return {path: (Stamp(*rest), digest) for path, *rest, digest in rows}

    def facts(self, digest: str, suffix: str) -> Facts | None:
        row = self._link.execute("SELECT body FROM facts WHERE digest = ? AND suffix = ?", (digest, suffix)).fetchone()
        return forms.decode(zlib.decompress(row[0]).decode()) if row else None

    def save(self, rows: Iterable[Kept], gone: Iterable[str] = ()) -> None:
        """Note files, each with its ending and, where they are new, its facts; forget those that are gone."""
        with self._whole():
            for (path, stamp, digest), suffix, body in rows:
                self._link.execute(
                    "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?)", (path, *stamp, digest, suffix)
                )
                if body is not None:
                    self._link.execute(
                        "INSERT OR REPLACE INTO facts (digest, suffix, body) VALUES (?,?,?)",
                        (digest, suffix, zlib.compress(body.encode("utf-8", "replace"), 1)),
                    )
            self._link.executemany("DELETE FROM files WHERE path = ?", ((path,) for path in gone))

    def tidy(self) -> None:
        """Let go of the oldest facts that no file has now, beyond those that are kept in case they come back."""
        self._link.execute(
            "DELETE FROM facts WHERE id IN (SELECT c.id FROM facts c WHERE NOT EXISTS"
            " (SELECT 1 FROM files f WHERE f.digest = c.digest AND f.suffix = c.suffix) ORDER BY c.id DESC LIMIT -1"
            f" OFFSET {SPARE})"
        )

    def _whole(self) -> _Transaction:
        return _Transaction(self._link)


class _Transaction:
    """All or nothing, explicitly."""

    def __init__(self, link: sqlite3.Connection) -> None:
        self.link = link

    def __enter__(self) -> None:
        self.link.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self.link.execute("ROLLBACK" if kind else "COMMIT")


def batches(rows: Iterator[Kept], size: int) -> Iterator[list[Kept]]:
    """Rows in lots, so that a long first run that is stopped keeps what it did."""
    lot: list[Kept] = []
    for row in rows:
        lot.append(row)
        if len(lot) >= size:
            yield lot
            lot = []
    if lot:
        yield lot
