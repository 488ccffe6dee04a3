"""How long a note takes over the socket, beside a bare write and fsync of the same bytes in the same run.

python benchmarks/note.py [--chunks 10000] [--notes 300] [--keep DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from figures import Figure, median, noise, percentile, spread, table
from home import workplace
from store import Store, prepare, say

from memd.protocol.client import Client

ABOVE = 5.0
"""Milliseconds that half of the notes may take above the bare write."""
PAUSE = (0.1, 0.3)
"""Seconds between two notes that stand alone: the index has followed by then."""
WARMING = 10
DAY = "2026-02-07"


def measure(store: Store, count: int) -> dict[str, list[Figure]]:
    home = store.home
    try:
        client = home.start()
        home.ready(client)
        one_by_one(store, client, WARMING, PAUSE)
        alone = one_by_one(store, client, count, PAUSE)
        home.ready(client)
        return {"one now and then": alone, "one after the other": one_by_one(store, client, count, (0.0, 0.0))}
    finally:
        home.stop()


def one_by_one(store: Store, client: Client, count: int, pause: tuple[float, float]) -> list[Figure]:
    """Notes and bare writes by turns, so that the disk treats both alike."""
    rng = random.Random(count)
    place = store.home.workspace / "bare.txt"
    notes, bare = [], []
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for nth in range(count):
            time.sleep(rng.uniform(*pause))
            text = f"The parcel {rng.randrange(10**9)} is in the hall, and the ladder is behind the shed."
            notes.append(_timed(lambda text=text, nth=nth: client.note(text, ns="notes", now=f"{DAY}T{_clock(nth)}")))
            data = f"\n## {_clock(nth)}\n\n{text}\n".encode()
            bare.append(_timed(lambda data=data: _bare(descriptor, data)))
    finally:
        os.close(descriptor)
        place.unlink()
    above = Figure("note above the bare write, p50", median(notes) - median(bare), most=ABOVE)
    late = Figure("note above the bare write, p95", percentile(notes, 0.95) - percentile(bare, 0.95))
    return [*spread("note over the socket", notes), *spread("write + fsync", bare), above, late]


def _clock(nth: int) -> str:
    return f"{nth // 60 % 24:02d}:{nth % 60:02d}"


def _bare(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)
    os.fsync(descriptor)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        say("measuring notes")
        before = noise()
        results = measure(store, options.notes)
    for title, found in results.items():
        print("\n" + table(f"Notes, {title} ({store.chunks:,} chunks)", found))
    print(f"\nThe machine before: {before}; after: {noise()}.")
    if options.json:
        figures = {name: [asdict(figure) | {"met": figure.met} for figure in found] for name, found in results.items()}
        options.json.write_text(json.dumps({"chunks": store.chunks, "figures": figures}, indent=1) + "\n")
    return 0 if all(figure.met is not False for found in results.values() for figure in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--notes", type=int, default=300, help="how many notes are written (300)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the store there, and use it if it is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
