"""Asks for every word of the notes, alone and with its neighbour: is it found, and does a hit have it.

python benchmarks/words.py FOLDER... [--modes hybrid,text] [--words N] [--pairs N] [--keep DIR] [--show N]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from home import Home, workplace
from retrieval import markdown
from store import say

from memd.config.schema import EmbeddingSettings
from memd.indexer.language.languages import SMALL_WORDS, language_of
from memd.indexer.language.words import MARKS, STOPWORDS, UNSPACED
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import load_embedder
from memd.indexer.query.meaning import QuestionFuture
from memd.indexer.query.search import search
from memd.indexer.store import catalog, vector_table
from memd.indexer.store.own_stores import OwnStores
from memd.models import Answer, Ask, Hit, Workspace

WORD = re.compile(rf"[{UNSPACED}]+|(?:(?![{UNSPACED}])[\w{MARKS}])(?:(?![{UNSPACED}])(?:[\w{MARKS}]|[-.'’](?=\w)))*")
RUN = re.compile(rf"[{UNSPACED}]+")
SPOKEN = "\uac00-\ud7af"
"""Korean has spaces between its words, though they are indexed without."""
AT_ONCE = 200
"""Questions that are embedded together; the daemon's cache holds a few more."""
MOST_BYTES = 10_000_000


@dataclass(slots=True)
class Tally:
    """The outcome of the questions of one sort to one workspace in one mode."""

    asked: int = 0
    found: int = 0
    shown: int = 0
    """How often a hit has what was asked for."""
    failed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Notes:
    """The lines of a workspace's notes, by their files."""

    lines: dict[str, list[str]]

    def questions(self, neighbours: bool) -> list[str]:
        """Every word but the small ones of its language, or every two such words with one space between them."""
        asked: dict[str, None] = {}
        for lines in self.lines.values():
            tongue = language_of("\n".join(lines))
            for line in lines:
                small = _small_words(language_of(line) or tongue)
                told = list(WORD.finditer(line))
                every = (
                    _pairs(line, told, small) if neighbours else (word for one in told for word in _words(one, small))
                )
                asked.update(dict.fromkeys(every))
        return list(asked)

    def has(self, hit: Hit, question: str) -> bool:
        """Whether a hit, its heading or what was folded into it has every word of a question."""
        also = (
            "\n".join(self.lines[str(one["path"])][int(str(one["start_line"])) - 1 : int(str(one["end_line"]))])
            for one in hit.also
        )
        return any(_in(f"{hit.heading}\n{text}", question) for text in (hit.text, *also))


def _small_words(language: str) -> frozenset[str]:
    own = SMALL_WORDS.get(language, frozenset())
    return own | STOPWORDS if language in ("", "en") else own


def _words(match: re.Match[str], small: frozenset[str]) -> Iterator[str]:
    word = match.group()
    if not RUN.match(word):
        yield from () if word.casefold() in small or not any(map(str.isalnum, word)) else (word.strip("_"),)
    elif re.fullmatch(f"[{SPOKEN}]+", word) or len(word) == 1:
        yield word
    else:
        yield from (word[at : at + 2] for at in range(len(word) - 1))


def _pairs(line: str, told: Sequence[re.Match[str]], small: frozenset[str]) -> Iterator[str]:
    for one in told:
        if RUN.match(one.group()):
            yield from (one.group()[at : at + 4] for at in range(len(one.group()) - 3))
    for one, other in pairwise(told):
        beside = line[one.end() : other.start()] == " " and not RUN.match(one.group()) and not RUN.match(other.group())
        if beside and list(_words(one, small)) and list(_words(other, small)):
            yield f"{one.group()} {other.group()}"


def _in(text: str, question: str) -> bool:
    if RUN.match(question):
        return question in text
    return _plain(question) <= _plain(text)


def _plain(text: str) -> set[str]:
    """The words of a text as they are compared, "Anna’s" as "anna", and the pieces of what is joined."""
    words = [word.casefold().replace("’", "'").removesuffix("'s") for word in WORD.findall(text)]
    return {piece for word in words for piece in (word.strip("_"), *re.split("[-._]", word))}


# --- the index ------------------------------------------------------------------------------------------------


def roots_in(folders: Sequence[Path]) -> dict[str, Path]:
    """The workspaces: folders of a labelled collection, or the folders themselves."""
    roots = {}
    for folder in folders:
        inside = sorted(entry.parent for entry in folder.glob("*/map.json")) or [folder]
        roots |= {f"{folder.name}.{root.name}": root.resolve() for root in inside}
    return roots


