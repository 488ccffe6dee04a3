"""Says in which language a text is written, by its script and by the small words that every sentence needs. Pure.

A table of small words, and no trained detector: those that know a hundred languages take 50 MB and guess at notes of
three words, where "I cannot tell" is the right answer; `docs/languages.md` has how often this one is right.
"""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from memd.models import grouped

ENGLISH = "en"

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
SMALL_WORDS = {language: frozenset(listed.split()) for language, listed in TABLES["small_words"].items()}
_LANGUAGES = grouped(
    (word, language) for language, small in SMALL_WORDS.items() for word in small if len(word) > 1 or not word.isascii()
)

WORD = re.compile(r"[^\W\d_]+")
ASCII_WORD = re.compile(r"[A-Za-z]+")
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|<!--.*?-->", re.DOTALL)
OWN_LETTERS = {letter: language for language, letters in TABLES["own_letters"].items() for letter in letters}
OWN_SIGNS = frozenset("¿¡")
GERMAN_DAY = re.compile(r"\b(?:am|vom|zum) [0-9]{1,2}\. ?(?:April|August|September|November)\b")
"""Of a month that English calls so, too."""
LETTER_WORTH = 0.5
"""The weight of a word with such a letter: one alone is a name or a loan ("jalapeño")."""
NAME_WORTH = 0.5
"""The share of its worth that a capital leaves to a word inside of a text: "Rio de Janeiro"."""

LETTERS = {"el": "{4,}"}
"""How many letters in a row are text: a single Greek one is a formula."""
SCRIPTS = {name: re.compile(f"[{letters}]{LETTERS.get(name, '+')}") for name, letters in TABLES["scripts"].items()}
PART = 20
"""One letter in so many of another script makes a text one of that language too; fewer are a name."""
READ = 2_000
"""Characters that are looked at."""
SURE, SHORT = 1.0, 100
"""Small words of another language that show it, in a text of up to so many characters; a longer one must have more."""
IN_ENGLISH = frozenset(TABLES["in_english"].split())


@lru_cache(maxsize=1_000)
def language_of(text: str) -> str:
    """The language of a text, as a code of two letters; empty when nothing shows it."""
    plain = CODE.sub(" ", text[:READ])
    return _by_script(plain) or _by_small_words(plain)


def foreign_language(text: str) -> str:
    """The language of a text, or of a good part of it; empty for English, and when nothing shows it."""
    language = language_of(text)
    return "" if language == ENGLISH else language


def signs_of(text: str, language: str) -> list[str]:
    """The small words and letters of a text by which it is taken for one of a language; none for a script."""
    letters = (letter for letter in dict.fromkeys(text.lower()) if OWN_LETTERS.get(letter) == language)
    small = (word for word in dict.fromkeys(WORD.findall(text.lower())) if language in _LANGUAGES.get(word, ()))
    return [*small, *letters]


def _by_script(text: str) -> str:
    """The language whose script a good part of the letters has."""
    if text.isascii():
        return ""
    runs: dict[str, int] = {language: sum(map(len, letters.findall(text))) for language, letters in SCRIPTS.items()}
    other = sum(runs.values())
    if not other or other * PART < sum(map(len, WORD.findall(text))):
        return ""
    if runs["ja"]:
        # Japanese takes its nouns from the Chinese script.
        runs["ja"] += runs.pop("zh")
    return max(runs, key=runs.__getitem__)


def _by_small_words(text: str) -> str:
    score = dict.fromkeys(SMALL_WORDS, 0.0)
    # In capitals it is an abbreviation.
    found = {word: None for word in (ASCII_WORD if text.isascii() else WORD).findall(text) if not word.isupper()}
    seen: set[str] = set()
    for nth, word in enumerate(found):
        plain = word.lower()
        share = NAME_WORTH if nth and word[0].isupper() else 1.0
        if plain in _LANGUAGES and plain not in seen:
            # A word that many languages have says little.
            worth = share * (0.5 if plain in IN_ENGLISH else 1.0) / len(_LANGUAGES[plain])
            for language in _LANGUAGES[plain]:
                score[language] += worth
        elif not plain.isascii() and plain not in seen:
            for language in {OWN_LETTERS[letter] for letter in OWN_LETTERS.keys() & set(plain)}:
                score[language] += share * LETTER_WORTH
        seen.add(plain)
    score["es"] += bool(OWN_SIGNS & set(text))
    score["de"] += bool(GERMAN_DAY.search(text))
    best = max(score, key=lambda language: (score[language], language == ENGLISH))
    sure = SURE * (1.0 if len(text) <= SHORT else 1.5)
    return best if score[best] and (best == ENGLISH or score[best] >= sure) else ""


FIRST_PERSON = re.compile(TABLES["first_person"])


def speaks_of_self(text: str) -> bool:
    """Whether a text speaks in the first person."""
    return bool(FIRST_PERSON.search(text))
