"""The text voice: what the question's words earn in every chunk of one workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language.words import Word, telling_words, words
from memd.indexer.query import ranking
from memd.indexer.query.ranking import Floats
from memd.indexer.store.postings import Postings
from memd.notes.names import DATE

Docs = NDArray[np.int64]

MOST_ENDINGS = 50
MOST_PARTS = 20
MOST_SLIPS = 2
MOST_TRIED = 16
"""Words that are looked for in near spellings: a pasted page of unknown words is no slip of the hand."""

MOST_WHOLE = 100
"""Where so many chunks have the whole word, nobody misses those that have it only as a part."""
FEW = 50
"""In fewer chunks than this nobody can tell which words are common: they count as if there were so many."""

PIECES_LACK = 2.0
"""All pieces of a number that no chunk has are a third of it at most: 10.8.0.1 is not 10.0.0.1."""

PART_LETTERS = 4
"""Shorter pieces stand in every second word."""


@dataclass(frozen=True, slots=True)
class QuestionWord:
    """One word of the question, with every form that counts as it, and where the forms are."""

    forms: frozenset[str]
    docs: Docs
    often: Floats
    """How often each of `docs` has it: by its length, and more in a heading."""
    idf: float
    share: float
    """What it may earn of a whole word."""

    def in_doc(self, doc: int) -> bool:
        place = int(np.searchsorted(self.docs, doc))
        return place < len(self.docs) and self.docs[place] == doc


@dataclass(slots=True)
class QuestionWords:
    """The question's words in one workspace."""

    postings: Postings
    sought: list[QuestionWord] = field(default_factory=list)
    corrected: dict[str, list[str]] = field(default_factory=dict)
    """Words that no chunk has, and the near spellings that were looked for instead."""
    missing: list[str] = field(default_factory=list)
    """Words that no chunk has in any form."""
    weight: float = 0.0
    """What all words are worth together; one that no chunk has is worth most."""
    names: tuple[str, ...] = ()
    """The words that a file could be called by."""
    lost: float = 0.0
    """What is missing of words that only pieces were found of; it counts when asked how much is known."""
    _earned: Floats | None = None

    @property
    def most(self) -> float:
        """What a chunk could earn that has every word many times."""
        return self.weight * (ranking.K1 + 1) or 1.0

    def earned(self) -> Floats:
        """What every document earns, as a share of the most; added up once."""
        if self._earned is None:
            by_doc = np.zeros(self.postings.size)
            for word in self.sought:
                by_doc[word.docs] += word.share * word.idf * ranking.dampened(word.often)
            self._earned = by_doc / self.most
        return self._earned

    @property
    def known(self) -> float:
        """The share of the question's words, by weight, that any chunk has."""
        whole = sum(word.idf for word in self.sought if word.share > ranking.PART)
        return min(1.0, whole / (self.weight + self.lost)) if self.weight else 0.0

    def had_by(self, chunk: int) -> float:
        """The share of the question's words, by weight, that one chunk has."""
        doc = int(self.postings.places(np.array([chunk]))[0])
        whole = [word for word in self.sought if word.share > ranking.PART]
        parts = [word for word in self.sought if word.share <= ranking.PART]
        had = sum(word.idf for word in whole if doc >= 0 and word.in_doc(doc))
        had += sum(word.idf * word.share for word in parts if doc >= 0 and word.in_doc(doc))
        return min(1.0, had / (self.weight + self.lost)) if self.weight else 0.0

    def in_name(self, stem: str) -> float:
        """The share of the question's words that stand in a file's name; a date says nothing that notes do not know."""
        if not self.names or DATE.fullmatch(stem):
            return 0.0
        plain = stem.casefold()
        return sum(name in plain for name in self.names) / len(self.names)

    def lacking(self, chunk: int) -> list[str]:
        """The words of the question that one chunk does not have."""
        doc = int(self.postings.places(np.array([chunk]))[0])
        return [
            min(word.forms, key=len) for word in self.sought if word.share > ranking.PART and not word.in_doc(doc)
        ] + self.missing

    def of_sections(self, docs: Docs, section: NDArray[np.int64], count: int) -> Floats:
        """What `count` sections earn as a whole, each of the `docs` standing in the section of its place."""
        lengths = np.bincount(section, self.postings.lengths("body")[docs], count).astype(np.float64)
        divisor = ranking.by_length(lengths, float(lengths.sum()) / max(1, count) or 1.0)
        total = np.zeros(count)
        for word in self.sought:
            often = np.bincount(section, _at(word, docs), count) / divisor
            total += word.share * word.idf * ranking.dampened(often)
        return total / self.most


def _at(word: QuestionWord, docs: Docs) -> Floats:
    """How often each of `docs` has the word."""
    if not len(word.docs):
        return np.zeros(len(docs))
    place = np.searchsorted(word.docs, docs).clip(max=len(word.docs) - 1)
    return np.where(word.docs[place] == docs, word.often[place], 0.0)


def question_words(postings: Postings, text: str, prefixes: Sequence[str] = ()) -> QuestionWords:
    """Look every word of a question up, as a whole, as a part of others, and in near spellings."""
    telling = telling_words(text)
    heard = QuestionWords(postings, names=_names(telling))
    for word in {word.terms: word for word in telling}.values():
        _seek(heard, word)
    for prefix in prefixes:
        _seek_endings(heard, list(words(prefix)))
    return heard