def fill(home: Home, roots: dict[str, Path]) -> None:
    """Index and embed all workspaces; what an earlier run kept is used again."""
    home.path.mkdir(parents=True, exist_ok=True)
    parts = [f"[[workspace]]\npath = {json.dumps(str(root))}\nns = {json.dumps(ns)}\n" for ns, root in roots.items()]
    (home.path / "config.toml").write_text("\n".join(parts), encoding="utf-8")
    say(f"indexing {len(roots)} workspaces")
    client = home.start()
    client.sync(vectors=True)
    home.ready(client)
    home.stop()


def opened(state: Path, roots: dict[str, Path]) -> OwnStores:
    stores = OwnStores(state, mend=False)
    stores.open_workspaces([Workspace(ns, root) for ns, root in roots.items()])
    model = load_embedder(EmbeddingSettings(), state / "model")
    assert model is not None
    stores.use_model(model, "{}")
    if vector_table.any_multilingual(stores.ledger.reader):
        stores.use_multilingual(multilingual.load(state / "model"))
    return stores


def notes_of(stores: OwnStores, ns: str) -> Notes:
    index = stores.index(ns)
    paths = catalog.files(stores.ledger.reader, index.id)
    return Notes({path: (index.workspace.root / path).read_text(encoding="utf-8").split("\n") for path in paths})


# --- asking ---------------------------------------------------------------------------------------------------


def ask_all(stores: OwnStores, ns: str, notes: Notes, asked: Sequence[str], mode: str) -> Tally:
    tally = Tally()
    for at in range(0, len(asked), AT_ONCE):
        part = asked[at : at + AT_ONCE]
        if mode != "text":
            _embed(stores, part)
        for question in part:
            _count(tally, notes, question, search(stores, Ask(question, (ns,), mode=mode), MOST_BYTES))
    return tally


def _embed(stores: OwnStores, questions: Sequence[str]) -> None:
    """The vectors of many questions at once: one by one they would take most of the time."""
    stores.question_vectors.clear()
    for model in filter(None, (stores.model, stores.multilingual)):
        vectors = model.embedder.embed(list(questions))
        for text, vector in zip(questions, vectors, strict=True):
            made = stores.question_vectors[model.id, text] = QuestionFuture()
            made.set_result(vector[None])


def _count(tally: Tally, notes: Notes, question: str, answer: Answer) -> None:
    shown = any(notes.has(hit, question) for hit in answer.hits)
    tally.asked += 1
    tally.found += answer.verdict == "found"
    tally.shown += shown
    if answer.verdict != "found" or not shown:
        tally.failed.append(f"{question!r}: {answer.verdict} {answer.confidence}{'' if shown else ', in no hit'}")


def _sample(asked: list[str], most: int) -> list[str]:
    return random.Random(1).sample(asked, most) if 0 < most < len(asked) else asked


def _in_one_chunk(stores: OwnStores, ns: str, asked: list[str]) -> list[str]:
    """The pairs that some chunk has: one that was cut between two chunks is in none."""
    rows = stores.ledger.reader.execute("SELECT text FROM chunks WHERE workspace = ?", (stores.index(ns).id,))
    text = "\n\n".join(row[0] for row in rows)
    return [pair for pair in asked if pair in text]


def main() -> int:
    options = _options()
    roots, rows = roots_in(options.folders), []
    with workplace(options.keep) as place, Home(place / "home") as home:
        if not options.filled:
            fill(home, roots)
        stores = opened(home.state, roots)
        for ns in roots:
            notes = notes_of(stores, ns)
            words = _sample(notes.questions(neighbours=False), options.words)
            pairs = _in_one_chunk(stores, ns, _sample(notes.questions(neighbours=True), options.pairs))
            for mode in options.modes:
                tallies = [ask_all(stores, ns, notes, asked, mode) for asked in (words, pairs)]
                rows.append([ns, mode, *(f"{n:,}" for one in tallies for n in (one.asked, one.found, one.shown))])
                say(" ".join(rows[-1]))
                for failed in (failed for one in tallies for failed in one.failed[: options.show]):
                    say(f"  {failed}")
        stores.close()
    head = ["", "mode", *(f"{sort}{what}" for sort in ("words", "pairs") for what in ("", ", found", ", in a hit"))]
    print(markdown(head, rows))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a collection, or a workspace")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["hybrid", "text"], help="hybrid,text")
    parser.add_argument("--words", type=int, default=0, metavar="N", help="ask only so many of a workspace's words")
    parser.add_argument("--pairs", type=int, default=2_000, metavar="N", help="and of its pairs (2,000; 0 for all)")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="name so many that were not found (20)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the index there and use it again")
    parser.add_argument("--filled", action="store_true", help="the kept index is complete: start no daemon")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
