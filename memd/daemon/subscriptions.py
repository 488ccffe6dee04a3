"""Standing queries: who waits for what.

The writer matches what it has just saved (`saved`, on its thread); everything else happens on the loop. A
subscription lives as long as the connection that asked for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from memd.daemon.outbox import Outbox, Outboxes
from memd.daemon.server import ClientWriter
from memd.indexer.indexing.decide import SavedMemory
from memd.indexer.indexing.subscription_match import AwaitedTerms, chunk_terms
from memd.indexer.query import lookup
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Filters


@dataclass(frozen=True, slots=True)
class SubscriptionQuery:
    """What a subscription is about."""

    wanted: AwaitedTerms
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


class Subscription(Outbox[Notice]):
    """One standing query of one connection."""

    method = "subscription"

    def __init__(self, line: ClientWriter, terms: SubscriptionQuery) -> None:
        super().__init__(line)
        self.terms = terms

    def told(self, item: Notice) -> dict[str, Any]:
        hit = {**item.hit, "score": round(item.share, 6)}
        if self.terms.marks:
            hit["marks"] = self.terms.wanted.marks(hit["text"])
        return {"event": "new" if item.new else "changed", "hit": hit, "clock": item.clock}


class Subscriptions(Outboxes[Subscription]):
    """Every subscription there is."""

    def __init__(self, stores: Stores, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._stores = stores
        self._loop = loop

    def subscribe(self, line: ClientWriter, terms: SubscriptionQuery) -> int:
        """Begin to tell a connection what is saved; answers the subscription's number."""
        self.room_for(line)
        return self.add(Subscription(line, terms))

    # --- on the writer's thread ---------------------------------------------------------------------------

    def saved(self, index: WorkspaceIndex, saved: list[SavedMemory]) -> None:
        """Match what was just committed, and hand it to the loop."""
        listening = [one for one in self.all.values() if not one.terms.ns or index.workspace.ns in one.terms.ns]
        if not listening:
            return
        found = _matches(listening, saved)
        hits = self._hits(index, found)
        clock = self._stores.ledger.clock
        notices = [
            (one, Notice(hit, memory.new, share, clock))
            for one, memory, chunk, share in found
            if (hit := hits[one.terms.filters].get(chunk)) is not None
        ]
        if notices:
            self._loop.call_soon_threadsafe(_deliver, notices)

    def _hits(self, index: WorkspaceIndex, found: list[Match]) -> dict[Filters, dict[int, dict[str, Any]]]:
        """The chunks as hits, for each set of filters those that pass it."""
        reader = self._stores.ledger.reader
        passed: dict[Filters, dict[int, Row]] = {}
        for filters in {one.terms.filters for one, *_ in found}:
            chunks = {chunk for one, _, chunk, _ in found if one.terms.filters == filters}
            passed[filters] = lookup.join(reader, chunks, filters)
        rows = {chunk: row for those in passed.values() for chunk, row in those.items()}
        shared = lookup.shared_stems(reader, index.id, {row["stem"] for row in rows.values()})
        made = {chunk: _hit(row, index, shared) for chunk, row in rows.items()}
        return {filters: {chunk: made[chunk] for chunk in those} for filters, those in passed.items()}


Match = tuple[Subscription, SavedMemory, int, float]
"""Who waits for it, the memory, the chunk that shows it best, the share of the words that it has."""


def _matches(listening: Iterable[Subscription], saved: list[SavedMemory]) -> list[Match]:
    found: list[Match] = []
    for memory in saved:
        pieces = [chunk_terms(chunk) for _, chunk in memory.chunks]
        for one in listening:
            best = one.terms.wanted.best(pieces)
            if best is not None:
                found.append((one, memory, memory.chunks[best[0]][0], best[1]))
    return found


def _hit(row: Row, index: WorkspaceIndex, shared: set[str]) -> dict[str, Any]:
    """A hit as `query` gives it, without what only a ranking can say."""
    return {
        "id": row["id"],
        "ns": index.workspace.ns,
        "root": str(index.workspace.root),
        "key": lookup.key_of(row["stem"], row["path"], row["slug"], shared),
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
        one.take(notice, len(notice.hit["text"]))
