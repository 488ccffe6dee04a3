"""Everything that memd does, in one list, and who is told of it: the parts that go on with it, and connections:
those that watch, and those with standing queries.

What waits for a connection is a bounded queue, so that nobody waits for a slow reader.
"""

import asyncio
import contextlib
import itertools
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from memd.daemon.serving.server import ClientConnection
from memd.errors import Busy
from memd.indexer.indexing.decide import SavedMemory
from memd.indexer.indexing.subscription_match import AwaitedTerms, chunk_terms
from memd.indexer.query import lookup
from memd.indexer.record import history
from memd.indexer.record.actions import now
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.indexer.writing.write_files import ActionResult
from memd.models import Filters, grouped, pick
from memd.protocol import wire

INDEXED = "indexed"
"""Files were taken into the index: `files`, `removed`, `chunks_added`, `chunks_dropped`, `paths`, `took_ms`."""
WRITTEN = "written"
"""Someone wrote through memd: `who`, `what`, `key`, `paths`, `action`, and `changed`: whether a file changed."""
ACCESSED = "accessed"
"""Someone was shown a memory: `who`, `key`."""
MOVED = "moved"
"""A memory went from one tier to another: `key`, `from`, `to`, `why`."""
JOB = "job"
"""A scheduled job has ended: `job`, `result`, `took_ms`."""
KINDS = (INDEXED, WRITTEN, ACCESSED, MOVED, JOB)
"""Told to connections that watch. Those that follow are heard inside the daemon only."""

SAVED = "saved"
"""Memories are new or changed, and committed: `index`, `saved`."""
APPLIED = "applied"
"""Files changed or went: `ns`, `paths`."""
UNEMBEDDED = "unembedded"
"""Chunks are new and have no vector yet: `workspace`, `count`."""
UNLINKED = "unlinked"
"""Names or links of memories changed: `ns`."""
IDLE = "idle"
"""The writer has had nothing to do for a while; told again and again."""
LOOKED = "looked"
"""The writer is between two steps, of an import too; told twice a second."""
PUT_BACK = "put back"
"""A copy stands in the place of a ledger that was gone or damaged: the process must start again with it."""

NAMED = 20
"""Paths that one event names; its counts count all."""
SIZE = 200
"""Characters that an event takes beside its texts, about."""

Event = dict[str, Any]
MakeParams = Callable[[], Event]
"""Makes the parameters of a notification when it is sent: what waits takes little room."""

# --- what waits for a connection ------------------------------------------------------------------------------------

PER_CONNECTION = 64
IN_ALL = 256
QUEUED = 2_000
QUEUED_CHARS = 1 << 21
"""Items and characters that wait for one slow reader, at most. A slice of an import fits, so a quick reader misses
nothing."""

numbers = itertools.count(1)
"""One sequence for every kind of outbox: a connection ends each by its number."""


@dataclass(eq=False)
class Outbox:
    """Notifications of one kind for one connection. Used on the loop only."""

    method: ClassVar[str]
    """The method of the notifications."""
    connection: ClientConnection

    def __post_init__(self) -> None:
        self.number = next(numbers)
        self._queue: deque[tuple[MakeParams, int]] = deque()
        """The lines to be sent, each with its size."""
        self._chars = 0
        self._dropped = 0
        self._wake = asyncio.Event()

    def take(self, params: MakeParams, size: int) -> None:
        """Queue it, or count it where the queue is full."""
        if len(self._queue) >= QUEUED or (self._queue and self._chars + size > QUEUED_CHARS):
            self._dropped += 1
        else:
            self._queue_dropped()
            self._queue.append((params, size))
            self._chars += size
        self._wake.set()

    def _queue_dropped(self) -> None:
        """Queue how many were dropped since the last of those that wait."""
        if self._dropped:
            self._queue.append((partial(dict, event="dropped", dropped=self._dropped), 0))
            self._dropped = 0

    async def send(self) -> None:
        """Send what comes, until this is cancelled or the connection ends."""
        with contextlib.suppress(ConnectionError):
            while await self._wake.wait():
                while self._queue:
                    params, size = self._queue.popleft()
                    self._chars -= size
                    message = wire.encode_notification(self.method, {"subscription": self.number, **params()})
                    await self.connection.notify(message)
                    if not self._queue:
                        self._queue_dropped()
                self._wake.clear()


