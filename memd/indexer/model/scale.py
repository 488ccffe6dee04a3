"""Measures what a model's cosines mean: those of questions and notes that answer them or do not, and those of notes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd.indexer.model.pooling import Vectors

Cosines = NDArray[np.float64]


def _read(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


PARAPHRASES: list[list[str]] = _read("paraphrases.json")
"""Each pair says one thing twice; different pairs have nothing in common."""
QUESTIONS: dict[str, list[list[str]]] = _read("questions.json")
"""By language: pairs of a question and the note that answers it; no other note does."""

TOLD_APART = 0.9
"""The least share of comparisons in which a question is nearer to its own note than to another one. Models that work
have .98; one with another model's tokenizer .79, one of chance .5."""
NARROWEST = 0.05
"""A model that cannot tell texts apart must not get a scale that magnifies noise."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The cosine of texts that have nothing in common, and of texts that say the same."""

    unrelated: float
    related: float

    def near(self, cosines: Cosines) -> Cosines:
        """0 for unrelated texts, 1 for a paraphrase, whatever the model."""
        nearness: Cosines = (cosines - self.unrelated) / (self.related - self.unrelated)
        return nearness


FITTED = Scale(0.5347003, 0.8784648)
"""The scale of the model that comes with memd, with which the weights of ranks and verdicts were fitted."""
FITTED_PAIRS = Scale(0.513926, 0.790038)
"""Its mean cosines of the English questions, with the notes of others and with their own."""


@dataclass(frozen=True, slots=True)
class ModelScale:
    """How the cosines of a model are read: a model may treat questions and notes differently."""

    questions: Scale
    """Between a question and a note."""
    notes: Scale
    """Between two notes."""
    told_apart: float = 1.0
    """The share of comparisons in which a question is nearer to its own note than to another one."""
    languages: tuple[str, ...] = ("en",)
    """The languages in which it tells them apart, and was measured."""

    @property
    def holds(self) -> bool:
        """Whether a nearness says something, so that a verdict may go by it."""
        return self.told_apart >= TOLD_APART


class Measured:
    """An embedder whose scale is measured when it is first asked for."""

    embed: Callable[..., Vectors]

    @cached_property
    def scale(self) -> ModelScale:
        return measure(self.embed)


def measure(embed: Callable[..., Vectors]) -> ModelScale:
    """Embed the questions as questions and the notes as notes, and compare them all; takes about a second."""
    by_language = {language: _compared(embed, pairs) for language, pairs in QUESTIONS.items()}
    apart = {language: _told_apart(cosines) for language, cosines in by_language.items()}
    spoken = tuple(language for language in apart if apart[language] >= TOLD_APART) or ("en",)
    ends = [_ends(by_language[language], np.eye(len(by_language[language]), dtype=bool)) for language in spoken]
    unrelated, related = np.mean(ends, axis=0)
    return ModelScale(_as_fitted(unrelated, related), _of_notes(embed), round(max(apart.values()), 3), spoken)


def _compared(embed: Callable[..., Vectors], pairs: Sequence[Sequence[str]]) -> Cosines:
    """The cosine of each question with each note; its own is on the diagonal."""
    questions, notes = (list(side) for side in zip(*pairs, strict=True))
    asked: Cosines = embed(questions, question=True).astype(np.float64)
    return asked @ embed(notes).astype(np.float64).T


def _told_apart(cosines: Cosines) -> float:
    own = np.eye(len(cosines), dtype=bool)
    return float(np.mean(cosines[own][:, None] > cosines[~own][None, :]))


def _ends(cosines: Cosines, same: NDArray[np.bool_]) -> tuple[float, float]:
    """The mean cosine of those that do not belong together, and of those that do."""
    unrelated, related = float(cosines[~same].mean()), float(cosines[same].mean())
    return unrelated, max(related, unrelated + NARROWEST)


def _as_fitted(unrelated: float, related: float) -> Scale:
    """The cosines that are to this model's pairs as the fitted scale is to the pairs of the fitted model."""
    ends = FITTED_PAIRS.near(np.array([FITTED.unrelated, FITTED.related]))
    return Scale(*(unrelated + ends * (related - unrelated)).tolist())


def _of_notes(embed: Callable[..., Vectors]) -> Scale:
    vectors = embed([text for pair in PARAPHRASES for text in pair]).astype(np.float64)
    pair, alone = np.arange(len(vectors)) // 2, ~np.eye(len(vectors), dtype=bool)
    same = pair[:, None] == pair[None, :]
    return Scale(*_ends((vectors @ vectors.T)[alone], same[alone]))
