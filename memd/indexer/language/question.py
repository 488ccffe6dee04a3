"""Reads a question once, into one value: its words, times, phrases, exclusions, prefixes and filters.

    "a phrase"   -word   -"a phrase"   word*   tag:a   tags:a,b   role:r   path:"a b/c.md"   kind:k   tier:t
    since:2026-02-03   after:2026-02-03   from that day on        until:2026-02   to the end of that month
    before:2026-02-03   to the day before it                      on:2026   on:yesterday   on:"last week"

`after:` includes its day, as in mail search, so that `before:X` and `after:X` split the notes in two and lose none: a
filter that hides a day too many is the worse mistake. Filters of one sort narrow each other (tags and times), or the
last one counts. Whatever is not well formed is plain words: nothing here is an error.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from posixpath import normpath
from typing import Any, Self

from memd.indexer.language import dates, times
from memd.indexer.language.languages import TABLES, foreign_language, speaks_of_self
from memd.indexer.language.times import QuestionTimes, TimeSpan
from memd.indexer.language.words import (
    STOPWORDS,
    Word,
    distinct_terms,
    folded,
    is_english,
    is_small,
    telling_words,
    words,
)
from memd.models import KINDS, PINNED, TIERS, Filters
from memd.prose import composed, flat_line

QUOTED = r'"[^"]*"|“[^“”]*”'
ENDS = r"(?=[\s.,;:!?)\]]|$)"
OPERATOR = re.compile(
    rf"(?<![^\s(])(?:(?P<minus>-)?(?P<phrase>{QUOTED}){ENDS}"
    rf"|(?P<name>[A-Za-z]+):(?P<value>(?:{QUOTED}){ENDS}|[^\s\"“:][^\s\"“]*)"
    # A dash before one letter is more often a flag that someone looks for (`tar -x`) than a word to leave out.
    r"|-(?P<without>[^\W\d_][^\s\"]+|[^\W\d_a-zA-Z])"
    rf"|(?P<prefix>[^\W_](?:[\w'.-]*[^\W_]))\*{ENDS})"
)
TRAILING = ".,;:!?)]*"
ASKS_WHAT_IS = re.compile(r"^\W*(?:who|what)(?:['’](?:s|re)|\s+(?:is|are|was|were))\s", re.IGNORECASE)
DEFINED = 3
"""A question for who or what something is has at most so many telling words: the name."""

ASKS_WHAT_HOLDS = re.compile(r"\b(?:is|are|do|does|has|have|can|should|must)\b|['’]s\b", re.IGNORECASE)
ASKS_WHAT_WAS = re.compile(r"\b(?:did|was|were|had|happened|been|ago)\b", re.IGNORECASE)
ASKING = re.compile(TABLES["asking"])
DOING = frozenset(TABLES["doing"].split())
SAYS_NOTHING = STOPWORDS | DOING

OPENING = " \"'“‘„«(¿¡"
SENTENCE_ENDS = ("", ".", "!", "?", ":", "…")
CALENDAR = dates.ENGLISH.pattern("calendar")

ONE_OF = {"kind": KINDS, "tier": (*TIERS, PINNED)}
"""Filters with a few values."""

Words = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase that a chunk must have, or must not have."""

    text: str
    terms: tuple[str, ...]
    """The terms to look up; a stop word is one only in a phrase of nothing else."""
    forms: tuple[str, ...]
    """Every word as written, in order."""


