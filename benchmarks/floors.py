"""The floor under a hybrid question: the bare models, a bare comparison of all vectors, tantivy, a bare call.

python benchmarks/floors.py [--chunks 10000] [--questions 100] [--keep DIR] [--json FILE]

Each question goes over the socket, and then through each bare part in this process, so that all share the machine's
moods. tantivy is measured where it is installed: pip install tantivy
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from figures import Figure, median, noise, percentile, table
from home import Home, workplace
from queries import WARMING, questions
from store import Store, prepare, say

from memd.config.schema import EmbeddingSettings
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import Embedder, load_embedder

DEPTH = 50

Part = Callable[[str], object]


def measure(store: Store, count: int) -> list[Figure]:
    """The middle of each part, their sum, and how many times the sum a hybrid question takes."""
    home = store.home
    model = load_embedder(EmbeddingSettings(), home.state / "model")
    floors: dict[str, Part] = {
        "the bare model": lambda question: model.embed([question], question=True),
        "a bare comparison of all vectors": _comparison(model, store.chunks),
    }
    if (words := _tantivy(home)) is not None:
        floors["tantivy"] = words
    other = multilingual.load(home.state / "model")
    try:
        client = home.start()
        home.ready(client)
        floors["a bare call (ping)"] = lambda _: client.ping()
        asked: dict[str, Part] = {
            "query, hybrid": lambda question: client.query(question, mode="hybrid", sync="none"),
            **floors,
            "the bare model for other languages": lambda question: other.embed([question]),
        }
        times: dict[str, list[float]] = {name: [] for name in asked}
        for question in questions(WARMING, seed=1):
            for part in asked.values():
                part(question)
        for question in questions(count, seed=7):
            for name, part in asked.items():
                times[name].append(_timed(part, question))
    finally:
        home.stop()
    figures = [Figure(f"{name}, p50", median(spent), note=_note(spent)) for name, spent in times.items()]
    floor = sum(median(times[name]) for name in floors)
    return [
        *figures,
        Figure("the floor: one model, comparison, words, call", floor),
        Figure("query, hybrid / the floor", median(times["query, hybrid"]) / floor, "times", most=2),
    ]


def _comparison(model: Embedder, chunks: int) -> Part:
    """The best of so many random vectors, as floats."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((chunks, model.dims), np.float32)
    question = vectors[0] / np.linalg.norm(vectors[0])
    return lambda _: np.argpartition(vectors @ question, -min(DEPTH, chunks))[-DEPTH:]


def _tantivy(home: Home) -> Part | None:
    """The best chunks by words, over the same texts."""
    if importlib.util.find_spec("tantivy") is None:
        say("tantivy is not installed: the floor goes without words")
        return None
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("text", tokenizer_name="en_stem").build()
    index = tantivy.Index(schema)
    writer = index.writer()
    with sqlite3.connect(home.state / "state.db") as connection:
        for (text,) in connection.execute("SELECT text FROM chunks"):
            writer.add_document(tantivy.Document(text=text))
    connection.close()
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    return lambda question: searcher.search(index.parse_query_lenient(question, ["text"])[0], DEPTH).hits


def _timed(part: Part, question: str) -> float:
    started = time.perf_counter()
    part(question)
    return (time.perf_counter() - started) * 1000


def _note(times: list[float]) -> str:
    return f"p95 {percentile(times, 0.95):.2f}; {len(times)} different questions"


def main() -> int:
    options = _options()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        before = noise()
        figures = measure(store, options.questions)
    print("\n" + table(f"The floor ({store.title})", figures))
    print(f"The machine before: {before}; after: {noise()}.")
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    return 0 if all(figure.met is not False for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--questions", type=int, default=100, help="how many are asked (100)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the store there, and use it if it is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
