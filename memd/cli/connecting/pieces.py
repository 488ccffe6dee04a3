"""What memd puts into an agent's file, and a text that remembers where it was added, to take it out again exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

NAME = "memd"
"""What the server is called everywhere."""
HOOK = re.compile(r"\bmemd\b.*\shook\s+[a-z-]+")
"""How memd's commands are known among other people's hooks."""


@dataclass(frozen=True, slots=True)
class Member:
    """`key: value` in the object at the end of `pointer`."""

    pointer: tuple[str, ...]
    value: dict[str, Any]
    key: str = NAME


@dataclass(frozen=True, slots=True)
class Item:
    """`value` in the list at the end of `pointer`; `ours` knows it again, also as an older memd wrote it."""

    pointer: tuple[str, ...]
    value: dict[str, Any]
    ours: re.Pattern[str] = HOOK


def starts_memd(value: Any) -> bool:
    """Whether an entry starts `memd mcp`, however it is spelled; then it is memd's, whoever wrote it."""
    command, args = (value.get("command"), value.get("args")) if isinstance(value, dict) else (None, None)
    if not isinstance(command, str) or not isinstance(args, list):
        return False
    return "mcp" in args and (PurePath(command).name == NAME or NAME in args)


Piece = Member | Item
Pieces = Sequence[Piece]
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
