"""kill -9 of any process of memd at random moments: nothing is lost, and questions go on unless it is the daemon."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from memd.errors import MemdError
from memd.protocol.client import Client
from tests.conftest import Home
from tests.faults.agreement import assert_agreement, rounds, serve

READERS = "[daemon]\nreaders = 2\n"


def children(pid: int) -> list[int]:
    """The processes that the daemon started."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(file.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(file.parent.name))
    return found


class Agent(threading.Thread):
    """Writes notes and asks, until it is stopped; remembers what was promised and what failed."""

    def __init__(self, home: Home) -> None:
        super().__init__(daemon=True)
        self.home = home
        self.written: list[str] = []
        self.failed: list[MemdError] = []
        self.daemon_up = threading.Event()
        self.done = threading.Event()

    def run(self) -> None:
        nth = 0
        while not self.done.is_set():
            self.daemon_up.wait(1)
            expected = self.daemon_up.is_set()
            nth += 1
            word = f"walrus{nth}x"
            try:
                with Client(self.home.socket) as client:
                    client.note(f"The {word} sleeps on the ice.", title=word)
                    self.written.append(word)
                    client.query(f"walrus number {nth}", sync="none")
            except MemdError as error:
                if expected and self.daemon_up.is_set():
                    self.failed.append(error)


def test_any_process_is_killed_again_and_again(home: Home, workspace: Path) -> None:
    chance = random.Random(13)
    client = serve(home, workspace, READERS)
    client.sync(vectors=True)
    agent = Agent(home)
    agent.daemon_up.set()
    agent.start()
    kinds: set[str] = set()
    for _ in range(rounds(8, 100)):
        time.sleep(chance.uniform(0.05, 1.0))
        assert home.daemon is not None
        victims = children(home.daemon.pid)
        if victims and chance.random() < 0.7:
            kinds.add("child")
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
        else:
            kinds.add("daemon")
            agent.daemon_up.clear()
            home.kill()
            client = serve(home, workspace, READERS)
            agent.daemon_up.set()
    agent.done.set()
    agent.join(60)
    assert kinds == {"child", "daemon"} and not agent.failed
    client.sync(vectors=True)
    assert_agreement(home, workspace)
    for word in agent.written:
        assert any(word in hit["text"] for hit in client.query(word, mode="text")["hits"]), word
    assert client.doctor()["ok"]
