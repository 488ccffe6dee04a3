"""Listening to the daemon for as long as someone reads, whether the daemon stays or comes and goes."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from memd.cli import say
from memd.errors import Busy, NoDaemon
from memd.protocol.client import Client

if TYPE_CHECKING:
    from memd.protocol.methods.events import SubscribeResult

RETRY_SECONDS = 0.2
Event = dict[str, Any]


class Ear:
    """A subscription that outlives the daemon it was made with."""

    def __init__(self, begin: Callable[[Client], SubscribeResult], missed: str) -> None:
        self._begin = begin
        self._missed = missed
        """What a person is told when the daemon was away."""
        self.ns: list[str] = []
        """The workspaces that are listened to; empty means all."""

    def listen(self, caller: Client) -> str:
        """Begin; answers where, for people."""
        self.ns = self._begin(caller)["ns"]
        return ", ".join(self.ns) or "all workspaces"

    def events(self, caller: Client) -> Iterator[Event]:
        """What the daemon sends, for ever; `gap` where it was away."""
        while True:
            try:
                yield from caller.events()
            except NoDaemon:
                say.note("the daemon is gone; waiting for it to come back")
            caller = self._again()
            say.note(f"the daemon is back; {self._missed}")
            yield {"event": "gap"}

    def _again(self) -> Client:
        """Listen as soon as a daemon answers. It is not started from here: someone may have stopped it."""
        while True:
            caller = Client(notice=say.note, who="cli")
            try:
                self.listen(caller)
                return caller
            except (NoDaemon, Busy):
                caller.close()
                time.sleep(RETRY_SECONDS)


def end_with_the_reader() -> None:
    """End when nobody reads on, as after `| head`: the next event, and the next try to write, may be days away."""
    threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    if sys.stdout is None:
        return
    closed = select.poll()
    closed.register(sys.stdout.fileno(), 0)
    closed.poll()
    os._exit(say.PIPE_CLOSED)
