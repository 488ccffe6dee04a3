"""Cuts text into the words that memd indexes and searches, with their places.

A word has exact forms (as written, NFC, case folded) and terms (accents folded, English stems, the parts of a code
identifier, what is behind an elision). Scripts without spaces become pairs of characters; a single character is an
exact form. Words in other languages have a stem of theirs besides, marked with its language so that it meets no
English one.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import Stemmer

from memd.indexer.language.languages import SMALL_WORDS, TABLES
from memd.prose import composed

UNSPACED, MARKS = TABLES["unspaced"], TABLES["marks"]
LETTER = rf"(?:(?![{UNSPACED}])[\w{MARKS}])"
SIGN = "[\u2600-\u27bf\U0001f000-\U0001faff]"
"""An emoji, a tick and the like: a word, and a small one beside others."""
SOFT_HYPHEN = "\u00ad"
"""Where a word may be cut at the end of a line; it is no part of the word."""
GROUPED = r"\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?!\d)(?:\.\d+)?"
"""A number in groups of three digits."""
TOKEN = re.compile(rf"[{UNSPACED}]+|{GROUPED}|{LETTER}+(?:[-.'’{SOFT_HYPHEN}]{LETTER}+)*|{SIGN}")
ASCII_TOKEN = re.compile(rf"{GROUPED}|\w+(?:[-.']\w+)*", re.ASCII)
SIGNS = re.compile(SIGN)
UNSPACED_RUN = re.compile(rf"[{UNSPACED}]+")
JOINT = re.compile(r"[-._]+")
GROUPING = re.compile(r"[,\u00a0\u202f]")
POINTED = re.compile(r"\d{1,3}(?:\.\d{3}){1,2}")
"""May be a number in groups too, as in German; with a third point it is an address."""
APOSTROPHE = re.compile(r"['’]")
HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
ELISION = re.compile(TABLES["elision"])
"""A short word without its vowel before another word, in French and Italian: "l'" in "l'été"."""
POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
MAX_WORD = 120
"""Longer runs are data (base64, hashes), cut so that the lexicon stays small."""
MOST_KNOWN = 5_000
"""Words whose forms are kept, in each of three caches. Ten times as many take 35 MB in two of them, and make cutting
two percent faster: what is left are numbers and names."""

STOPWORDS = frozenset(TABLES["stopwords"].split())
SMALL = {"": STOPWORDS, **SMALL_WORDS}
"""The words that say nothing by themselves, by the language of a question; empty for English."""


class Word(NamedTuple):
    """One word of a text: its span, its exact forms and its terms."""

    start: int
    end: int
    exact: tuple[str, ...]
    terms: tuple[str, ...]
    language: str = ""
    """The language of the question that it stands in, if that is not English."""
    is_name: bool = False
    """Whether the question writes it as a name."""

    @property
    def plain(self) -> str:
        """As it is written; of a pair of characters the exact form is only the first one."""
        return self.terms[0] if UNSPACED_RUN.match(self.exact[0]) else self.exact[0]


def words(text: str) -> Iterator[Word]:
    """Every word of `text`, in order."""
    for match in TOKEN.finditer(text):
        token = match.group()
        if UNSPACED_RUN.match(token):
            yield from _pairs(token, match.start())
        else:
            exact, terms = _forms(token)
            if terms:
                yield Word(match.start(), match.end(), exact, terms)


def terms_of(text: str) -> tuple[list[str], list[str]]:
    """The terms and the exact forms of a text, repetitions kept: what an index counts."""
    terms: list[str] = []
    exact: list[str] = []
    # Most lines are plain: the pattern for them takes a fifth of the time.
    plain = text.isascii()
    for token in (ASCII_TOKEN if plain else TOKEN).findall(text):
        if not plain and UNSPACED_RUN.match(token):
            for word in _pairs(token, 0):
                terms += word.terms
                exact += word.exact
        else:
            forms = _forms(token)
            exact += forms[0] if forms[1] else ()
            terms += forms[1]
    return terms, exact


def only_terms(text: str) -> list[str]:
    """The terms of a text, repetitions kept."""
    return terms_of(text)[0]


STEMMERS = {language: Stemmer.Stemmer(name).stemWord for language, name in TABLES["stemmers"].items()}
STEM_OF = "ǀ"
"""Between a language and a stem in it: a letter, so that it stays one word, which no text has."""


def stems_of(text: str, language: str) -> list[str]:
    """The stems of a text's words in its language, where they differ from their terms; repetitions kept."""
    if language not in STEMMERS:
        return []
    tokens = (token[:MAX_WORD] for token in TOKEN.findall(text) if not UNSPACED_RUN.match(token))
    return [stem for token in tokens if (stem := _marked_stem(_plain(token), language))]


def forms_in(word: Word) -> list[str]:
    """Other terms that a question's word may be indexed as: in another language, or as a number in groups."""
    plain = word.exact[0]
    if POINTED.fullmatch(plain):
        return [plain.replace(".", "")]
    if word.language not in STEMMERS or not plain.isalpha():
        return []
    stem = _marked_stem(plain, word.language) or f"{word.language}{STEM_OF}{word.terms[0]}"
    return [stem, stem.partition(STEM_OF)[2]]


UMLAUTS = TABLES["umlauts"]
DIGRAPH, UMLAUT = re.compile("|".join(UMLAUTS)), str.maketrans({letter: two for two, letter in UMLAUTS.items()})


def respelled(plain: str) -> list[str]:
    """A word with its umlauts as two letters, or two letters as an umlaut: "mueller" for "müller" and back."""
    spelled = DIGRAPH.sub(lambda two: UMLAUTS[two.group()], plain), plain.translate(UMLAUT)
    return [other for other in spelled if other != plain]


