"""The markers of a conflict within a text: where they are, what both sides say, and the text without them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

OURS, BASE, MIDDLE, THEIRS = "<<<<<<<", "|||||||", "=======", ">>>>>>>"
LINE = re.compile(r"[^\n]*\n|[^\n]+")
MARKED = "it has conflict markers, which are not shown: memd conflict list"
"""What is said of a note with markers: both sides can be found, the markers cannot."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The lines of the markers of one conflict; `base` is -1 where git was not told to show it."""

    ours: int
    base: int
    middle: int
    theirs: int


def has_markers(text: str) -> bool:
    return THEIRS in text and bool(_blocks(LINE.findall(text)))


def without_markers(text: str) -> str:
    """The text with both sides and without the markers; every line stays where it is."""
    if THEIRS not in text:
        return text
    lines = LINE.findall(text)
    for block in _blocks(lines):
        for number in (block.ours, block.base, block.middle, block.theirs):
            if number >= 0:
                lines[number] = "\n"
        if block.base >= 0:
            # What both sides began with is in neither.
            lines[block.base : block.middle] = ["\n"] * (block.middle - block.base)
    return "".join(lines)


def sides(text: str) -> tuple[str, str, str | None]:
    """Both sides of a text with markers, and what they began with if it says so."""
    lines, ours, theirs, base = LINE.findall(text), list[str](), list[str](), list[str]()
    at, known = 0, True
    for block in _blocks(lines):
        for side in (ours, theirs, base):
            side += lines[at : block.ours]
        ours += lines[block.ours + 1 : block.base if block.base >= 0 else block.middle]
        theirs += lines[block.middle + 1 : block.theirs]
        known = known and block.base >= 0
        base += lines[block.base + 1 : block.middle] if block.base >= 0 else []
        at = block.theirs + 1
    for side in (ours, theirs, base):
        side += lines[at:]
    return "".join(ours), "".join(theirs), "".join(base) if known else None


def _blocks(lines: Sequence[str]) -> list[_Block]:
    found, ours, base, middle = list[_Block](), -1, -1, -1
    for number, line in enumerate(lines):
        mark = line[:7] if line.rstrip("\r\n")[7:8] in ("", " ") else ""
        if mark == OURS:
            ours, base, middle = number, -1, -1
        elif mark == BASE and ours >= 0 and middle < 0:
            base = number
        elif mark == MIDDLE and ours >= 0 and middle < 0:
            middle = number
        elif mark == THEIRS and middle >= 0:
            found.append(_Block(ours, base, middle, number))
            ours = base = middle = -1
    return found
