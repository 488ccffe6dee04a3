"""How long `context` takes beside `query`: the same daemon, the same minute, questions that nobody asked before.

python benchmarks/context.py [--chunks 10000] [--questions 100] [--budget 2000] [--keep DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from figures import Figure, median, noise, percentile, table
from home import workplace
from queries import WARMING
from store import Store, prepare, say

from memd.protocol.client import Client

TARGET = 25
"""Half of the contexts within so many ms, at 10,000 chunks."""

EDGES = 3
"""Edges that begin at each memory: more than a workspace of this size has by itself."""

PINNED = 5
WORDS = 8


def weave(store: Store) -> int:
    """Give every memory edges to others, drawn from a seed, as if someone had made them; answers how many there are."""
    rng = random.Random(1)
    with sqlite3.connect(store.home.state / "state.db") as connection:
        rows = connection.execute("SELECT id, workspace FROM memories WHERE file IS NOT NULL").fetchall()
        numbers = [memory for memory, _ in rows]
        for memory, workspace in rows:
            others = [other for other in rng.sample(numbers, EDGES) if other != memory]
            connection.executemany(
                "INSERT OR IGNORE INTO edges (workspace, one, other, rel, base, weight, origin, made)"
                " VALUES (?, ?, ?, 'relates_to', ?4, ?4, 'declared', '2026-01-01T00:00:00.000+00:00')",
                [(workspace, min(memory, other), max(memory, other), rng.uniform(0.5, 0.95)) for other in others],
            )
        (count,) = connection.execute("SELECT COUNT(*) FROM edges").fetchone()
    connection.close()
    return int(count)


def tasks(store: Store, count: int) -> list[str]:
    """Tasks that someone might have: words that stand together in the notes, drawn from a seed, no two alike.

    Questions made up of any words would often find nothing, since the vectors say nothing here, and nothing is quick.
    """
    with sqlite3.connect(store.home.state / "state.db") as connection:
        texts = [row[0] for row in connection.execute("SELECT text FROM chunks ORDER BY id")]
    connection.close()
    rng, found = random.Random(2), dict[str, None]()
    while len(found) < count:
        words = re.findall(r"[A-Za-z]{2,}", rng.choice(texts))
        at = rng.randrange(max(1, len(words) - WORDS))
        if len(words) >= WORDS:
            found[" ".join(words[at : at + WORDS])] = None
    return list(found)


def pin(client: Client) -> None:
    for entry in client.list(ns="notes", limit=PINNED, sort="key")["memories"]:
        client.curate(entry["key"], "pin", ns="notes")


def measure(store: Store, count: int, budget: int) -> list[Figure]:
    """Both methods in turn, each with questions of its own: what one asked, the other would find warm."""
    home, edges = store.home, weave(store)
    try:
        client = home.start()
        home.ready(client)
        pin(client)
        home.ready(client)
        drawn = tasks(store, WARMING + 2 * count)
        for task in drawn[:WARMING]:
            client.query(task)
            client.context(task, budget=budget)
        queries, contexts, packed = [], [], []
        for question, task in zip(drawn[WARMING::2], drawn[WARMING + 1 :: 2], strict=True):
            queries.append(_timed(lambda question=question: client.query(question, sync="none")))
            contexts.append(_timed(lambda task=task: packed.append(_packed(client, task, budget))))
    finally:
        home.stop()
    note = f"{count} times each, in turn; {edges:,} edges, {median(packed):.0f} memories in {budget:,} tokens"
    return [
        Figure("context, p50", median(contexts), most=TARGET if store.chunks <= 20_000 else None, note=note),
        Figure("context, p95", percentile(contexts, 0.95), note=f"max {max(contexts):.1f}"),
        Figure("query, p50", median(queries)),
        Figure("query, p95", percentile(queries, 0.95), note=f"max {max(queries):.1f}"),
    ]


def _packed(client: Client, task: str, budget: int) -> int:
    return len(client.context(task, budget=budget, sync="none")["memories"])


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, options.real_vectors)
        say("measuring context and query")
        before = noise()
        figures = measure(store, options.questions, options.budget)
        print("\n" + table(f"Context over the socket ({store.title})", figures))
        print(f"The machine before: {before}; after: {noise()}.\n", flush=True)
    if options.json:
        told = [asdict(figure) | {"met": figure.met} for figure in figures]
        options.json.write_text(json.dumps({"chunks": store.chunks, "figures": told}, indent=1) + "\n")
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--questions", type=int, default=100, help="how many are asked of each (100)")
    parser.add_argument("--budget", type=int, default=2_000, help="tokens of a context (2000)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the store there, and use it if it is there")
    parser.add_argument("--real-vectors", action="store_true", help="embed every chunk (minutes)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