@dataclass(frozen=True)
class ParsedQuestion:
    """A question, as every part of the search takes it."""

    text: str
    """The question without its operators, in its order and spelling; it includes the words of phrases."""
    words: Words
    """The words of `text`."""
    undated: Words
    """The same without the words that name a time: "last week" stands in no note of last week."""
    prefixes: tuple[Words, ...]
    phrases: tuple[Phrase, ...]
    without: tuple[Phrase, ...]
    filters: Filters
    times: QuestionTimes
    today: date

    @property
    def has_words(self) -> bool:
        """Whether there is anything to search for besides filters and exclusions."""
        return bool(self.text or self.prefixes)

    @cached_property
    def defines(self) -> bool:
        """Whether it asks who or what something is."""
        return bool(ASKS_WHAT_IS.match(self.text)) and len(telling_words(self.words)) <= DEFINED

    @cached_property
    def own(self) -> bool:
        """Whether who asks speaks of themselves."""
        return speaks_of_self(self.text)

    @cached_property
    def holds(self) -> bool:
        """Whether it asks for what is true now rather than for what happened."""
        past = self.times.spans or ASKS_WHAT_WAS.search(self.text)
        return not past and bool(ASKS_WHAT_HOLDS.search(self.text))

    @cached_property
    def only_time(self) -> bool:
        """Whether it asks for nothing but a time: "what did we do last week", "what happened last"."""
        says_more = self.prefixes or any(word.exact[0] not in SAYS_NOTHING for word in self.undated)
        return bool(self.times.spans or self.times.newest or times.LATELY.search(self.text)) and not says_more

    @property
    def says_something(self) -> bool:
        """Whether it has a word of English besides its time: a model is near to letters at random too."""
        telling = [word.exact[0] for word in self.undated if not is_small(word)]
        said = [word for word in telling if word.isalpha() and word not in SAYS_NOTHING]
        return any(map(is_english, said)) or (bool(said) and len(telling) < len(self.undated))

    @property
    def at_its_time(self) -> Self | None:
        """The same asked of the notes of the one time that it names, seen from today; None if it names none.

        "Yesterday" stands in no note of yesterday, so those words are not looked for.
        """
        named = self.times.spans if self.only_time else self.times.relative
        newest = self.only_time and not named
        if len(named) != 1 and not newest:
            return None
        text = times.without_times(self.text, QuestionTimes(named)) if not self.only_time else ""
        cut = _sought(text, foreign_language(self.text))
        filters = self.filters if newest else narrow(self.filters, _between(named[0]))
        asked = replace(self.times, spans=(), relative=(), newest=False)
        return replace(self, text=text, words=cut, undated=cut, filters=filters, times=asked)


def parse(text: str, today: date, filters: Filters | None = None) -> ParsedQuestion:
    """Read a question; `today` is the day that "yesterday" is counted from, and `filters` hold besides its own."""
    text = composed(text)
    filters, phrases, without, prefixes = filters or Filters(), list[str](), list[str](), list[tuple[Word, ...]]()
    plain, end = "", 0
    for match in OPERATOR.finditer(text):
        quoted = (match["phrase"] or "")[1:-1]
        if match["name"]:
            own = _filter(match["name"].lower(), match["value"], today)
            filters = narrow(filters, own)
            if not own:
                continue
        elif match["prefix"]:
            prefixes.append(tuple(words(match["prefix"])))
        elif match["without"]:
            without.append(match["without"].rstrip(TRAILING))
        elif _says_something(quoted):
            (without if match["minus"] else phrases).append(flat_line(quoted))
        else:
            continue
        plain += text[end : match.start()] + ("" if match["minus"] else quoted)
        end = match.end()
    left = flat_line(plain + text[end:])
    # Beside operators a lone comma or bracket is no question; without any it may be one (an emoji).
    left = left if end == 0 or _says_something(left) else ""
    language, named = foreign_language(left), times.question_times(left, today)
    cut = _sought(left, language)
    timed = named.spans or named.newest or times.LATELY.search(left)
    undated = _undated(times.without_times(left, named), language) if timed else cut
    sought = tuple(map(phrase, phrases)), tuple(map(phrase, without))
    return ParsedQuestion(left, cut, undated, tuple(prefixes), *sought, filters, named, today)


def without_operators(text: str) -> str | None:
    """The words of a question as the model reads them; None if it has operators, which `parse` takes out first."""
    return None if OPERATOR.search(text) else flat_line(text)


