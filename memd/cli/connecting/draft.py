"""A text that is added to and remembers where, so that what was added can be taken out again exactly."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


class Draft:
    """A text, and the spans in it that were not there before."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.added: list[Span] = []

    def insert(self, at: int, piece: str) -> None:
        size = len(piece)
        moved = [(first + size, last + size) if first >= at else (first, last) for first, last in self.added]
        inside = [(first, last + size if first < at < last else last) for first, last in moved]
        covered = any(first < at < last for first, last in moved)
        self.added = sorted(inside if covered else [*inside, (at, at + size)])
        self.text = self.text[:at] + piece + self.text[at:]


def without(text: str, spans: Iterable[Span]) -> str:
    """The text with the spans cut out."""
    for first, last in sorted(spans, reverse=True):
        text = text[:first] + text[last:]
    return text
