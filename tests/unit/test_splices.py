"""Splices and their undoing: exact where nobody else was, elsewhere only where the place is beyond doubt."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from memd.errors import Conflict
from memd.indexer.record.actions import Splice, splice_of, undo_splice

OLD = b"# Memory\n\n## Home\n\nThe router is called fjord.\n\n## Likes\n\nShort answers.\n"
NEW = OLD.replace(b"fjord", b"heron")
CHANGED = "x.md was changed since, at the same place"

files = st.none() | st.binary(max_size=60) | st.sampled_from((OLD, NEW, b"a\nb\n", b"a\nb\nb\n"))


@given(files, files)
def test_what_was_done_can_be_undone_byte_for_byte(before: bytes | None, after: bytes | None) -> None:
    splice = splice_of("x.md", before, after)
    assert undo_splice(splice, after) == before
    old, new = before or b"", after or b""
    assert old[: splice.start] + splice.inserted + old[splice.start + len(splice.removed) :] == new


@given(st.text("ab\n ", max_size=40), st.text("ab\n ", min_size=1, max_size=40), st.text("ab\n ", max_size=40))
def test_what_others_appended_stays_when_an_append_is_undone(old: str, put: str, later: str) -> None:
    before, after = old.encode(), (old + put).encode()
    found = (old + put + later).encode()
    try:
        assert undo_splice(splice_of("x.md", before, after), found) == (old + later).encode()
    except Conflict as conflict:
        assert CHANGED in conflict.message


def _conflicts(splice: Splice, found: bytes | None, why: str = CHANGED) -> None:
    with pytest.raises(Conflict) as caught:
        undo_splice(splice, found)
    assert caught.value.message == f"it cannot be undone: {why}"


def test_a_change_elsewhere_in_the_file_stays() -> None:
    found = NEW.replace(b"Short answers", b"Long answers") + b"\n## More\n\nand more\n"
    assert undo_splice(splice_of("x.md", OLD, NEW), found) == found.replace(b"heron", b"fjord")


def test_a_change_at_the_same_place_is_a_conflict() -> None:
    found = NEW.replace(b"heron", b"walrus")
    _conflicts(splice_of("x.md", OLD, NEW), found)


def test_the_same_short_word_elsewhere_is_not_taken_for_it() -> None:
    found = b"# All is new\n\nThe boat is the walrus, and a heron stands by.\n"
    _conflicts(splice_of("x.md", OLD, NEW), found)


def test_what_stands_twice_is_a_conflict() -> None:
    found = b"before it\n" + NEW[10:50] + b"\n" + NEW[10:50] + b"behind it\n"
    _conflicts(splice_of("x.md", OLD, NEW), found)


def test_a_file_that_is_gone_is_a_conflict() -> None:
    _conflicts(splice_of("x.md", OLD, NEW), None, "x.md is gone")


def test_the_removal_of_a_file_is_undone_only_where_none_is() -> None:
    splice = splice_of("x.md", OLD, None)
    assert undo_splice(splice, None) == OLD
    _conflicts(splice, b"another\n")


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
def test_a_splice_is_made_of_whole_lines(old: str, new: str) -> None:
    splice = splice_of("x.md", old.encode(), new.encode())
    assert splice.start == 0 or old[splice.start - 1] == "\n"
    for text, part in ((old, splice.removed), (new, splice.inserted)):
        behind = text[splice.start + len(part) :]
        assert not part or not behind or part.endswith(b"\n")


def test_a_section_that_was_put_between_two_is_all_that_the_splice_has() -> None:
    new = OLD.replace(b"## Likes", b"## More\n\nThe fox.\n\n## Likes")
    assert splice_of("x.md", OLD, new).inserted == b"## More\n\nThe fox.\n\n"
    assert splice_of("x.md", new, OLD).removed == b"## More\n\nThe fox.\n\n"
