"""Fusion is pure: ranks in, order out."""

from __future__ import annotations

from memd.indexer.query.search import ranks_of, reciprocal


def test_what_both_voices_know_rises_above_what_one_knows_best():
    ranks = ranks_of({"text": [1, 9, 2, 3], "vector": [4, 2, 5]}, range(1, 6))
    assert max(ranks, key=lambda chunk: reciprocal(ranks[chunk], k=60)) == 2
    assert ranks[2] == {"text": 2, "vector": 2}
    assert ranks[1] == {"text": 1}
    assert abs(reciprocal(ranks[1], k=60) - 1 / 61) < 1e-12


def test_a_single_voice_keeps_its_order():
    ranks = ranks_of({"text": [3, 1, 2]}, range(4))
    assert sorted(ranks, key=lambda chunk: -reciprocal(ranks[chunk], k=60)) == [3, 1, 2]
