"""Chooses the part of a passage that answers: a few lines, wrapped to the terminal, around the words that were found.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Span = tuple[int, int]
    """Where something begins and ends in a text."""

LINES = 3
RULE = "|-:= "
"""A line of nothing else divides a table, or a text."""
WIDE = "\u1100"
"""Characters from here on may take two columns; most of the scripts that do come after it."""


def snippet(text: str, marks: Sequence[Span], width: int) -> tuple[list[Span], bool, bool]:
    """The wrapped lines that have most of the marks, the first of them where several have as many; and whether there
    is text before them and after them."""
    lines = list(_wrapped(text, width))
    if len(lines) <= LINES:
        return lines, False, False
    last = len(lines) - LINES
    best = max(range(last + 1), key=lambda first: _worth(text, marks, lines[first : first + LINES]))
    return lines[best : best + LINES], best > 0, best < last


def _worth(text: str, marks: Sequence[Span], lines: Sequence[Span]) -> tuple[int, int, bool, int]:
    """How many different words are marked in some lines, how many marks there are, whether they begin where a line of
    the text begins; at last, the earlier the better."""
    first, end = lines[0][0], lines[-1][1]
    inside = [text[mark[0] : mark[1]].lower() for mark in marks if first <= mark[0] < end]
    return len(set(inside)), len(inside), not text[text.rfind("\n", 0, first) + 1 : first].strip(), -first


def _wrapped(text: str, width: int) -> Iterator[Span]:
    """The lines of a text, wrapped; without those that are blank and without headings at its beginning, which the line
    above a hit tells."""
    at, begun = 0, False
    for line in text.split("\n"):
        bare = line.strip()
        if bare.strip(RULE) and (begun or not bare.startswith("#")):
            begun = True
            yield from _wrapped_line(text, at, at + len(line.rstrip()), width)
        at += len(line) + 1
    if not begun and text.strip():
        yield from _wrapped_line(text, 0, len(text.rstrip()), width)


def _wrapped_line(text: str, start: int, end: int, width: int) -> Iterator[Span]:
    while start < end:
        cut = _fitting(text, start, end, width)
        if cut < end and not text[cut].isspace():
            space = max(text.rfind(" ", start, cut), text.rfind("\t", start, cut))
            cut = space if space > start else cut
        yield start, cut
        start = cut
        while start < end and text[start].isspace():
            start += 1


def _fitting(text: str, start: int, end: int, width: int) -> int:
    """How far a text fits into some columns; one character at least."""
    columns, at = 0, start
    while at < end:
        columns += 2 if text[at] >= WIDE and not "\u1d00" <= text[at] <= "\u2e7f" else 1
        if columns > width:
            break
        at += 1
    return max(at, start + 1)
