"""Many agents, one daemon: each asks and writes for a while; what failed, what was lost, how long each call took.

python benchmarks/agents.py [--agents 50] [--seconds 60] [--pause 0.5] [--writes 0.2] [--sync auto] [--chunks 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from corpus import DEEDS, THINGS
from figures import Figure, noise, percentile, table
from home import workplace
from store import Store, prepare, say

from memd import AsyncClient
from memd.errors import Busy, MemdError

PROCESSES = 2
LETTERS = "bcdfghjklmnpqrstvwxz"
"""Markers are made of these: a word with digits would be searched in pieces."""
FOUND_SAMPLE = 200


@dataclass(frozen=True)
class Life:
    """How the agents live."""

    socket: str
    seconds: float
    pause: float
    """Mean seconds between two calls of one agent."""
    writes: float
    """The share of calls that write a note."""
    sync: str
    """Whether questions wait for what others have just written."""


@dataclass
class Tally:
    """The calls of some agents."""

    asked: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    markers: list[str] = field(default_factory=list)
    """The markers in the notes that were acknowledged."""

    def add(self, other: Tally) -> None:
        self.asked += other.asked
        self.written += other.written
        self.failed += other.failed
        self.markers += other.markers


# --- in a process of its own ------------------------------------------------------------------------------------


def some(numbers: list[int], life: Life) -> Tally:
    """Live some agents, all in one loop, each with a connection of its own."""

    async def together() -> list[Tally]:
        until = time.monotonic() + life.seconds
        return await asyncio.gather(*(agent(number, life, until) for number in numbers))

    tally = Tally()
    for one in asyncio.run(together()):
        tally.add(one)
    return tally


async def agent(number: int, life: Life, until: float) -> Tally:
    rng, tally = random.Random(number), Tally()
    things, deeds = THINGS.split(), DEEDS.split()
    async with AsyncClient(life.socket, bind="notes", who=f"agent-{number}") as memory:
        while time.monotonic() < until:
            await asyncio.sleep(rng.expovariate(1 / life.pause) if life.pause else 0)
            thing, deed = rng.choice(things), rng.choice(deeds)
            marker = "".join(rng.choices(LETTERS, k=14))
            started = time.perf_counter()
            try:
                if rng.random() < life.writes:
                    await memory.note(f"The {thing} was {deed}: {marker}.", title=f"{thing} {marker}")
                    tally.written.append((time.perf_counter() - started) * 1000)
                    tally.markers.append(marker)
                else:
                    await memory.query(f"{thing} {deed}", limit=5, sync=life.sync)
                    tally.asked.append((time.perf_counter() - started) * 1000)
            except Busy:
                tally.failed["busy"] += 1
            except MemdError as error:
                tally.failed[f"{error.code}: {error}"] += 1
    return tally


# --- the measurement --------------------------------------------------------------------------------------------


def measure(store: Store, agents: int, life: Life) -> list[Figure]:
    home = store.home
    client = home.start()
    try:
        home.ready(client)
        parts = [list(range(nth, agents, PROCESSES)) for nth in range(PROCESSES)]
        tally, before = Tally(), home.cpu_seconds()
        with ProcessPoolExecutor(PROCESSES) as pool:
            for one in pool.map(some, parts, [life] * PROCESSES):
                tally.add(one)
        client.sync()
        calls = len(tally.asked) + len(tally.written)
        rate = Figure("calls a second", calls / life.seconds, unit="")
        # What a machine that others use as well does not change.
        work = Figure("the daemon's CPU time a call", (home.cpu_seconds() - before) / max(1, calls) * 1000)
        return [rate, work, *_pace(tally), *_lost(store, tally)]
    finally:
        home.stop()


def _pace(tally: Tally) -> list[Figure]:
    busy = tally.failed.pop("busy", 0)
    for what, count in tally.failed.most_common(5):
        say(f"{count} times {what}")
    found = []
    for name, times in (("query", tally.asked), ("note", tally.written)):
        shares = (0.5, 0.95, 0.99) if times else ()
        found += [Figure(f"{name}, p{share * 100:g}", percentile(times, share)) for share in shares]
    found.append(Figure("told busy", busy, unit=""))
    found.append(Figure("other errors", tally.failed.total(), unit="", most=0))
    return found


def _lost(store: Store, tally: Tally) -> list[Figure]:
    """Every note that was answered must stand in a file, and be found."""
    texts = "".join(file.read_text() for file in (store.home.workspace / "memory").rglob("*.md"))
    gone = sum(marker not in texts for marker in tally.markers)
    sample = random.Random(1).sample(tally.markers, min(FOUND_SAMPLE, len(tally.markers)))
    with store.home.client() as memory:
        missed = sum(marker not in str(memory.query(marker, mode="text", limit=1)["hits"]) for marker in sample)
    return [
        Figure("notes written", len(tally.markers), unit=""),
        Figure("notes that are in no file", gone, unit="", most=0),
        Figure(f"of {len(sample)} of them, not found", missed, unit="", most=0),
    ]


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        say(f"{options.agents} agents for {options.seconds:g} seconds")
        before = noise()
        life = Life(store.home.socket, options.seconds, options.pause, options.writes, options.sync)
        found = measure(store, options.agents, life)
    rest = f"{options.pause:g} s between two calls" if options.pause else "without a pause"
    print("\n" + table(f"{options.agents} agents, {rest} ({store.chunks:,} chunks)", found))
    print(f"\nThe machine before: {before}; after: {noise()}.")
    if options.json:
        told = [asdict(figure) | {"met": figure.met} for figure in found]
        options.json.write_text(json.dumps({"chunks": store.chunks, "figures": told}, indent=1) + "\n")
    return 0 if all(figure.met is not False for figure in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=50, help="how many there are (50)")
    parser.add_argument("--seconds", type=float, default=60, help="how long they live (60)")
    parser.add_argument("--pause", type=float, default=0.5, help="mean seconds between two calls of one; 0: none (0.5)")
    parser.add_argument("--writes", type=float, default=0.2, help="share of calls that write a note (0.2)")
    parser.add_argument("--sync", choices=("auto", "none"), default="auto", help="none: do not wait for writes (auto)")
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the store there, and use it if it is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
