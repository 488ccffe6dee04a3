"""What a model's cosines mean: measured on the model itself, so that one scale does for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memd.indexer.model import multilingual
from memd.indexer.model.embedder import load_granite
from memd.indexer.model.pooling import Vectors, unit
from memd.indexer.model.scale import (
    FITTED,
    FITTED_PAIRS,
    PARAPHRASES,
    QUESTIONS,
    TOLD_APART,
    Measured,
    ModelScale,
    Scale,
    measure,
)
from tests.embedding_server import words
from tests.hash_embedder import HashEmbedder
from tests.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with closing(Lab(tmp_path)) as made:
        yield made


ENGLISH = [text for pair in QUESTIONS["en"] for text in pair]


def test_nothing_in_common_is_0_and_a_paraphrase_1():
    scale = Scale(0.6, 0.85)
    assert scale.near(np.array([0.6, 0.85, 0.725, 0.35, 1.1])) == pytest.approx([0, 1, 0.5, -1, 2])
    assert np.isnan(scale.near(np.array([np.nan]))[0])


def test_a_scale_is_measured_once_for_a_model():
    asked = []

    class Counting(Measured):
        def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
            asked.append(question)
            return HashEmbedder().embed(texts)

    model = Counting()
    assert model.scale is model.scale
    assert asked == [True, False] * len(QUESTIONS) + [False]


@pytest.mark.parametrize("dims", [1, 8])
def test_a_model_that_tells_nothing_apart_gets_a_narrow_voice(dims: int):
    scale = measure(lambda texts, question=False: np.full((len(texts), dims), 1 / np.sqrt(dims), np.float32))
    assert scale.notes.related - scale.notes.unrelated == pytest.approx(0.05)
    assert np.isfinite(scale.questions.near(np.array([1.0, 0.0]))).all()
    assert not scale.holds and scale.languages == ("en",)


def test_no_text_is_used_twice():
    texts = [text for pairs in (PARAPHRASES, *QUESTIONS.values()) for pair in pairs for text in pair]
    assert len(set(texts)) == len(texts)
    assert len(QUESTIONS["en"]) >= 40 and all(len(pairs) >= 6 for pairs in QUESTIONS.values())


def test_a_model_that_knows_only_english_is_measured_in_english():
    def embed(texts: Sequence[str], question: bool = False) -> Vectors:
        """Knows nothing but which English pair a text belongs to; a question is a little off its note."""
        rows = np.zeros((len(texts), 100), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[ENGLISH.index(text) // 2 if text in ENGLISH else 98] = 1
            row[99] = question
        return unit(rows)

    scale = measure(embed)
    assert scale.languages == ("en",) and scale.told_apart == 1 and scale.holds
    ends = FITTED_PAIRS.near(np.array([FITTED.unrelated, FITTED.related])) * np.sqrt(0.5)
    assert [scale.questions.unrelated, scale.questions.related] == pytest.approx(ends.tolist())


def test_a_prefix_for_questions_changes_their_scale_and_not_that_of_notes():
    def embed(texts: Sequence[str], question: bool = False) -> Vectors:
        rows = np.concatenate([words(texts), np.zeros((len(texts), 1), np.float32)], axis=1)
        rows[:, -1] = question
        return unit(rows)

    plain, asymmetric = measure(lambda texts, question=False: words(texts)), measure(embed)
    assert asymmetric.notes.related == pytest.approx(plain.notes.related)
    assert asymmetric.told_apart == plain.told_apart
    # Every cosine of a question is smaller by the same factor, and means the same.
    assert asymmetric.questions.related == pytest.approx(plain.questions.related * np.sqrt(0.5))
    assert asymmetric.questions.unrelated == pytest.approx(plain.questions.unrelated * np.sqrt(0.5))


def test_the_scales_of_the_models_of_memd_are_those_that_are_measured(tmp_path: Path):
    english, other = load_granite(tmp_path, threads=2), multilingual.load(tmp_path)
    measured = measure(english.embed)
    assert english.scale == ModelScale(FITTED, FITTED)
    for known, found in ((FITTED, measured.questions), (FITTED, measured.notes)):
        assert (found.unrelated, found.related) == pytest.approx((known.unrelated, known.related), abs=0.005)
    assert measured.holds and measured.languages == ("en",)
    foreign = measure(other.embed)
    assert foreign.holds and {"en", "de", "ru", "zh", "ja"} <= set(foreign.languages)
    assert (foreign.notes.unrelated, foreign.notes.related) == pytest.approx(
        (multilingual.SCALE.unrelated, multilingual.SCALE.related), abs=0.005
    )


def test_half_of_the_questions_gives_nearly_the_same_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, found = load_granite(tmp_path, threads=2), []
    for start in (0, 1):
        monkeypatch.setitem(QUESTIONS, "en", list(QUESTIONS["en"])[start::2])
        found.append(measure(model.embed).questions)
        monkeypatch.undo()
    assert found[0].related == pytest.approx(found[1].related, abs=0.03)
    assert found[0].unrelated == pytest.approx(found[1].unrelated, abs=0.03)


def test_words_alone_decide_where_a_models_cosines_say_nothing(lab: Lab):
    class Confused(HashEmbedder):
        """Finds every note near, whatever was asked."""

        fingerprint = "confused"
        scale = replace(HashEmbedder.scale, told_apart=TOLD_APART - 0.01)

        def embed(self, texts: Sequence[str], urgent: bool = False, question: bool = False) -> Vectors:
            return unit(np.ones((len(texts), self.dims), np.float32))

    lab.stores.use_model(Confused(), "test")
    lab.add({"memory/2026-02-15.md": "# Router\n\nThe router stands in the hall.\n"})
    known, unknown = lab.ask("where does the router stand"), lab.ask("vaccination of the hamster")
    assert known.verdict == "found"
    assert unknown.verdict == "none" and not unknown.hits
    assert lab.ask("vaccination of the hamster", mode="vector").verdict == "weak"
