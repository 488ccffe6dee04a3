"""How long a question takes that nobody asked before, and what scoring in numpy gains over Whoosh's own scorer.

python benchmarks/queries.py [--chunks 10000] [--questions 200] [--keep DIR] [--real-vectors] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import corpus
from figures import Figure, median, noise, percentile, table
from home import workplace
from store import Store, prepare, say
from whoosh_scorer import query_terms, search, search_by_whoosh

from memd.indexer.store.text import TextIndex
from memd.models import Chunk
from memd.protocol.client import Client

PATTERNS = (
    "when was the {thing} of {invented} {deed}",
    "who {deed} the {kind} {thing}",
    "{name} {invented} {thing}",
    "what did {name} say about the {kind} {thing} and about {invented}",
    "port of {invented} after the {thing} was {deed}",
    "how many euros does the {kind} {thing} for {invented} cost",
    "{invented} {thing} {invented} {deed}",
    "why is the {thing} on {invented} {kind} now",
    "which {thing} needs {number} minutes more than the one of {invented}",
    "does {identifier} expect a {kind} {thing}",
)
"""Three to ten words and more; some stand in every third chunk, some in a few, an identifier often in none."""

WARMING = 20
DEPTH = 50
COLD = 20
EDITS = 10
TARGETS = ((20_000, 12, 30), (200_000, 25, 60))
"""Up to so many chunks: half of the answers within, 95 of 100 within (ms)."""

Asked = tuple[list[str], list[str]]


def questions(count: int, seed: int) -> list[str]:
    """Different ones, so that no cache knows the text."""
    writer = corpus.Writer(1)
    writer.rng.seed(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[writer.fill(PATTERNS[len(found) % len(PATTERNS)])] = None
    return list(found)


# --- over the socket ----------------------------------------------------------------------------------------


def over_the_socket(store: Store, count: int) -> list[Figure]:
    """Each mode gets questions of its own: what one mode asked, another would find warm."""
    home = store.home
    try:
        client = home.start()
        home.ready(client)
        for question in questions(WARMING, seed=1):
            client.query(question)
        return [
            figure
            for seed, mode in enumerate(("hybrid", "text", "vector"), 2)
            for figure in _latency(client, mode, questions(count, seed), store.chunks)
        ] + [*_refusals(client), Figure("PSS of all processes", home.memory_mb()["Pss"], "MB")]
    finally:
        home.stop()


def _latency(client: Client, mode: str, asked: list[str], chunks: int) -> list[Figure]:
    # Without the look at the files before a "no": vectors made up at random say "no" more often than any notes.
    times = [_timed(lambda question=question: client.query(question, mode=mode, sync="none")) for question in asked]
    _, p50, p95 = next((target for target in TARGETS if chunks <= target[0]), TARGETS[-1])
    targets = (p50, p95) if mode == "hybrid" else (None, None)
    note = f"max {max(times):.1f}; {len(asked)} different questions, one after the other"
    return [
        Figure(f"query, {mode}, p50", median(times), most=targets[0], note=note),
        Figure(f"query, {mode}, p95", percentile(times, 0.95), most=targets[1]),
    ]


def _refusals(client: Client) -> list[Figure]:
    """Questions that no note answers: the files are looked at before that is said."""
    times = [_timed(lambda nth=nth: client.query(f"xqzwv{nth} jkvbq{nth}")) for nth in range(50)]
    return [
        Figure("a checked “no”, p50", median(times), note=f"p95 {percentile(times, 0.95):.1f}; every file looked at")
    ]


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


# --- in this process ----------------------------------------------------------------------------------------


def in_process(store: Store, count: int) -> list[Figure]:
    """Numpy and Whoosh over a copy of the same index, the same questions."""
    asked = [query_terms(question) for question in questions(count, seed=5)]
    with _copy(store) as folder:
        return [*_first_use(folder), *_scorers(folder, asked), *_after_edits(folder, asked)]


@contextmanager
def _copy(store: Store) -> Iterator[Path]:
    """The index is written to below, and the store must go on agreeing with its ledger."""
    (folder,) = (store.home.state / "text").iterdir()
    copy = store.home.path.with_name("text-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


@contextmanager
def _opened(folder: Path) -> Iterator[TextIndex]:
    index = TextIndex(folder)
    try:
        yield index
    finally:
        index.close()


def _first_use(folder: Path) -> list[Figure]:
    with _opened(folder) as index:
        opening = _timed(index.postings)
        postings = index.postings()
        lengths = _timed(lambda: postings.mean_length)
        lexicon = _timed(lambda: postings.lexicon("exact"))
        note = f"{len(postings.lexicon('exact')):,} words, {len(postings.segments)} segments"
        figures = [
            Figure("first use: chunk numbers", opening, note=f"{postings.count:,} chunks"),
            Figure("first use: lengths of chunks", lengths),
            Figure("first use: lexicon of exact forms", lexicon, note=note),
        ]
        for what, ask in (
            ("near spellings", lambda: postings.near("exact", "certifcate", 5)),
            ("words by a part", lambda: postings.containing("exact", "build", 20)),
        ):
            first = _timed(ask)
            figures.append(Figure(f"{what}, p50", median([_timed(ask) for _ in range(20)]), note=f"first {first:.1f}"))
        return figures


def _scorers(folder: Path, asked: list[Asked]) -> list[Figure]:
    cold = []
    for terms, exact in asked[:COLD]:
        with _opened(folder) as index:
            index.postings()
            cold.append(_timed(lambda index=index, terms=terms, exact=exact: search(index, terms, exact, DEPTH)))
    with _opened(folder) as index:
        for terms, exact in asked:
            search(index, terms, exact, DEPTH)
        warm = [_timed(lambda ask=ask: search(index, *ask, DEPTH)) for ask in asked]
        whoosh = [_timed(lambda ask=ask: search_by_whoosh(index, *ask, DEPTH)) for ask in asked]
    ratio = median(whoosh) / median(warm)
    return [
        *_spread("numpy, every term new", cold),
        *_spread("numpy, terms known", warm),
        *_spread("Whoosh's own scorer", whoosh),
        Figure("Whoosh's own / numpy, p50", ratio, "times", note=f"the best {DEPTH} of {len(asked)} questions"),
    ]


def _after_edits(folder: Path, asked: list[Asked]) -> list[Figure]:
    """One chunk is replaced before each question: what was read of the other segments must still be there."""
    with _opened(folder) as index:
        for ask in asked:
            search(index, *ask, DEPTH)
        times = []
        for number in range(EDITS):
            index.apply([(10**9 + number, Chunk("a wren in the garden", 1, 1, ("Birds",)))], [10**9 + number - 1])
            times.append(_timed(lambda number=number: search(index, *asked[number], DEPTH)))
    return _spread("numpy, the first after a commit", times)


def _spread(what: str, times: list[float]) -> list[Figure]:
    note = f"p95 {percentile(times, 0.95):.2f}, max {max(times):.2f}; {len(times)} times"
    return [Figure(f"{what}, p50", median(times), note=note)]


# --- the run ------------------------------------------------------------------------------------------------


def main() -> int:
    options = _options()
    results: dict[str, list[Figure]] = {}
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, options.real_vectors)
        for title, measure in (("Over the socket", over_the_socket), ("The text voice in one process", in_process)):
            say(f"measuring: {title}")
            before = noise()
            results[title] = measure(store, options.questions)
            print("\n" + table(f"{title} ({store.title})", results[title]))
            print(f"The machine before: {before}; after: {noise()}.\n", flush=True)
    if options.json:
        figures = {
            title: [asdict(figure) | {"met": figure.met} for figure in found] for title, found in results.items()
        }
        options.json.write_text(json.dumps({"chunks": store.chunks, "figures": figures}, indent=1) + "\n")
    return 0 if all(figure.met is not False for found in results.values() for figure in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--questions", type=int, default=200, help="how many are asked in each mode (200)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the store there, and use it if it is there")
    parser.add_argument("--real-vectors", action="store_true", help="embed every chunk (minutes; hours for 100,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
