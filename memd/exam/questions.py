"""Reads an exam: questions with their expected answers, one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from memd.exam.scoring import LONGEST, LineSpan
from memd.models import Hit

PLACE = re.compile(r"(?P<path>[^#]+\.mdk?)(:(?P<first>[1-9]\d{0,8})(-(?P<last>[1-9]\d{0,8}))?)?")
LAST_LINE = 10**9
LONGEST_QUESTION = 10_000
KEYS = '"question", and "expect" (a key or path:line) or "expect_text"'


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """One thing that must be found: lines of a file, a memory, or a piece of text."""

    label: str
    """As written in the exam, for the list of misses."""
    span: LineSpan | None = None
    key: str = ""
    text: str = ""

    def matches(self, hit: Hit) -> bool:
        """Whether the hit is what is expected, however long it is."""
        if self.span is not None:
            path = f"{hit.root}/{hit.path}" if self.span.path.startswith("/") else hit.path
            return self.span.overlaps(LineSpan(path, hit.start_line, hit.end_line))
        if self.key:
            base, _, slug = self.key.partition("#")
            return base in (hit.path, PurePosixPath(hit.path).stem) and slug == hit.key.partition("#")[2]
        return self.text in _flat(hit.text)


@dataclass(frozen=True, slots=True)
class ExamQuestion:
    """One question of an exam."""

    line: int
    text: str
    expected: tuple[ExpectedAnswer, ...]
    category: str = ""
    ns: str = ""

    def answered_by(self, hit: Hit) -> bool:
        return any(one.matches(hit) for one in self.expected)


@dataclass(frozen=True, slots=True)
class QuestionProblem:
    """A line that could not be used, and why."""

    line: int
    why: str


def read(text: str) -> tuple[list[ExamQuestion], list[QuestionProblem]]:
    """The questions of a file, and the problems of its other lines; empty lines and # comments are skipped."""
    numbered = enumerate(text.removeprefix("\ufeff").split("\n"), 1)
    return collect((line, row) for line, row in numbered if row.strip() and not row.lstrip().startswith("#"))


def collect(entries: Iterable[tuple[int, Any]]) -> tuple[list[ExamQuestion], list[QuestionProblem]]:
    """Questions from numbered entries, each an object or the JSON of one."""
    questions, problems = [], []
    for line, entry in entries:
        try:
            question = _question(line, json.loads(entry) if isinstance(entry, str) else entry)
        except json.JSONDecodeError as error:
            problems.append(QuestionProblem(line, f"not JSON: {error.msg} (column {error.colno})"))
        except (ValueError, RecursionError) as error:
            problems.append(QuestionProblem(line, str(error) or "nested too deep"))
        else:
            questions += [question] if question is not None else []
    return questions, problems


def _question(line: int, entry: Any) -> ExamQuestion | None:
    """One entry; None if its author marked it as having no answer."""
    if not isinstance(entry, dict):
        raise ValueError(f"not an object with {KEYS}")
    if entry.get("scorable") is False or entry.get("adversarial") is True:
        return None
    text = entry.get("question", entry.get("query"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"question" must be a text')
    if len(text) > LONGEST_QUESTION:
        raise ValueError(f'"question" is longer than {LONGEST_QUESTION:,} characters')
    expected = (*_expected(entry), *_texts(entry), *_gold(entry))
    if not expected:
        raise ValueError('it does not say what to expect: "expect" (a key or path:line) or "expect_text"')
    ns = entry.get("ns", entry.get("haystack")) or ""
    return ExamQuestion(line, text, tuple(dict.fromkeys(expected)), str(entry.get("category") or ""), str(ns))


def _list(entry: dict[str, Any], name: str) -> list[Any]:
    value = entry.get(name)
    return [] if value is None else value if isinstance(value, list) else [value]


def _expected(entry: dict[str, Any]) -> list[ExpectedAnswer]:
    found = []
    for value in _list(entry, "expect"):
        if isinstance(value, dict):
            found.append(_place(value))
        elif isinstance(value, str) and value.strip():
            found.append(_from_text(value.strip()))
        else:
            raise ValueError(f'"expect" must be a key or path:line, or a list of them, not {value!r}')
    return found


def _from_text(value: str) -> ExpectedAnswer:
    """`memory/2026-02-15.md:12`, `…:12-14` or the file alone; anything else is a key."""
    place = PLACE.fullmatch(value)
    if place is None:
        return ExpectedAnswer(value, key=value)
    first = int(place["first"] or 1)
    last = int(place["last"] or place["first"] or LAST_LINE)
    if last < first:
        raise ValueError(f'"expect": the lines of {value} run backwards')
    return ExpectedAnswer(value, LineSpan(place["path"].removeprefix("./"), first, last))


def _texts(entry: dict[str, Any]) -> list[ExpectedAnswer]:
    found = []
    for value in _list(entry, "expect_text"):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f'"expect_text" must be a text, or a list of texts, not {value!r}')
        found.append(ExpectedAnswer(f'"{value.strip()}"', text=_flat(value)))
    return found


def _gold(entry: dict[str, Any]) -> list[ExpectedAnswer]:
    """The places of a labelled collection: its turns, or its sessions where it has no turns."""
    return [_place(value) for value in _list(entry, "gold_turns") or _list(entry, "gold_sessions")]


def _place(value: Any) -> ExpectedAnswer:
    try:
        span = LineSpan(str(value["file"]), int(value["start"]), int(value["end"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f'a place needs "file", "start" and "end", not {value!r}') from None
    return ExpectedAnswer(str(span), span)


def _flat(text: str) -> str:
    """Text for comparison: without case, every run of white space as one space."""
    return " ".join(text.casefold().split())


def cover(hits: Iterable[Hit], expected: tuple[ExpectedAnswer, ...]) -> list[frozenset[int]]:
    """Which of the expected things each hit is; a hit that is too long to be read covers nothing."""
    return [
        frozenset(nth for nth, one in enumerate(expected) if len(hit.text) <= LONGEST and one.matches(hit))
        for hit in hits
    ]
