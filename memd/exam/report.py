"""What came of an exam: the figures, over all and by category, how long answers took, and what was missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memd.exam import scoring
from memd.exam.probes import Probe
from memd.exam.questions import ExamQuestion, cover, found
from memd.models import Hit

MOST_MISSES = 100
RECALLS = (1, 5, 10)
NEAR = 5
"""What is not among the first five hits is a miss: few read on."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The hits that one question got, and how long they took."""

    hits: Sequence[Hit]
    ms: float


def graded(questions: Sequence[ExamQuestion], answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """The report on a user's own questions."""
    scored = [_score(question, answer) for question, answer in zip(questions, answers, strict=True)]
    categories = [question.category for question in questions]
    missed = [nth for nth, one in enumerate(scored) if not one["any@5"]]
    misses = [_miss(questions[nth], answers[nth]) for nth in missed[:MOST_MISSES]]
    return {**_summary(scored, categories, answers), "missed": len(missed), "misses": misses}


def recalled(probes: Sequence[Probe], answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """The report on probes: how often the passage that a probe was made from came up."""
    ranks = [_rank(answer.hits, probe.among) for probe, answer in zip(probes, answers, strict=True)]
    scored = [{f"recall@{most}": float(bool(rank and rank <= most)) for most in RECALLS} for rank in ranks]
    missed = [nth for nth, rank in enumerate(ranks) if not rank or rank > NEAR]
    misses = [_lost(probes[nth], answers[nth], ranks[nth]) for nth in missed[:MOST_MISSES]]
    kinds = [probe.kind for probe in probes]
    return {**_summary(scored, kinds, answers), "missed": len(missed), "misses": misses}


def _score(question: ExamQuestion, answer: AnsweredQuestion) -> scoring.Figures:
    first = answer.hits[: scoring.TURN_DEPTH]
    return scoring.score(cover(first, question.wanted), [len(hit.text) for hit in first], len(question.wanted))


def _summary(
    scored: Sequence[scoring.Figures], categories: Sequence[str], answers: Sequence[AnsweredQuestion]
) -> dict[str, Any]:
    times = [answer.ms for answer in answers]
    by_category = {
        name: [one for one, category in zip(scored, categories, strict=True) if category == name]
        for name in sorted(set(categories) - {""})
    }
    return {
        "questions": len(scored),
        "figures": _rounded(scoring.mean(scored)),
        "categories": {
            name: {"questions": len(some), "figures": _rounded(scoring.mean(some))}
            for name, some in by_category.items()
        },
        "mean_length": round(scoring.mean_length([found(hit) for hit in answer.hits] for answer in answers), 1),
        "p50_ms": round(scoring.percentile(times, 0.5), 2),
        "p95_ms": round(scoring.percentile(times, 0.95), 2),
    }


def _rounded(told: scoring.Figures) -> scoring.Figures:
    return {name: round(value, 4) for name, value in told.items()}


def _miss(question: ExamQuestion, answer: AnsweredQuestion) -> dict[str, Any]:
    rank = _rank(answer.hits, lambda hit: any(one.among(hit) for one in question.wanted))
    expected = [one.told for one in question.wanted]
    return {
        "line": question.line,
        "question": question.text,
        "expected": expected,
        "rank": rank,
        "first": _first(answer),
    }


def _lost(probe: Probe, answer: AnsweredQuestion, rank: int | None) -> dict[str, Any]:
    first = _first(answer)
    return {"kind": probe.kind, "question": probe.query, "expected": [probe.told], "rank": rank, "first": first}


def _rank(hits: Sequence[Hit], is_it: Callable[[Hit], bool]) -> int | None:
    return next((rank for rank, hit in enumerate(hits, 1) if is_it(hit)), None)


def _first(answer: AnsweredQuestion) -> str | None:
    return f"{answer.hits[0].path}:{answer.hits[0].start_line}" if answer.hits else None
