"""Standing queries: who waits for what, and a bounded queue for each, so that nobody waits for a slow reader.

The writer matches what it has just saved (`saved`, on its thread); everything else happens on the loop. A
subscription lives as long as the connection that asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from memd.daemon.server import Line
from memd.errors import Busy, NotFound
from memd.indexer import recall
from memd.indexer.ingest import Saved
from memd.indexer.match import Wanted, piece
from memd.indexer.stores import Shelf, Stores
from memd.models import Filters
from memd.protocol import wire

PER_CONNECTION = 64
IN_ALL = 256
QUEUED = 2_000
QUEUED_CHARS = 1 << 21
"""What waits for one slow reader, at most. A slice of an import fits, so a quick one misses nothing."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a subscription is about."""

    wanted: Wanted
    filters: Filters
    ns: frozenset[str]
    """The workspaces; empty means all, also those that are added later."""
    marks: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """One memory for one subscription. The hit is shared with the others that it goes to."""

    hit: dict[str, Any]
    new: bool
    share: float
    clock: str


class Subscription:
    """One standing query of one connection. Used on the loop only."""

    def __init__(self, number: int, line: Line, terms: Terms) -> None:
        self.number = number
        self.line = line
        self.terms = terms
        self._queue: deque[Notice | int] = deque()
        """What is to be sent; a number stands where so many were dropped."""
        self._chars = 0
        self._dropped = 0
        self._wake = asyncio.Event()
        self._sender = asyncio.create_task(self._send())

    def end(self) -> None:
        self._sender.cancel()

    def take(self, notice: Notice) -> None:
        """Queue it, or count it where the queue is full."""
        size = len(notice.hit["text"])
        if len(self._queue) >= QUEUED or (self._queue and self._chars + size > QUEUED_CHARS):
            self._dropped += 1
        else:
            if self._dropped:
                self._queue.append(self._dropped)
                self._dropped = 0
            self._queue.append(notice)
            self._chars += size
        self._wake.set()

    async def _send(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._wake.wait():
                while (message := self._next()) is not None:
                    await self.line.notify(wire.encode_notification("subscription", message))
                self._wake.clear()

    def _next(self) -> dict[str, Any] | None:
        if not self._queue:
            dropped, self._dropped = self._dropped, 0
            return self._lost(dropped) if dropped else None
        first = self._queue.popleft()
        if isinstance(first, int):
            return self._lost(first)
        self._chars -= len(first.hit["text"])
        hit = {**first.hit, "score": round(first.share, 6)}
        if self.terms.marks:
            hit["marks"] = self.terms.wanted.marks(hit["text"])
        event = "new" if first.new else "changed"
        return {"subscription": self.number, "event": event, "hit": hit, "clock": first.clock}

    def _lost(self, dropped: int) -> dict[str, Any]:
        return {"subscription": self.number, "event": "dropped", "dropped": dropped}


class Standing:
    """Every subscription there is."""

    def __init__(self, stores: Stores, loop: asyncio.AbstractEventLoop) -> None:
        self._stores = stores
        self._loop = loop
        self._numbers = itertools.count(1)
        self._all: dict[int, Subscription] = {}
        """Replaced, never changed: the writer reads it from its own thread."""

    def __len__(self) -> int:
        return len(self._all)

    def subscribe(self, line: Line, terms: Terms) -> int:
        """Begin to tell a connection what is saved; answers the subscription's number."""
        if len(self._all) >= IN_ALL:
            raise Busy(f"memd has {IN_ALL} subscriptions, and takes no more", "end one of them first")
        if sum(other.line is line for other in self._all.values()) >= PER_CONNECTION:
            raise Busy(f"a connection may have {PER_CONNECTION} subscriptions", "unsubscribe, or open another one")
        made = Subscription(next(self._numbers), line, terms)
        self._all = {**self._all, made.number: made}
        line.closing[made.number] = lambda: self._end(made)
        return made.number

    def unsubscribe(self, line: Line, number: int) -> None:
        known = self._all.get(number)
        if known is None or known.line is not line:
            raise NotFound(f"this connection has no subscription {number}", "`subscribe` answers its number")
        self._end(known)

    def _end(self, ended: Subscription) -> None:
        ended.line.closing.pop(ended.number, None)
        self._all = {number: other for number, other in self._all.items() if other is not ended}
        ended.end()

    # --- on the writer's thread ---------------------------------------------------------------------------

    def saved(self, shelf: Shelf, saved: list[Saved]) -> None:
        """Match what was just committed, and hand it to the loop."""
        listening = [one for one in self._all.values() if not one.terms.ns or shelf.workspace.ns in one.terms.ns]
        if not listening:
            return
        found = _matches(listening, saved)
        hits = self._hits(shelf, found)
        clock = self._stores.ledger.clock
        notices = [
            (one, Notice(hit, memory.new, share, clock))
            for one, memory, chunk, share in found
            if (hit := hits[one.terms.filters].get(chunk)) is not None
        ]
        if notices:
            self._loop.call_soon_threadsafe(_deliver, notices)

    def _hits(self, shelf: Shelf, found: list[Match]) -> dict[Filters, dict[int, dict[str, Any]]]:
        """The chunks as hits, for each set of filters those that pass it."""
        reader = self._stores.ledger.reader
        passed: dict[Filters, dict[int, Row]] = {}
        for filters in {one.terms.filters for one, *_ in found}:
            chunks = {chunk for one, _, chunk, _ in found if one.terms.filters == filters}
            passed[filters] = recall.join(reader, chunks, filters)
        rows = {chunk: row for those in passed.values() for chunk, row in those.items()}
        shared = recall.shared_stems(reader, shelf.id, {row["stem"] for row in rows.values()})
        made = {chunk: _hit(row, shelf, shared) for chunk, row in rows.items()}
        return {filters: {chunk: made[chunk] for chunk in those} for filters, those in passed.items()}


Match = tuple[Subscription, Saved, int, float]
"""Who waits for it, the memory, the chunk that shows it best, the share of the words that it has."""


def _matches(listening: Iterable[Subscription], saved: list[Saved]) -> list[Match]:
    found: list[Match] = []
    for memory in saved:
        pieces = [piece(chunk) for _, chunk in memory.chunks]
        for one in listening:
            best = one.terms.wanted.best(pieces)
            if best is not None:
                found.append((one, memory, memory.chunks[best[0]][0], best[1]))
    return found


def _hit(row: Row, shelf: Shelf, shared: set[str]) -> dict[str, Any]:
    """A hit as `query` gives it, without what only a ranking can say."""
    return {
        "id": row["id"],
        "ns": shelf.workspace.ns,
        "root": str(shelf.workspace.root),
        "key": recall.key_of(row["stem"], row["path"], row["slug"], shared),
        "path": row["path"],
        "start_line": row["start_line"],
        "end_line": row["end_line"],
        "heading": " › ".join(part for part in json.loads(row["heading"]) if part),
        "text": row["text"],
        "kind": row["kind"],
        "tier": row["tier"],
        "role": row["role"],
        "tags": json.loads(row["tags"]),
        "date": row["date"],
    }


def _deliver(notices: list[tuple[Subscription, Notice]]) -> None:
    for one, notice in notices:
        one.take(notice)
