"""The index card of a workspace: what it holds, short enough for the head of any prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memd.models import TIERS

TOKENS = 200
"""The budget of a card."""
SHARES = {"Pinned": 0.25, "Long-term": 0.2, "Topics": 0.25}
"""The share of the card that each line may take; the days get the rest."""
MORE = 14
"""Tokens reserved for the count of workspaces that are left out."""
SHORT = 48
"""The most characters of a name."""
PIECES = re.compile(r"[A-Za-z]+|[0-9]+|\n|[\x21-\x7e]|[^\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class NameList:
    """The first names of a list, and how many there are in all."""

    first: Sequence[str]
    total: int


@dataclass(frozen=True, slots=True)
class WorkspaceSummary:
    """What a workspace holds, the newest first."""

    ns: str
    files: int
    tiers: dict[str, int]
    pinned: NameList
    long_term: NameList
    topics: NameList
    days: Sequence[tuple[str, Sequence[str]]]
    """Each day with the headings of its notes."""
    more_days: int = 0


def tokens(text: str) -> int:
    """At least as many tokens as any usual tokenizer counts: one for three letters, two digits or one sign."""
    return sum(_tokens(piece) for piece in PIECES.findall(text))


def _tokens(piece: str) -> int:
    if not piece.isascii():
        return len(piece.encode("utf-8", "replace"))
    return math.ceil(len(piece) / (3 if piece[0].isalpha() else 2))


def card(summary: WorkspaceSummary, budget: int = TOKENS) -> str:
    """The card as Markdown; the same summary gives the same bytes."""
    lines = [f"# Memory: {_short(summary.ns)}", _counts(summary)]
    name_lists = {"Pinned": summary.pinned, "Long-term": summary.long_term, "Topics": summary.topics}
    left = budget - tokens("\n".join(lines)) - 2
    for label, names in name_lists.items():
        line = _name_line(f"{label}: ", names, min(left, int(budget * SHARES[label])))
        if line:
            lines.append(line)
            left -= tokens(line) + 1
    return "\n".join([*lines, *_days(summary, left)]) + "\n"


def cards(summaries: Sequence[WorkspaceSummary], budget: int = TOKENS) -> str:
    """A card for each workspace, together within the budget; those that do not fit are counted."""
    shown, left = list[str](), budget - (MORE if len(summaries) > 1 else 0)
    for nth, summary in enumerate(summaries):
        one = card(summary, max(left // (len(summaries) - nth), 0))
        if shown and tokens(one) + 1 > left:
            break
        shown.append(one)
        left -= tokens(one) + 1
    more = len(summaries) - len(shown)
    return "\n".join(shown) + (f"\n(and {more} more workspaces)\n" if more else "")


def _counts(summary: WorkspaceSummary) -> str:
    total = sum(summary.tiers.values())
    parts = [f"{summary.tiers[tier]} {tier}" for tier in TIERS if summary.tiers.get(tier)]
    noun = "memory" if total == 1 else "memories"
    return f"{total} {noun} in {summary.files} file{'' if summary.files == 1 else 's'}" + (
        f": {', '.join(parts)}" if parts else ""
    )


def _days(summary: WorkspaceSummary, left: int) -> Iterator[str]:
    """A line for each day, as many as fit."""
    shown = 0
    more = "- and {} earlier days"
    left -= tokens(more) + 3
    for day, headings in summary.days:
        line = _name_line(f"- {day}: ", NameList(headings, len(headings)), min(left, TOKENS // 5)) or f"- {day}"
        left -= tokens(line) + 1
        if left < 0:
            break
        shown += 1
        yield line
    missing = len(summary.days) - shown + summary.more_days
    if missing and shown:
        yield more.format(missing) if missing > 1 else "- and 1 earlier day"


def _name_line(label: str, names: NameList, room: int) -> str:
    """As many names as fit, and how many more there are; empty if not one fits."""
    line = ""
    for nth in range(1, len(names.first) + 1):
        more = f"; and {names.total - nth} more" if names.total > nth else ""
        longer = f"{label}{'; '.join(map(_short, names.first[:nth]))}{more}"
        if tokens(longer) > room:
            break
        line = longer
    return line


def _short(name: str) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= SHORT else f"{flat[: SHORT - 1].rstrip()}…"
