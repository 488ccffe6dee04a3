"""The one place where everything that memd does is announced to the connections that watch."""

from __future__ import annotations

import asyncio
from typing import Any

from memd.daemon.serving.outbox import Outbox, Outboxes
from memd.daemon.serving.server import ClientConnection
from memd.indexer.record.actions import now
from memd.indexer.writing.write_files import ActionResult

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

NAMED = 20
"""Paths that one event names; its counts count all."""
SIZE = 200
"""Characters that an event takes beside its texts, about."""

Event = dict[str, Any]


class Watch(Outbox[Event]):
    """One connection that watches."""

    method = "watch"

    def __init__(self, connection: ClientConnection, ns: frozenset[str], kinds: frozenset[str]) -> None:
        super().__init__(connection)
        self._ns = ns
        self._kinds = kinds

    def wants(self, event: Event) -> bool:
        """Whether its kind and workspace are watched; an event without a workspace is everyone's."""
        return self.hears(event["event"]) and (not self._ns or event.get("ns", "") in ("", *self._ns))

    def hears(self, kind: str) -> bool:
        return not self._kinds or kind in self._kinds

    def params_of(self, item: Event) -> dict[str, Any]:
        return item


class Events:
    """The connections that watch, and the way to tell them; without a loop nobody can watch."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop
        self.watching: Outboxes[Watch] = Outboxes()

    def watch(self, connection: ClientConnection, ns: frozenset[str], kinds: frozenset[str]) -> int:
        """Begin to tell a connection, and return its number; no workspaces or kinds means all of them."""
        self.watching.check_room(connection)
        return self.watching.add(Watch(connection, ns, kinds))

    def watched(self, kind: str) -> bool:
        """Whether anyone watches this kind: where not, nobody need look up what to tell."""
        return any(watch.hears(kind) for watch in self.watching.all.values())

    def tell(self, kind: str, **facts: Any) -> None:
        """Announce something; from any thread, and at no cost while nobody watches."""
        if self._loop is not None and self.watching.all:
            event = {"event": kind, "at": now(), **facts}
            self._loop.call_soon_threadsafe(self._deliver, event)

    def _deliver(self, event: Event) -> None:
        size = SIZE + sum(len(value) for value in event.values() if isinstance(value, str))
        size += sum(len(path) for path in event.get("paths", ()))
        for watch in self.watching.all.values():
            if watch.wants(event):
                watch.take(event, size)


def written(who: str, what: str, done: ActionResult) -> dict[str, Any]:
    """The facts of a WRITTEN event."""
    paths = list(done.paths[:NAMED])
    return {"who": who, "what": what, "key": done.key, "action": done.action, "paths": paths, "changed": done.changed}
