"""How the page speaks to the daemon: a few connections that views borrow, and one that hears what happens."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from memd.errors import Busy, MemdError, NoDaemon
from memd.protocol.async_client import RETRIES, AsyncClient, ClientPool

CONNECTIONS = 4
WHO = "web"
MAX_LISTENERS = 32
HELD_EVENTS = 100
RECONNECT_SECONDS = 1.0
CONNECTED = {"event": "connected"}
REMEMBER_SECONDS = 2.0
CHOICES_SECONDS = 30.0
MAX_CHOICES = 200


class Clients:
    """Connections to one daemon, all bound to one workspace if the page is."""

    def __init__(self, bind: str | None) -> None:
        self.bind = bind
        self.client = ClientPool(CONNECTIONS, self.new_client).client
        self._workspaces: tuple[float, list[str]] = (-REMEMBER_SECONDS, [])
        self._choices: dict[str, tuple[float, dict[str, list[str]]]] = {}

    def new_client(self) -> AsyncClient:
        return AsyncClient(bind=self.bind, who=WHO, retries=RETRIES)

    async def workspaces(self) -> list[str]:
        """Their names, for the frame of every page; the last ones known where no daemon answers."""
        at, names = self._workspaces
        if time.monotonic() - at > REMEMBER_SECONDS:
            with contextlib.suppress(NoDaemon, Busy):
                async with self.client() as memory:
                    names = [one["ns"] for one in (await memory.workspace_list())["workspaces"]]
            self._workspaces = (time.monotonic(), names)
        return names

    async def choices(self, ns: str) -> dict[str, list[str]]:
        """The tags and roles that a search can be narrowed to; remembered, since to count them takes a look at all."""
        at, choices = self._choices.get(ns, (-CHOICES_SECONDS, {}))
        if time.monotonic() - at > CHOICES_SECONDS:
            scope: dict[str, Any] = {"ns": ns} if ns else {}
            async with self.client() as memory:
                tags = [row["tag"] for row in (await memory.tag_list(**scope))["tags"][:MAX_CHOICES]]
                roles = list((await memory.list(limit=1, **scope))["roles"])[:MAX_CHOICES]
            choices = {"tags": tags, "roles": roles}
            if len(self._choices) > MAX_CHOICES:
                self._choices.clear()
            self._choices[ns] = (time.monotonic(), choices)
        return choices


class Feed:
    """The daemon's events, for every browser that listens; one connection for all of them."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._listeners: set[asyncio.Queue[dict[str, Any]]] = set()
        self._task: asyncio.Task[None] | None = None
        self._connected = False

    @property
    def full(self) -> bool:
        return len(self._listeners) >= MAX_LISTENERS

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[asyncio.Queue[dict[str, Any]]]:
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(HELD_EVENTS)
        self._listeners.add(queue)
        if self._connected:
            queue.put_nowait(CONNECTED)
        if self._task is None:
            self._task = asyncio.create_task(self._hear())
        try:
            yield queue
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._task:
                self._task.cancel()
                self._task, self._connected = None, False

    async def _hear(self) -> None:
        """Listen for as long as anybody does, to one daemon after the other."""
        while True:
            try:
                async with self._clients.new_client() as memory:
                    await memory.watch()
                    self._connected = True
                    self._tell(CONNECTED)
                    async for event in memory.events():
                        self._tell(event)
            except NoDaemon:
                self._connected = False
                self._tell({"event": "gone"})
            except MemdError as error:
                self._tell({"event": "failed", "message": error.message})
            await asyncio.sleep(RECONNECT_SECONDS)

    def _tell(self, event: dict[str, Any]) -> None:
        for queue in self._listeners:
            # A browser that does not keep up misses events; each of them only says: look again.
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(event)
