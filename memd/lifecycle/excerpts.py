"""Shortens a memory to its best lines, with whole sentences and code blocks where possible. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

ELLIPSIS = "…"
SENTENCE = re.compile(r"(?<=[.!?…。！？])[\"')\]]*(?:\s+|(?<=[。！？]))")
HEADING = re.compile(r" {0,3}#{1,6}\s[^\n]*\n\s*\Z")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
LONG = 200
"""A longer line is split into sentences."""

BESIDE = 0.25
"""The share of its neighbours' worth that a line gains: the subject is often in the line before."""

MISSES = 8
"""After so many lines that did not fit, no more are tried."""

Count = Callable[[str], int]
Worth = Callable[[str], float]


def excerpt(text: str, room: int, count: Count, worth: Worth) -> str:
    """The best lines of a text within `room` tokens, in their order, with … where something is left out.

    Empty if nothing fits.
    """
    pieces = pieces_of(text)
    worths = [worth(piece) for piece in pieces]
    order = _best_first(worths)
    chosen = _chosen(pieces, order, room, count)
    # A part of the best piece is better than others that have nothing to do with the task.
    cut = bool(order) and order[0] not in chosen and (worths[order[0]] > 0 or not chosen)
    return _part(pieces[order[0]], room, count) if cut else _joined(pieces, chosen)


def pieces_of(text: str) -> list[str]:
    """A text split into lines, long lines into sentences; a code block is one piece. Joined, they are the text."""
    pieces: list[str] = []
    fence = ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        found = FENCE.match(line)
        if fence:
            pieces[-1] += line
            closes = found is not None and found.group(1).startswith(fence) and not line[found.end() :].strip()
            fence = "" if closes else fence
        elif found:
            fence = found.group(1)
            pieces.append(line)
        elif pieces and not line.strip():
            pieces[-1] += line
        else:
            fresh = [line] if len(line) <= LONG else _sentences(line)
            if pieces and HEADING.match(pieces[-1]):
                # A heading alone says nothing.
                fresh[0] = pieces.pop() + fresh[0]
            pieces += fresh
    return pieces


def _sentences(line: str) -> list[str]:
    ends = [found.end() for found in SENTENCE.finditer(line)]
    cuts = [0, *(end for end in ends if end < len(line)), len(line)]
    return [line[start:end] for start, end in pairwise(cuts)]


def _chosen(pieces: Sequence[str], order: Sequence[int], room: int, count: Count) -> list[int]:
    """The best pieces that fit; each may need an ellipsis for what is left out beside it."""
    mark = count(f"{ELLIPSIS}\n")
    left, misses = room - mark, 0
    chosen: list[int] = []
    for at in order:
        alone = at - 1 not in chosen and at + 1 not in chosen
        needs = count(pieces[at]) + (mark if alone else 0)
        if needs <= left:
            chosen.append(at)
            left -= needs
        else:
            misses += 1
        if misses >= MISSES:
            break
    return sorted(chosen)


def _best_first(worths: Sequence[float]) -> list[int]:
    around = [0.0, *worths, 0.0]
    smoothed = [around[at] + BESIDE * (around[at - 1] + around[at + 1]) for at in range(1, len(around) - 1)]
    return sorted(range(len(worths)), key=lambda at: (-smoothed[at], at))


def _joined(pieces: Sequence[str], chosen: Sequence[int]) -> str:
    out: list[str] = []
    before = -1
    for at in chosen:
        if at != before + 1:
            _leave_out(out)
        out.append(pieces[at])
        before = at
    if before != len(pieces) - 1:
        _leave_out(out)
    return "".join(out).rstrip()


def _leave_out(out: list[str]) -> None:
    """An ellipsis on a line of its own, or at the end of an unfinished line."""
    inside = bool(out) and not out[-1].endswith("\n")
    out.append(f"{'' if not inside or out[-1].endswith(' ') else ' '}{ELLIPSIS}{' ' if inside else chr(10)}")


def _part(piece: str, room: int, count: Count) -> str:
    """As much of a piece as fits, by lines of a code block, else by words."""
    fence = FENCE.match(piece)
    if fence is not None:
        return _code_cut(piece, fence.group(1), room, count)
    words = re.findall(r"\S+\s*", piece)
    return _longest(words, lambda part: f"{part.rstrip()} {ELLIPSIS}", room, count) or _longest(
        list(piece), lambda part: f"{part}{ELLIPSIS}", room, count
    )


def _code_cut(piece: str, fence: str, room: int, count: Count) -> str:
    """The first lines of a code block, with its closing fence."""
    opening, *lines = re.findall(r"[^\n]*\n|[^\n]+", piece)
    return _longest(lines, lambda part: f"{opening}{part.rstrip()}\n{ELLIPSIS}\n{fence}", room, count)


def _longest(parts: Sequence[str], finish: Callable[[str], str], room: int, count: Count) -> str:
    """As many parts as fit, from the first; empty if not even one does."""

    def shortened(most: int) -> str:
        return finish("".join(parts[:most]))

    most = bisect_right(range(1, len(parts) + 1), room, key=lambda most: count(shortened(most)))
    return shortened(most) if most else ""
