"""The hub's connections: each token has its share of them, and so have those on which none was shown yet."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

CONNECTION = "memd.connection"
"""Where in the state of a request stands the connection it came by."""
NOBODY = ""
TOKENS_SHARE, STRANGERS_SHARE = 1 / 4, 1 / 2
"""The shares of all connections: for one token, and for those without any."""


class Connections:
    """The open connections by the token that was last seen on each, oldest first."""

    def __init__(self, most: int, seconds: float) -> None:
        self.seconds = seconds
        """How long the headers of a request may take to arrive."""
        self._most = most
        self._of: defaultdict[str, dict[GuestConnection, None]] = defaultdict(dict)

    def add(self, connection: GuestConnection, owner: str) -> bool:
        """Count a connection as its owner's; False where all that the owner may have are in use.

        The oldest idle one gives way to it. One without a token always does: who has one gets in, however many wait.
        """
        theirs = self._of[owner]
        if connection in theirs:
            return True
        if len(theirs) >= max(1, int(self._most * (TOKENS_SHARE if owner else STRANGERS_SHARE))):
            oldest = next((one for one in theirs if one.idle or owner == NOBODY), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.transport.abort()
        self.remove(connection)
        connection.owner = owner
        self._of[owner][connection] = None
        return True

    def remove(self, connection: GuestConnection) -> None:
        theirs = self._of[connection.owner]
        theirs.pop(connection, None)
        if not theirs:
            del self._of[connection.owner]


class GuestConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """The hub's additions to a connection of its server: whose it is, and a time limit for the headers of a request."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    """The request that is under way, or was the last."""

    def __init__(self, others: Connections, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state={**app_state, CONNECTION: self}, **given)
        self.owner = NOBODY
        self._others = others
        self._late: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def belongs_to(self, owner: str) -> bool:
        """Count it as a token's; False where that has as many as it may have."""
        return self._others.add(self, owner)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._others.add(self, NOBODY)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_clock()
        elif self.idle and self._late is None:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self._others.remove(self)
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        self._late = self.loop.call_later(self._others.seconds, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
