"""Reads a question: its plain words, and the phrases, exclusions, prefixes and filters written in it.

    "a phrase"   -word   -"a phrase"   word*   tag:a   tags:a,b   role:r   path:"a b/c.md"   kind:k   tier:t
    since:2026-02-03   after:2026-02-03   from that day on        until:2026-02   to the end of that month
    before:2026-02-03   to the day before it                      on:2026   on:yesterday   on:"last week"

`after:` takes in its day, as it does in the mail search that made it known, so that `before:X` and `after:X` part the
notes in two and lose none; a filter that hides a day too many is the worse mistake. Filters of one sort narrow each
other (tags and times) or the last one counts. Whatever is not well formed is plain words: nothing here is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from memd.indexer.language import when
from memd.models import KINDS, PINNED, TIERS, Filters

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


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, taken apart.

    `words` is what is left to be searched as plain words and by meaning, in its order and spelling; the words of
    phrases are in it, those of the other operators are not. It is empty where there is nothing but operators.
    """

    words: str = ""
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)


def parse(text: str, now: date) -> ParsedQuestion:
    """Take a question apart; `now` is the day that "yesterday" is counted from."""
    asked = ParsedQuestion()
    words: list[str] = []
    end = 0
    for found in OPERATOR.finditer(text):
        more = _read(asked, found, now)
        if more is None:
            continue
        words += text[end : found.start()], _unquoted(found["phrase"]) if found["phrase"] and not found["minus"] else ""
        asked, end = more, found.end()
    left = " ".join("".join([*words, text[end:]]).split())
    # Beside operators a lone comma or bracket is no question; without any it may be one (an emoji).
    return replace(asked, words=left if end == 0 or _tells(left) else "")


def narrow(one: Filters, other: Filters) -> Filters:
    """Both filters at once: every tag, the shorter time, and of two kinds, roles, paths or tiers the other's."""
    return Filters(
        kind=other.kind or one.kind,
        tags=tuple(dict.fromkeys(one.tags + other.tags)),
        role=other.role or one.role,
        path=other.path or one.path,
        since=max(one.since, other.since),
        # "2026-02" takes in its days, so that it ends after 2026-02-03.
        until=min(filter(None, (one.until, other.until)), key=lambda day: f"{day}~", default=""),
        tier=other.tier or one.tier,
    )


def _read(asked: ParsedQuestion, found: re.Match[str], now: date) -> ParsedQuestion | None:
    """The question with one more operator, or nothing where it is none."""
    if found["name"]:
        filters = _filter(found["name"].lower(), found["value"], now)
        return replace(asked, filters=narrow(asked.filters, filters)) if filters else None
    if found["prefix"]:
        return replace(asked, prefixes=(*asked.prefixes, found["prefix"]))
    if found["without"]:
        return replace(asked, without=(*asked.without, found["without"].rstrip(TRAILING)))
    phrase = " ".join(_unquoted(found["phrase"]).split())
    if not _tells(phrase):
        return None
    if found["minus"]:
        return replace(asked, without=(*asked.without, phrase))
    return replace(asked, phrases=(*asked.phrases, phrase))


def _filter(name: str, value: str, now: date) -> Filters | None:
    value = _unquoted(value).strip() if value[0] in '"“' else value.rstrip(TRAILING.replace("*", ""))
    if not _tells(value):
        return None
    if name in ("tag", "tags"):
        tags = (tag.strip().lstrip("#") for tag in value.split(","))
        return Filters(tags=tuple(tag for tag in tags if tag))
    if name == "kind":
        return Filters(kind=value.lower()) if value.lower() in KINDS else None
    if name == "tier":
        return Filters(tier=value.lower()) if value.lower() in (*TIERS, PINNED) else None
    if name == "role":
        return Filters(role=value)
    if name == "path":
        return Filters(path=value)
    return _time(name, value, now)


def _time(name: str, value: str, now: date) -> Filters | None:
    span = when.single(value, now) if name in ("since", "after", "until", "before", "on") else None
    if span is None:
        return None
    first = "" if span.first == date.min else span.first.isoformat()
    last = "" if span.last == date.max else span.last.isoformat()
    if name == "on":
        return Filters(since=first, until=last)
    if name == "until":
        return Filters(until=last)
    if name == "before":
        return Filters(until=(span.first - timedelta(days=1)).isoformat()) if first else None
    return Filters(since=first)


def _unquoted(quoted: str) -> str:
    return quoted[1:-1]


def _tells(text: str) -> bool:
    return any(char.isalnum() for char in text)
