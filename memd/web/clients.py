"""How the page speaks to the daemon: a few connections that views borrow."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from memd.errors import MemdError
from memd.protocol.async_client import RETRIES, AsyncClient, ClientPool

CONNECTIONS = 4
WHO = "web"
REMEMBER_SECONDS = 2.0
CHOICES_SECONDS = 30.0
MAX_CHOICES = 200


class Clients:
    """Connections to one daemon, all bound to one workspace if the page is."""

    def __init__(self, bind: str | None) -> None:
        self.bind = bind
        self.client = ClientPool(CONNECTIONS, self.new_client).client
        self._known: dict[str, tuple[float, Any]] = {}
        """What was asked, when, and the answer."""

    def new_client(self) -> AsyncClient:
        return AsyncClient(bind=self.bind, who=WHO, retries=RETRIES)

    async def workspaces(self) -> dict[str, dict[str, Any]]:
        """How each of them is, for the frame of every page; as last known where no daemon answers."""

        async def ask(memory: AsyncClient) -> dict[str, Any]:
            return {one["ns"]: dict(one) for one in (await memory.workspace_list())["workspaces"]}

        return await self._remembered("workspaces", REMEMBER_SECONDS, ask) or {}

    async def choices(self, ns: str) -> dict[str, list[str]]:
        """The tags and roles that a search can be narrowed to; to count them takes a look at all."""

        async def ask(memory: AsyncClient) -> dict[str, list[str]]:
            tags = [row["tag"] for row in (await memory.tag_list(ns=ns or None))["tags"][:MAX_CHOICES]]
            return {"tags": tags, "roles": list((await memory.list(limit=1, ns=ns or None))["roles"])[:MAX_CHOICES]}

        return await self._remembered(f"choices {ns}", CHOICES_SECONDS, ask) or {}

    async def linked(self, ns: str) -> bool:
        """Whether a graph has something to show; asked until it has: links seldom go, and the answer sorts them all."""

        async def ask(memory: AsyncClient) -> bool:
            return bool((await memory.edge_list(limit=1, ns=ns or None))["edges"])

        _, known = self._known.get(f"linked {ns}", (0.0, False))
        return known or bool(await self._remembered(f"linked {ns}", CHOICES_SECONDS, ask))

    async def _remembered(self, name: str, seconds: float, ask: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
        """An answer, asked for anew after some seconds; the one before where there is none, and None where none was."""
        at, known = self._known.get(name, (-seconds, None))
        if time.monotonic() - at > seconds:
            with contextlib.suppress(MemdError):
                async with self.client() as memory:
                    known = await ask(memory)
            if len(self._known) > MAX_CHOICES:
                self._known.clear()
            self._known[name] = (time.monotonic(), known)
        return known
