"""Verdicts: more evidence never makes an answer less sure, and all words in one place are never unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from memd.indexer.query.certainty import FOUND, WEAK, confidence, verdict

SHARES = st.floats(0, 1)
NEAR = st.one_of(st.none(), st.floats(-2, 3))
KNOWN = st.one_of(st.none(), SHARES)


@given(SHARES, SHARES, SHARES, NEAR)
def test_more_known_words_never_make_it_less_sure(one: float, other: float, had: float, near: float | None):
    low, high = sorted((one, other))
    assert confidence(low, had, near) <= confidence(high, had, near)


@given(SHARES, SHARES, SHARES, NEAR)
def test_more_words_in_the_best_hit_never_make_it_less_sure(known: float, one: float, other: float, near: float | None):
    low, high = sorted((one, other))
    assert confidence(known, low, near) <= confidence(known, high, near)


@given(KNOWN, SHARES, st.floats(-2, 3), st.floats(-2, 3))
def test_nearer_in_meaning_is_never_less_sure(known: float | None, had: float, one: float, other: float):
    low, high = sorted((one, other))
    assert confidence(known, had, low) <= confidence(known, had, high)


@given(KNOWN, SHARES, st.one_of(NEAR, st.floats(-1e9, 1e9)))
def test_it_is_a_share(known: float | None, had: float, near: float | None):
    assert 0 <= confidence(known, had, near) <= 1


@given(SHARES, NEAR)
def test_all_words_in_the_best_hit_are_never_unknown(known: float, near: float | None):
    assert verdict(True, confidence(known, 1.0, near)) == "found"


def test_each_argument_matters():
    assert confidence(0.2, 0.5, 0.5) < confidence(0.9, 0.5, 0.5)
    assert confidence(0.5, 0.2, 0.5) < confidence(0.5, 0.9, 0.5)
    assert confidence(0.5, 0.5, 0.2) < confidence(0.5, 0.5, 0.9)
    assert confidence(None, 0.0, 0.2) < confidence(None, 0.0, 0.9)
    assert confidence(0.2, 0.2, None) < confidence(0.9, 0.9, None)


@pytest.mark.parametrize(
    ("known", "had", "near", "expected"),
    [
        (0.0, 0.0, 0.0, "none"),
        (0.0, 0.0, None, "none"),
        (None, 0.0, 0.0, "none"),
        (None, 0.0, None, "none"),
        (1.0, 0.9, 0.8, "found"),
        (1.0, 0.9, None, "found"),
        (None, 0.0, 0.9, "found"),
        (0.5, 0.45, None, "weak"),
        (0.1, 0.1, 0.2, "none"),
    ],
)
def test_verdicts(known: float | None, had: float, near: float | None, expected: str):
    assert verdict(True, confidence(known, had, near)) == expected


def test_the_borders():
    assert [verdict(True, sure) for sure in (0.0, WEAK - 0.001, WEAK, FOUND - 0.001, FOUND, 1.0)] == [
        "none", "none", "weak", "weak", "found", "found",
    ]  # fmt: skip
    assert verdict(False, 1.0) == "none"


def test_what_was_only_guessed_is_never_more_than_weak():
    assert verdict(True, confidence(1.0, 1.0, 1.0)) == "found"
    assert verdict(True, confidence(1.0, 1.0, 1.0, unsure=True)) == "weak"
    assert verdict(True, confidence(0.0, 0.0, 0.0, unsure=True)) == "none"
