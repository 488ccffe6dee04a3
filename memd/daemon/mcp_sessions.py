"""MCP sessions inside the daemon: which workspace each is bound to, in whose name it calls, what it is told."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memd.daemon.embedding import NICE
from memd.daemon.server import ClientConnection
from memd.errors import MemdError, UnknownWorkspace
from memd.protocol.methods import METHODS

log = logging.getLogger("memd.mcp")

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

LONGEST_NAME = 40


class Listener(Protocol):
    """A session, as far as it is told of changes."""

    def changed(self, paths: tuple[str, ...]) -> None: ...


class McpSessions:
    """Every session there is. Sessions come and go on the loop; the writer tells of changes from its own thread."""

    def __init__(self) -> None:
        self._all: dict[Listener, ClientConnection] = {}
        """Replaced, never changed: the writer reads it."""
        self._loading = threading.Lock()
        self._ahead: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._all)

    def add(self, session: Listener, connection: ClientConnection) -> None:
        self._all = {**self._all, session: connection}

    def remove(self, session: Listener) -> None:
        self._all = {other: connection for other, connection in self._all.items() if other is not session}

    def load(self) -> ModuleType:
        """What sessions are made of; it takes a second the first time, so never on the loop."""
        try:
            with self._loading:
                return importlib.import_module("memd.mcp.session")
        except ImportError as error:
            raise MemdError(f"agents that speak MCP cannot be served: {error}", "install memd again") from error

    def load_ahead(self) -> None:
        """Spare the first agent that second; called again and again by a writer that rests."""
        if self._ahead is None:
            self._ahead = threading.Thread(target=self._load_gently, name="memd-mcp", daemon=True)
            self._ahead.start()

    def _load_gently(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            self.load()
        except MemdError as error:
            log.warning("%s", error)

    def applied(self, loop: asyncio.AbstractEventLoop, ns: str, paths: Iterable[str]) -> None:
        """Some files were just taken in; called by the writer."""
        told = [session for session, connection in self._all.items() if connection.bound == ns]
        if told:
            changed = tuple(paths)
            loop.call_soon_threadsafe(_tell, told, changed)


def _tell(sessions: list[Listener], paths: tuple[str, ...]) -> None:
    for session in sessions:
        session.changed(paths)


@dataclass(slots=True)
class Agreement:
    """What was agreed when a session opened."""

    cwd: str
    who: str
    zone: ZoneInfo | None
    token: str
    """A name of the session's own, so that a write which is asked for again is known as the same."""

    def now(self) -> str:
        return datetime.now(self.zone).replace(tzinfo=None).isoformat(timespec="seconds")

    def signed(self, client: str) -> str:
        """Who calls, for the log: `mcp:claude-code`."""
        name = "".join(char for char in client if char.isprintable() and not char.isspace())[:LONGEST_NAME]
        return self.who or (f"mcp:{name}" if name else "mcp")


def zone_of(name: str) -> ZoneInfo | None:
    """The client's time zone, where it has one of its own that is known here."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


class Caller:
    """The way from the requests of one session to the daemon's methods."""

    def __init__(self, call: Call, bound: Callable[[], str], agreed: Agreement) -> None:
        self._call = call
        self._bound = bound
        self._agreed = agreed

    def of(self, client: str, request: str) -> Call:
        """A way for one request; the writes it makes are numbered, so that the request can be made again."""
        agreed, writes = self._agreed, 0

        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            nonlocal writes
            self._bound()
            given, declared = dict(params), METHODS[method]
            if declared.writes and agreed.token:
                writes += 1
                given["request_id"] = f"{agreed.token}:{request}:{writes}"
            if declared.signed:
                given["who"] = agreed.signed(client)
            if declared.writes and "now" in declared.parameters:
                given["now"] = agreed.now()
            # Shielded: a request that is taken back must not leave a write half waited for.
            return await asyncio.shield(asyncio.ensure_future(self._call(method, given)))

        return ask


def one_of(names: tuple[str, ...]) -> str:
    """The one workspace that a session can mean; where there are several, which to name and how."""
    if len(names) > 1:
        raise UnknownWorkspace(
            f"this session was started outside of every workspace, and memd knows several: {', '.join(sorted(names))}",
            f"name one where this server is configured: memd mcp -n {min(names)}",
        )
    return names[0]
