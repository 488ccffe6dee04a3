"""What memd puts into an agent's file, and a draft that remembers where, so that it can be taken out again exactly."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

NAME = "memd"
"""The name of the server in every file."""
HOOK = re.compile(r"\bmemd\b.*\shook\s+[a-z-]+")
"""Recognises memd's commands among other hooks, also those that an older memd wrote."""


@dataclass(frozen=True, slots=True)
class Member:
    """`memd: value` in the object at the end of `pointer`."""

    pointer: tuple[str, ...]
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """`value` in the list of hooks at the end of `pointer`."""

    pointer: tuple[str, ...]
    value: dict[str, Any]


Piece = Member | Item
Pieces = Sequence[Piece]
Span = tuple[int, int]


def entry_state(entry: Any, wanted: dict[str, Any]) -> str:
    """What an entry called `memd` is: `connected`, `differs`, or `taken` by something that does not start memd."""
    if entry == wanted:
        return "connected"
    command, args = (entry.get("command"), entry.get("args")) if isinstance(entry, dict) else (None, None)
    if not isinstance(command, str) or not isinstance(args, list):
        return "taken"
    return "differs" if "mcp" in args and (PurePath(command).name == NAME or NAME in args) else "taken"


class Draft:
    """A text, and the spans in it that were added."""

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
