"""Cuts text into the words that are indexed and searched, with the place of each.

A word has exact forms (as written, NFC, case folded) and terms (accents folded, English stems, the parts of
a code identifier). Scripts without spaces become pairs of characters; a single character is an exact form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import Stemmer

UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
"""Signs that belong to the letter before them and that `\\w` does not know."""

LETTER = rf"(?:(?![{UNSPACED}])[\w{MARKS}])"
TOKEN = re.compile(rf"[{UNSPACED}]+|{LETTER}+(?:[-.'’]{LETTER}+)*")
ASCII_TOKEN = re.compile(r"\w+(?:[-.']\w+)*", re.ASCII)
UNSPACED_RUN = re.compile(rf"[{UNSPACED}]+")
JOINT = re.compile(r"[-._]+")
APOSTROPHE = re.compile(r"['’]")
HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
MAX_WORD = 120
"""Longer runs are data (base64, hashes), cut so that the lexicon stays small."""

STOPWORDS = frozenset(
    "a about an and are as at be been but by can did do does for from had has have he her his how i if in into is it "
    "its me my of on or our she so that the their them there they this to was we were what when where which who why "
    "will with would you your".split()
)


class Word(NamedTuple):
    """One word of a text: its span, its exact forms and its terms."""

    start: int
    end: int
    exact: tuple[str, ...]
    terms: tuple[str, ...]


def words(text: str) -> Iterator[Word]:
    """Every word of `text`, in order."""
    for found in TOKEN.finditer(text):
        token = found.group()
        if UNSPACED_RUN.match(token):
            yield from _pairs(token, found.start())
        else:
            exact, terms = _forms(token[:MAX_WORD])
            if terms:
                yield Word(found.start(), found.end(), exact, terms)


def terms_of(text: str) -> tuple[list[str], list[str]]:
    """The terms and the exact forms of a text, repetitions kept: what an index counts."""
    terms: list[str] = []
    exact: list[str] = []
    plain = text.isascii()
    for token in (ASCII_TOKEN if plain else TOKEN).findall(text):
        if not plain and UNSPACED_RUN.match(token):
            for word in _pairs(token, 0):
                terms += word.terms
                exact += word.exact
        else:
            forms = _forms(token[:MAX_WORD])
            exact += forms[0] if forms[1] else ()
            terms += forms[1]
    return terms, exact


def only_terms(text: str) -> list[str]:
    """The terms of a text, repetitions kept."""
    if not text.isascii():
        return terms_of(text)[0]
    # Most lines are plain: the pattern for them takes a fifth of the time.
    return [term for token in ASCII_TOKEN.findall(text) for term in _forms(token[:MAX_WORD])[1]]


def telling_words(text: str) -> list[Word]:
    """The words of a question without those that every text has, unless it has no others."""
    found = list(words(text))
    return [word for word in found if word.exact[0] not in STOPWORDS] or found


def says_something(text: str) -> bool:
    """Whether it has a word that not every text has."""
    return any(word.exact[0] not in STOPWORDS for word in words(text))


def query_terms(text: str) -> tuple[list[str], list[str]]:
    """The distinct terms and exact forms of a question, without the words that every text has."""
    telling = telling_words(text)
    terms = dict.fromkeys(term for word in telling for term in word.terms)
    exact = dict.fromkeys(form for word in telling for form in word.exact if not _is_pair(word))
    return list(terms), list(exact)


def _is_pair(word: Word) -> bool:
    """A pair says more than its two characters, which stand in many other words."""
    return word.end - word.start == 2 and len(word.terms[0]) == 2 and bool(UNSPACED_RUN.fullmatch(word.terms[0]))


def _pairs(run: str, start: int) -> Iterator[Word]:
    if len(run) == 1:
        yield Word(start, start + 1, (_plain(run),), (_plain(run),))
        return
    for at in range(len(run) - 1):
        pair = _plain(run[at : at + 2])
        single = (_plain(run[at]),) if at < len(run) - 2 else (_plain(run[at]), _plain(run[at + 1]))
        yield Word(start + at, start + at + 2, single, (pair,))


@lru_cache(maxsize=50_000)
def _forms(token: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The exact forms and terms of one token: whole, and by its parts where it is an identifier."""
    if token.isascii() and token.isalpha() and (token.islower() or token.istitle() or token.isupper()):
        whole = token.lower()
        return (whole,), (_stem(whole),)
    token = APOSTROPHE.sub("", POSSESSIVE.sub("", token)).strip("_")
    if not token:
        return (), ()
    pieces = [piece for piece in JOINT.split(token) if piece]
    parts = [hump for piece in pieces if piece.isascii() for hump in HUMP.findall(piece)]
    whole = _plain(token)
    exact = dict.fromkeys((whole, *(_plain(piece) for piece in pieces)))
    # A sign without its letter folds to nothing.
    terms = dict.fromkeys(term for part in (whole, *pieces, *parts) if (term := _term(_plain(part))))
    return tuple(exact), tuple(terms)


def _plain(token: str) -> str:
    if token.isascii():
        return token.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", token).casefold())


@lru_cache(maxsize=50_000)
def _term(plain: str) -> str:
    """Accents folded; English words by their stem."""
    folded = _fold(plain)
    return _stem(folded) if folded.isascii() and folded.isalpha() else folded


def _fold(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", decomposed))


_stem = Stemmer.Stemmer("english").stemWord
