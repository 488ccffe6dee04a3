"""Makes probes from the notes themselves: questions that have their answer in them. The same notes, the same probes.

Three kinds: `term`, the rarest words of a passage; `paraphrase`, a sentence that lost its rarest word and a third of
the others; `date`, a word that several notes have, with the day of one of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from memd.models import Hit

KINDS = ("term", "paraphrase", "date")
EACH = 20
"""Probes of a kind: enough for a figure that moves by five points, few enough to be asked every night."""

WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

SHORTEST, LONGEST = 3, 24
"""Letters of a word that can tell a passage from others. What is longer is an address or a checksum."""
FEWEST_WORDS = 8
"""Of a sentence that loses some of them."""
LOST = 1 / 3
MANY = 3_000
"""Passages that probes are made from; of more notes than that, a part that is chosen by its content."""


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
    piece: ProbePassage

    def among(self, hit: Hit) -> bool:
        """Whether the hit shows the passage: itself, its twin, or a hit that it was folded into."""
        if hit.ns != self.piece.ns:
            return False
        if self.kind == "date" and hit.key == self.piece.key:
            return True
        places = [(hit.path, hit.start_line, hit.end_line), *map(_place, hit.also)]
        return hit.text == self.piece.text or any(self._overlaps(*place) for place in places)

    def _overlaps(self, path: str, start: int, end: int) -> bool:
        return path == self.piece.path and start <= self.piece.end_line and self.piece.start_line <= end

    @property
    def told(self) -> str:
        return f"{self.piece.path}:{self.piece.start_line}"


def _place(also: dict[str, object]) -> tuple[str, int, int]:
    return str(also["path"]), int(str(also["start_line"])), int(str(also["end_line"]))


def make(pieces: Sequence[ProbePassage], each: int = EACH) -> list[Probe]:
    """Up to `each` probes of every kind, from passages that their own content chooses."""
    spread = Counter(word for piece in pieces for word in set(words(piece.text)))
    makers: dict[str, Callable[..., str]]
    makers = {"term": partial(_term, all_here=len(pieces) < MANY), "paraphrase": _paraphrase, "date": _date}
    return [
        probe for kind, maker in makers.items() for probe in _some(kind, partial(maker, spread=spread), pieces, each)
    ]


def _some(kind: str, maker: Callable[[ProbePassage], str], pieces: Sequence[ProbePassage], each: int) -> list[Probe]:
    """Probes of one kind, from passages in the order of the lot, until there are enough."""
    made: dict[str, Probe] = {}
    for piece in sorted(pieces, key=lambda piece: _draw(kind, piece)):
        if query := maker(piece):
            made.setdefault(query, Probe(kind, query, piece))
        if len(made) == each:
            break
    return list(made.values())


def words(text: str) -> list[str]:
    """The words that can tell one passage from another."""
    return [word for word in (found.casefold() for found in WORD.findall(text)) if SHORTEST <= len(word) <= LONGEST]


def _draw(kind: str, piece: ProbePassage) -> bytes:
    """A passage's place in the lot: by its content, so that a new note does not change all the others' luck."""
    return blake2b(f"{kind}\0{piece.path}\0{piece.text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _rarest(candidates: Iterable[str], spread: Counter[str]) -> list[str]:
    """By how few passages have them; the longer one first among equals."""
    return sorted(set(candidates), key=lambda word: (spread[word], -len(word), word))


def _term(piece: ProbePassage, spread: Counter[str], all_here: bool) -> str:
    """The rarest word; two where that one stands in several passages, or may stand in some that are not here."""
    ranked = _rarest((word for word in words(piece.text) if not word.isdigit()), spread)
    alone = bool(ranked) and spread[ranked[0]] == 1 and all_here
    return " ".join(ranked[: 1 if alone else 2])


def _paraphrase(piece: ProbePassage, spread: Counter[str]) -> str:
    """A sentence without its rarest word, so that no single word gives it away, and without a third of the others."""
    sentences = [WORD.findall(sentence) for sentence in SENTENCE.split(piece.text)]
    cut = [_without_rarest(sentence, spread) for sentence in sentences if len(sentence) >= FEWEST_WORDS]
    telling = max(cut, key=lambda kept: sum(1 / max(1, spread[word]) for word in words(" ".join(kept))), default=[])
    lost = set(random.Random(_draw("lost", piece)).sample(range(len(telling)), round(len(telling) * LOST)))
    return " ".join(word for nth, word in enumerate(telling) if nth not in lost)


def _without_rarest(sentence: list[str], spread: Counter[str]) -> list[str]:
    rarest = _rarest(words(" ".join(sentence)), spread)[:1]
    return [word for word in sentence if word.casefold() not in rarest]


def _date(piece: ProbePassage, spread: Counter[str]) -> str:
    """Its day in words, and a word that also stands elsewhere, so that the day must decide."""
    day = DATE.fullmatch(piece.date)
    ranked = _rarest((word for word in words(piece.text) if word.isalpha()), spread)
    if day is None or not ranked:
        return ""
    shared = [word for word in ranked if spread[word] > 1]
    year, month, number = (int(part) for part in day.groups())
    if not 1 <= month <= 12:
        return ""
    return f"what happened on {number} {MONTHS[month - 1]} {year}, {(shared or ranked)[0]}"
