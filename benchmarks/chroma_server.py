"""A workspace whose vectors only a Chroma server has: filling, memory, questions, a restart, a kill and a wipe.

The vectors are those of the hash embedder (64 numbers): what memd itself takes does not depend on the model. The text
is indexed first, without a model; `--keep` leaves all of it, and another run begins where one ended.
"""

from __future__ import annotations

import argparse
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles

from benchmarks.home import Home, workplace
from memd.config.schema import VectorsSettings
from memd.indexer.store.chroma_server import ChromaClient
from memd.protocol.client import Client
from tests.hash_embedder import HashEmbedder

WORDS = [f"{a}{b}" for b in range(2_000) for a in "kettle router apple photo train lamp river garden paper".split()]
WEIGHTS = list(accumulate(1 / (rank + 10) for rank in range(len(WORDS))))
"""Some words are frequent and most are rare, as in notes."""
SECTIONS = 50
"""Sections of a note."""
DEPTH = 50
"""Rows that a question asks the server for."""


class RunningChroma:
    """`chroma run` on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self.folder)]
        place = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen([*command, *place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class ServerHome(Home):
    """A home with its vectors in a server."""

    def use(self, chroma: RunningChroma) -> None:
        self.configure()
        with (self.path / "config.toml").open("a") as config:
            config.write(f'\n[vectors]\nengine = "server"\nurl = "http://127.0.0.1:{chroma.port}"\n')
        self.env["MEMD_TEST_EMBEDDER"] = "tests.hash_embedder:HashEmbedder"

    def number(self, query: str) -> int:
        with closing(sqlite3.connect(self.state / "state.db", timeout=60)) as ledger:
            return int(ledger.execute(query).fetchone()[0])

    def waiting(self) -> int:
        """Vectors that are not in the server alone yet, or not made."""
        return self.number(
            "SELECT (SELECT COUNT(*) FROM chunks) - (SELECT COUNT(*) FROM vectors WHERE NOT length(vector))"
        )


def drawn(chance: random.Random, words: int) -> list[str]:
    return chance.choices(WORDS, cum_weights=WEIGHTS, k=words)


def write_notes(folder: Path, chunks: int, chance: random.Random) -> None:
    (folder / "memory").mkdir(parents=True)
    for note in range(chunks // SECTIONS):
        sections = [
            f"## Entry {note}-{nth}\n\n{' '.join(drawn(chance, 30))} number {note * SECTIONS + nth}.\n"
            for nth in range(SECTIONS)
        ]
        (folder / "memory" / f"topic-{note}.md").write_text("\n".join(sections))


def until(holds: Callable[[], bool], seconds: float = 4 * 3_600) -> float:
    """Wait; returns how long it took."""
    began = time.monotonic()
    while True:
        looked = time.monotonic()
        if holds():
            return looked - began
        if looked - began > seconds:
            raise RuntimeError("it takes too long")
        # Counting a million rows four times a second would take a core from what is measured.
        time.sleep(max(0.25, 20 * (time.monotonic() - looked)))


def milliseconds(times: list[float]) -> str:
    return f"p50 {median(times) * 1e3:.1f} ms, p95 {quantiles(times, n=20)[18] * 1e3:.1f} ms"


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ask(home: ServerHome, client: Client, server: ChromaClient, questions: list[str]) -> None:
    """Hybrid questions, by turns with what the server itself takes for the same vectors."""
    name, whole, alone = "ws-1-model-1", [], []
    for text in questions:
        vector = HashEmbedder().embed([text])
        whole.append(timed(lambda text=text: client.query(text, observe=False, sync="none")))  # type: ignore[misc]
        alone.append(timed(lambda vector=vector: server.nearest(name, vector, DEPTH)))  # type: ignore[misc]
    told = f"hybrid {milliseconds(whole)}; the server for its part {milliseconds(alone)}"
    print(f"{told}; memory {home.memory_mb()['Pss']:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    chance = random.Random(1)
    questions = [" ".join(drawn(chance, 4)) for _ in range(args.questions)]
    with workplace(args.keep) as place:
        chroma = RunningChroma(place / "server")
        try:
            with ServerHome(place / "home") as home:
                if not home.workspace.exists():
                    write_notes(home.workspace, args.chunks, chance)
                home.use(chroma)
                measure(home, chroma, questions)
        finally:
            chroma.kill()


def measure(home: ServerHome, chroma: RunningChroma, questions: list[str]) -> None:
    seconds = home.take_in(home.start(MEMD_EMBEDDING__PROVIDER="none"))
    chunks = home.number("SELECT COUNT(*) FROM chunks")
    print(f"{chunks:,} chunks indexed after {seconds:.0f} s, memory {home.memory_mb()['Pss']:.0f} MB", flush=True)
    home.stop()
    client = home.start()
    made = until(lambda: home.number("SELECT COUNT(*) FROM vectors") >= chunks)
    sent = made + until(lambda: home.waiting() <= 0)
    told = f"vectors made {made:.0f} s later, in the server alone {sent:.0f} s later"
    print(f"{told}; state.db {_megabytes(home):.0f} MB", flush=True)
    ledger = client.status()["clock"].split(":")[1]
    url = f"http://127.0.0.1:{chroma.port}"
    server = ChromaClient(VectorsSettings(url=url), ledger)
    ask(home, client, server, questions[:10])
    ask(home, client, server, questions)
    home.stop()
    took = timed(lambda: home.start().query("kettle1 router2"))
    print(f"restart to the first answer {took:.1f} s", flush=True)
    client = home.client()
    until(lambda: client.status()["model"]["state"] == "ready")
    chroma.kill()
    told = {tuple(client.query(text)["degraded"]) for text in questions[:20]}
    chroma.start()
    back = until(lambda: not client.query(questions[0])["degraded"])
    print(f"killed: degraded {told}; back after {back:.0f} s", flush=True)
    for row in server._call("GET", "?limit=100"):
        server._call("DELETE", f"/{row['name']}")
    wrong = client.query(questions[0])["degraded"]
    noticed = until(lambda: home.waiting() > 0)
    print(f"wiped: degraded {wrong}; noticed after {noticed:.0f} s", flush=True)


def _megabytes(home: ServerHome) -> float:
    return sum(file.stat().st_size for file in home.state.glob("state.db*")) / 1e6


if __name__ == "__main__":
    main()
