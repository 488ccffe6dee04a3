"""How reliable the verdicts are: is the right section among the first three, and what do questions without one get.

A question without an answer is one whose section is left out, as if the notes did not have it, or one of other notes.

python benchmarks/reliability.py [FOLDER...] [--strangers FOLDER...] [--keep DIR] [--stands-out 0.2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from collection import Collection, Haystack, Question, load
from home import Home, workplace
from other_words import FOLDER, rank, start
from retrieval import markdown
from store import say

from memd.config.load import load as load_settings
from memd.exam import LineSpan
from memd.indexer.language.question import parse
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import load_embedder
from memd.indexer.query import certainty, hits, lookup, search
from memd.indexer.store.own_stores import OwnStores
from memd.models import Ask, Workspace

HITS = 20
FIRST = 3
OWN, LEFT_OUT, ELSEWHERE = "own", "left out", "elsewhere"
"""A question to the notes that answer it, to the same notes without the answer, and to the notes of others."""
VERDICTS = ("found", "weak", "none")


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of one question."""

    group: str
    """The collection, or the language of notes that come with the benchmarks."""
    half: str
    kind: str
    place: int
    confidence: float
    """As if nothing stood out."""
    margin: float

    def verdict(self, stands_out: float) -> str:
        out = self.margin >= stands_out
        return certainty.verdict(True, max(self.confidence, certainty.WEAK) if out else self.confidence)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[FOLDER], metavar="FOLDER", help="collections")
    parser.add_argument("--stands-out", type=float, default=certainty.STANDS_OUT, metavar="MARGIN")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there")
    options = parser.parse_args()
    asked = ask_all(options.folders, options)
    print(table(asked, lambda one: one.group, options.stands_out))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in asked], indent=0), encoding="utf-8")


