"""Makes probes from the notes: questions whose answers are in them. The same notes give the same probes.

Three kinds: `term`, the rarest words of a passage; `paraphrase`, a sentence without its rarest word and a third of the
others; `date`, a word of several notes with the day of one of them.
"""

from __future__ import annotations

import random
import re
from calendar import month_name
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from memd.exam.scoring import LineSpan
from memd.models import Hit

EACH = 20
"""Probes of a kind: enough to see a change of five points, few enough for every night."""

WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")

SHORTEST, LONGEST = 3, 24
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
    def label(self) -> str:
        return f"{self.passage.path}:{self.passage.start_line}"


def _span(also: dict[str, object]) -> LineSpan:
    return LineSpan(str(also["path"]), int(str(also["start_line"])), int(str(also["end_line"])))


def make(passages: Sequence[ProbePassage], each: int = EACH) -> list[Probe]:
    """Up to `each` probes of every kind, from passages chosen by their content."""
    spread = Counter(word for passage in passages for word in set(words(passage.text)))
    makers: dict[str, Callable[..., str]]
    makers = {"term": partial(_term, all_here=len(passages) < MANY), "paraphrase": _paraphrase, "date": _date}
    return [
        probe
        for kind, maker in makers.items()
        for probe in _of_kind(kind, partial(maker, spread=spread), passages, each)
    ]


def _of_kind(
    kind: str, maker: Callable[[ProbePassage], str], passages: Sequence[ProbePassage], each: int
) -> list[Probe]:
    """Probes of one kind, from passages in the order of `_draw`, until there are enough."""
    by_query: dict[str, Probe] = {}
    for passage in sorted(passages, key=lambda passage: _draw(kind, passage)):
        if query := maker(passage):
            by_query.setdefault(query, Probe(kind, query, passage))
        if len(by_query) == each:
            break
    return list(by_query.values())


def words(text: str) -> list[str]:
    """The words that can identify a passage."""
    return [word for word in (found.casefold() for found in WORD.findall(text)) if SHORTEST <= len(word) <= LONGEST]


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
    year, month, number = (int(part) for part in day.groups())
    if not 1 <= month <= 12:
        return ""
    return f"what happened on {number} {month_name[month]} {year}, {(shared or ranked)[0]}"
