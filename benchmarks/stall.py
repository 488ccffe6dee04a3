"""How long questions wait while the daemon works: imports, fills its collection, indexes boilerplate, reflects.

python benchmarks/stall.py [import fill equal reflect] [--chunks 20000] [--large 100000] [--keep DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import corpus
from figures import Figure, median, noise, percentile, table
from home import Home, workplace
from queries import questions
from store import Store, prepare, say

from memd.protocol.client import Client

MODES = ("text", "hybrid")
WARMING = 60
RESTING = 200
LONGEST = 250
"""No question may wait longer (ms)."""

Times = dict[str, list[float]]


def ask(client: Client, asked: list[str], until: threading.Event | None = None) -> Times:
    """The time of each question to the first workspace in ms, by mode; until the event, if there is one."""
    took: Times = {mode: [] for mode in MODES}
    for nth, question in enumerate(asked):
        if until is not None and until.is_set():
            break
        mode = MODES[nth % 2]
        began = time.perf_counter()
        client.query(question, ns="notes", mode=mode, sync="none", observe=False)
        took[mode].append((time.perf_counter() - began) * 1000)
    return took


def meanwhile(home: Home, what: str, work: Callable[[Client], object], rest: Times) -> list[Figure]:
    """Ask while something is done, beside the same at rest."""
    done, took = threading.Event(), [0.0]

    def run() -> None:
        began = time.perf_counter()
        try:
            with home.client() as client:
                work(client)
        finally:
            took[0] = time.perf_counter() - began
            done.set()

    worker = threading.Thread(target=run)
    worker.start()
    with home.client() as client:
        times = ask(client, questions(50_000, seed=len(what)), done)
    worker.join()
    return [figure for mode in MODES for figure in _figures(what, mode, rest[mode], times[mode], took[0])]


def _figures(what: str, mode: str, rest: list[float], times: list[float], seconds: float) -> list[Figure]:
    usual = percentile(rest, 0.95)
    return [
        Figure(
            f"{what}, {mode}, p50", median(times), note=f"at rest {median(rest):.1f}; {len(times)} in {seconds:.0f} s"
        ),
        Figure(f"{what}, {mode}, p95", percentile(times, 0.95), most=2 * usual + 5, note=f"at rest {usual:.1f}"),
        Figure(f"{what}, {mode}, p99", percentile(times, 0.99), note=f"at rest {percentile(rest, 0.99):.1f}"),
        Figure(f"{what}, {mode}, max", max(times), most=LONGEST, note=f"at rest {max(rest):.1f}"),
    ]


def at_rest(home: Home) -> Times:
    """The same questions while nothing else is done, after the readers have started."""
    with home.client() as client:
        home.ready(client)
        ask(client, questions(WARMING, seed=1))
        return ask(client, questions(RESTING, seed=2))


# --- what is done meanwhile -----------------------------------------------------------------------------------


def importing(store: Store, chunks: int) -> list[Figure]:
    """A second workspace is added and indexed, without its vectors."""
    home, other = store.home, store.home.path / "other"
    corpus.write(other, chunks, seed=7)
    try:
        home.start()
        rest = at_rest(home)

        def work(client: Client) -> None:
            client.workspace_add(str(other), ns="other")
            client.sync(ns="other")

        return meanwhile(home, f"importing {chunks:,} chunks", work, rest)
    finally:
        with home.client() as client:
            client.workspace_rm(ns="other")
        home.stop()
        shutil.rmtree(other)


def filling(store: Store, chunks: int) -> list[Figure]:
    """Chroma's folder has gone, and the collection is filled from the ledger."""
    home = store.home
    home.start()
    rest = at_rest(home)
    home.stop()
    shutil.rmtree(home.state / "chroma")
    try:
        with home.start() as client:
            while home.followed():
                # Until the model is loaded nobody has looked at the collection.
                ask(client, questions(WARMING, seed=1))
        return meanwhile(home, f"filling a collection of {chunks:,}", lambda _: _wait_followed(home), rest)
    finally:
        home.stop()


def _wait_followed(home: Home) -> None:
    """Wait until every collection has taken in everything; the daemon is not calm while it is asked."""
    while not home.followed():
        time.sleep(0.2)


def equal(store: Store, chunks: int) -> list[Figure]:
    """A file of sections that all say the same is saved."""
    home, file = store.home, store.home.workspace / "memory" / "heartbeat.md"
    sections = chunks // 4
    try:
        home.start()
        rest = at_rest(home)

        def work(client: Client) -> None:
            file.write_text("# Heartbeat\n" + "\n## Heartbeat\n\nHEARTBEAT_OK\n" * sections)
            client.sync(vectors=True)
            _wait_followed(home)

        return meanwhile(home, f"saving {sections:,} equal sections", work, rest)
    finally:
        file.unlink(missing_ok=True)
        home.stop()


def reflecting(store: Store, chunks: int) -> list[Figure]:
    """A thousand memories of a large workspace have changed."""
    home = store.home
    memories = age(home, 1_000)
    took: list[Figure] = []

    def work(client: Client) -> None:
        began = time.perf_counter()
        (report,) = client.reflect()["workspaces"]
        told = ", ".join(f"{report[what]:,} {what}" for what in ("faded", "moved", "linked"))
        took.append(
            Figure("a reflection meanwhile", time.perf_counter() - began, "s", 30, f"{memories:,} memories; {told}")
        )

    try:
        home.start()
        rest = at_rest(home)
        return meanwhile(home, f"reflecting over {chunks:,}", work, rest) + took
    finally:
        home.stop()


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


PARTS = {"import": importing, "fill": filling, "equal": equal, "reflect": reflecting}


def main() -> int:
    options = _options()
    figures: list[Figure] = []
    with workplace(options.keep) as place:
        for name in options.parts or PARTS:
            large = name == "reflect"
            chunks = options.large if large else options.chunks
            store = prepare(place / ("large" if large else "home"), chunks, real_vectors=False)
            say(f"measuring: {name}")
            before = noise()
            measured = PARTS[name](store, chunks)
            figures += measured
            print("\n" + table(f"Questions meanwhile ({store.title})", measured))
            print(f"The machine before: {before}; after: {noise()}.\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) | {"met": figure.met} for figure in figures], indent=1))
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all of them if none is named")
    parser.add_argument("--chunks", type=int, default=20_000, help="what is imported and filled (20000)")
    parser.add_argument("--large", type=int, default=100_000, help="the workspace that is reflected on (100000)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the stores there, and use them if they are there"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args()
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
