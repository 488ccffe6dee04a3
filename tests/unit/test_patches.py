"""Unified diffs: what a diff was made from becomes what it was made for, and nothing else ever changes."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings, strategies as st

from memd.errors import ContextMismatch, MalformedPatch, MemdError
from memd.notes import patches

LINES = st.lists(
    st.sampled_from(["", "a", "b", "- a", "+ b", "@@ -1 +1 @@", "--- c", "\\ no", " d", "ä\u2028x", "\x0b"])
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"])) | st.text(
    st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=60
)


def diff_of(old: str, new: str, context: int = 3) -> str:
    """A diff as GNU diff writes it: with a remark where a text has no line end."""
    one, other = (text.split("\n") for text in (old, new))
    ends = [lines.pop() if lines[-1] == "" else None for lines in (one, other)]
    made = list(difflib.unified_diff(_marked(one, ends[0]), _marked(other, ends[1]), "a", "b", lineterm="", n=context))
    out = []
    for line in made:
        out.append(line.removesuffix("\0"))
        if line.endswith("\0"):
            out.append("\\ No newline at end of file")
    return "".join(f"{line}\n" for line in out)


def _marked(lines: list[str], end: str | None) -> list[str]:
    return lines if end is not None or not lines else [*lines[:-1], lines[-1] + "\0"]


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, st.integers(0, 4))
def test_a_diff_makes_the_new_text_of_the_old_one(old: str, new: str, context: int) -> None:
    diff = diff_of(old, new, context)
    if diff:
        assert patches.apply(old, diff) == new
    else:
        with pytest.raises(MalformedPatch):
            patches.apply(old, diff)


@settings(max_examples=300, deadline=None)
@given(LINES, LINES, st.integers(0, 4))
def test_a_memory_has_no_line_end_at_its_end_and_a_diff_need_not_say_so(old: list[str], new: list[str], n: int) -> None:
    one, other = ["x", *old, "y"], ["x", *new, "z"]
    diff = "\n".join(difflib.unified_diff(one, other, lineterm="", n=n))
    assert patches.apply("\n".join(one), diff) == "\n".join(other)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.text(max_size=200) | LINES.map("\n".join))
def test_garbage_is_refused_and_never_raises_anything_else(text: str, garbage: str) -> None:
    garbage = garbage.replace("\0", "")
    try:
        made = patches.apply(text, garbage)
    except MemdError as error:
        assert isinstance(error, MalformedPatch | ContextMismatch)
    else:
        # What is accepted was a diff: taken backwards it gives the old text again.
        assert "@@" in garbage
        assert patches.apply(made, diff_of(made, text) or diff_of(made, made + "x")) in (text, made + "x")


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_a_diff_of_another_text_changes_nothing_or_fits_line_by_line(there: str, old: str, new: str) -> None:
    diff = diff_of(old, new)
    try:
        made = patches.apply(there, diff)
    except MemdError:
        return
    removed = [line for hunk in patches.parse(diff) for line in hunk.old]
    assert all(line in there.split("\n") for line in removed)
    added = [line for hunk in patches.parse(diff) for sign, line in hunk.lines if sign == "+"]
    assert all(line in made.split("\n") for line in added)


def test_the_line_ends_of_the_file_stay() -> None:
    diff = "@@ -1,3 +1,4 @@\n one\n-two\n+deux\n+more\n three\n"
    assert patches.apply("one\ntwo\nthree", diff) == "one\ndeux\nmore\nthree"
    assert patches.apply("one\r\ntwo\r\nthree", diff) == "one\r\ndeux\r\nmore\r\nthree"
    assert patches.apply("one\r\ntwo\r\nthree\r\n", diff) == "one\r\ndeux\r\nmore\r\nthree\r\n"
    # Mixed ends are nobody's habit: there the diff must say what it means.
    with pytest.raises(ContextMismatch):
        patches.apply("one\r\ntwo\nthree", diff)


def test_an_empty_line_may_have_lost_its_blank() -> None:
    assert patches.apply("a\n\nb", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n") == "a\n\nc"


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "hello",
        "--- a\n+++ b\n",
        "@@ -1 +1 @@\n-a\n",
        "@@ -1 +1 @@\n-a\n+b\n+c\n",
        "@@ -1,2 +1 @@\n-a\n+b\n",
        "@@ -x +1 @@\n-a\n+b\n",
        "@@ -1 +1 @@\n*a\n+b\n",
        "@@ -1 +1 @@\n-a\n+b\n--- c\n+++ d\n@@ -1 +1 @@\n-a\n+b\n",
        "@@ -1 +1 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_what_is_no_diff_of_one_text_is_malformed(patch: str) -> None:
    with pytest.raises(MalformedPatch):
        patches.apply("a\n", patch)


def test_a_line_that_differs_is_named_and_where_it_stands_instead() -> None:
    with pytest.raises(ContextMismatch, match=r"line 2 of the memory is 'b', but the patch expects 'c'") as caught:
        patches.apply("a\nb\nc\n", "@@ -2 +2 @@\n-c\n+d\n")
    assert "are at 3" in caught.value.hint
    with pytest.raises(ContextMismatch, match="line 9"):
        patches.apply("a\n", "@@ -9 +9 @@\n-a\n+b\n")


def test_what_a_patch_brings_in_is_known() -> None:
    assert patches.added_text("@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n") == "c\nd"
