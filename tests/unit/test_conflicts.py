"""Conflicts of git and of synchronisers: which names are copies, which lines are markers, what a merge keeps."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from memd.notes import merging, read

PATH = "memory/2026-02-15.md"
BASE = "# Day\n\n## Heron\n\nIt stands.\n\n## Pond\n\nIt is deep.\n"


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("memory/2026-02-15.sync-conflict-20260216-101010-ABCDEF7.md", "memory/2026-02-15.md"),
        ("MEMORY (Anna's conflicted copy 2026-02-16).md", "MEMORY.md"),
        ("MEMORY (conflicted copy 2026-02-16 101010).md", "MEMORY.md"),
        ("memory/2026-02-15.conflict-20260216T101010-ab12.md", "memory/2026-02-15.md"),
        ("memory/2026-02-15.md.orig", "memory/2026-02-15.md"),
        ("memory/2026-02-15.md", None),
        ("memory/about conflicts.md", None),
    ],
)
def test_a_copy_is_known_by_its_name(name: str, original: str | None) -> None:
    assert merging.original_of(name) == original


CONFLICT = (
    "# Day\n\n<<<<<<< HEAD\n## Heron\n\nours\n||||||| abc\nold\n=======\n## Heron\n\ntheirs\n>>>>>>> main\n\nend\n"
)


def test_markers_go_and_every_line_stays_where_it_is() -> None:
    assert read.has_markers(CONFLICT)
    plain = read.without_markers(CONFLICT)
    assert plain.count("\n") == CONFLICT.count("\n") and not read.has_markers(plain)
    assert "ours" in plain and "theirs" in plain and "old" not in plain and "=====" not in plain
    ours, theirs, base = read.sides(CONFLICT)
    assert ours == "# Day\n\n## Heron\n\nours\n\nend\n" and theirs == "# Day\n\n## Heron\n\ntheirs\n\nend\n"
    assert base == "# Day\n\nold\n\nend\n"


@pytest.mark.parametrize(
    "text", ["Title\n=======\n", "<<<<<<< a\n", ">>>>>>> b\n=======\n<<<<<<< a\n", "a <<<<<<< b\n"]
)
def test_what_only_looks_like_markers_stays(text: str) -> None:
    assert not read.has_markers(text) and read.without_markers(text) == text


@pytest.mark.parametrize(
    ("ours", "theirs", "merged", "clashes"),
    [
        # Each side added a section.
        (BASE + "\n## A\n\na\n", BASE + "\n## B\n\nb\n", BASE + "\n## A\n\na\n\n## B\n\nb\n", ()),
        # Each side changed another section.
        (BASE.replace("stands", "flies"), BASE.replace("deep", "dry"), BASE.replace("stands", "flies").replace("deep", "dry"), ()),  # noqa: E501
        # One side removed a section, the other left it alone.
        (BASE, "# Day\n\n## Heron\n\nIt stands.\n", "# Day\n\n## Heron\n\nIt stands.\n", ()),
        # One side removed what the other changed: it stays.
        (BASE.replace("deep", "dry"), "# Day\n\n## Heron\n\nIt stands.\n", BASE.replace("deep", "dry"), ()),
        # Both added lines to one section.
        (BASE.replace("stands.\n", "stands.\nours\n"), BASE.replace("stands.\n", "stands.\ntheirs\n"),
         BASE.replace("stands.\n", "stands.\nours\ntheirs\n"), ()),
        # Both changed one line.
        (BASE.replace("stands", "flies"), BASE.replace("stands", "sleeps"),
         BASE.replace("It stands.\n", "It flies.\nIt sleeps.\n"), ("Heron",)),
    ],
)  # fmt: skip
def test_a_merge_keeps_what_either_side_did(ours: str, theirs: str, merged: str, clashes: tuple[str, ...]) -> None:
    outcome = merging.merge(PATH, ours, theirs, merging.Base(BASE))
    assert (outcome.text, tuple(clash.heading for clash in outcome.clashes)) == (merged, clashes)


lines = st.lists(st.sampled_from(["## A", "## B", "## C", "one", "two", "three", ""]), max_size=8).map("\n".join)


@given(lines, lines)
def test_without_a_base_no_line_of_either_side_is_lost(ours: str, theirs: str) -> None:
    one, other = (f"# Day\n\n## Top\n\n{text}\n" for text in (ours, theirs))
    merged = merging.merge(PATH, one, other, merging.Base())
    kept = merged.text.splitlines()
    for text in (one, other):
        assert {line for line in text.splitlines() if line} <= set(kept)
