"""Everything that ranking weighs, each number with its reason. Pure: parts or ranks in, scores out.

A chunk's score is a sum of parts, each on a scale of its own that means the same in every workspace: a share of what
the question's words could earn at most, a nearness in meaning, a nearness in days. Scaling each voice to the best and
worst of its own list, as is common, makes a voice that found nothing loud; docs/retrieval.md has what each part gave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# --- words --------------------------------------------------------------------------------------------------

K1 = 1.2
"""How soon a repeated word stops counting: the usual value; 0.9 and 2.0 gave the same results."""

B = 0.4
"""The penalty for length: less than the usual 0.75, since chunks are of about one size."""

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
    return math.log(1 + (count - holders + 0.5) / (holders + 0.5))


def dampened(often: Floats) -> Floats:
    """BM25's curve: the second mention says less than the first."""
    curve: Floats = often * (K1 + 1) / (often + K1)
    return curve


def by_length(lengths: Floats, mean: float) -> Floats:
    """What a word's count is divided by in a text of this length."""
    share: Floats = 1 - B + B * lengths / mean
    return share


# --- the parts ----------------------------------------------------------------------------------------------

WEIGHTS: dict[str, float] = {
    # The question's words in the chunk, as a share of what they could earn: the voice that is right most often.
    "words": 1.2,
    # The same in the best three lines in a row, which may reach into the next chunk: an answer is a line or two,
    # and its subject often stands in the line before.
    "lines": 1.5,
    # The share of the question's words that a single line has.
    "line": 0.45,
    # The same where the question and the line both speak in the first person: what someone said of themselves is half
    # a sentence of theirs, beside pages of others on the same subject.
    "own": 2.5,
    # The question's words in the whole memory: what the section is about helps to tell like lines apart.
    "section": 0.9,
    # How near the chunk is in meaning, on the model's own scale: 0 is any two notes, 1 a paraphrase, everywhere.
    "meaning": 0.85,
    # The nearest chunk of the memory: what the section means.
    "section_meaning": 1.35,
    # What a chunk in another language than the question is credited with for the words that it cannot have: as much as
    # chunks of its nearness have in the question's own language.
    "translated": 1.6,
    # The chunk has every word as the question writes it: no other form of a word, no time that it means, outranks it.
    "written": 1.0,
    # The share of the codes in the question that the chunk has: who names a code wants what is said of it.
    "code": 2.0,
    # The share of the question's words that the file is called by.
    "name": 0.5,
    # How near the note's day is to a time that the question names.
    "date": 0.7,
    # The best line begins with a label that the question names: who speaks, or what is told.
    "label": 0.15,
    # A question about time, and the best line names one.
    "timed": 0.2,
    # The best line speaks of the very days that the question names, seen from the note's own date.
    "told_date": 0.12,
    # The best line is a question itself: it asks for what is wanted rather than telling it.
    "asks": -0.04,
    # The question asks who or what something is, and the line says it: "**Maren**: partner, nurse".
    "defines": 1.5,
    # The question asks for what is true now, and the note keeps what is known rather than what happened.
    "holds": 0.3,
    # The same, and its line is labelled with what is asked for: "- Backups: restic at 04:15".
    "fact": 0.7,
    # It asks when something happens that happens again and again, and the line has a time of the day.
    "clock": 0.5,
    # The share of words beside each other in the question that are neighbours in the line too.
    "pairs": 0.3,
    # How new the note is; MEMORY.md and what has no date are neither new nor old.
    "recency": 0.03,
    # The same where the question asks for the newest.
    "newest": 0.3,
    # A question about time asks for what happened rather than for what is known.
    "episode": 0.05,
    # The priority that a note declares, and its importance, which fades while nobody asks for it.
    "importance": 0.05,
    # A memory that was laid aside stands a little lower.
    "tier": 0.1,
    # So does one that a later memory refines.
    "outdated": -0.15,
}

OF_A_LINE = ("lines", "line", "own", "label", "timed", "told_date", "asks", "defines", "fact", "clock", "pairs")
"""Taken together at the line where they are best together."""


CORE = ("words", "lines", "line", "section", "meaning", "section_meaning")
"""The parts that say how much a chunk is about the question; their maximum is relevance 1."""

EXTRA = ("written", "code", "name", "label", "date", "timed", "told_date", "defines", "fact", "clock", "translated")
"""Parts that only some questions have: they add to it."""

FAINT = 0.18
"""The least relevance of what is about the question: any two notes have less than this in common."""

FAR = 0.25
"""What has less than this share of the best hit's relevance is no answer beside it."""


def relevance(parts: Mapping[str, float]) -> float:
    """How much a chunk is about the question, from 0 to 1, on one scale for all questions.

    The parts of its score that come from words and meaning, as a share of their maximum; `1 - (1 - share)²` of that,
    since a passage that has every word once earns about half. Recency, importance and tier do not count.
    """
    most = sum(WEIGHTS[name] for name in CORE if name in parts)
    total = sum(WEIGHTS[name] * parts[name] for name in (*CORE, *EXTRA) if name in parts)
    share = min(1.0, max(0.0, total / most)) if most else 0.0
    return 1 - (1 - share) ** 2


def score(parts: Mapping[str, Floats]) -> Floats:
    """The sum of all parts, each with its weight."""
    total: Floats = np.sum([WEIGHTS[name] * values for name, values in parts.items()], axis=0)
    return total


# --- by ranks only ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FusedRank:
    """A chunk's score and its place in each voice, counted from 1."""

    score: float = 0.0
    ranks: dict[str, int] = field(default_factory=dict)


def reciprocal_ranks(voices: Mapping[str, Sequence[int]], k: int) -> dict[int, FusedRank]:
    """Reciprocal rank fusion: each voice gives 1 / (k + rank); what several voices found rises."""
    fused: dict[int, FusedRank] = {}
    for voice, chunks in voices.items():
        for rank, chunk in enumerate(chunks, 1):
            ranked = fused.setdefault(chunk, FusedRank())
            ranked.score += 1.0 / (k + rank)
            ranked.ranks[voice] = rank
    return fused
