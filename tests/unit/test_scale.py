"""What a model's cosines mean: measured on the model itself, so that one scale does for all."""

from __future__ import annotations

import numpy as np
import pytest

from memd.indexer.model.embedder import HashEmbedder
from memd.indexer.model.scale import PAIRS, Scale, measure, scale_of


def test_nothing_in_common_is_0_and_a_paraphrase_1():
    scale = Scale(0.6, 0.85)
    assert scale.near(np.array([0.6, 0.85, 0.725, 0.35, 1.1])) == pytest.approx([0, 1, 0.5, -1, 2])
    assert np.isnan(scale.near(np.array([np.nan]))[0])


def test_the_scale_of_the_hash_embedder():
    scale = scale_of(HashEmbedder())
    assert -0.1 < scale.unrelated < 0.2
    assert scale.unrelated + 0.05 <= scale.related < 0.7
    vectors = HashEmbedder().embed([PAIRS[0][0], PAIRS[0][0], PAIRS[3][1]])
    same, other = scale.near(np.array([vectors[0] @ vectors[1], vectors[0] @ vectors[2]], float))
    assert same > 1 > other


def test_a_scale_is_measured_once_for_a_model():
    asked = []

    class Counting(HashEmbedder):
        fingerprint = "hash-counting"

        def embed(self, texts):
            asked.append(len(texts))
            return super().embed(texts)

    assert scale_of(Counting()) is scale_of(Counting())
    assert asked == [2 * len(PAIRS)]


@pytest.mark.parametrize("dims", [1, 8])
def test_a_model_that_tells_nothing_apart_gets_a_narrow_voice(dims: int):
    scale = measure(lambda texts: np.full((len(texts), dims), 1 / np.sqrt(dims), np.float32))
    assert scale.related - scale.unrelated == pytest.approx(0.05)
    assert np.isfinite(scale.near(np.array([1.0, 0.0]))).all()


def test_a_scale_is_the_mean_of_pairs_and_the_mean_of_all_others():
    texts = [text for pair in PAIRS for text in pair]
    assert len(set(texts)) == 2 * len(PAIRS)
    # A model that knows nothing but which pair a text belongs to.
    scale = measure(lambda asked: np.eye(len(PAIRS), dtype=np.float32)[[texts.index(text) // 2 for text in asked]])
    assert scale == Scale(0.0, 1.0)