def _names(telling: Sequence[Word]) -> tuple[str, ...]:
    """Two letters of the Latin alphabet stand in many names by chance."""
    plain = dict.fromkeys(word.exact[0] for word in telling)
    return tuple(name for name in plain if len(name) > 2 or not name.isascii())


def _seek_endings(heard: QuestionWords, beginning: list[Word]) -> None:
    """Every word that begins so; what begins none, or is of a script without spaces, is looked up as it stands."""
    plain = beginning[0].exact[0] if len(beginning) == 1 else ""
    # Of a pair of such characters the exact form is the first one only.
    spaced = plain and len(plain) >= len(beginning[0].terms[0])
    found = heard.postings.starting("exact", plain, MOST_ENDINGS) if spaced else []
    if found:
        _keep(heard, frozenset(found), _among(heard.postings, found, "exact"))
        heard.weight += heard.sought[-1].idf
        return
    for word in beginning:
        _seek(heard, word)


def _seek(heard: QuestionWords, word: Word) -> None:
    postings = heard.postings
    known = {form for other in heard.sought if other.share == 1.0 for form in other.forms}
    new = [term for term in word.terms if term not in known]
    if not new:
        return
    before = len(heard.sought)
    for term in new:
        _keep(heard, frozenset((term,)), _among(postings, [term], "body", "heading"))
    if len(heard.sought) == before:
        # A single character of a script without spaces is no term of its own.
        _keep(heard, frozenset(word.exact), _among(postings, word.exact, "exact"))
    whole = heard.sought[before:]
    _seek_inside(heard, word.exact[0], whole)
    if len(heard.sought) == before:
        _seek_near(heard, word.exact[0])
    near = [found for found in heard.sought[before:] if found.share == ranking.SLIP]
    pieces = sum(found.idf for found in (*whole, *near))
    heard.weight += pieces or _idf(postings, 0)
    lost = _lost(new, whole) if whole else 0
    if lost:
        heard.lost += max(lost * _idf(postings, 0), PIECES_LACK * pieces)


def _lost(terms: Sequence[str], whole: Sequence[QuestionWord]) -> int:
    """How many terms of an identifier or number are missing of which only pieces are known: "TV" is not "ErsatzTV".

    A word of letters whose pieces are all there may be written apart: "road-trip", "road trip".
    """
    lost = [term for term in terms if all(term not in found.forms for found in whole)]
    apart = len(lost) == 1 and not any(char.isdigit() for char in terms[0])
    return len(lost) if terms[0] in lost and not apart else 0


def _idf(postings: Postings, holders: int) -> float:
    return ranking.idf(max(FEW, postings.count), holders)


def _seek_inside(heard: QuestionWords, plain: str, whole: Sequence[QuestionWord]) -> None:
    """The word as a part of longer ones, in the chunks that do not have it as a whole."""
    if len(plain) < PART_LETTERS or sum(len(word.docs) for word in whole) > MOST_WHOLE:
        return
    longer = [form for form in heard.postings.containing("exact", plain, MOST_PARTS) if form != plain]
    docs, often = _among(heard.postings, longer, "exact")
    if len(docs) and whole:
        new = ~np.isin(docs, np.concatenate([word.docs for word in whole]))
        docs, often = docs[new], often[new]
    # Where nearly every chunk has the word, a rare longer one must not outweigh it.
    most = max((word.idf for word in whole), default=None)
    _keep(heard, frozenset(longer), (docs, often), ranking.PART, most)


def _seek_near(heard: QuestionWords, plain: str) -> None:
    tried = len(heard.corrected) + len(heard.missing)
    near = heard.postings.near("exact", plain, MOST_SLIPS) if tried < MOST_TRIED else []
    if near:
        heard.corrected[plain] = near
        _keep(heard, frozenset(near), _among(heard.postings, near, "exact"), ranking.SLIP)
    else:
        heard.missing.append(plain)


def _among(postings: Postings, terms: Iterable[str], *fields: str) -> tuple[Docs, Floats]:
    """The documents that have any of some terms, and how often, by length and with headings counted more."""
    found = [(name, held) for name in fields for term in terms if len((held := postings.of(name, term)).docs)]
    if not found:
        return np.zeros(0, np.int64), np.zeros(0)
    if len(found) == 1:
        name, held = found[0]
        return held.docs.astype(np.int64), _often(postings, name, held.docs, held.weights)
    by_doc = np.zeros(postings.size)
    for name, held in found:
        by_doc[held.docs] += _often(postings, name, held.docs, held.weights)
    docs = np.flatnonzero(by_doc)
    return docs, by_doc[docs]


def _often(postings: Postings, name: str, docs: NDArray[np.int32], weights: NDArray[np.uint16]) -> Floats:
    if name == "heading":
        return np.full(len(docs), ranking.HEADING)
    lengths = postings.lengths("body")[docs].astype(np.float64)
    often: Floats = weights / ranking.by_length(lengths, postings.mean_length("body"))
    return often


def _keep(
    heard: QuestionWords,
    forms: frozenset[str],
    found: tuple[Docs, Floats],
    share: float = 1.0,
    most: float | None = None,
) -> None:
    docs, often = found
    if len(docs):
        idf = _idf(heard.postings, len(docs))
        heard.sought.append(QuestionWord(forms, docs, often, idf if most is None else min(idf, most), share))
