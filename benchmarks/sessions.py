"""Measures `memd mcp`: from the start of its process to the answer to `initialize`, its memory, a search through it.

python benchmarks/sessions.py [--chunks 10000] [--rounds 50] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from figures import Figure, median, percentile, spread, table
from home import Home, workplace
from store import Store, prepare

MOST_MS = 150.0
MOST_MB = 15.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
QUESTIONS = ("how is the backup restored", "handbook", "who decides about the budget", "the import that fails")


class Agent:
    """An agent's side of `memd mcp`, with nothing but pipes."""

    def __init__(self, home: Home) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memd", "mcp", "-n", "notes"],
            env=home.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def initialize(self) -> float:
        """Milliseconds from the start of the process to the answer."""
        assert "result" in self.ask(INITIALIZE)
        return (time.perf_counter() - self.began) * 1000

    def search(self, nth: int) -> float:
        call = {"name": "memory_search", "arguments": {"query": f"{QUESTIONS[nth % len(QUESTIONS)]} {nth}"}}
        began = time.perf_counter()
        answer = self.ask({"jsonrpc": "2.0", "id": nth + 1, "method": "tools/call", "params": call})
        assert not answer["result"]["isError"], answer
        return (time.perf_counter() - began) * 1000

    def memory_mb(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS:"))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def measure(store: Store, rounds: int) -> list[Figure]:
    home = store.home
    client = home.start()
    try:
        home.ready(client)
        _session(home)
        bare = [_bare() for _ in range(rounds)]
        starts, sizes = zip(*(_session(home) for _ in range(rounds)), strict=True)
        searches, direct = _searches(home, rounds * 4)
    finally:
        home.stop()
    return [
        *spread("start to the answer to initialize", starts, p95=MOST_MS),
        Figure("python -c pass, p50", median(bare)),
        Figure("memory of the pump", max(sizes), "MB", most=MOST_MB),
        *spread("memory_search", searches),
        Figure("query on the socket, p50", median(direct), note="the same questions"),
        Figure("query on the socket, p95", percentile(direct, 0.95)),
    ]


def _bare() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - began) * 1000


def _session(home: Home) -> tuple[float, float]:
    agent = Agent(home)
    try:
        return agent.initialize(), agent.memory_mb()
    finally:
        agent.close()


def _searches(home: Home, rounds: int) -> tuple[list[float], list[float]]:
    """The same questions by turns through the pump and on the socket."""
    agent, client = Agent(home), home.client()
    agent.initialize()
    through, direct = [], []
    for nth in range(rounds):
        through.append(agent.search(nth))
        began = time.perf_counter()
        client.query(f"{QUESTIONS[nth % len(QUESTIONS)]} {rounds + nth}", ns="notes", limit=5)
        direct.append((time.perf_counter() - began) * 1000)
    agent.close()
    return through, direct


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        figures = measure(store, options.rounds)
    print("\n" + table(f"MCP sessions ({store.title})", figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--rounds", type=int, default=50, help="sessions that are measured (50)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexed workspace there and use it again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
