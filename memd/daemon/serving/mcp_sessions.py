"""MCP sessions inside the daemon: the list of them, and in whose name and at what time each calls."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memd.daemon.process.system import give_way
from memd.daemon.serving.server import ClientConnection
from memd.indexer.record.history import PEOPLE
from memd.indexer.store.ledger import Ledger
from memd.mcp.replies import Call
from memd.models import digest_of
from memd.protocol.methods import METHODS

if TYPE_CHECKING:
    from memd.mcp.sdk_server import McpSession

MAX_CLIENT_NAME = 40

SPOKEN = "mcp-spoken"
"""The ledger's setting that tells that an agent has connected to this home."""


class McpSessions:
    """Every open session. Sessions come and go on the loop; the writer reports changes from its own thread."""

    def __init__(self) -> None:
        self._all: dict[McpSession, ClientConnection] = {}
        """Replaced, never changed: the writer reads it."""
        self._looked = False
        """Whether it was looked up if an agent ever connected."""

    async def run(
        self, session: McpSession, connection: ClientConnection, begin: Callable[[], None], lines: AsyncIterator[bytes]
    ) -> None:
        """Leave a connection to a session, until that ends."""
        self._all = {**self._all, session: connection}
        try:
            await session.run(_begun(lines, begin))
        finally:
            self._all = {other: connection for other, connection in self._all.items() if other is not session}

    def load(self) -> ModuleType:
        """The module `memd.mcp.sdk_server`; its import takes a second the first time, so never on the loop."""
        return importlib.import_module("memd.mcp.sdk_server")

    def load_ahead(self, ledger: Ledger) -> None:
        """Import it before an agent has to wait, where one has spoken MCP before; called whenever the writer rests.

        Where none does, its 28 MB stay out, and questions are not held up while it is imported.
        """
        if not self._looked and ledger.setting(SPOKEN):
            threading.Thread(target=self._load_gently, name="memd-mcp", daemon=True).start()
        self._looked = True

    def _load_gently(self) -> None:
        give_way()
        self.load()

    def applied(self, loop: asyncio.AbstractEventLoop, ns: str, paths: Iterable[str]) -> None:
        """Report files that were just indexed to the sessions of their workspace; called by the writer."""
        for session, connection in self._all.items():
            if connection.bound == ns:
                loop.call_soon_threadsafe(session.files_changed, tuple(paths))


async def _begun(lines: AsyncIterator[bytes], begin: Callable[[], None]) -> AsyncIterator[bytes]:
    """The lines of a client. `begin` is called with the first one: a client without any only looks at what there is."""
    begun = False
    async for line in lines:
        if not begun:
            begin()
        begun = True
        yield line


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """In whose name, at what time and under what ids a session calls."""

    who: str
    """The author, where the client was started with one."""
    zone: ZoneInfo | None
    """The client's time zone; None means the daemon's."""
    session: str
    """The session's own name, by which a repeated write is known as the same."""

    def author(self, client: str) -> str:
        """Who calls, for the log: `mcp:claude-code`."""
        name = "".join(char for char in client if char.isprintable() and not char.isspace())[:MAX_CLIENT_NAME]
        if self.who in PEOPLE:
            # Whoever speaks MCP is none.
            return f"mcp:{self.who}"
        return self.who or (f"mcp:{name}" if name else "mcp")

    def sign(self, method: str, params: dict[str, Any], client: str, request_id: str) -> dict[str, Any]:
        """The parameters with author, time and id, as far as the method takes them."""
        declared, signature = METHODS[method], {}
        if declared.writes and self.session:
            # With what it says: a client may number another request the same.
            request = json.dumps([request_id, method, params], sort_keys=True)
            signature["request_id"] = f"{self.session}:{digest_of(request)}"
        if declared.signed:
            signature["who"] = self.author(client)
        if "now" in declared.parameters:
            signature["now"] = datetime.now(self.zone).replace(tzinfo=None).isoformat(timespec="seconds")
        return {**params, **signature}

    def call_for(self, call: Call, client: str, request: str) -> Call:
        """The way of one request to the daemon; its writes are numbered, so that the request can be repeated."""
        numbers = count(1)

        async def signed_call(method: str, params: dict[str, Any]) -> dict[str, Any]:
            signed = self.sign(method, params, client, f"{request}:{next(numbers)}")
            # Shielded: cancelling a request must not abandon a write half-way.
            return await asyncio.shield(asyncio.ensure_future(call(method, signed)))

        return signed_call


def time_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name; None where it has none or it is not known here."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
