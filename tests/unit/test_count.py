"""`make count` counts lines of code: no blank lines, no comments, no docstrings."""

from __future__ import annotations

import pytest

from release.count import code_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("# a comment\n\nx = 1  # another\n", 1),
        ('"""A module.\n\nTwo lines of it.\n"""\n\nx = 1\n', 1),
        ('def f():\n    """A docstring."""\n    return 1\n', 2),
        ('x = 1\n"""What x is."""\n', 1),
        ('text = """one\n\ntwo\n"""\n', 4),
        ("call(\n    1,\n\n    2,\n)\n", 4),
    ],
)
def test_only_lines_with_code_count(text: str, lines: int) -> None:
    assert code_lines(text) == lines