def arguments(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument(
        "--strangers", nargs="*", type=Path, default=[], metavar="FOLDER", help="also ask their questions"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the index there and use it again")
    parser.add_argument("--most", type=int, default=200, metavar="N", help="questions of a kind to a workspace (200)")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="a setting of memd")
    return parser


def ask_all(folders: Sequence[Path], options: argparse.Namespace) -> list[Asked]:
    """Every question to its own notes, with and without the answer, and to the notes of others."""
    pairs = (setting.partition("=") for setting in options.set)
    settings = {"MEMD_" + name.upper().replace(".", "__"): value for name, _, value in pairs}
    os.environ.update(settings)
    collections = [load(folder) for folder in folders]
    others = [one for folder in options.strangers for stack in load(folder).haystacks for one in stack.scorable]
    halves = {one: half for folder in folders for one, half in halves_of(folder).items()}
    with workplace(options.keep) as place, Home(place / "home") as home:
        stacks = [stack for one in collections for stack in one.haystacks]
        if not (home.state / "state.db").exists():
            start(home, [(stack.ns, stack.root) for stack in stacks], **settings)
            home.stop()
        with opened(home.state, stacks) as stores:
            return [
                answered(stores, stack, question, kind, one.name if one.name != FOLDER.name else stack.name, halves)
                for one in collections
                for stack in one.haystacks
                for kind, question in questions(one, stack, others, options.most)
            ]


def halves_of(folder: Path) -> dict[str, str]:
    """Which half each question of a collection belongs to, where it has halves."""
    rows = map(json.loads, (folder / "all_questions.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["id"]: row["half"] for row in rows if "half" in row}


@contextmanager
def opened(state: Path, stacks: Iterable[Haystack]) -> Iterator[OwnStores]:
    """The index that a daemon has made, with both models."""
    stores = OwnStores(state, mend=False)
    for stack in stacks:
        stores.open_index(Workspace(stack.ns, stack.root))
    embedding = load_settings().embedding
    embedder = load_embedder(embedding, state / "model")
    assert embedder is not None
    stores.use_model(embedder, embedding.source)
    if embedding.provider == "local":
        stores.use_multilingual(multilingual.load(state / "model"))
    try:
        yield stores
    finally:
        stores.close()


def questions(
    one: Collection, stack: Haystack, others: Sequence[Question], most: int
) -> Iterator[tuple[str, Question]]:
    say(f"asking {stack.ns}")
    strangers = others or [question for other in one.haystacks if other is not stack for question in other.scorable]
    for kind, some in ((OWN, stack.scorable), (LEFT_OUT, stack.scorable), (ELSEWHERE, strangers)):
        # Odd where halves take turns, so that both are asked.
        step = math.ceil(len(some) / most) | (kind == ELSEWHERE or one.name == FOLDER.name) or 1
        yield from ((kind, question) for question in some[::step])


def answered(
    stores: OwnStores, stack: Haystack, question: Question, kind: str, group: str, halves: dict[str, str]
) -> Asked:
    gold = question.sessions or question.turns
    ask = Ask(question.text, (stack.ns,), HITS)
    with without(gold if kind == LEFT_OUT else ()):
        indexes, parsed = [stores.index(stack.ns)], parse(ask.query, ask.day, ask.filters)
        found, _ = search.without_resting(search.find(stores, indexes, ask, parsed), ask)
        sure = found.confidence
    answer = hits.answer(stores, ask, found.candidates, sure)
    margin = max((result.margin for result in found.by_workspace.values()), default=0.0)
    told: list[dict[str, Any]] = [asdict(hit) for hit in (*answer.hits, *answer.near)]
    place = rank(told, gold) if kind == OWN else 99
    return Asked(group, halves.get(question.id, ""), kind, place, sure, margin)


@contextmanager
def without(gone: Sequence[LineSpan]) -> Iterator[None]:
    """As if the notes did not have these lines, and nothing stood out."""
    joined, stands_out = lookup.join, certainty.STANDS_OUT

    def join(*given: Any) -> dict[int, dict[str, Any]]:
        return {chunk: row for chunk, row in joined(*given).items() if not any(map(_span(row).overlaps, gone))}

    lookup.join, certainty.STANDS_OUT = join, math.inf  # type: ignore[assignment]
    try:
        yield
    finally:
        lookup.join, certainty.STANDS_OUT = joined, stands_out


def _span(row: dict[str, Any]) -> LineSpan:
    return LineSpan(row["path"], row["start_line"], row["end_line"])


def shares(asked: Iterable[Asked], stands_out: float) -> dict[str, float]:
    """The share of each verdict."""
    given = [one.verdict(stands_out) for one in asked]
    return {verdict: given.count(verdict) / max(1, len(given)) for verdict in VERDICTS}


def right(asked: Iterable[Asked], verdict: str, stands_out: float) -> str:
    """How often the right section is among the first where this is the verdict."""
    places = [one.place <= FIRST for one in asked if one.verdict(stands_out) == verdict]
    return f"{sum(places) / len(places):.2f} of {len(places)}" if places else ""


def table(asked: Sequence[Asked], group: Callable[[Asked], str], stands_out: float) -> str:
    head = ["", "questions", *VERDICTS, *(f"right if {verdict}" for verdict in VERDICTS)]
    head += [f"{kind}: {verdict}" for kind in (LEFT_OUT, ELSEWHERE) for verdict in ("found", "none")]
    body = []
    for name, some in groupby(sorted(asked, key=group), key=group):
        by_kind: dict[str, list[Asked]] = {OWN: [], LEFT_OUT: [], ELSEWHERE: []}
        for one in some:
            by_kind[one.kind].append(one)
        own, left, elsewhere = (shares(by_kind[kind], stands_out) for kind in by_kind)
        cells = [own[verdict] for verdict in VERDICTS]
        strangers = [told[verdict] for told in (left, elsewhere) for verdict in ("found", "none")]
        reliable = [right(by_kind[OWN], verdict, stands_out) for verdict in VERDICTS]
        shown = [f"{share:.2f}" for share in cells], [f"{share:.2f}" for share in strangers]
        body.append([name, str(len(by_kind[OWN])), *shown[0], *reliable, *shown[1]])
    return markdown(head, body)


if __name__ == "__main__":
    main()
