"""How long a reflection over a large workspace takes, and how much questions wait for it meanwhile.

python benchmarks/reflect.py [--chunks 100000] [--changed 1000] [--keep DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import threading
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from figures import Figure, median, percentile, table
from home import Home, workplace
from queries import questions
from run import noise
from store import Store, prepare, say

from memd.protocol.client import Client

USUAL = 200
"""Questions that are asked before, to know what is usual."""


def age(home: Home, changed: int) -> int:
    """Let everything be a hundred days old and compared but for a few; says how many memories there are."""
    before = (datetime.now(UTC) - timedelta(100)).isoformat(timespec="milliseconds")
    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.execute("UPDATE memories SET first_seen = ?, compared = digest, importance = 0.5", (before,))
        ledger.execute(
            "UPDATE memories SET compared = '' WHERE id IN (SELECT id FROM memories ORDER BY digest LIMIT ?)",
            (changed,),
        )
        (count,) = ledger.execute("SELECT COUNT(*) FROM memories WHERE gone IS NULL").fetchone()
    ledger.close()
    return int(count)


def ask(client: Client, asked: list[str], until: threading.Event | None = None) -> list[float]:
    """The time of each question in ms; of as many as there is time for, where that is given."""
    took = []
    for question in asked:
        if until is not None and until.is_set():
            break
        began = time.perf_counter()
        client.query(question, observe=False)
        took.append((time.perf_counter() - began) * 1000)
    return took


def measure(store: Store, changed: int) -> list[Figure]:
    home = store.home
    memories = age(home, changed)
    try:
        client = home.start()
        home.ready(client)
        ask(client, questions(40, seed=1))
        usual = ask(client, questions(USUAL, seed=2))
        done, reports = threading.Event(), list[tuple[float, dict[str, Any]]]()
        worker = threading.Thread(target=_reflect, args=(home, reports, done))
        worker.start()
        meanwhile = ask(client, questions(20_000, seed=3), done)
        worker.join()
        again = threading.Event()
        _reflect(home, reports, again)
    finally:
        home.stop()
    return _figures(memories, usual, meanwhile, reports)


def _reflect(home: Home, reports: list[tuple[float, dict[str, Any]]], done: threading.Event) -> None:
    began = time.perf_counter()
    try:
        (report,) = home.client().reflect()["workspaces"]
        reports.append((time.perf_counter() - began, report))
    finally:
        done.set()


def _figures(
    memories: int, usual: list[float], meanwhile: list[float], reports: list[tuple[float, dict[str, Any]]]
) -> list[Figure]:
    (first, report), (second, _) = reports
    told = f"{memories:,} memories; {report['faded']:,} faded, {report['moved']:,} moved, {report['linked']:,} linked"
    ratio = percentile(meanwhile, 0.95) / percentile(usual, 0.95)
    return [
        Figure("reflect, while questions are asked", first, "s", most=30, note=told),
        Figure("reflect again, nothing to do", second, "s"),
        Figure("question, usually, p50", median(usual), note=f"{len(usual)} questions"),
        Figure("question, usually, p95", percentile(usual, 0.95)),
        Figure("question, meanwhile, p50", median(meanwhile), note=f"{len(meanwhile)} questions"),
        Figure("question, meanwhile, p95", percentile(meanwhile, 0.95)),
        Figure("p95 meanwhile / usually", ratio, "×", most=2),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--changed", type=int, default=1_000, help="memories that were not compared yet")
    parser.add_argument("--keep", type=Path, help="make the workspace here and leave it for the next run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        say("reflecting")
        figures = measure(store, options.changed)
    print(table(f"Reflecting, {store.title}", figures))
    print(noise())
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    return 0 if all(figure.met is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
