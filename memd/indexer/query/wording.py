"""The voice of words: what the question's words earn in every chunk of one workspace."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from memd.indexer.language.words import (
    COMPOUNDING,
    POINTED,
    STEM_OF,
    UNSPACED_RUN,
    Word,
    compound_parts,
    forms_in,
    is_english,
    is_half,
    is_small,
    respelled,
    telling_words,
    terms_of,
)
from memd.indexer.store.lines import places_in
from memd.indexer.store.postings import Postings, by_length
from memd.indexer.store.segment import PostingList
from memd.notes.names import DATE

Docs = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_ENDINGS = 50
MOST_PARTS, MOST_PARTS_ONLY = 20, 50
"""Longer words that are read for one that they contain; the second number where no chunk has that one itself."""

MOST_SPELLINGS = 2
MOST_TRIED = 16
"""Words that are looked for in near spellings: a pasted page of unknown words is no typing error."""

SPARSE = 12
"""Where fewer than this share of the documents have a word, they are sorted rather than marked among all."""

MOST_WHOLE = 100
"""If so many chunks have the whole word, those that have it only as a part are not needed."""
FEW = 50
"""Fewer chunks than this do not show which words are common: they count as if there were so many."""

RARE, RARE_LEAST = 0.01, 2
"""The share of all chunks that a rare word stands in at most, and the number that is few anywhere."""

TELLING = 0.7
"""The least weight of a word, as a share of the rarest beside it, to say as much."""

PIECES_LACK = 2.0
"""All pieces of a number that no chunk has are worth a third of it at most: 10.8.0.1 is not 10.0.0.1."""

MOST_GUESSED = 0.34
"""The share of a question's words that may stand only inside of longer ones."""

PART_LETTERS = 4
"""Shorter pieces occur in every second word; one that no note has as a word may be shorter by one."""

CODE = re.compile(r"(?!\d+-?[^\W\d]+$)(?!\d{1,4}$)(?=(?:.*\d){3}|[^\W\d_].*\d).+")
"""Codes, addresses and versions: TICKET-2005, 10.0.0.1, x86; not 1st, 30-minute or 2026."""

