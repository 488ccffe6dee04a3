"""Standing queries: what connections are told of when it is saved.

The writer matches what it has just saved (`saved`, on its thread); everything else happens on the loop. A
subscription lives as long as the connection that asked for it.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from memd.daemon.serving.events import Outbox, Outboxes
from memd.indexer.indexing.decide import SavedMemory
from memd.indexer.indexing.subscription_match import AwaitedTerms, chunk_terms
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Filters, grouped


@dataclass(eq=False)
class Subscription(Outbox):
    """One standing query of one connection."""

    method = "subscription"
    terms: AwaitedTerms
    filters: Filters
    ns: frozenset[str]
    """The workspaces; empty means all, also those that are added later."""
    marks: bool


class Match(NamedTuple):
    """A saved memory that a subscription is about."""

    subscription: Subscription
    new: bool
    chunk: int
    """The one that shows it best."""
    share: float
    """The share of the words that were asked for."""

    def params(self, hit: dict[str, Any], clock: str) -> dict[str, Any]:
        """Those of its notification; other subscriptions share the hit."""
        scored = {**hit, "score": round(self.share, 6)}
        if self.subscription.marks:
            scored["marks"] = self.subscription.terms.marks(hit["text"])
        return {"event": "new" if self.new else "changed", "hit": scored, "clock": clock}


class Subscriptions(Outboxes[Subscription]):
    """Every subscription there is."""

    def __init__(self, stores: Stores, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._stores = stores
        self._loop = loop

    # --- on the writer's thread ---------------------------------------------------------------------------

    def saved(self, index: WorkspaceIndex, saved: list[SavedMemory]) -> None:
        """Match what was just committed, and hand it to the loop."""
        listening = [one for one in self.all.values() if not one.ns or index.workspace.ns in one.ns]
        if not (matches := list(_matches(listening, saved))):
            return
        hits, clock = self._hits(index, matches), self._stores.ledger.clock
        found = [(match, hits[match.subscription.filters].get(match.chunk)) for match in matches]
        self._loop.call_soon_threadsafe(_deliver, [(match, hit) for match, hit in found if hit is not None], clock)

    def _hits(self, index: WorkspaceIndex, matches: list[Match]) -> dict[Filters, dict[int, dict[str, Any]]]:
        """The chunks as hits, for each set of filters those that pass it."""
        reader = self._stores.ledger.reader
        chunks = grouped((match.subscription.filters, match.chunk) for match in matches)
        passed = {filters: lookup.join(reader, some, filters) for filters, some in chunks.items()}
        rows = {chunk: row for some in passed.values() for chunk, row in some.items()}
        shared = lookup.shared_stems(reader, index.id, {row["stem"] for row in rows.values()})
        shown = [(row["memory"], _hit(row, index, shared)) for row in rows.values()]
        hits = dict(zip(rows, history.with_authors(reader, shown), strict=True))
        return {filters: {chunk: hits[chunk] for chunk in some} for filters, some in passed.items()}


def _matches(listening: Sequence[Subscription], saved: list[SavedMemory]) -> Iterator[Match]:
    for memory in saved if listening else ():
        chunks = [chunk_terms(chunk) for _, chunk in memory.chunks]
        for subscription in listening:
            if (best := subscription.terms.best(chunks)) is not None:
                yield Match(subscription, memory.new, memory.chunks[best[0]][0], best[1])


def _hit(row: dict[str, Any], index: WorkspaceIndex, shared: set[str]) -> dict[str, Any]:
    """A hit as `query` gives it, without what only a ranking can say."""
    same = ("id", "path", "start_line", "end_line", "text", "kind", "tier", "role", "date")
    return {
        **index.place,
        **{name: row[name] for name in same},
        "key": lookup.key_of(row["stem"], row["path"], row["slug"], shared),
        "heading": " › ".join(part for part in json.loads(row["heading"]) if part),
        "tags": json.loads(row["tags"]),
    }


def _deliver(found: list[tuple[Match, dict[str, Any]]], clock: str) -> None:
    for match, hit in found:
        match.subscription.take(partial(match.params, hit, clock), len(hit["text"]))
