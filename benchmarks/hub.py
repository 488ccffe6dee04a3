"""Measures what the hub adds: the same questions by turns on the socket, over /rpc and over /mcp, and many at once; and
the processor time of a question by each way, with many clients asking.

python benchmarks/hub.py [--chunks 10000] [--rounds 200] [--clients 200] [--keep DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from figures import Figure, median, spread, table
from home import Home, workplace
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from store import Store, prepare

from memd.config import tokens
from memd.protocol.async_client import AsyncClient
from memd.protocol.client import Client

MOST_ABOVE_MS = 5.0
QUESTIONS = ("how is the backup restored", "handbook", "who decides about the budget", "the import that fails")
MODERN = "2026-07-28"
WAYS = ("on the socket", "over /rpc")
HANDSHAKE = "2025-06-18"
BUSY_WAYS = ("on the socket", "over /rpc", f"over /mcp, {MODERN}", f"over /mcp, {HANDSHAKE}")
TOKENS, EACH, TURNS = 25, 2, 3
"""Tokens that many clients share, questions of each client, and how often each way has its turn."""
MOST_MCP_MS = 3.0


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
        # The hub answers eight requests with a token at a time; a team has a token for each of its agents.
        os.environ["MEMD_HOME"] = str(home.path)
        self.tokens = [tokens.add(f"{nth}-{time.time_ns()}", ("notes",), write=False)[1] for nth in range(TOKENS)]

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
        """Its processor time so far."""
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
    direct, remote = home.client(), Client(hub.url, token=hub.token)
    pings = [_by_turns([lambda _: direct.ping(), lambda _: remote.ping()], nth) for nth in range(-5, rounds)][5:]
    asked = [
        _by_turns([lambda text: direct.query(text, ns="notes", limit=5), lambda text: remote.query(text, limit=5)], nth)
        for nth in range(-5, rounds)
    ][5:]
    mcp = await _mcp(hub, rounds)
    cpu = await _cpu_by_turns(home, hub, clients)
    served, seconds = await _at_once(hub, clients)
    return [
        *(figure for nth, way in enumerate(WAYS) for figure in spread(f"ping {way}", [took[nth] for took in pings])),
        *(figure for nth, way in enumerate(WAYS) for figure in spread(f"query {way}", [took[nth] for took in asked])),
        Figure("ping over /rpc above the socket, p50", _above(pings), most=MOST_ABOVE_MS),
        Figure("query over /rpc above the socket, p50", _above(asked), most=MOST_ABOVE_MS, note="one after the other"),
        *spread("memory_search over /mcp", mcp, note="the SDK's client, whose own work counts too"),
        *(
            Figure(f"CPU of hub and daemon for a question {way}", ms, note=f"{clients} clients")
            for way, ms in cpu.items()
        ),
        Figure("CPU over /mcp above /rpc", cpu[BUSY_WAYS[2]] - cpu[BUSY_WAYS[1]], most=MOST_MCP_MS),
        Figure(f"{clients} new clients at once, answered", float(served), "of them"),
        Figure(f"{clients} new clients at once, until the last answer", seconds * 1000),
        Figure("memory of the hub", hub.memory_mb(), "MB"),
    ]


def _by_turns(ways: list[Callable[[str], Any]], nth: int) -> list[float]:
    """The same by each way, the first of them by turns; asked once before, so that neither finds it new."""
    question = f"{QUESTIONS[nth % len(QUESTIONS)]} {nth}"
    ways[0](question)
    order = sorted(range(len(ways)), reverse=nth % 2 == 1)
    took = {way: _timed(ways[way], question) for way in order}
    return [took[way] for way in range(len(ways))]


def _above(pairs: list[list[float]]) -> float:
    """The middle of the differences: what else the machine does is much the same for both of a pair."""
    return median([over - direct for direct, over in pairs])


async def _mcp(hub: Hub, rounds: int) -> list[float]:
    times = []
    async with hub.agent() as agent:
        for nth in range(-5, rounds):
            began = time.perf_counter()
            found = await agent.call_tool("memory_search", {"query": f"{QUESTIONS[nth % len(QUESTIONS)]} {nth}"})
            times.append((time.perf_counter() - began) * 1000)
            assert not found.is_error, found
    return times[5:]


def _timed(ask: Callable[[str], Any], question: str) -> float:
    began = time.perf_counter()
    ask(question)
    return (time.perf_counter() - began) * 1000


async def _cpu_by_turns(home: Home, hub: Hub, clients: int) -> dict[str, float]:
    """Milliseconds of hub, daemon and its processes for a question by each way, the middle of some turns."""
    took: dict[str, list[float]] = {way: [] for way in BUSY_WAYS}
    for turn in range(TURNS + 1):
        for way in BUSY_WAYS:
            visitors = [await Visitor.of(way, home, hub, nth) for nth in range(clients)]
            before = home.cpu_seconds() * 1000 + hub.cpu_ms()
            await asyncio.gather(*(visitor.ask() for visitor in visitors))
            spent = home.cpu_seconds() * 1000 + hub.cpu_ms() - before
            for visitor in visitors:
                visitor.close()
            # The first turn meets questions that have no vector yet.
            took[way] += [spent / clients / EACH] * bool(turn)
    return {way: median(times) for way, times in took.items()}


class Visitor:
    """A client that costs next to nothing itself: a connection, and the bytes of its questions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str, head: str) -> None:
        self._reader, self._writer, self._way, self._head = reader, writer, way, head

    @classmethod
    async def of(cls, way: str, home: Home, hub: Hub, nth: int) -> Visitor:
        if way == BUSY_WAYS[0]:
            return cls(*await asyncio.open_unix_connection(home.socket, limit=1 << 24), way, "")
        host, port = hub.url.removeprefix("http://").split(":")
        version = way.rpartition(" ")[2]
        path, extra = ("/mcp", f"Mcp-Protocol-Version: {version}\r\n") if "/mcp" in way else ("/rpc", "")
        if version == MODERN:
            extra += "Mcp-Method: tools/call\r\nMcp-Name: memory_search\r\n"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {hub.tokens[nth % TOKENS]}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{extra}"
        )
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 24), way, head)

    async def ask(self) -> None:
        for nth in range(EACH):
            body = json.dumps(self._question(f"{QUESTIONS[nth % len(QUESTIONS)]} {nth}")).encode()
            answer = await (self._over_http(body) if self._head else self._on_socket(body))
            assert b'"result"' in answer and b'"isError":true' not in answer, answer

    def _question(self, text: str) -> dict[str, Any]:
        method, params = "query", {"query": text, "limit": 5, "explain": True}
        if not self._head:
            params["ns"] = "notes"
        if "/mcp" in self._way:
            method, params = "tools/call", {"name": "memory_search", "arguments": {"query": text}}
        if MODERN in self._way:
            about = {
                "protocolVersion": MODERN,
                "clientCapabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }
            params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    async def _on_socket(self, body: bytes) -> bytes:
        self._writer.write(body + b"\n")
        return await self._reader.readline()

    async def _over_http(self, body: bytes) -> bytes:
        self._writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        return await self._reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))

    def close(self) -> None:
        self._writer.close()


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
