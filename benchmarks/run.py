"""Measures memd on a workspace of 10,000 chunks and prints what it found beside what was promised.

python benchmarks/run.py [fresh] [start] [shell] [throughput] [--chunks 10000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import fresh
import shell
import start
import throughput
from figures import Figure, median, percentile, table
from home import workplace
from store import Store, prepare, say

BENCHMARKS: dict[str, tuple[str, Callable[[Store], list[Figure]]]] = {
    "fresh": ("An edit is found", fresh.measure),
    "start": ("A start, its memory, and what it embeds", start.measure),
    "shell": ("One question from the shell", shell.measure),
    "throughput": ("Throughput", throughput.measure),
}


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, options.real_vectors)
        results = {name: _run(name, store) for name in options.names or BENCHMARKS}
    if options.json:
        options.json.write_text(json.dumps(_record(store, results), indent=1, ensure_ascii=False) + "\n")
    return 0 if all(figure.met is not False for figures in results.values() for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS))
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexed workspace there and use it again")
    parser.add_argument(
        "--real-vectors", action="store_true", help="embed the whole workspace with the model; takes minutes"
    )
    parser.add_argument(
        "--synthetic-vectors", action="store_false", dest="real_vectors",
        help="random vectors for the workspace; what is edited is embedded for real (the default)",
    )  # fmt: skip
    return parser.parse_args()


def _run(name: str, store: Store) -> list[Figure]:
    title, measure = BENCHMARKS[name]
    say(f"measuring: {name}")
    before = noise()
    figures = measure(store)
    print("\n" + table(f"{title} ({store.title})", figures))
    print(f"The machine before: {before}; after: {noise()}.\n", flush=True)
    return figures


def noise() -> str:
    """How quiet the machine is: the load, and how evenly it runs one short loop again and again."""
    times = []
    for _ in range(60):
        started = time.perf_counter()
        sum(range(200_000))
        times.append((time.perf_counter() - started) * 1000)
    steady = f"p50 {median(times) / min(times):.1f}, p95 {percentile(times, 0.95) / min(times):.1f} times the best"
    return f"load {os.getloadavg()[0]:.1f}, a short loop {steady}"


def _record(store: Store, results: dict[str, list[Figure]]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "chunks": store.chunks,
        "real_vectors": store.real_vectors,
        "figures": {
            name: [asdict(figure) | {"met": figure.met} for figure in found] for name, found in results.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