COMPOUNDING = ("de", "nl", "sv", "da")
JOINTS = ("", "s", "es", "n", "en", "er", "e")
"""Letters that may stand between the two halves of a compound."""
HALF_LETTERS = 4


def compound_parts(word: Word) -> Iterator[tuple[list[str], list[str]]]:
    """The ways to take a long word apart, each half as what it may be indexed as; longest second halves first.

    One word alone does not tell its language: without one, whatever is no usual English word may be a compound.
    """
    plain = word.exact[0]
    may_be = word.language in COMPOUNDING or not (word.language or is_english(plain))
    if not may_be or not plain.isalpha():
        return
    for at in range(HALF_LETTERS, len(plain) - HALF_LETTERS + 1):
        for joint in JOINTS:
            first = plain[:at].removesuffix(joint)
            if plain[:at].endswith(joint) and len(first) >= HALF_LETTERS:
                yield _indexed_as(first, word.language), _indexed_as(plain[at:], word.language)


def is_half(plain: str, compound: str) -> bool:
    """Whether a word begins or ends a longer one, with enough left for another word."""
    return len(compound) - len(plain) >= HALF_LETTERS - 1 and compound.startswith(plain) | compound.endswith(plain)


def _indexed_as(plain: str, language: str) -> list[str]:
    return [_term(plain), *forms_in(Word(0, 0, (plain,), (_term(plain),), language))]


@lru_cache(maxsize=MOST_KNOWN)
def _marked_stem(plain: str, language: str) -> str:
    stem = folded(STEMMERS[language](plain)) if plain.isalpha() else ""
    return f"{language}{STEM_OF}{stem}" if stem and stem != _term(plain) else ""


def telling_words(words: Iterable[Word]) -> list[Word]:
    """The words of a question without stop words, unless it has no others."""
    cut = list(words)
    return [word for word in cut if not is_small(word)] or cut


@lru_cache(maxsize=1)
def _english() -> str:
    """The words that the tokenizer of the English model has as a whole, one in a line."""
    return "\n" + Path(__file__).with_name("english.txt").read_text(encoding="ascii")


def is_english(word: str) -> bool:
    """Whether a word of five letters or more is a usual English one, in lower case."""
    return f"\n{word}\n" in _english()


def is_small(word: Word) -> bool:
    """Whether a word says nothing by itself, in English or in the language of its question."""
    return word.exact[0] in SMALL.get(word.language, ()) or SIGNS.match(word.exact[0]) is not None


def distinct_terms(words: Iterable[Word]) -> list[str]:
    """The terms of a question's telling words, each once."""
    return list(dict.fromkeys(term for word in telling_words(words) for term in word.terms))


def query_terms(text: str) -> list[str]:
    """The distinct terms of a text, without stop words."""
    return distinct_terms(words(text))


def _pairs(run: str, start: int) -> Iterator[Word]:
    """Every two characters; a pair has its first one as an exact form, the last pair both."""
    # Parts of a run without compatibility characters, as nearly all are, are plain themselves.
    plain = str if unicodedata.is_normalized("NFKC", run) else _plain
    for at in range(max(1, len(run) - 1)):
        pair, is_last = run[at : at + 2], at >= len(run) - 2
        exact = tuple(map(plain, pair if is_last else pair[0]))
        yield Word(start + at, start + at + len(pair), exact, (plain(pair),))


@lru_cache(maxsize=MOST_KNOWN)
def _forms(token: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The exact forms and terms of one token: whole, and by its parts where it is an identifier."""
    token = token[:MAX_WORD]
    if token.isascii() and token.isalpha() and (token.islower() or token.istitle() or token.isupper()):
        whole = token.lower()
        return (whole,), (_stem(whole),)
    elided = ELISION.match(token := POSSESSIVE.sub("", token.replace(SOFT_HYPHEN, "")))
    behind = APOSTROPHE.sub("", token[elided.end() :]) if elided else ""
    token = APOSTROPHE.sub("", token).strip("_")
    if not token:
        return (), ()
    # In "401,403" each may be a number of its own.
    groups = GROUPING.split(token.partition(".")[0]) if GROUPING.search(token) else []
    token = GROUPING.sub("", token)
    pieces = [piece for piece in JOINT.split(f"{token}-{behind}") if piece]
    pieces += [token.replace(".", "")] if POINTED.fullmatch(token) else []
    parts = [hump for piece in pieces if piece.isascii() for hump in HUMP.findall(piece)]
    whole = _plain(token)
    exact = dict.fromkeys((whole, *(_plain(piece) for piece in (*pieces, *groups))))
    # A sign without its letter folds to nothing.
    terms = dict.fromkeys(term for part in (whole, *pieces, *parts) if (term := _term(_plain(part))))
    return tuple(exact), tuple(terms)


def _plain(token: str) -> str:
    if token.isascii():
        return token.lower()
    return composed(unicodedata.normalize("NFKC", token.replace(SOFT_HYPHEN, "")).casefold())


@lru_cache(maxsize=MOST_KNOWN)
def _term(plain: str) -> str:
    """Accents folded; English words by their stem."""
    bare = folded(plain)
    return _stem(bare) if bare.isascii() and bare.isalpha() else bare


FOLDED = str.maketrans(TABLES["folded"])
"""Letters that Unicode does not take apart."""


def folded(text: str) -> str:
    """A text without accents."""
    if text.isascii():
        return text
    return composed(re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text)).translate(FOLDED))


_english_stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
IRREGULAR = {form: base for base, forms in TABLES["irregular"].items() for form in forms.split()}


def _stem(word: str) -> str:
    """The stem of an English word in lower case: "bought" has that of "buy"."""
    return _english_stem(IRREGULAR.get(word, word))
