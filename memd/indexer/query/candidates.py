"""Which chunks of one workspace are worth weighing: the best of each voice, within what the question allows."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from sqlite3 import Connection

import numpy as np

from memd.indexer.language.question import ParsedQuestion, Phrase, phrase_forms
from memd.indexer.language.times import nearness
from memd.indexer.language.words import words
from memd.indexer.query import lookup
from memd.indexer.query.meaning import QuestionVector
from memd.indexer.query.wording import Docs, Floats, WordMatches
from memd.indexer.store.columns import ChunkColumns, ChunkPlace
from memd.indexer.store.mirror import Ids
from memd.indexer.store.postings import Postings
from memd.indexer.store.stores import WorkspaceIndex
from memd.models import Filters

DEPTH = 30
"""How many chunks each voice names: 50 took a tenth more time and found no more, 20 found less."""
NEAREST = 50
"""So many of the nearest in meaning tell how far the first of them stand out."""

DEPTH_DATED = 200
"""The same for a question that names a time: a chunk of the right day may be far down by its words."""

SOME = 8_192
"""So many documents tell how much the best of all earn at least."""

NAME_LETTERS = 4
MOST_NAMED = 50
MOST_READ = 2_000
"""Chunks that are read to find a phrase; they have all its words, and the newest come first."""


class CandidatePool:
    """The best chunks of a workspace by the question's words, and those of the files and days that it names."""

    def __init__(
        self, index: WorkspaceIndex, question: ParsedQuestion, postings: Postings, words: WordMatches | None, limit: int
    ) -> None:
        self.index = index
        self.depth = max(DEPTH_DATED if question.times.spans else DEPTH, 2 * limit)
        """How many each voice may name."""
        self.filters = question.filters
        self.among = allowed(index, question, postings)
        """The chunks that the question allows; None for all."""
        self.besides = self._by_day(question)
        """By the file's name or by the day."""
        self.by_voice: dict[str, list[int]] = {}
        """By `text` and `vector`, best first."""
        self.cosines: dict[int, float] = {}
        """The cosines of the chunks that are nearest in meaning, the nearest first."""
        self.columns: ChunkColumns
        """What ranks those that were last looked at."""
        self.gone: set[int]
        """Those of them that may not be shown."""
        if words is not None:
            self.besides += _by_name(index, question, self.among)
            self.by_voice["text"] = _by_words(words, self.depth, self.among)

    @property
    def ids(self) -> set[int]:
        return set(self.besides).union(*self.by_voice.values())

    def shown(self, also: Iterable[int] = ()) -> dict[int, int]:
        """Those of them that may be shown, each with its place in the columns; others, too, if they are allowed."""
        wanted = self.ids.union(also)
        self.columns = self.index.columns_of(wanted)
        at = self.columns.shown(wanted)
        chunks = self.columns.ranked.chunk[at]
        if self.among is not None:
            at, chunks = (some[np.isin(chunks, self.among)] for some in (at, chunks))
        shown = dict(zip(chunks.tolist(), at.tolist(), strict=True))
        self.gone = self.ids - shown.keys()
        return shown

    def _by_day(self, question: ParsedQuestion) -> list[int]:
        """The chunks of the days that a question names, the nearest days first."""
        if not question.times.spans:
            return []
        ranked = self.index.columns.ranked
        days, of_day = np.unique(ranked.day, return_inverse=True)
        worth = np.array([nearness(date.fromordinal(day) if day else None, question.times) for day in days.tolist()])
        at = np.flatnonzero(worth[of_day] > 0)
        order = np.lexsort((ranked.chunk[at], -ranked.day[at], -worth[of_day[at]]))
        return _among(ranked.chunk[at[order]].tolist(), self.among)[: self.depth]

    def add_nearest(self, meaning: QuestionVector) -> None:
        """Add the chunks that are nearest in meaning."""
        self.cosines = dict(meaning.nearest(self.index, max(NEAREST, self.depth), self.among, self.filters))
        self.by_voice["vector"] = list(self.cosines)[: self.depth]


@dataclass
class Candidate:
    """A chunk on its way to being a hit."""

    index: WorkspaceIndex
    place: ChunkPlace
    score: float
    ranks: dict[str, int]
    """Its rank in each voice that found it."""
    weighed: Callable[[], dict[str, float]] = dict

    @cached_property
    def parts(self) -> dict[str, float]:
        """The parts of its score, asked for where they are needed; empty where only ranks count, or nothing does."""
        return self.weighed()