O = TypeVar("O", bound=Outbox)  # noqa: E741


class Outboxes(Generic[O]):
    """All outboxes of one kind; each ends with its connection."""

    def __init__(self) -> None:
        self.all: dict[int, O] = {}
        """Replaced, never changed: the writer reads it from its own thread."""

    def add(self, outbox: O) -> int:
        """Begin to tell its connection, which ends it by the number that is returned; Busy when there are too many."""
        connection = outbox.connection
        if len(self.all) >= IN_ALL:
            raise Busy(f"memd has {IN_ALL} subscriptions, and takes no more", "end one of them first")
        if sum(other.connection is connection for other in self.all.values()) >= PER_CONNECTION:
            raise Busy(f"a connection may have {PER_CONNECTION} subscriptions", "unsubscribe, or open another one")
        self.all = {**self.all, outbox.number: outbox}
        sender = asyncio.create_task(outbox.send())

        def end() -> None:
            connection.subscriptions.pop(outbox.number, None)
            self.all = {number: other for number, other in self.all.items() if other is not outbox}
            sender.cancel()

        connection.subscriptions[outbox.number] = end
        return outbox.number


# --- those who listen -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Watch(Outbox):
    """One connection that watches; no workspaces or kinds means all of them."""

    method = "watch"
    ns: frozenset[str]
    kinds: frozenset[str]

    def wants(self, event: Event) -> bool:
        """Whether its kind and workspace are watched; an event without a workspace is everyone's."""
        return self.hears(event["event"]) and (not self.ns or event.get("ns", "") in ("", *self.ns))

    def hears(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds


class Events:
    """Who hears of what happens: parts of the daemon, and connections that watch; without a loop none can."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop
        self._listeners: defaultdict[str, list[Callable[..., None]]] = defaultdict(list)
        self.watching: Outboxes[Watch] = Outboxes()

    def watched(self, kind: str) -> bool:
        """Whether anyone watches this kind: where not, nobody need look up what to tell."""
        return any(watch.hears(kind) for watch in self.watching.all.values())

    def listen(self, kind: str, hear: Callable[..., None]) -> None:
        """Have a function called with the facts of each event of a kind, on the thread that tells it."""
        self._listeners[kind].append(hear)

    def tell(self, kind: str, **facts: Any) -> None:
        """Announce something; from any thread, and at no cost while nobody listens."""
        for hear in self._listeners.get(kind, ()):
            hear(**facts)
        if self._loop is not None and self.watching.all and kind in KINDS:
            self._loop.call_soon_threadsafe(self._deliver, {"event": kind, "at": now(), **facts})

    def _deliver(self, event: Event) -> None:
        size = SIZE + sum(len(value) for value in event.values() if isinstance(value, str))
        size += sum(len(path) for path in event.get("paths", ()))
        for watch in self.watching.all.values():
            if watch.wants(event):
                watch.take(lambda: event, size)


def written(who: str, what: str, done: ActionResult) -> dict[str, Any]:
    """The facts of a WRITTEN event."""
    paths = list(done.paths[:NAMED])
    return {"who": who, "what": what, "key": done.key, "action": done.action, "paths": paths, "changed": done.changed}


# --- standing queries: the writer matches what it has just saved, everything else happens on the loop ---------


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
        reader = self._stores.reader
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
    hit = pick(row, "id", "path", "start_line", "end_line", "text", "kind", "tier", "role", "date")
    key = lookup.key_of(row["stem"], row["path"], row["slug"], shared)
    heading = " › ".join(part for part in json.loads(row["heading"]) if part)
    return {**index.place, **hit, "key": key, "heading": heading, "tags": json.loads(row["tags"])}


def _deliver(found: list[tuple[Match, dict[str, Any]]], clock: str) -> None:
    for match, hit in found:
        match.subscription.take(partial(match.params, hit, clock), len(hit["text"]))
