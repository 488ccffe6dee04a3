"""What machines tell each other of memories: the same whatever order it comes in, however often, garbage left out."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from memd.indexer.lifecycle.sync_state import joined, parsed, updated

MOMENTS = st.integers(1, 9).map(lambda day: f"2026-02-0{day}T10:00:00.000+00:00")
MOVES = st.fixed_dictionaries(
    {"moved": MOMENTS, "tier": st.sampled_from(["stm", "ltm", "dormant"]), "by": st.sampled_from(["cli", "rule:age"]),
     "why": st.just("age"), "home": st.sampled_from(["", "stm"]),
     "deleted": st.just("") | MOMENTS}
)  # fmt: skip
LIVES = st.builds(
    lambda counts, move: counts | move,
    st.fixed_dictionaries(
        {}, optional={name: st.integers(1, 5) for name in ("accesses", "days", "useful")} | {"accessed": MOMENTS}
    ),
    st.just({}) | MOVES,
)
EDGES = st.fixed_dictionaries({"uses": st.integers(1, 5), "used": MOMENTS}) | st.fixed_dictionaries(
    {"made": MOMENTS, "weight": st.floats(0, 1)}
)
STATES = st.dictionaries(st.sampled_from([("a.md#x",), ("b.md#y",)]), LIVES, max_size=2).flatmap(
    lambda lives: st.dictionaries(st.just(("a.md#x", "refines", "b.md#y")), EDGES).map(lambda edges: lives | edges)
)


def known(text: str):
    return parsed(text).known()


@given(history=st.lists(STATES, min_size=1, max_size=6))
def test_a_file_says_what_was_last_observed(history):
    text = ""
    for state in history:
        text, _ = updated(text, state)
        assert updated(text, state) == (text, 0), "written twice is written once"
        assert known(text) == {subject: facts for subject, facts in state.items() if facts}
        assert not parsed(text).garbage


@given(history=st.lists(STATES, min_size=1, max_size=5), data=st.data())
def test_lines_count_the_same_in_any_order_and_number(history, data):
    text = ""
    for state in history:
        text, _ = updated(text, state)
    lines = text.splitlines(keepends=True)
    mixed = data.draw(st.permutations([*lines, *lines[: len(lines) // 2]]))
    assert known("".join(mixed)) == known(text)


@given(states=st.lists(STATES, max_size=4), data=st.data())
def test_machines_come_to_the_same_in_whatever_order_they_hear_of_each_other(states, data):
    assert joined(data.draw(st.permutations(states))) == joined(states)
    if len(states) > 2:
        assert joined([joined(states[:2]), *states[2:]]) == joined(states)


@given(state=STATES, junk=st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.decode(errors="replace")))
def test_garbage_is_told_and_changes_nothing(state, junk):
    text, _ = updated("", state)
    junk = "x" + "".join(junk.split())
    found = parsed(f"{text}{junk}\n")
    assert found.known() == known(text) and len(found.garbage) == 1
    cleaned, _ = updated(f"{text}{junk}", state)
    assert not parsed(cleaned).garbage and known(cleaned) == known(text)


def test_lines_that_are_not_memds_are_refused_with_a_reason():
    moment = "2026-02-01T10:00:00.000+00:00"
    for line, why in {
        "<<<<<<< HEAD": "no whole line",
        '{"v": 1, "memory": "a.md#x", "accesses": 3': "no whole line",
        "[1]": "no line of memd's",
        '{"memory": "a.md#x"}': "no line of memd's",
        '{"v": true, "memory": "a.md#x"}': "no line of memd's",
        '{"v": 1, "accesses": 3}': "neither",
        '{"v": 1, "edge": ["a", "b"]}': "neither",
        '{"v": 1, "edge": ["a", "eats", "b"]}': "relation",
        '{"v": 1, "memory": "a.md#x", "accesses": -3}': "`accesses`",
        '{"v": 1, "memory": "a.md#x", "accesses": 1e99}': "`accesses`",
        '{"v": 1, "memory": "a.md#x", "accessed": "tomorrow"}': "`accessed`",
        '{"v": 1, "memory": "a.md#x", "mood": "good"}': "`mood`",
        '{"v": 1, "memory": "a.md#x", "tier": "ltm"}': "half of a move",
        json.dumps({"v": 1, "edge": ["a", "refines", "b"], "made": moment}): "half of an edge",
    }.items():
        ((nth, reason),) = parsed(f"\n{line}\n").garbage
        assert nth == 2 and why in reason, line


def test_a_file_stays_short_however_often_it_is_written():
    text = ""
    for times in range(1, 600):
        text, _ = updated(text, {("a.md#x",): {"accesses": times}})
    assert known(text) == {("a.md#x",): {"accesses": 599}} and text.count("\n") < 110
