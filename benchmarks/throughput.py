"""How much goes through: indexing, embedding, calls and queries. No targets; for comparing versions."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

import corpus
from figures import Figure, median, percentile
from home import Home
from store import Store, say

from memd.protocol.client import Client

SECONDS = 2.0
CONNECTIONS = 8
QUERIES = 150
EMBEDDED = 320


def measure(store: Store) -> list[Figure]:
    home = store.home
    figures = list(store.figures)
    figures.append(_embedding(home.path.with_name("embedding")))
    try:
        # As fast as it goes: the allowance of a connection would stop the pings at a thousand a second.
        client = home.start(MEMD_SERVER__CALLS_PER_SECOND="1000000")
        home.ready(client)
        figures += _latencies(client)
        figures += _calls(home)
    finally:
        home.stop()
    return figures


def _embedding(path: Path) -> Figure:
    """Chunks through the model a second, in a small home of its own."""
    say("embedding a small workspace")
    home = Home(path)
    home.configure()
    corpus.write(home.workspace, EMBEDDED, seed=time.time_ns())
    try:
        client = home.start()
        first, began = _embedded(client, 1)
        last, ended = _embedded(client, EMBEDDED)
    finally:
        home.stop()
    return Figure("embedding", (last - first) / (ended - began), "chunks/s", note=f"{last} chunks, nothing else to do")


def _embedded(client: Client, least: int) -> tuple[int, float]:
    """Wait until so many are embedded; how many, and when."""
    while True:
        told = client.status()
        if told["embedded"] >= least:
            return told["embedded"], time.monotonic()
        time.sleep(0.1)


def _latencies(client: Client) -> list[Figure]:
    figures = []
    for mode in ("text", "vector", "hybrid"):
        times = []
        for question in corpus.questions(QUERIES):
            asked = time.perf_counter()
            client.query(question, mode=mode)
            times.append((time.perf_counter() - asked) * 1000)
        note = f"p95 {percentile(times, 0.95):.1f}, max {max(times):.1f}; {QUERIES} different questions"
        figures.append(Figure(f"query, {mode}, p50", median(times), note=note))
    return figures


def _calls(home: Home) -> list[Figure]:
    figures = []
    for method in ("ping", "query"):
        for connections in (1, CONNECTIONS):
            rate = _rate(home.socket, method, connections)
            figures.append(Figure(f"{method}, {connections} connection{'s' * (connections > 1)}", rate, "calls/s"))
    return figures


def _rate(socket: str, method: str, connections: int) -> float:
    """Calls a second over so many connections, each in a process of its own."""
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(connections)]
    callers = [fork.Process(target=_caller, args=(socket, method, nth, pipes[nth][1])) for nth in range(connections)]
    for caller in callers:
        caller.start()
    total = sum(receiver.recv() for receiver, _ in pipes)
    for caller in callers:
        caller.join()
    return float(total) / SECONDS


def _caller(socket: str, method: str, seed: int, answer: Connection) -> None:
    client, count = Client(socket), 0
    questions = corpus.questions(50, seed) if method == "query" else [""]
    client.ping()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        client.call(method, {"query": questions[count % 50]} if method == "query" else {})
        count += 1
    answer.send(count)
