"""kill -9 of any process of memd at random moments: nothing is lost, and questions go on unless it is the daemon."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from memd.errors import MemdError
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.faults.agreement import assert_agreement, children, rounds, serve

READERS = "[daemon]\nreaders = 2\n"

PAUSE = rounds(1, 10) / 10
"""How many seconds an agent rests at most between two notes; a soak takes an hour."""
A_DAY = 100
"""How many notes of an agent are of one day: a file of thousands would be skipped as too large."""


class Agent(threading.Thread):
    """Writes notes and asks, until it is stopped; remembers what was promised and what failed."""

    def __init__(self, home: Home, name: str) -> None:
        super().__init__(daemon=True)
        self.home = home
        self.word = name
        self.chance = random.Random(name)
        self.written: list[str] = []
        self.failed: list[MemdError] = []
        self.daemon_up = threading.Event()
        self.done = threading.Event()

    def run(self) -> None:
        nth = 0
        while not self.done.wait(self.chance.uniform(0, PAUSE)):
            self.daemon_up.wait(1)
            expected = self.daemon_up.is_set()
            nth += 1
            word = f"{self.word}{nth}x"
            try:
                with Client(self.home.socket) as client:
                    client.note(f"The {word} sleeps on the ice.", title=word, now=_a_day(nth // A_DAY))
                    self.written.append(word)
                    client.query(f"{self.word} number {nth}", sync="none")
            except MemdError as error:
                if expected and self.daemon_up.is_set():
                    self.failed.append(error)


def _a_day(nth: int) -> str:
    return (datetime(2026, 3, 1, 12) + timedelta(nth)).isoformat()


def test_any_process_is_killed_again_and_again(home: Home, workspace: Path) -> None:
    chance = random.Random(13)
    client = serve(home, workspace, READERS)
    client.sync(vectors=True)
    agents = [Agent(home, name) for name in ("walrus", "narwhal", "beluga")]
    for agent in agents:
        agent.daemon_up.set()
        agent.start()
    killed: Counter[str] = Counter()
    for _ in range(rounds(8, 1_000)):
        time.sleep(chance.uniform(0.05, 1.0))
        killed[_kill_one(home, workspace, chance, agents)] += 1
    for agent in agents:
        agent.done.set()
        agent.join(PATIENCE)
    client = home.wait()
    client.sync(vectors=True)
    written = [word for agent in agents for word in agent.written]
    print(f"killed: {dict(killed)}; notes acknowledged: {len(written)}")
    assert killed.keys() == {"child", "daemon"} and not [error for agent in agents for error in agent.failed]
    assert_agreement(home, workspace)
    in_files = Counter(re.findall(r"^The (\w+) sleeps", _everything(workspace), re.MULTILINE))
    assert not [word for word in written if in_files[word] != 1]
    for word in chance.sample(written, min(len(written), 100)):
        assert any(word in hit["text"] for hit in client.query(word, mode="text")["hits"]), word
    assert client.doctor()["ok"]


def _kill_one(home: Home, workspace: Path, chance: random.Random, agents: list[Agent]) -> str:
    """Kill a child of the daemon, or the daemon, which is then started again; says which it was."""
    assert home.daemon is not None
    victims = children(home.daemon.pid)
    if victims and chance.random() < 0.7:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(victims), signal.SIGKILL)
        return "child"
    for agent in agents:
        agent.daemon_up.clear()
    home.kill()
    serve(home, workspace, READERS)
    for agent in agents:
        agent.daemon_up.set()
    return "daemon"


def _everything(workspace: Path) -> str:
    return "\n".join(file.read_text() for file in workspace.rglob("*.md"))
