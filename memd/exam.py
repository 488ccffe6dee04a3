"""Exams: how well memd finds. Questions with known answers, probes made from the notes, their scores and the report.

A hit covers a place when it is in the same file and their lines overlap. The most important figures are `any@2k` and
`all@2k`: whether any, or all, of the places are covered by the hits that fit, in order, into the first 2,000
characters. Unlike in figures that count hits, longer hits are no advantage.

Three kinds of probes: `term`, the rarest words of a passage; `paraphrase`, a sentence without its rarest word and a
third of the others; `date`, a word of several notes with the day of one of them. The same notes give the same probes.
"""

import json
import math
import random
import re
from calendar import month_name
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any, Self

from memd.models import Hit, JsonObject, grouped
from memd.prose import SENTENCE, flat_line

BUDGET = 2_000
"""Characters, about 500 tokens: what an agent pays to read."""
LONGEST = 1_200
"""A hit with more characters than this covers nothing: it would cover by luck."""
TURN_DEPTH = 10
"""The number of hits that are scored."""

Figures = dict[str, float]
Cover = Sequence[frozenset[int]]
"""For each hit, best first, the numbers of the places that it covers."""


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Lines of a file, counted from 1, both ends included."""

    path: str
    start: int
    end: int

    def overlaps(self, other: Self) -> bool:
        return self.path == other.path and self.start <= other.end and other.start <= self.end

    def __str__(self) -> str:
        return f"{self.path}:{self.start}" + (f"-{self.end}" if self.end > self.start else "")


def score(covered: Cover, lengths: Sequence[int], places: int) -> Figures:
    """Every figure of one question that has so many places to find."""
    # How many hits, from the first, fit into the budget.
    fitting = sum(spent <= BUDGET for spent in accumulate(lengths))
    within, first5, first10 = (len(frozenset().union(*covered[:most])) for most in (fitting, 5, 10))
    return {
        "any@2k": float(within > 0),
        "all@2k": float(within == places),
        "any@5": float(first5 > 0),
        "any@10": float(first10 > 0),
        "all@5": float(first5 == places),
        "frac@5": first5 / places,
        "frac@10": first10 / places,
        "mrr": next((1 / rank for rank, some in enumerate(covered, 1) if some), 0.0),
        "ndcg@10": _ndcg(covered[:10], places),
    }


def _ndcg(covered: Cover, places: int) -> float:
    """Each place gains once, at the first hit that covers it; the ideal has one place a rank."""
    gained, seen = 0.0, frozenset[int]()
    for rank, some in enumerate(covered, 1):
        gained += len(some - seen) / math.log2(rank + 1)
        seen |= some
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(places, 10) + 1))
    return min(1.0, gained / ideal)


def mean(scored: Sequence[Mapping[str, float]]) -> Figures:
    """The average of each figure over the questions."""
    return {name: fmean(one[name] for one in scored) for name in scored[0]} if scored else {}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else 0.0


# --- questions with known answers ---------------------------------------------------------------------------


PLACE = re.compile(r"(?P<path>.+\.mdk?)(:(?P<first>[1-9]\d{0,8})(-(?P<last>[1-9]\d{0,8}))?)?")
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
            stem = PurePosixPath(hit.path).stem
            slug = hit.key.removeprefix(hit.path if hit.key.startswith(hit.path) else stem)
            return self.key in (hit.path + slug, stem + slug)
        return self.text in flat_line(hit.text.casefold())


@dataclass(frozen=True, slots=True)
class ExamQuestion:
    """One question of an exam."""

    line: int
    text: str
    expected: tuple[ExpectedAnswer, ...]
    category: str = ""
    ns: str = ""

    @property
    def shown(self) -> JsonObject:
        """As the list of misses has it."""
        return {"line": self.line, "question": self.text, "expected": [one.label for one in self.expected]}

    def answered_by(self, hit: Hit) -> bool:
        return any(one.matches(hit) for one in self.expected)


def read_questions(text: str) -> tuple[list[ExamQuestion], list[JsonObject]]:
    """The questions of a file, and the problems of its other lines; empty lines and # comments are skipped."""
    numbered = enumerate(text.removeprefix("\ufeff").split("\n"), 1)
    return collect((line, row) for line, row in numbered if row.strip() and not row.lstrip().startswith("#"))


def collect(entries: Iterable[tuple[int, Any]]) -> tuple[list[ExamQuestion], list[JsonObject]]:
    """Questions from numbered entries, each an object or the JSON of one."""
    questions, problems = [], []
    for line, entry in entries:
        try:
            question = _question(line, json.loads(entry) if isinstance(entry, str) else entry)
        except json.JSONDecodeError as error:
            problems.append({"line": line, "why": f"not JSON: {error.msg} (column {error.colno})"})
        except (ValueError, RecursionError) as error:
            problems.append({"line": line, "why": str(error) or "nested too deep"})
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
    expected = tuple(dict.fromkeys(_expected(entry)))
    if not expected:
        raise ValueError('it does not say what to expect: "expect" (a key or path:line) or "expect_text"')
    ns = entry.get("ns", entry.get("haystack")) or ""
    return ExamQuestion(line, text, expected, str(entry.get("category") or ""), str(ns))


