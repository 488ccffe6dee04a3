"""What ranking has to know of every chunk, as arrays: read from the ledger once, and what changes since then.

A question looks at a hundred chunks and shows eight: only the rows of these are read.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import repeat
from math import inf
from sqlite3 import Connection, Cursor
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memd.indexer.store.catalog import among, number_of
from memd.indexer.store.lines import Places, places_in, ranges
from memd.indexer.store.queries import queries, with_lists
from memd.lifecycle.lives import base_importance
from memd.models import Declared
from memd.timespans import as_day

SQL = queries(__file__)
LAST = "SELECT MAX(number) FROM changed"
NOTHING = json.dumps(asdict(Declared()), ensure_ascii=False)
"""What most notes declare."""
NEVER = "never"
"""When a memory ends that has no ttl: after every moment, as texts compare."""

MOST_FOLLOWED = 20_000
"""After more changes all is read again; the ledger keeps three times as many."""

PRIORITY = {"low": -1.0, "high": 0.6, "critical": 1.0}
TIER = {"dormant": -1.0, "sensory": -0.5}
"""Enough to put the other of two equals first, never to hide an only answer."""

Times = NDArray[np.float64]
Shares = NDArray[np.float32]
Numbers = NDArray[np.int32]
Truths = NDArray[np.bool_]


class RankedChunks(NamedTuple):
    """The columns, each with a value for every chunk of a workspace, in the order of memories and lines."""

    memory: Places
    line: Numbers
    chunk: Places
    file: Numbers
    day: Numbers
    """The day of the note, as Python counts days; 0 for none, and for MEMORY.md, whenever it was last changed."""
    semantic: Truths
    episodic: Truths
    tier: Shares
    """How low its tier stands: from -1 to 0, which is awake."""
    importance: Shares
    """From -1 to 1: the priority and the importance that the note declares. The faded one counts in contexts."""
    resting: Truths
    end: Times
    """The time from which on it is not shown, in seconds."""
    outdated_until: Times
    """The time from which on no later memory says what is true instead, in seconds."""

    def at(self, places: Places) -> "RankedChunks":
        """Those of some chunks."""
        return RankedChunks._make(column[places] for column in self)


TYPES = (np.int64, np.int32, np.int64, np.int32, np.int32, bool, bool, np.float32, np.float32, bool, float, float)


class ChunkPlace(NamedTuple):
    """Where a chunk stands; in the order of these."""

    path: str
    stem: str
    line: int
    chunk: int
    memory: int
    resting: bool
    at: int
    """Its place in the columns."""


@dataclass(frozen=True)
class ChunkColumns:
    """The columns of one workspace, as of one number of the ledger's changes; others follow them, they never change."""

    workspace: int
    number: int
    ranked: RankedChunks
    files: Mapping[int, tuple[str, str]]
    """The path and the stem of each file."""

    @classmethod
    def read(cls, connection: Connection, workspace: int) -> Self:
        """Those of a whole workspace."""
        number = number_of(connection, LAST)
        return cls(workspace, number, _ranked(connection, workspace), _named(connection, workspace))

    @classmethod
    def of_memories(cls, connection: Connection, workspace: int, chunks: Iterable[int]) -> Self:
        """Only those of the memories that some chunks belong to."""
        memories = {memory for (memory,) in among(connection, "SELECT memory FROM chunks WHERE id AMONG ?", chunks)}
        ranked = _ranked(connection, workspace, memories)
        return cls(workspace, 0, ranked, _named(connection, workspace, ranked.file.tolist()))

    def followed(self, connection: Connection) -> Self:
        """What they are now; only what has changed is read."""
        number = number_of(connection, LAST)
        # Somebody in an older snapshot may have what others read since.
        if number <= self.number:
            return self
        if number - self.number > MOST_FOLLOWED:
            return self.read(connection, self.workspace)
        changes = connection.execute(SQL["changed"], (self.number,)).fetchall()
        memories, files = ({row[nth] for row in changes} - {None} for nth in (0, 1))
        names = self.files
        if files:
            kept = {file: name for file, name in names.items() if file not in files}
            names = kept | _named(connection, self.workspace, files)
        return type(self)(self.workspace, number, self._with(connection, memories), names)

    def _with(self, connection: Connection, memories: set[int]) -> RankedChunks:
        """The columns with what the chunks of some memories are now."""
        wanted, kept = np.array(sorted(memories), np.int64), np.ones(len(self.ranked.memory), bool)
        firsts, ends = (self.ranked.memory.searchsorted(wanted, side) for side in ("left", "right"))
        kept[ranges(firsts, ends - firsts)] = False
        fresh = _ranked(connection, self.workspace, memories)
        if kept.all() and not len(fresh.chunk):
            return self.ranked
        left: list[NDArray[Any]] = [column[kept] for column in self.ranked]
        at, added = left[0].searchsorted(fresh.memory), list[NDArray[Any]](fresh)
        return RankedChunks._make(np.insert(column, at, new) for column, new in zip(left, added, strict=True))

    @cached_property
    def _by_chunk(self) -> tuple[Places, Numbers]:
        """The numbers of the chunks in order, and where each is."""
        order = self.ranked.chunk.argsort(kind="stable")
        return self.ranked.chunk[order], np.append(order, -1).astype(np.int32)

    def shown(self, chunks: Iterable[int]) -> Places:
        """The places of those of some chunks that the ledger has and that may be shown."""
        known, order = self._by_chunk
        at = order[places_in(known, np.fromiter(chunks, np.int64))].astype(np.int64)
        at = at[at >= 0]
        return at[self.ranked.end[at] > time.time()]

    def described(self, at: Places) -> list[ChunkPlace]:
        """Where some chunks stand, in the order of their files."""
        ranked = self.ranked
        names = (self.files.get(file) for file in ranked.file[at].tolist())
        parts = (column[at].tolist() for column in (ranked.line, ranked.chunk, ranked.memory, ranked.resting))
        rows = zip(names, *parts, at.tolist(), strict=True)
        return sorted(ChunkPlace._make((*name, *place)) for name, *place in rows if name is not None)