def of_chunks(index: WorkspaceIndex, chunks: Sequence[int], filters: Filters) -> list[Candidate]:
    """Those of some chunks that may be shown and pass the filters, in their order."""
    columns = index.columns_of(chunks)
    at = columns.shown(chunks if not filters else np.intersect1d(chunks, filtered(index, filters)))
    places = {place.chunk: place for place in columns.described(at)}
    return [Candidate(index, places[chunk], 1.0, {}) for chunk in chunks if chunk in places]


# --- what the question allows -------------------------------------------------------------------------------


def allowed(index: WorkspaceIndex, question: ParsedQuestion, postings: Postings) -> Ids | None:
    """The chunks that filters, phrases and exclusions leave; None when they leave all."""
    if not (question.filters or question.phrases or question.without):
        return None
    chunks = postings.chunks[postings.live]
    if question.filters:
        chunks = filtered(index, question.filters)
    for phrase in question.phrases:
        chunks = having(index.reader, postings, phrase, chunks)
    for phrase in question.without:
        chunks = chunks[~np.isin(chunks, excluded(index.reader, postings, phrase, chunks))]
    return chunks


def filtered(index: WorkspaceIndex, filters: Filters) -> Ids:
    """The chunks that pass the filters."""
    ranked = index.columns.ranked
    return ranked.chunk[np.isin(ranked.memory, lookup.passing(index.reader, index.id, filters))]


def having(connection: Connection, postings: Postings, phrase: Phrase, among: Ids) -> Ids:
    """Those of some chunks that have all words of a phrase, in its order."""
    if not phrase.terms:
        return among[:0]
    chunks = among
    for term in phrase.terms:
        docs = np.concatenate([postings.of(name, term).docs for name in ("body", "heading")])
        chunks = chunks[np.isin(chunks, postings.chunks[docs])]
    if len(phrase.forms) < 2:
        return chunks
    # The newest chunks have the highest numbers.
    texts = lookup.texts(connection, np.sort(chunks)[-MOST_READ:].tolist())
    return chunks[np.isin(chunks, [chunk for chunk, text in texts.items() if _in_order(text, phrase)])]


def excluded(connection: Connection, postings: Postings, phrase: Phrase, among: Ids) -> Ids:
    """Those of some chunks that have an excluded phrase; in one that has it behind a hyphen it was typed (`rm -rf`)."""
    chunks = having(connection, postings, phrase, among)
    typed = re.compile(rf"(?<![\w-])-{re.escape(phrase.text)}(?!\w)", re.IGNORECASE)
    texts = lookup.texts(connection, np.sort(chunks)[-MOST_READ:].tolist())
    return chunks[~np.isin(chunks, [chunk for chunk, text in texts.items() if typed.search(text)])]


def _in_order(text: str, phrase: Phrase) -> bool:
    forms, length = phrase_forms(words(text)), len(phrase.forms)
    return any(forms[at : at + length] == phrase.forms for at in range(len(forms) - length + 1))


# --- the best of each voice ---------------------------------------------------------------------------------


def _by_words(matches: WordMatches, depth: int, among: Ids | None) -> list[int]:
    """The chunks that earn most from the question's words; those that have them as they are written come first."""
    earned, written, chunks = matches.earned, matches.written, matches.postings.chunks
    if among is None:
        docs = _best_of(earned, depth)
    else:
        docs = np.flatnonzero(earned != 0)
        docs = docs[np.isin(chunks[docs], among)]
        docs = docs[_best_of(earned[docs], depth)]
        written = written[np.isin(chunks[written], among)]
    docs = np.union1d(docs, written) if len(written) else docs
    gains = earned[docs] + np.isin(docs, written)
    order = docs[np.lexsort((chunks[docs], -gains))][:depth]
    best: list[int] = chunks[order].tolist()
    return best


def _best_of(earned: Floats, count: int) -> Docs:
    """The places of what earns something, at least so many of the best."""
    # Of some of them the last that is wanted earns no more than that of all.
    some = earned[:: 1 + len(earned) // SOME]
    least = np.partition(some, -count)[-count] if len(some) > count else 0.0
    return np.flatnonzero(earned >= least) if least else np.flatnonzero(earned != 0)


def _by_name(index: WorkspaceIndex, question: ParsedQuestion, among: Ids | None) -> list[int]:
    """The first chunks of files that have a word of the question in their name."""
    sought = {word.exact[0] for word in question.words if len(word.exact[0]) >= NAME_LETTERS}
    files = [file for name, file in index.names() if any(word in name for word in sought)]
    if not files or len(files) > MOST_NAMED:
        return []
    return _among(lookup.first_chunks(index.reader, files), among)


def _among(chunks: Iterable[int], among: Ids | None) -> list[int]:
    kept = set(among.tolist()) if among is not None else None
    return [chunk for chunk in chunks if kept is None or chunk in kept]