def _list(entry: dict[str, Any], name: str) -> list[Any]:
    value = entry.get(name)
    return [] if value is None else value if isinstance(value, list) else [value]


def _expected(entry: dict[str, Any]) -> Iterator[ExpectedAnswer]:
    for value in _list(entry, "expect"):
        if isinstance(value, dict):
            yield _place(value)
        elif isinstance(value, str) and value.strip():
            yield _from_text(value.strip())
        else:
            raise ValueError(f'"expect" must be a key or path:line, or a list of them, not {value!r}')
    for value in _list(entry, "expect_text"):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f'"expect_text" must be a text, or a list of texts, not {value!r}')
        yield ExpectedAnswer(f'"{value.strip()}"', text=flat_line(value.casefold()))
    # The places of a labelled collection: its turns, or its sessions where it has no turns.
    yield from map(_place, _list(entry, "gold_turns") or _list(entry, "gold_sessions"))


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


def _place(value: Any) -> ExpectedAnswer:
    try:
        span = LineSpan(str(value["file"]), int(value["start"]), int(value["end"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f'a place needs "file", "start" and "end", not {value!r}') from None
    return ExpectedAnswer(str(span), span)


def cover(hits: Iterable[Hit], expected: tuple[ExpectedAnswer, ...]) -> list[frozenset[int]]:
    """Which of the expected things each hit is; a hit that is too long to be read covers nothing."""
    places = list(enumerate(expected))
    return [frozenset(nth for nth, one in places if len(hit.text) <= LONGEST and one.matches(hit)) for hit in hits]


# --- probes: questions that are made from the notes ---------------------------------------------------------


EACH = 20
"""Probes of a kind: enough to see a change of five points, few enough for every night."""

WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")

SHORTEST_WORD, LONGEST_WORD = 3, 24
"""Letters of a word that can identify a passage. A longer one is an address or a checksum."""
FEWEST_WORDS = 8
"""The shortest sentence that loses some of its words."""
LOST = 1 / 3
MANY = 3_000
"""The most passages that probes are made from; of more, a part is chosen by content."""


@dataclass(frozen=True, slots=True)
class ProbePassage:
    """A passage of the notes: a chunk, with the memory that it belongs to."""

    ns: str
    key: str
    path: str
    start_line: int
    end_line: int
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A question and the passage that it was made from."""

    kind: str
    query: str
    passage: ProbePassage

    def answered_by(self, hit: Hit) -> bool:
        """Whether the hit shows the passage: itself, the same text elsewhere, or a hit that lists it under `also`."""
        if hit.ns != self.passage.ns:
            return False
        if self.kind == "date" and hit.key == self.passage.key:
            return True
        own = LineSpan(self.passage.path, self.passage.start_line, self.passage.end_line)
        places = [LineSpan(hit.path, hit.start_line, hit.end_line), *map(_span, hit.also)]
        return hit.text == self.passage.text or any(map(own.overlaps, places))

    @property
    def shown(self) -> JsonObject:
        """As the list of misses has it."""
        place = f"{self.passage.path}:{self.passage.start_line}"
        return {"kind": self.kind, "question": self.query, "expected": [place]}


def _span(also: dict[str, object]) -> LineSpan:
    return LineSpan(str(also["path"]), int(str(also["start_line"])), int(str(also["end_line"])))


def make_probes(passages: Sequence[ProbePassage]) -> list[Probe]:
    """Up to `EACH` probes of every kind, from passages chosen by their content."""
    spread = Counter(word for passage in passages for word in set(words(passage.text)))
    makers: dict[str, Callable[..., str]]
    makers = {"term": partial(_term, all_here=len(passages) < MANY), "paraphrase": _paraphrase, "date": _date}
    made = (_of_kind(kind, partial(maker, spread=spread), passages) for kind, maker in makers.items())
    return [probe for probes in made for probe in probes]


def _of_kind(kind: str, maker: Callable[[ProbePassage], str], passages: Sequence[ProbePassage]) -> list[Probe]:
    """Probes of one kind, from passages in the order of `_draw`, until there are enough."""
    by_query: dict[str, Probe] = {}
    for passage in sorted(passages, key=lambda passage: _draw(kind, passage)):
        if query := maker(passage):
            by_query.setdefault(query, Probe(kind, query, passage))
        if len(by_query) == EACH:
            break
    return list(by_query.values())


def words(text: str) -> list[str]:
    """The words that can identify a passage."""
    found = (word.casefold() for word in WORD.findall(text))
    return [word for word in found if SHORTEST_WORD <= len(word) <= LONGEST_WORD]


def _draw(kind: str, passage: ProbePassage) -> bytes:
    """The place of a passage in the draw: by its content, so that a new note does not reshuffle the others."""
    return blake2b(f"{kind}\0{passage.path}\0{passage.text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _rarest(candidates: Iterable[str], spread: Counter[str]) -> list[str]:
    """The words of the fewest passages first; of equals the longer one."""
    return sorted(set(candidates), key=lambda word: (spread[word], -len(word), word))


def _term(passage: ProbePassage, spread: Counter[str], all_here: bool) -> str:
    """The rarest word; two if that one is in several passages, or may be in some that were left out."""
    ranked = _rarest((word for word in words(passage.text) if not word.isdigit()), spread)
    alone = bool(ranked) and spread[ranked[0]] == 1 and all_here
    return " ".join(ranked[: 1 if alone else 2])


def _paraphrase(passage: ProbePassage, spread: Counter[str]) -> str:
    """A sentence without its rarest word, which would give it away, and without a third of the others."""
    sentences = [WORD.findall(sentence) for sentence in SENTENCE.split(passage.text)]
    cut = [_without_rarest(sentence, spread) for sentence in sentences if len(sentence) >= FEWEST_WORDS]
    telling = max(cut, key=lambda kept: sum(1 / max(1, spread[word]) for word in words(" ".join(kept))), default=[])
    lost = set(random.Random(_draw("lost", passage)).sample(range(len(telling)), round(len(telling) * LOST)))
    return " ".join(word for nth, word in enumerate(telling) if nth not in lost)


def _without_rarest(sentence: list[str], spread: Counter[str]) -> list[str]:
    rarest = _rarest(words(" ".join(sentence)), spread)[:1]
    return [word for word in sentence if word.casefold() not in rarest]


def _date(passage: ProbePassage, spread: Counter[str]) -> str:
    """Its day in words, and a word that is also elsewhere, so that the day must decide."""
    day = DATE.fullmatch(passage.date)
    ranked = _rarest((word for word in words(passage.text) if word.isalpha()), spread)
    if day is None or not ranked:
        return ""
    shared = [word for word in ranked if spread[word] > 1]
    year, month, number = map(int, day.groups())
    return f"what happened on {number} {month_name[month]} {year}, {(shared or ranked)[0]}" if 1 <= month <= 12 else ""


# --- the report ---------------------------------------------------------------------------------------------


MAX_MISSES = 100
RECALLS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The hits that one question got, and how long they took."""

    hits: Sequence[Hit]
    ms: float

    def rank(self, is_answer: Callable[[Hit], bool]) -> int | None:
        return next((rank for rank, hit in enumerate(self.hits, 1) if is_answer(hit)), None)

    @property
    def first(self) -> str | None:
        return f"{self.hits[0].path}:{self.hits[0].start_line}" if self.hits else None


Answers = Sequence[AnsweredQuestion]


def of_questions(questions: Sequence[ExamQuestion], answers: Answers) -> JsonObject:
    """The report on a user's own questions."""
    scored = [_score(question, answer) for question, answer in zip(questions, answers, strict=True)]
    return _report(questions, [question.category for question in questions], answers, scored, "any@5")


def of_probes(probes: Sequence[Probe], answers: Answers) -> JsonObject:
    """The report on probes: how often the passage that a probe was made from came up."""
    ranks = [answer.rank(probe.answered_by) for probe, answer in zip(probes, answers, strict=True)]
    scored = [{f"recall@{most}": float(bool(rank and rank <= most)) for most in RECALLS} for rank in ranks]
    return _report(probes, [probe.kind for probe in probes], answers, scored, "recall@5")


def _score(question: ExamQuestion, answer: AnsweredQuestion) -> Figures:
    first = answer.hits[:TURN_DEPTH]
    return score(cover(first, question.expected), [len(hit.text) for hit in first], len(question.expected))


def _report(
    asked: Sequence[ExamQuestion | Probe], categories: list[str], answers: Answers, scored: list[Figures], near: str
) -> JsonObject:
    """What both reports have; missed is what has 0 of the figure `near`: few read on below the fifth hit."""
    missed = [(one, answer) for one, answer, figures in zip(asked, answers, scored, strict=True) if not figures[near]]
    misses = [{**one.shown, "rank": answer.rank(one.answered_by), "first": answer.first} for one, answer in missed]
    times = [answer.ms for answer in answers]
    by_category = sorted(grouped(zip(categories, scored, strict=True)).items())
    lengths = [len(hit.text) for answer in answers for hit in answer.hits[:TURN_DEPTH]]
    return {
        **_figures(scored),
        "categories": {name: _figures(some) for name, some in by_category if name},
        "mean_length": round(fmean(lengths), 1) if lengths else 0.0,
        "p50_ms": round(percentile(times, 0.5), 2),
        "p95_ms": round(percentile(times, 0.95), 2),
        "missed": len(misses),
        "misses": misses[:MAX_MISSES],
    }


def _figures(scored: Sequence[Figures]) -> dict[str, Any]:
    return {"questions": len(scored), "figures": {name: round(value, 4) for name, value in mean(scored).items()}}
