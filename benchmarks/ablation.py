"""Takes ranking apart: the figures with each part left out, on an index that benchmarks/retrieval.py kept.

python benchmarks/ablation.py --keep DIR FOLDER...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import places
from collection import Collection, load
from retrieval import markdown
from store import say

from memd import exam
from memd.config.load import load as load_settings
from memd.indexer.model.embedder import load_embedder
from memd.indexer.query import search, signals, wording
from memd.indexer.store.own_stores import OwnStores
from memd.models import Ask, Workspace

HITS = 40
MOST_BYTES = 10_000_000
TOLD = (
    ("turns", "any@2k"), ("turns", "all@2k"), ("turns", "any@5"), ("turns", "any@10"), ("turns", "all@5"),
    ("turns", "mrr"), ("sessions", "any@5"), ("sessions", "frac@5"), ("sessions", "frac@10"),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--keep", type=Path, required=True, metavar="DIR", help="what retrieval.py was given as --keep")
    parser.add_argument("--parts", type=lambda text: text.split(","), help="leave out only these")
    options = parser.parse_args()
    stores = _open(options.keep / "home" / "state")
    collections = [load(folder) for folder in options.folders]
    for one in collections:
        for haystack in one.haystacks:
            stores.open_index(Workspace(haystack.ns, haystack.root))
    embedding = load_settings().embedding
    embedder = load_embedder(embedding, stores.folder / "model")
    assert embedder is not None
    stores.use_model(embedder, embedding.source)
    for one in collections:
        print(f"### {one.name}\n\n{_table(stores, one, options.parts)}\n", flush=True)
    stores.close()
    return 0


def _open(state: Path) -> OwnStores:
    if not (state / "state.db").exists():
        raise SystemExit(f"no index is kept in {state}; make one: benchmarks/retrieval.py FOLDER --keep DIR")
    return OwnStores(state, mend=False)


def _table(stores: OwnStores, one: Collection, parts: list[str] | None) -> str:
    rows: list[list[str]] = []
    for name, how, ask in _variants(parts):
        with how:
            told = _figures(stores, one, ask)
        rows.append([name, *(f"{told[key]:.3f}".lstrip("0") if key in told else "" for key in TOLD)])
        say(" ".join(rows[-1]))
    return markdown(["", *(f"{level} {name}" for level, name in TOLD)], rows)


def _variants(parts: list[str] | None) -> Iterator[tuple[str, Any, dict[str, str]]]:
    yield "everything", _without(), {}
    for name in parts or [name for name in signals.WEIGHTS if name not in ("newest", "episode", "declared")]:
        yield f"without {name}", _without(name), {}
    if not parts:
        yield "without all of a line", _without(*(one.name for one in signals.OF_A_LINE)), {}
        yield "without parts of words", _no_parts(), {}
        yield "words and meaning only", _without(*(set(signals.WEIGHTS) - {"words", "meaning"})), {}
        yield "reciprocal ranks (k = 60)", _without(), {"fusion": "rrf"}
        yield "text only", _without(), {"mode": "text"}
        yield "vectors only", _without(), {"mode": "vector"}


@contextmanager
def _without(*names: str) -> Iterator[None]:
    kept = dict(signals.WEIGHTS)
    try:
        signals.WEIGHTS.update(dict.fromkeys(names, 0.0))
        yield
    finally:
        signals.WEIGHTS.update(kept)


@contextmanager
def _no_parts() -> Iterator[None]:
    kept = wording.PART_LETTERS
    try:
        wording.PART_LETTERS = 10**9
        yield
    finally:
        wording.PART_LETTERS = kept


def _figures(stores: OwnStores, one: Collection, how: dict[str, str]) -> dict[tuple[str, str], float]:
    found: dict[str, list[dict[str, float]]] = {"turns": [], "sessions": []}
    for haystack in one.haystacks:
        for question in haystack.scorable:
            answer = search.search(stores, Ask(question.text, (haystack.ns,), HITS, **how), MOST_BYTES)  # type: ignore[arg-type]
            hits = [haystack.found(asdict(hit)) for hit in answer.hits]
            if question.turns:
                found["turns"].append(places.turns(hits, question.turns))
            if question.sessions:
                found["sessions"].append(places.sessions(hits, question.sessions, haystack.sessions))
    return {
        (level, name): value
        for level, scored in found.items() if scored
        for name, value in exam.mean(scored).items()
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
