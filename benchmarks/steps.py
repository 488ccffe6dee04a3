"""The steps of a hybrid question: the time of each, in the daemon's order.

python benchmarks/steps.py [--chunks 10000] [--questions 200] [--keep DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

from figures import Figure, median, noise, percentile, table
from home import Home, workplace
from queries import questions
from store import prepare, say

from memd.config.schema import EmbeddingSettings
from memd.indexer.model.embedder import load_embedder
from memd.indexer.query import search as route
from memd.indexer.store import catalog
from memd.indexer.store.own_stores import OwnStores
from memd.models import Ask, Workspace
from memd.protocol import wire

WARMING = 40
PARTS = {
    "the question is read": "parse",
    "words": "match_words",
    "model": "meaning.question_vector",
    "the best by words": "CandidatePool.__init__",
    "vectors": "QuestionVector.nearest",
    "the columns of the candidates": "CandidatePool.shown",
    "evidence and passages": "signals.weigh",
    "hits": "hits.answer",
}
"""Each part is a step of indexer/query/search.py; the words are looked up before the model is asked."""


class Stopwatch:
    """Adds up the time of some functions, question by question."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    def timed(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*args, **named)
            finally:
                self.spent.setdefault(part, [0.0])[-1] += (time.perf_counter() - began) * 1000

        return run

    def next(self) -> None:
        for values in self.spent.values():
            values.append(0.0)


def in_process(home: Home, count: int) -> list[Figure]:
    """The steps of one question after another, with the model in the same process."""
    stores = OwnStores(home.state, mend=False)
    for row in catalog.workspace_rows(stores.ledger.reader):
        stores.open_index(Workspace(row["ns"], Path(row["root"])))
    model = load_embedder(EmbeddingSettings(), home.state / "model")
    assert model is not None
    stores.use_model(model, "{}")
    watch = Stopwatch()
    with ExitStack() as stack:
        for part, name in PARTS.items():
            *module, function = name.split(".")
            owner = getattr(route, module[0]) if module else route
            stack.enter_context(patch.object(owner, function, watch.timed(part, getattr(owner, function))))
        search = watch.timed("all of it", route.search)
        encode = watch.timed("encoding", lambda answer: wire.encode_result(1, [asdict(hit) for hit in answer.hits]))
        for nth, question in enumerate(questions(WARMING + count, seed=2)):
            watch.next() if nth > WARMING else watch.spent.clear()
            encode(search(stores, Ask(question, tuple(stores.indexes), 8), 1 << 22))
    stores.close()
    order = [*PARTS, "all of it", "encoding"]
    return [_figure(part, watch.spent[part]) for part in order]


def over_the_socket(home: Home, count: int) -> list[Figure]:
    """The same from a client, and what is left when the daemon's own time is taken away."""
    try:
        client = home.start()
        home.ready(client)
        total, between = [], []
        for nth, question in enumerate(questions(WARMING + count, seed=3)):
            began = time.perf_counter()
            result = client.query(question, sync="none", observe=False)
            if nth >= WARMING:
                total.append((time.perf_counter() - began) * 1000)
                between.append(total[-1] - result["took_ms"])
        return [_figure("over the socket", total), _figure("of that: client, wire and dispatch", between)]
    finally:
        home.stop()


def _figure(what: str, values: list[float]) -> Figure:
    return Figure(f"{what}, p50", median(values), note=f"p95 {percentile(values, 0.95):.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, real_vectors=False)
        say("asking over the socket, then in one process")
        before = noise()
        figures = over_the_socket(store.home, options.questions) + in_process(store.home, options.questions)
    print("\n" + table(f"A hybrid question ({store.title})", figures))
    print(f"The machine before: {before}; after: {noise()}.")
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