def phrase(text: str) -> Phrase:
    cut = tuple(words(text))
    return Phrase(text, tuple(distinct_terms(cut)), phrase_forms(cut))


def phrase_forms(cut: Iterable[Word]) -> tuple[str, ...]:
    """Every word as written, but for accents; in a script without spaces the pairs, each of which holds the next one's
    first half."""
    return tuple(folded(word.plain) for word in cut)


def narrow(one: Filters, other: Filters) -> Filters:
    """Both filters at once: every tag, the shorter time, and of two kinds, roles, paths or tiers the other's."""
    either = {name: getattr(other, name) or getattr(one, name) for name in ("kind", "role", "path", "tier")}
    tags, since = tuple(dict.fromkeys(one.tags + other.tags)), max(one.since, other.since)
    # "2026-02" includes its days, so it ends after 2026-02-03.
    until = min(filter(None, (one.until, other.until)), key=lambda day: f"{day}~", default="")
    return Filters(**either, tags=tags, since=since, until=until)


def _sought(text: str, language: str) -> Words:
    """The words to look for: "latest" is one only where there is no other."""
    return _words_in(_without_newest(text), language) or _words_in(text, language)


def _without_newest(text: str) -> str:
    """The question without what asks for the newest; the other words keep their places."""
    return times.NEWEST.sub(lambda match: " " * len(match.group()), text)


def _words_in(text: str, language: str) -> Words:
    """The words of a question, which know what language it is in and whether they are names."""
    cut = list(words(text))
    # German writes every noun with a capital, some people every word.
    tells = language != "de" and any(text[word.start].islower() for word in telling_words(cut))
    return tuple(word._replace(language=language, is_name=tells and _is_name(text, word)) for word in cut)


def _is_name(text: str, word: Word) -> bool:
    """Whether it has a capital that no sentence begins with, and is no day or month."""
    written, before = text[word.start : word.end], text[: word.start].rstrip(OPENING)
    capital = written[0].isupper() and written[1:2].islower()
    return capital and before[-1:] not in SENTENCE_ENDS and not CALENDAR.fullmatch(word.exact[0])


def _undated(text: str, language: str) -> Words:
    """The words of a question that name no time; in other languages than English without those that only ask."""
    text = times.LATELY.sub(" ", _without_newest(text))
    cut = _words_in(ASKING.sub(" ", text) if language else text, language)
    return tuple(word for word in cut if not language or not (word.exact[0] in DOING or is_small(word)))


def _filter(name: str, value: str, today: date) -> Filters:
    """The filter that `name:value` means; an empty one when it means none."""
    value = value[1:-1].strip() if value[0] in '"“' else value.rstrip(TRAILING.replace("*", ""))
    if not _says_something(value):
        return Filters()
    if name in ("tag", "tags"):
        tags = (tag.strip().lstrip("#") for tag in value.split(","))
        return Filters(tags=tuple(tag for tag in tags if tag))
    if name not in ("role", "path", *ONE_OF):
        return time_filter(name, value, today)
    if name in ONE_OF and (value := value.lower()) not in ONE_OF[name]:
        return Filters()
    named: dict[str, Any] = {name: normpath(value) if name == "path" else value}
    return Filters(**named)


def time_filter(name: str, value: str, today: date) -> Filters:
    """The filter of `since`, `after`, `until`, `before` or `on` a time; an empty filter when it is no time."""
    span = times.single(value, today) if name in ("since", "after", "until", "before", "on") else None
    if span is None:
        return Filters()
    days = _between(span)
    if name == "on":
        return days
    if name == "until":
        return Filters(until=days.until)
    if name == "before":
        return Filters(until=(span.first - timedelta(days=1)).isoformat()) if days.since else Filters()
    return Filters(since=days.since)


def _between(span: TimeSpan) -> Filters:
    return Filters(
        since="" if span.first == date.min else span.first.isoformat(),
        until="" if span.last == date.max else span.last.isoformat(),
    )


def _says_something(text: str) -> bool:
    return any(char.isalnum() for char in text)
