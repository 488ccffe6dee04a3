"""How soon a daemon answers, how much memory it takes, and that it embeds only what changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import corpus
from figures import Figure, median
from home import Home
from store import Store

from memd.errors import MemdError
from memd.protocol.client import Client

STARTS = 9
READY_WITHIN = 1_000
MEMORY_MOST = 400
QUERIES = 50
EDIT_MOST = 4
"""The edited chunk, one that it may split into, and a neighbour on either side."""


def measure(store: Store) -> list[Figure]:
    home = store.home
    try:
        figures = _starts(home)
        figures += _counters(home)
        figures += _memory(home)
    finally:
        home.stop()
    return figures


def _starts(home: Home) -> list[Figure]:
    times = []
    for _ in range(STARTS):
        times.append(_first_answer(home))
        home.ready(home.client())
        home.stop()
    return [
        Figure("spawn → first text answer, p50", median(times), note=f"{STARTS} starts, files in the page cache"),
        Figure("spawn → first text answer, max", max(times), most=READY_WITHIN),
    ]


def _first_answer(home: Home) -> float:
    """Milliseconds from the start of the process to the first text query that is answered with hits."""
    spawned = time.monotonic()
    home.spawn()
    while True:
        try:
            if home.client().query("backup server", mode="text", sync="none")["hits"]:
                return (time.monotonic() - spawned) * 1000
        except MemdError:
            if time.monotonic() - spawned > 60:
                raise
        time.sleep(0.002)


def _counters(home: Home) -> list[Figure]:
    """The texts that go through the model: none without a change, few after a small one."""
    spawned = time.monotonic()
    client = home.start()
    told = home.ready(client)
    loaded = time.monotonic() - spawned
    unchanged = told["embedded"]
    touched = _embedded_after(client, _touch_all, home) - unchanged
    edited = _embedded_after(client, _edit_handbook, home) - touched - unchanged
    return [
        Figure("spawn → model loaded, collections in step, idle", loaded, "s"),
        Figure("embedded by a start with nothing changed", unchanged, "texts", most=0),
        Figure("embedded after touching every file", touched, "texts", most=0),
        Figure("embedded after editing one paragraph", edited, "texts", most=EDIT_MOST, note="of the longest file"),
    ]


def _embedded_after(client: Client, change: Callable[[Home], None], home: Home) -> int:
    change(home)
    client.sync(vectors=True)
    return int(home.ready(client)["embedded"])


def _touch_all(home: Home) -> None:
    for file in home.workspace.rglob("*.md"):
        os.utime(file)


def _edit_handbook(home: Home) -> None:
    file = home.workspace / corpus.HANDBOOK
    blocks = file.read_text(encoding="utf-8").split("\n\n")
    blocks[len(blocks) // 2] += f" Seen again at {time.time():.0f} by the benchmark."
    file.write_text("\n\n".join(blocks), encoding="utf-8")


def _memory(home: Home) -> list[Figure]:
    """Resident memory of the daemon that `_counters` left running, after it has answered questions."""
    client = home.client()
    for question in corpus.questions(QUERIES):
        client.query(question)
    told, kernel = client.status()["memory_mb"], home.memory_mb()
    note = f"anonymous {kernel['RssAnon']:.0f}, files {kernel['RssFile']:.0f}; after {QUERIES} hybrid queries"
    return [
        Figure("resident memory (VmRSS)", kernel["VmRSS"], "MB", most=MEMORY_MOST, note=note),
        Figure("  as `status` tells it", told, "MB"),
        Figure("  PSS", kernel["Pss"], "MB"),
    ]