IN_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*[\s/][^`\n]*`|^ *\$ .*$|\S*[/~]\S*", re.DOTALL | re.MULTILINE)
"""Code and paths; a single word in backticks is a name."""

ACROSS = re.compile("[ぁ-ゟ][^ぁ-ゟ]$|[^ぁ-ゟ][ぁ-ゟ]$")
"""A pair of characters in Japanese that is the end of one word and the beginning of the next, in most cases."""

COMPOUND = 0.6
"""The gain of a word as one half of a compound, where the language writes compounds as one word."""


# --- how words are weighed: counts in, numbers out ------------------------------------------------------------

K1 = 1.2
"""How soon a repeated word stops counting: the usual value; 0.9 and 2.0 gave the same results."""

HEADING = 2.0
"""A heading says what the text below is about: a word there counts as two in the text."""

PART = 0.2
"""A word found only inside another one ("build" in "rebuild") earns this share of the whole word."""

PART_ONLY = 0.6
"""The same where no note has the whole word: then the part is what was meant ("fjor", "100.114")."""

MISSPELT = 0.7
"""A word that no note has earns this share when a near spelling of it is found."""


def idf(count: int, holders: int) -> float:
    """How telling a word is that so many of all chunks hold."""
    count = max(FEW, count)
    return math.log(1 + (count - holders + 0.5) / (holders + 0.5))


def dampened(often: Floats) -> Floats:
    """BM25's curve: the second mention says less than the first."""
    return often * (K1 + 1) / (often + K1)


# --- the words of a question in one workspace ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WordMatch:
    """One word of the question: every form that counts as it, and the documents that have one; there are some."""

    forms: frozenset[str]
    docs: Docs
    often: Floats
    """How often each of `docs` has it, adjusted for its length, and more in a heading."""
    idf: float
    share: float
    """The share of a whole word that it may gain."""

    @property
    def whole(self) -> bool:
        """Whether the word itself was found, or what stands for it: not only some of the chunks that mean it."""
        return self.share > PART

    @property
    def is_pair(self) -> bool:
        """Whether it is a pair of characters, in a script without spaces."""
        return any(map(UNSPACED_RUN.match, self.forms))

    def in_doc(self, doc: int) -> bool:
        place = int(self.docs.searchsorted(doc))
        return place < len(self.docs) and self.docs[place] == doc


@dataclass
class WordMatches:
    """The question's words in one workspace."""

    postings: Postings
    matches: list[WordMatch] = field(default_factory=list)
    corrected: dict[str, list[str]] = field(default_factory=dict)
    """Words that no chunk has, and the near spellings that were looked for instead."""
    missing: list[str] = field(default_factory=list)
    """Words that no chunk has in any form."""
    weight: float = 0.0
    """The worth of all words together; one that no chunk has is worth most."""
    named_missing: list[str] = field(default_factory=list)
    """Codes and names that no chunk has, whole or inside a longer one; chunks may have the pieces of a code."""
    named: list[WordMatch] = field(default_factory=list)
    """The names among the matches."""
    coded: list[WordMatch] = field(default_factory=list)
    """The codes among the matches, without their pieces."""
    guessed: float = 0.0
    """The weight of words that were found only in the middle of longer ones."""
    names: tuple[str, ...] = ()
    """The words that may occur in a file's name."""
    lost: float = 0.0
    """The weight of words of which only pieces were found; it lowers the known share."""
    written: Docs = field(default_factory=lambda: np.zeros(0, np.int64))
    """The documents that have every word of the question as it is written."""
    titled: Docs = field(default_factory=lambda: np.zeros(0, np.int64))
    """The documents that have every telling word of the question in the headings above them."""
    _held: dict[int, list[WordMatch]] = field(default_factory=dict)

    @property
    def most(self) -> float:
        """The gain of a chunk that has every word many times."""
        return self.weight * (K1 + 1) or 1.0

    @cached_property
    def earned(self) -> Floats:
        """The gain of every document, as a share of the most."""
        by_doc = np.zeros(self.postings.size)
        for match in self.matches:
            by_doc[match.docs] += match.share * match.idf * dampened(match.often)
        by_doc /= self.most
        return by_doc

    def damped(self, match: WordMatch, chunks: Sequence[int]) -> Floats:
        """The gain of some chunks from one word, before it is weighed by how rare that is."""
        return match.share * dampened(_often_at(match, self.postings.places(np.array(chunks, np.int64))))

    @property
    def absent(self) -> tuple[str, ...]:
        """The words that no chunk has as they were typed; without pairs of characters of which one ends a word."""
        words = dict.fromkeys((*self.named_missing, *self.missing, *self.corrected))
        pairs = [form for match in self.matches if match.is_pair for form in match.forms if len(form) > 1]
        return tuple(word for word in words if not (ACROSS.match(word) or set().union(*pairs).intersection(word)))

    @property
    def known(self) -> float:
        """The share of the question's words, by weight, that any chunk has."""
        return self._share(sum(match.idf for match in self.matches if match.whole))

    def had_by(self, chunk: int) -> float:
        """The share of the question's words, by weight, that one chunk has."""
        had = self.matches_in(chunk)
        whole = sum(match.idf for match in had if match.whole)
        return self._share(whole + sum(match.idf * match.share for match in had if not match.whole))

    @property
    def unsure(self) -> bool:
        """Whether the words that were found may not be those that were meant."""
        return bool(self.named_missing or self.corrected) or self._share(self.guessed) > MOST_GUESSED

    def codes_in(self, docs: Docs) -> Floats:
        """The share of the question's codes that each of `docs` has."""
        share: Floats = np.mean([_often_at(match, docs) > 0 for match in self.coded], axis=0, dtype=np.float64)
        return share

    def names_others(self, chunk: int, stem: str) -> bool:
        """Whether the question names someone or something, and neither a chunk nor its file's name has any of it."""
        doc, plain = self.postings.place(chunk), stem.casefold()
        here = (match.in_doc(doc) or any(form in plain for form in match.forms) for match in self.named)
        return bool(self.named) and not any(here)

    def has_as_written(self, chunk: int) -> bool:
        """Whether a chunk has every word of the question as it is written."""
        return len(self.written) > 0 and self.postings.place(chunk) in self.written

    def rare_in(self, chunk: int) -> bool:
        """Whether a chunk has a word of the question that few chunks have; of pairs of characters it takes two."""
        few = max(RARE_LEAST, self.postings.count * RARE)
        rare = [one for one in self.matches_in(chunk) if one.share == 1.0 and len(one.docs) <= few]
        return sum(0.5 if match.is_pair else 1.0 for match in rare) >= 1.0

    @property
    def of_words(self) -> bool:
        """Whether most of what was found are words rather than pairs of characters, which stand everywhere."""
        return sum(not match.is_pair for match in self.matches) * 2 > len(self.matches)

    def only_in_code(self, chunk: int, text: str) -> bool:
        """Whether the telling words of the question that a chunk has stand in none of its prose."""
        had = self.matches_in(chunk)
        telling = max((match.idf for match in had), default=0.0) * TELLING
        forms = {form for match in had if match.idf >= telling for form in match.forms}
        return bool(had) and forms.isdisjoint(chain.from_iterable(terms_of(IN_CODE.sub(" ", text))))

    @property
    def stands_in(self) -> bool:
        """Whether a near spelling or a longer word stands for much of what was asked for."""
        partly = sum(match.idf for match in self.matches if match.share == PART_ONLY)
        return bool(self.corrected) or self._share(partly) > MOST_GUESSED

    def without(self, chunks: Iterable[int]) -> Self:
        """The same as if some chunks were not there."""
        gone = self.postings.places(np.fromiter(chunks, np.int64))
        if not len(gone):
            return self
        kept = []
        for match in self.matches:
            left = ~np.isin(match.docs, gone)
            kept += [replace(match, docs=match.docs[left], often=match.often[left])] if left.any() else []
        return replace(self, matches=kept, _held={})

    def keep(
        self, forms: Iterable[str], occurrences: tuple[Docs, Floats], share: float = 1.0, most: float | None = None
    ) -> None:
        """Add a word that was found, if any document has it; it is worth `most` at most."""
        docs, often = occurrences
        if len(docs):
            worth = idf(self.postings.count, len(docs))
            worth = worth if most is None else min(worth, most)
            self.matches.append(WordMatch(frozenset(forms), docs, often, worth, share))

    def _share(self, weight: float) -> float:
        return min(1.0, weight / (self.weight + self.lost)) if self.weight else 0.0

    def matches_in(self, chunk: int) -> list[WordMatch]:
        """The words that one chunk has; looked up once."""
        if chunk not in self._held:
            doc = self.postings.place(chunk)
            self._held[chunk] = [match for match in self.matches if match.in_doc(doc)]
        return self._held[chunk]

    def in_name(self, stem: str) -> float:
        """The share of the question's words in a file's name; a date says nothing that notes do not know."""
        plain = stem.casefold()
        had = [name for name in self.names if name in plain]
        return len(had) / len(self.names) if had and not DATE.fullmatch(stem) else 0.0

    def lacking(self, chunk: int) -> list[str]:
        """The words of the question that one chunk does not have."""
        doc = self.postings.place(chunk)
        absent = [match for match in self.matches if match.whole and not match.in_doc(doc)]
        plain = [sorted(form for form in match.forms if STEM_OF not in form) for match in absent]
        return [min(forms, key=len) for forms in plain] + self.missing

    def rank(self, chunk: int) -> int | None:
        """The chunk's place by words among all chunks, counted from 1; None when it has none of them."""
        earned, doc = self.earned, self.postings.place(chunk)
        return int((earned > earned[doc]).sum()) + 1 if doc >= 0 and earned[doc] else None

    def of_sections(self, docs: Docs, section: NDArray[np.int64], count: int) -> Floats:
        """The gain of `count` sections as a whole; `section` says in which one each of `docs` is."""
        lengths = np.bincount(section, self.postings.lengths[docs], count).astype(np.float64)
        divisor = by_length(lengths, float(lengths.sum()) / max(1, count) or 1.0)
        total = np.zeros(count)
        for match in self.matches:
            often = np.bincount(section, _often_at(match, docs), count) / divisor
            total += match.share * match.idf * dampened(often)
        return total / self.most


def summed(lists: Sequence[tuple[NDArray[Any], NDArray[Any]]], size: int) -> tuple[Docs, NDArray[Any]]:
    """The documents, of so many in all, that stand in any of some lists, in order, and the sum of their values."""
    if len(lists) < 2:
        return next(((docs.astype(np.int64), values) for docs, values in lists), (np.zeros(0, np.int64), np.zeros(0)))
    docs, values = (np.concatenate(some) for some in zip(*lists, strict=True))
    if len(docs) * SPARSE < size:
        known, at = np.unique(docs, return_inverse=True)
        return known.astype(np.int64), np.bincount(at, values)
    by_doc = np.bincount(docs, values, size)
    # Of truth values: those that are not zero are found five times faster than among numbers.
    known = np.flatnonzero(by_doc != 0)
    return known, by_doc[known]


def _often_at(match: WordMatch, docs: Docs) -> Floats:
    """How often each of `docs` has the word."""
    place = places_in(match.docs, docs)
    return np.where(place < 0, 0.0, match.often[place])


def match_words(postings: Postings, words: Sequence[Word], prefixes: Sequence[Sequence[Word]] = ()) -> WordMatches:
    """Look up every word of a question: as a whole, as a part of other words, and in near spellings."""
    telling = telling_words(words)
    plain = dict.fromkeys(word.exact[0] for word in telling)
    # Words of two Latin letters occur in many names by chance.
    found = WordMatches(postings, names=tuple(name for name in plain if len(name) > 2 or not name.isascii()))
    for word in {word.terms: word for word in telling}.values():
        _find(found, word)
    for prefix in prefixes:
        _find_endings(found, prefix)
    found.written = as_written(postings, words)
    found.titled = _having(postings, telling, ("heading",))
    return found


def as_written(postings: Postings, words: Sequence[Word]) -> Docs:
    """The documents that have every word as it is written; where none has, with the headings above. None for no words.

    A heading stands above many: beside a text that has all the words, those are not what was asked for.
    """
    itself = _having(postings, words, ("text",))
    return itself if len(itself) else _having(postings, words, ("text", "heading"))


def _having(postings: Postings, words: Sequence[Word], places: Sequence[str]) -> Docs:
    """The documents that have every word in one of these places."""

    def lists(word: Word) -> list[PostingList]:
        text = [postings.of("exact" if word.plain == word.exact[0] else "body", word.plain)] if "text" in places else []
        return text + ([postings.of("heading", word.terms[0])] if "heading" in places else [])

    def frequency(word: Word) -> float:
        # Nearly every document has the small words: they are looked up only for what has the others.
        return math.inf if is_small(word) else sum(len(held.docs) for held in lists(word))

    docs: Docs | None = None
    for word in sorted(words, key=frequency):
        if docs is None:
            docs, _ = summed([(held.docs, held.weights) for held in lists(word)], postings.size)
        else:
            docs = docs[np.any([places_in(held.docs, docs) >= 0 for held in lists(word)], axis=0)]
        if not len(docs):
            break
    return np.zeros(0, np.int64) if docs is None else docs


def _find_endings(found: WordMatches, prefix: Sequence[Word]) -> None:
    """Every word with this prefix; if there is none, or in a script without spaces, look up the prefix as it is."""
    plain = prefix[0].exact[0] if len(prefix) == 1 else ""
    # Of a pair of such characters the exact form is the first one only.
    spaced = plain and len(plain) >= len(prefix[0].terms[0])
    forms = found.postings.starting("exact", plain, MOST_ENDINGS) if spaced else []
    if forms:
        found.keep(forms, _occurrences(found.postings, forms, "exact"))
        found.weight += found.matches[-1].idf
        return
    for word in prefix:
        _find(found, word)


def _find(found: WordMatches, word: Word) -> None:
    postings = found.postings
    known = {form for other in found.matches if other.share == 1.0 for form in other.forms}
    # The groups of digits in a number are no words of it.
    terms = word.terms[:1] if POINTED.fullmatch(word.terms[0]) else word.terms
    new = [term for term in terms if term not in known]
    if not new:
        return
    before = len(found.matches)
    for term in new:
        more, also = (forms_in(word), respelled(word.exact[0])) if term == word.terms[0] else ([], [])
        forms = [term, *more]
        found.keep([*forms, *also], _occurrences(postings, forms, "body", "heading", exact=also))
    if len(found.matches) == before:
        # A single character of a script without spaces is no term of its own.
        found.keep(word.exact, _occurrences(postings, word.exact, "exact"))
    whole = found.matches[before:]
    inside = _find_inside(found, word, whole)
    if len(found.matches) == before:
        _find_compounded(found, word)
    if len(found.matches) == before:
        _find_spellings(found, word.plain)
    found.named += found.matches[before:] if word.is_name else ()
    if CODE.fullmatch(word.exact[0]):
        itself = [match for match in whole if not match.forms.isdisjoint((word.terms[0], word.exact[0]))]
        found.coded += itself or (found.matches[-1:] if inside else [])
    weight = sum(match.idf for match in found.matches[before:] if match.whole)
    unknown = idf(postings.count, 0)
    found.weight += weight or unknown
    lost = _lost(new, whole) if whole and not inside else 0
    if lost:
        found.lost += max(lost * unknown, PIECES_LACK * weight)
    if (lost or not whole) and not inside and (word.is_name or CODE.fullmatch(word.exact[0]) or lost > 1):
        found.named_missing.append(word.exact[0])


def _lost(terms: Sequence[str], whole: Sequence[WordMatch]) -> int:
    """How many terms of an identifier or number are missing of which only pieces are known: "TV" is not "ErsatzTV".

    A word of letters whose pieces are all there may be written apart: "road-trip", "road trip".
    """
    lost = [term for term in terms if all(term not in match.forms for match in whole)]
    apart = len(lost) == 1 and not any(char.isdigit() for char in terms[0])
    return len(lost) if terms[0] in lost and not apart else 0


def _find_compounded(found: WordMatches, word: Word) -> None:
    """A compound that no chunk has, by the two words that it is made of; they earn what a near spelling would."""
    for parts in compound_parts(word):
        there = [_occurrences(found.postings, forms, "body", "heading") for forms in parts]
        if all(len(docs) for docs, _ in there):
            for forms, occurrences in zip(parts, there, strict=True):
                found.keep(forms, occurrences, MISSPELT)
            return


def _find_inside(found: WordMatches, word: Word, whole: Sequence[WordMatch]) -> bool:
    """The word as a part of longer ones, in the chunks that do not have it as a whole.

    True if no chunk has it whole, so that those are all there is of it.
    """
    plain = word.exact[0]
    only = not any(word.terms[0] in match.forms or plain in match.forms for match in whole)
    if len(plain) < PART_LETTERS - only or (not only and sum(len(match.docs) for match in whole) > MOST_WHOLE):
        return False
    most_parts = MOST_PARTS_ONLY if only else MOST_PARTS
    longer = [form for form in found.postings.containing("exact", plain, most_parts) if form != plain]
    if only and whole and not CODE.fullmatch(plain):
        # Written apart ("road trip"), or of pieces that are words themselves.
        only = False
    compounds = [form for form in longer if word.language in COMPOUNDING and is_half(plain, form)]
    begins = compounds or ([form for form in longer if form.startswith(plain)] if only else [])
    docs, often = _occurrences(found.postings, begins or longer, "exact")
    if len(docs) and whole and not only:
        new = ~np.isin(docs, np.concatenate([match.docs for match in whole]))
        docs, often = docs[new], often[new]
    # A rare longer word must not outweigh the word itself where nearly every chunk has that.
    most = max((match.idf for match in whole), default=None) if not only else None
    share = PART_ONLY if only else COMPOUND if compounds else PART
    found.keep(begins or longer, (docs, often), share, most)
    if only and len(docs) and not begins and not CODE.fullmatch(plain):
        found.guessed += found.matches[-1].idf
    return only and len(docs) > 0


def _find_spellings(found: WordMatches, plain: str) -> None:
    tried = len(found.corrected) + len(found.missing)
    # A code with another digit is another code, and a word that is spelled right another word.
    tries = tried < MOST_TRIED and not CODE.fullmatch(plain) and not is_english(plain)
    near = found.postings.near("exact", plain, MOST_SPELLINGS) if tries else []
    if near:
        found.corrected[plain] = near
        found.keep(near, _occurrences(found.postings, near, "exact"), MISSPELT)
    else:
        found.missing.append(plain)


def _occurrences(
    postings: Postings, terms: Iterable[str], *fields: str, exact: Sequence[str] = ()
) -> tuple[Docs, Floats]:
    """The documents that have any of some terms, and how often, adjusted for length and with headings counted more."""
    wanted = [*((name, term) for name in fields for term in terms), *(("exact", form) for form in exact)]
    lists = [(name, held) for name, term in wanted if len((held := postings.of(name, term)).docs)]
    return summed([(held.docs, _often(postings, name, held)) for name, held in lists], postings.size)


def _often(postings: Postings, name: str, held: PostingList) -> Floats:
    if name == "heading":
        return np.full(len(held.docs), HEADING)
    return held.weights / postings.divisors[held.docs]
