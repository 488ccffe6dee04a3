"""Which chunks of one workspace are worth weighing: the best of each voice, within what the question allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from sqlite3 import Connection

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language import times
from memd.indexer.language.question import ParsedQuestion
from memd.indexer.language.words import query_terms, words
from memd.indexer.query import lookup, meaning
from memd.indexer.query.wording import QuestionWords
from memd.indexer.store.postings import Postings
from memd.indexer.store.stores import Stores, WorkspaceIndex
from memd.models import Filters

Ids = NDArray[np.int64]

NAME_LETTERS = 4
MOST_NAMED = 50
MOST_READ = 2_000
"""Chunks that are read to find a phrase; they have all its words, and the best of them come first."""


@dataclass(slots=True)
class CandidatePool:
    """Chunks by voice, best first, with what the voice says of each."""

    voices: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def ids(self) -> set[int]:
        return {chunk for scored in self.voices.values() for chunk, _ in scored}

    def ranks(self, voice: str, known: Iterable[int]) -> dict[int, int]:
        """The place of each chunk in a voice, counted from 1, among those that the ledger has."""
        there = set(known)
        order = [chunk for chunk, _ in self.voices.get(voice, ()) if chunk in there]
        return {chunk: rank for rank, chunk in enumerate(order, 1)}


def allowed(
    connection: Connection, index: WorkspaceIndex, question: ParsedQuestion, filters: Filters, postings: Postings
) -> Ids | None:
    """The chunks that filters, phrases and exclusions leave; None when they leave all."""
    if not (filters or question.phrases or question.without):
        return None
    chunks = postings.chunks[postings.live]
    if filters:
        chunks = np.array(lookup.allowed(connection, index.id, filters), np.int64)
    for phrase in question.phrases:
        chunks = chunks[np.isin(chunks, _with(connection, postings, phrase, chunks))]
    for phrase in question.without:
        chunks = chunks[~np.isin(chunks, _with(connection, postings, phrase, chunks))]
    return chunks


def _with(connection: Connection, postings: Postings, phrase: str, among: Ids) -> Ids:
    """The chunks that have all words of a phrase, and where there are several, in this order."""
    terms, _ = query_terms(phrase)
    if not terms:
        return among[:0]
    having = among
    for term in terms:
        docs = np.concatenate([postings.of(name, term).docs for name in ("body", "heading")])
        having = having[np.isin(having, postings.chunks[docs])]
    sought = _forms(phrase)
    if len(sought) < 2:
        return having
    # The newest chunks have the highest numbers.
    texts = lookup.texts(connection, np.sort(having)[-MOST_READ:].tolist())
    return np.array([chunk for chunk, text in texts.items() if _in_order(text, sought)], np.int64)


def _in_order(text: str, sought: list[str]) -> bool:
    forms = _forms(text)
    return any(forms[at : at + len(sought)] == sought for at in range(len(forms) - len(sought) + 1))


def _forms(text: str) -> list[str]:
    """Every word as it is written; of a script without spaces the pairs, of which each holds its neighbour's end."""
    return [max(word.exact[0], word.terms[0], key=len) for word in words(text)]


def by_words(wording: QuestionWords, depth: int, among: Ids | None) -> list[tuple[int, float]]:
    """The chunks that earn most from the question's words."""
    earned = wording.earned()
    docs = np.flatnonzero(earned)
    if among is not None:
        docs = docs[np.isin(wording.postings.chunks[docs], among)]
    if len(docs) > depth:
        docs = docs[earned[docs] >= np.partition(earned[docs], len(docs) - depth)[len(docs) - depth]]
    order = docs[np.lexsort((wording.postings.chunks[docs], -earned[docs]))][:depth]
    return list(zip(wording.postings.chunks[order].tolist(), earned[order].tolist(), strict=True))


def by_name(connection: Connection, index: WorkspaceIndex, text: str, among: Ids | None) -> list[tuple[int, float]]:
    """The first chunks of files that have a word of the question in their name."""
    sought = {word.exact[0] for word in words(text) if len(word.exact[0]) >= NAME_LETTERS}
    paths = [path for name, path in index.names() if any(word in name for word in sought)]
    if not paths or len(paths) > MOST_NAMED:
        return []
    chunks = lookup.first_chunks(connection, [index.files[path].id for path in paths])
    kept = set(among.tolist()) if among is not None else None
    return [(chunk, 1.0) for chunk in chunks if kept is None or chunk in kept]


def by_day(
    connection: Connection, index: WorkspaceIndex, asked: times.AskedTimes, depth: int, among: Ids | None
) -> list[int]:
    """The chunks of the days that a question names, the nearest days first."""
    worth = {day: times.nearness(day, asked) for day in lookup.days(connection, index.id)} if asked.spans else {}
    near = sorted((day for day in worth if worth[day]), key=lambda day: (-worth[day], -day.toordinal()))
    chunks = lookup.chunks_of_days(connection, index.id, near[:depth])
    kept = set(among.tolist()) if among is not None else None
    return [chunk for chunk in chunks if kept is None or chunk in kept][:depth]


def gather(
    stores: Stores,
    index: WorkspaceIndex,
    wording: QuestionWords | None,
    sense: meaning.QuestionVector | None,
    text: str,
    asked: times.AskedTimes,
    depth: int,
    among: Ids | None,
) -> CandidatePool:
    """The best of each voice."""
    pool = CandidatePool()
    pool.voices["day"] = [(chunk, 1.0) for chunk in by_day(stores.ledger.reader, index, asked, depth, among)]
    if wording is not None:
        pool.voices["text"] = by_words(wording, depth, among)
        pool.voices["name"] = by_name(stores.ledger.reader, index, text, among)
    if sense is not None:
        pool.voices["vector"] = sense.nearest(stores, index, depth, among)
    return pool
