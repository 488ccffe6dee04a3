"""The mirror: vectors in two bytes a number, compared by the first and then by both."""

from __future__ import annotations

import numpy as np
import pytest

from memd.indexer.model.pooling import Vectors
from memd.indexer.store.mirror import COARSE, COMPARED, FINE, Mirror


def unit_vectors(count: int, dims: int = 384, seed: int = 3) -> Vectors:
    """Vectors of notes: they have much in common, so that the nearest are near to each other."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(count, dims)) + 0.7 * draw.normal(size=dims)
    vectors: Vectors = (rows / np.linalg.norm(rows, axis=1)[:, None]).astype(np.float32)
    return vectors


def test_a_number_in_two_bytes_is_as_good_as_a_float() -> None:
    rows = unit_vectors(300)
    rows[7] = np.eye(1, 384)  # one number is all of it
    rows[8] = 0
    mirror = Mirror(384)
    mirror.add(range(300), rows)
    step = np.abs(rows).max(axis=1, keepdims=True) / COARSE / FINE
    assert (np.abs(mirror.take(range(300)) - rows) <= 0.51 * step + 1e-9).all()
    assert mirror.cosines(rows[0], range(300)) == pytest.approx(rows @ rows[0], abs=1e-5)


@pytest.mark.parametrize("block", [64, 2_048])
def test_the_nearest_are_those_of_a_comparison_in_floats(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr("memd.indexer.store.mirror.BLOCK", block)
    rows, questions = unit_vectors(6_000), unit_vectors(20, seed=4)
    mirror = Mirror(384)
    mirror.add(range(6_000), rows)
    mirror.drop(range(0, 6_000, 10))
    kept = np.array([nth for nth in range(6_000) if nth % 10])
    some = kept[::3]
    for question in questions:
        for found, among in ((mirror.search(question, 50), kept), (mirror.search(question, 50, some), some)):
            cosines = rows[among] @ question
            best = np.sort(cosines)[::-1][:50]
            assert [cosine for _, cosine in found] == pytest.approx(best, abs=1e-5)
            assert [rows[chunk] @ question for chunk, _ in found] == pytest.approx(best, abs=1e-5)
        assert mirror.rank(question, found[0][0]) == 1 + (rows[kept] @ question > found[0][1] + 1e-5).sum()
    assert len(kept) > COMPARED and mirror.search(questions[0], 6_000)[-1][1] < 0.5
    assert len(mirror.search(questions[0], 6_000)) == len(kept)


def test_the_mirror_finds_what_a_whole_comparison_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memd.indexer.store.mirror.BLOCK", 7)
    draw = np.random.default_rng(3)
    rows = draw.normal(size=(50, 16)).astype(np.float32)
    mirror = Mirror(16)
    mirror.add(range(100, 150), rows)
    mirror.drop([103, 149])
    for query, found in zip(rows[:5], mirror.nearest(rows[:5], 6), strict=True):
        expected = dict(mirror.search(query, 6))
        assert found.keys() == expected.keys()
        assert all(found[chunk] == pytest.approx(expected[chunk], abs=1e-4) for chunk in found)
    taken = mirror.take([101, 149])
    assert taken[0] == pytest.approx(rows[1], abs=1e-4) and np.isnan(taken[1]).all()
    assert mirror.nearest(rows[:1], 60)[0].keys() == set(range(100, 149)) - {103}
    assert Mirror(16).nearest(rows[:2], 3) == [{}, {}]
