"""Fusion is pure: ranks in, order out."""

from __future__ import annotations

from memd.indexer.query.ranking import reciprocal_ranks


def test_what_both_voices_know_rises_above_what_one_knows_best():
    fused = reciprocal_ranks({"text": [1, 2, 3], "vector": [4, 2, 5]}, k=60)
    assert max(fused, key=lambda chunk: fused[chunk].score) == 2
    assert fused[2].ranks == {"text": 2, "vector": 2}
    assert fused[1].ranks == {"text": 1}
    assert abs(fused[1].score - 1 / 61) < 1e-12


def test_a_single_voice_keeps_its_order():
    fused = reciprocal_ranks({"text": [3, 1, 2]}, k=60)
    assert sorted(fused, key=lambda chunk: -fused[chunk].score) == [3, 1, 2]
