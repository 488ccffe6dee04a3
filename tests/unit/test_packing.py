"""How memories are packed into a budget: the order, the cap, excerpts, contradictions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from memd.lifecycle.packing import ELLIPSIS, LEAST, MISSES, PackedContext, Packer, excerpt, pieces_of
from memd.notes.sections import quoted


def words(text: str) -> int:
    """A token a word, and one for each run of line ends: what is joined counts as its pieces do."""
    return len(re.findall(r"\S+|\n+", text))


def nothing(piece: str) -> float:
    return 0.0


def about(*sought: str):
    return lambda piece: float(sum(word in piece for word in sought))


def packer(bodies: dict[int, str], against: dict[int, list[int]] | None = None, most: int = 400) -> Packer:
    def head(memory: int, beside: int | None) -> str:
        return f"### m{memory}{'' if beside is None else f' against m{beside}'}\n\n"

    return Packer(head, lambda memory: f"{bodies[memory]}\n\n", words, nothing, against or {}, most)


def body(count: int, name: str = "w") -> str:
    """A line of so many words, in sentences of five."""
    return " ".join(f"{name}{nth}{'.' if nth % 5 == 4 else ''}" for nth in range(count))


def search(*memories: int) -> list[tuple[int, str]]:
    return [(memory, "search") for memory in memories]


# --- packing ------------------------------------------------------------------------------------------------


def test_pinned_memories_take_a_quarter_at_most_and_the_rest_follows_by_score() -> None:
    pack = packer({1: body(20), 2: body(20), 3: body(20), 4: body(20)})
    bundle = pack.pinned([1, 2, 3], 200)
    assert [one.memory for one in bundle.packed] == [1, 2] and bundle.tokens == 48 and bundle.overflowed
    bundle.dropped = 0
    pack.fill(bundle, search(4, 2, 3), 200)
    assert [(one.memory, one.phase) for one in bundle.packed] == [
        (1, "pinned"), (2, "pinned"), (4, "search"), (3, "search"),
    ]  # fmt: skip
    assert bundle.tokens == sum(words(one.text) for one in bundle.packed) == 96


def test_pinned_memories_that_fit_do_not_overflow_even_when_one_is_cut_for_its_length() -> None:
    bundle = packer({1: body(900)}).pinned([1], 3000)
    assert bundle.packed[0].excerpt and not bundle.packed[0].squeezed and not bundle.overflowed


def test_no_memory_takes_more_than_its_cap() -> None:
    for count, cut in ((395, False), (396, False), (397, True), (1000, True)):
        bundle = PackedContext()
        packer({1: body(count)}).fill(bundle, search(1), 5000)
        (one,) = bundle.packed
        assert one.excerpt == cut and one.tokens <= 400, count
        assert not cut or (ELLIPSIS in one.text and one.tokens > 380)


@pytest.mark.parametrize(("budget", "fits"), [(2 + 1 + LEAST - 1, False), (2 + 1 + LEAST, True)])
def test_an_excerpt_needs_twenty_five_tokens(budget: int, fits: bool) -> None:
    bundle = PackedContext()
    packer({1: body(300)}).fill(bundle, search(1), budget)
    assert bool(bundle.packed) == fits and bundle.dropped == (0 if fits else 1)


def test_a_short_memory_still_fits_after_a_long_one_did_not() -> None:
    bundle = PackedContext()
    packer({1: body(90), 2: body(60), 3: "short"}).fill(bundle, search(1, 2, 3), 110)
    assert [one.memory for one in bundle.packed] == [1, 3] and bundle.dropped == 1


def test_after_some_misses_no_further_one_is_tried_and_all_are_counted() -> None:
    looked: list[int] = []
    pack = packer({nth: body(300) for nth in range(100)})
    heads = pack.head
    pack = Packer(lambda one, beside: (looked.append(one), heads(one, beside))[1], pack.body, words, nothing)
    bundle = PackedContext()
    pack.fill(bundle, search(*range(100)), 320)
    assert len(bundle.packed) == 1 and bundle.dropped == 99 and len(looked) == 1 + MISSES


def test_a_contradiction_stands_beside_what_it_contradicts() -> None:
    bundle = PackedContext()
    pack = packer({1: body(10), 2: body(10), 3: body(10)}, {1: [3], 3: [1]})
    pack.fill(bundle, search(1, 2, 3), 1000)
    assert [(one.memory, one.phase, one.against) for one in bundle.packed] == [
        (1, "search", None), (3, "contradiction", 1), (2, "search", None),
    ]  # fmt: skip
    assert "against m1" in bundle.packed[1].text


def test_nothing_is_shown_whose_contradiction_does_not_fit_and_room_is_made_for_it() -> None:
    pack = packer({1: body(100), 2: body(100)}, {1: [2]})
    for budget in range(20, 220):
        bundle = PackedContext()
        pack.fill(bundle, search(1), budget)
        assert len(bundle.packed) in (0, 2), budget
        assert bundle.tokens <= budget
    assert len(bundle.packed) == 2 and not any(one.excerpt for one in bundle.packed)
    small = PackedContext()
    pack.fill(small, search(1), 90)
    assert [one.excerpt for one in small.packed] == [True, True]


@given(st.lists(st.integers(0, 500), max_size=12), st.integers(50, 900), st.integers(0, 12))
def test_a_budget_is_never_exceeded(lengths: list[int], budget: int, pinned: int) -> None:
    bodies = dict(enumerate(body(length) for length in lengths))
    pack = packer(bodies, {0: [1], 1: [0]} if len(lengths) > 1 else {})
    bundle = pack.pinned(list(bodies)[:pinned], budget)
    assert bundle.tokens <= budget // 3
    pack.fill(bundle, search(*bodies), budget)
    assert words("".join(one.text for one in bundle.packed)) <= bundle.tokens <= budget
    assert len({one.memory for one in bundle.packed}) == len(bundle.packed)


# --- excerpts -----------------------------------------------------------------------------------------------

LINES = "\n".join(f"line {nth} says something about nothing" for nth in range(30))


def test_the_best_lines_come_first_in_the_order_of_the_text() -> None:
    text = LINES.replace("line 20 says", "line 20 the wren says").replace("line 7 says", "line 7 the wren says")
    cut = excerpt(text, 24, words, about("wren"))
    kept = [line for line in cut.splitlines() if line != ELLIPSIS]
    assert kept == ["line 7 the wren says something about nothing", "line 20 the wren says something about nothing"]
    assert cut.splitlines()[0] == ELLIPSIS and cut.splitlines()[-1] == ELLIPSIS


def test_without_a_match_it_is_the_beginning() -> None:
    cut = excerpt(LINES, 30, words, nothing)
    assert cut.startswith("line 0 says") and cut.endswith(ELLIPSIS) and words(cut) <= 30


def test_long_lines_are_cut_at_sentences() -> None:
    text = " ".join(f"Sentence number {nth} is here to be read by you." for nth in range(40))
    cut = excerpt(text, 50, words, about("number 17 "))
    assert "Sentence number 17 is here to be read by you." in cut
    for piece in re.split(rf"\s*{ELLIPSIS}\s*", cut):
        assert not piece or (piece.startswith("Sentence") and piece.endswith("you.")), piece


def test_a_heading_stays_with_the_line_below_it() -> None:
    cut = excerpt(f"{LINES}\n\n#### Wrens\n\nThey sing.\n\n{LINES}\n", 12, words, about("Wrens"))
    assert cut == f"{ELLIPSIS}\n#### Wrens\n\nThey sing.\n\n{ELLIPSIS}"


def test_a_code_block_stays_whole_or_is_closed() -> None:
    code = "```sh\n" + "\n".join(f"step {nth}" for nth in range(20)) + "\n```\n"
    whole = excerpt(f"{LINES}\n\n{code}\n{LINES}\n", 75, words, about("step"))
    assert code.strip() in whole
    cut = excerpt(f"{LINES}\n\n{code}\n{LINES}\n", 30, words, about("step"))
    assert cut.startswith("```sh\nstep 0") and cut.endswith(f"\n{ELLIPSIS}\n```") and words(cut) <= 30


def test_a_line_without_an_end_is_cut_at_a_word_and_one_word_anywhere() -> None:
    assert excerpt(body(300).replace(".", ""), 30, words, nothing).endswith(f" {ELLIPSIS}")
    letters = excerpt("x" * 300, 30, lambda text: len(text), nothing)
    assert letters == "x" * 29 + ELLIPSIS


@given(st.text(alphabet=" \nabc.`~#", max_size=300))
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(pieces_of(text)) == text


@given(st.text(alphabet=" \nab.!`~#", max_size=300), st.integers(3, 60))
def test_an_excerpt_fits(text: str, room: int) -> None:
    assert words(excerpt(text, room, words, about("a"))) <= room


# --- quoting ------------------------------------------------------------------------------------------------


def test_a_quoted_memory_has_no_heading_and_no_facts_of_its_own() -> None:
    text = "## ErsatzTV\n<!-- memd: pinned tags=a -->\n\nSet it up.\n\n### Ports\n8409\n"
    assert quoted(text) == "Set it up.\n\n#### Ports\n8409"
    assert quoted("## Buy milk\n") == ""


def test_no_line_of_it_looks_like_the_heading_of_another() -> None:
    assert quoted("a\n# b\n## c\n### d\n#### e\n#tag\n") == "a\n#### b\n#### c\n#### d\n#### e\n#tag"
    assert quoted("a\n```\n# a comment\n```\n") == "a\n```\n# a comment\n```"


def test_a_code_block_that_is_left_open_is_closed() -> None:
    assert quoted("a\n~~~~\ncode\n~~~\n") == "a\n~~~~\ncode\n~~~\n~~~~"