@lru_cache(maxsize=10_000)
def _life(
    day: str, role: str, kind: str, tier: str, facts: str | None, end: str | None, outdated_until: str | None
) -> tuple[object, ...]:
    """What ranks the chunks of a memory; cached, since most memories of a day are alike."""
    declared = json.loads(facts or NOTHING)
    base = base_importance(declared.get("importance"))
    weight = max(-1.0, min(1.0, PRIORITY.get(declared.get("priority"), 0.0) + 2 * base - 1))
    known = as_day(day) if role != "memory" else None
    dated = known.toordinal() if known is not None else 0
    resting = tier in TIER and not declared.get("pinned")
    ends = map(_seconds, (end, outdated_until))
    return dated, kind == "semantic", kind == "episodic", TIER.get(tier, 0.0), weight, resting, *ends


def _seconds(moment: str | None) -> float:
    """A moment as a number; without one it is past."""
    if moment is None or moment == NEVER:
        return inf if moment else -inf
    return datetime.fromisoformat(moment).timestamp()


def _ranked(connection: Connection, workspace: int, only: Iterable[int] | None = None) -> RankedChunks:
    """The columns of a workspace, or of some of its memories."""
    rows = sorted((*row[:4], *_life(*row[4:])) for row in _rows(connection, SQL["ranked"], "c.memory", workspace, only))
    columns: Iterable[Sequence[object]] = zip(*rows, strict=True) if rows else repeat(())
    return RankedChunks(*map(np.array, columns, TYPES))


def _named(connection: Connection, workspace: int, only: Iterable[int] | None = None) -> dict[int, tuple[str, str]]:
    """The path and the stem of the files of a workspace, or of some of them."""
    rows = _rows(connection, SQL["files"], "f.id", workspace, only)
    return {file: (path, stem) for file, path, stem in rows}


def _rows(connection: Connection, query: str, column: str, workspace: int, only: Iterable[int] | None) -> Cursor:
    """The rows of a workspace, or those with some values in a column; as plain tuples, which SQLite makes sooner."""
    which = f"{column[0]}.workspace = :workspace"
    if only is not None:
        # The sign keeps SQLite from going through all of the workspace.
        which = f"{column} AMONG :among AND +{which}"
    cursor = connection.cursor()
    cursor.row_factory = None
    values = {"workspace": workspace, "nothing": NOTHING, "never": NEVER, "among": json.dumps(list(only or ()))}
    return cursor.execute(with_lists(query.format(which=which)), values)
