"""One memory in the bytes of its file: whatever stands around it stays."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from memd.errors import Conflict
from memd.notes import sections


def replaced(path: str, data: bytes, slug: str, text: str) -> bytes | None:
    return sections.in_bytes(lambda current: sections.with_section(path, current or "", slug, text))(data)


lines = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b" ")), max_size=4)
newlines = st.sampled_from((b"\n", b"\r\n"))


@given(lines, lines, newlines, st.booleans())
def test_bytes_outside_the_memory_stay(before: list[bytes], after: list[bytes], newline: bytes, mark: bool) -> None:
    """Whatever bytes the neighbours have, be they UTF-8 or not."""
    head = (sections.BOM if mark else b"") + newline.join([b"# T", b"", *(b"x" + line for line in before), b"", b""])
    tail = newline.join([b"", b"", b"## Next", b"", *(b"y" + line for line in after)])
    mine = newline.join([b"## Mine", b"", b"text \xff of mine"])
    got = replaced("a.md", head + mine + tail, "mine", "## Mine\n\nother")
    assert got == head + b"## Mine\n\nother" + tail


def test_a_memory_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        replaced("a.md", b"# T\n\n## Other\n\nx\n", "mine", "## Mine")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b"## S\n\nx\n"),
        (b"# T\n", b"# T\n\n## S\n\nx\n"),
        (b"# T\n\n", b"# T\n\n## S\n\nx\n"),
        (b"# T", b"# T\n\n## S\n\nx\n"),
        (b"# T\r\n", b"# T\r\n\r\n## S\n\nx\r\n"),
    ],
)
def test_a_section_at_the_end_has_a_blank_line_before_it(data: bytes, expected: bytes) -> None:
    added = sections.in_bytes(lambda text: sections.with_new_section(text or "", "## S\n\nx"))
    assert added(data) == expected


def test_a_preamble_goes_before_the_sections() -> None:
    assert sections.with_preamble("a.md", "# T\n\n## S\n\nx\n", "# T\n\nhello") == "# T\n\nhello\n\n## S\n\nx\n"
    with pytest.raises(Conflict):
        sections.with_preamble("a.md", "# T\n\nanother\n\n## S\n\nx\n", "# T\n\nhello")


def test_front_matter_is_no_memory() -> None:
    data = b"---\ntitle: \xff\n---\n\nbody\n"
    assert sections.in_bytes(lambda text: sections.before_preamble(text or ""))(data) == b"---\ntitle: \xff\n---\n\n"
    assert replaced("memory/topics/t.md", data, "", "new") == b"---\ntitle: \xff\n---\n\nnew\n"
