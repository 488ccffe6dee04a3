"""Measures what the hub adds: the same questions by turns on the socket, over /rpc and over /mcp, and many at once.

python benchmarks/hub.py [--chunks 10000] [--rounds 200] [--clients 200] [--keep DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from figures import Figure, median, percentile, spread, table
from home import Home, workplace
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from store import Store, prepare

from memd.protocol.async_client import AsyncClient
from memd.protocol.client import Client

MOST_ABOVE_MS = 5.0
QUESTIONS = ("how is the backup restored", "handbook", "who decides about the budget", "the import that fails")
MODERN = "2026-07-28"


class Hub:
    """A running `memd serve`."""

    def __init__(self, home: Home) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "memd", "serve", "--listen", "127.0.0.1:0"],
            env={**home.env, "MEMD_HUB__CALLS_PER_SECOND": "100000"}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        add = [sys.executable, "-m", "memd", "token", "add", "bench", "--ns", "notes", "--read"]
        subprocess.run([*add[:4], "revoke", "bench"], env=home.env, capture_output=True, check=False)
        self.token = subprocess.run(add, env=home.env, capture_output=True, text=True, check=True).stdout.strip()

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with McpClient(transport, mode=MODERN) as client:
                yield client

    def memory_mb(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS:"))

    def cpu_ms(self) -> float:
        """What it has taken of the processors so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def measure(store: Store, rounds: int, clients: int) -> list[Figure]:
    home = store.home
    client = home.start()
    try:
        home.ready(client)
        hub = Hub(home)
        try:
            return asyncio.run(_figures(home, hub, rounds, clients))
        finally:
            hub.close()
    finally:
        home.stop()


async def _figures(home: Home, hub: Hub, rounds: int, clients: int) -> list[Figure]:
    before = hub.cpu_ms()
    socket, rpc, mcp = await _by_turns(home, hub, rounds)
    cpu = (hub.cpu_ms() - before) / (len(rpc) + len(mcp))
    served, seconds = await _at_once(hub, clients)
    return [
        *spread("query on the socket", socket),
        *spread("query over /rpc", rpc),
        *spread("memory_search over /mcp", mcp, note="the SDK's client, whose own work counts too"),
        Figure("/rpc above the socket, p50", median(rpc) - median(socket), most=MOST_ABOVE_MS),
        Figure("/mcp above the socket, p50", median(mcp) - median(socket), note="with the client's own work"),
        Figure(
            "/rpc above the socket, p10", percentile(rpc, 0.1) - percentile(socket, 0.1), note="when nothing else runs"
        ),
        Figure("/mcp above the socket, p10", percentile(mcp, 0.1) - percentile(socket, 0.1)),
        Figure("CPU of the hub for a request", cpu, note="the mean of both ways"),
        Figure(f"{clients} new clients at once, answered", float(served), "of them"),
        Figure(f"{clients} new clients at once, until the last answer", seconds * 1000),
        Figure("memory of the hub", hub.memory_mb(), "MB"),
    ]


async def _by_turns(home: Home, hub: Hub, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """The three ways one after the other, each with questions that were not asked before."""
    socket: list[float] = []
    rpc: list[float] = []
    mcp: list[float] = []
    direct, remote = home.client(), Client(hub.url, token=hub.token)
    async with hub.agent() as agent:
        for nth in range(-5, rounds):
            asked = [f"{QUESTIONS[nth % len(QUESTIONS)]} {nth} {way}" for way in "abc"]
            took = [
                _timed(lambda question: direct.query(question, ns="notes", limit=5), asked[0]),
                _timed(lambda question: remote.query(question, limit=5), asked[1]),
            ]
            began = time.perf_counter()
            found = await agent.call_tool("memory_search", {"query": asked[2]})
            took.append((time.perf_counter() - began) * 1000)
            assert not found.is_error, found
            if nth >= 0:
                for times, one in zip((socket, rpc, mcp), took, strict=True):
                    times.append(one)
    return socket, rpc, mcp


def _timed(ask: Callable[[str], Any], question: str) -> float:
    began = time.perf_counter()
    ask(question)
    return (time.perf_counter() - began) * 1000


async def _at_once(hub: Hub, clients: int) -> tuple[int, float]:
    """How many of so many new clients are answered, and the seconds until the last is."""

    async def one(nth: int) -> bool:
        async with AsyncClient(hub.url, token=hub.token) as memory:
            return "hits" in await memory.query(QUESTIONS[nth % len(QUESTIONS)])

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(clients))
    began = time.perf_counter()
    answered = await asyncio.gather(*map(one, range(clients)))
    return sum(answered), time.perf_counter() - began


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        figures = measure(store, options.rounds, options.clients)
    print("\n" + table(f"The hub ({store.title})", figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--rounds", type=int, default=200, help="questions of each kind (200)")
    parser.add_argument("--clients", type=int, default=200, help="clients that come at once (200)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexed workspace there and use it again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
