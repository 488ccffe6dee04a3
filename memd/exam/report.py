"""The report on an exam: the figures, over all and by category, how long answers took, and what was missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memd.exam.probes import Probe
from memd.exam.questions import ExamQuestion, cover
from memd.exam.scoring import TURN_DEPTH, Figures, mean, mean_of, percentile, score
from memd.models import Hit

MAX_MISSES = 100
RECALLS = (1, 5, 10)
NEAR = 5
"""A rank below the fifth is a miss: few read on."""


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


def of_questions(questions: Sequence[ExamQuestion], answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """The report on a user's own questions."""
    scored = [_score(question, answer) for question, answer in zip(questions, answers, strict=True)]
    misses = [
        {
            "line": question.line, "question": question.text, "expected": [one.label for one in question.expected],
            "rank": answer.rank(question.answered_by), "first": answer.first,
        }
        for question, answer, figures in zip(questions, answers, scored, strict=True) if not figures["any@5"]
    ]  # fmt: skip
    return _report(scored, [question.category for question in questions], answers, misses)


def of_probes(probes: Sequence[Probe], answers: Sequence[AnsweredQuestion]) -> dict[str, Any]:
    """The report on probes: how often the passage that a probe was made from came up."""
    ranks = [answer.rank(probe.answered_by) for probe, answer in zip(probes, answers, strict=True)]
    scored = [{f"recall@{most}": float(bool(rank and rank <= most)) for most in RECALLS} for rank in ranks]
    misses = [
        {"kind": probe.kind, "question": probe.query, "expected": [probe.label], "rank": rank, "first": answer.first}
        for probe, answer, rank in zip(probes, answers, ranks, strict=True) if not rank or rank > NEAR
    ]  # fmt: skip
    return _report(scored, [probe.kind for probe in probes], answers, misses)


def _score(question: ExamQuestion, answer: AnsweredQuestion) -> Figures:
    first = answer.hits[:TURN_DEPTH]
    return score(cover(first, question.expected), [len(hit.text) for hit in first], len(question.expected))


def _report(
    scored: Sequence[Figures], categories: Sequence[str], answers: Sequence[AnsweredQuestion],
    misses: Sequence[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    times = [answer.ms for answer in answers]
    by_category = {
        name: [one for one, category in zip(scored, categories, strict=True) if category == name]
        for name in sorted(set(categories) - {""})
    }
    lengths = [len(hit.text) for answer in answers for hit in answer.hits[:TURN_DEPTH]]
    return {
        **_figures(scored),
        "categories": {name: _figures(some) for name, some in by_category.items()},
        "mean_length": round(mean_of(lengths), 1),
        "p50_ms": round(percentile(times, 0.5), 2),
        "p95_ms": round(percentile(times, 0.95), 2),
        "missed": len(misses),
        "misses": misses[:MAX_MISSES],
    }


def _figures(scored: Sequence[Figures]) -> dict[str, Any]:
    return {"questions": len(scored), "figures": {name: round(value, 4) for name, value in mean(scored).items()}}
