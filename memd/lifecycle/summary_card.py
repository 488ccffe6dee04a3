"""An index card of a memory: what it holds, in so few words that it fits at the head of any prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memd.models import TIERS

TOKENS = 200
"""What a card may take of a prompt."""
SHARES = {"Pinned": 0.25, "Long-term": 0.2, "Topics": 0.25}
"""How much of the card each line may take; the days have what is left."""
MORE = 14
"""Tokens that are kept for saying how many workspaces are left out."""
SHORT = 48
"""Characters of a name that are shown."""
PIECES = re.compile(r"[A-Za-z]+|[0-9]+|\n|[\x21-\x7e]|[^\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class NameList:
    """The first names of one sort, and how many there are in all."""

    first: Sequence[str]
    total: int


@dataclass(frozen=True, slots=True)
class WorkspaceSummary:
    """What a workspace holds, newest first where there is an order in time."""

    ns: str
    files: int
    tiers: dict[str, int]
    pinned: NameList
    long_term: NameList
    topics: NameList
    days: Sequence[tuple[str, Sequence[str]]]
    """Each with what its notes are about."""
    more_days: int = 0


def tokens(text: str) -> int:
    """Not fewer tokens than any usual tokenizer makes of a text: three letters, two digits or one sign each."""
    return sum(_tokens(piece) for piece in PIECES.findall(text))


def _tokens(piece: str) -> int:
    if not piece.isascii():
        return len(piece.encode("utf-8", "replace"))
    return math.ceil(len(piece) / (3 if piece[0].isalpha() else 2))


def card(holding: WorkspaceSummary, budget: int = TOKENS) -> str:
    """The card as Markdown; the same holding makes the same bytes."""
    lines = [f"# Memory: {_short(holding.ns)}", _counts(holding)]
    listed = {"Pinned": holding.pinned, "Long-term": holding.long_term, "Topics": holding.topics}
    left = budget - tokens("\n".join(lines)) - 2
    for label, names in listed.items():
        line = _listed(f"{label}: ", names, min(left, int(budget * SHARES[label])))
        if line:
            lines.append(line)
            left -= tokens(line) + 1
    return "\n".join([*lines, *_days(holding, left)]) + "\n"


def cards(holdings: Sequence[WorkspaceSummary], budget: int = TOKENS) -> str:
    """A card for each workspace, together within the budget; where they are many, the last ones are only counted."""
    made, left = list[str](), budget - (MORE if len(holdings) > 1 else 0)
    for nth, holding in enumerate(holdings):
        one = card(holding, max(left // (len(holdings) - nth), 0))
        if made and tokens(one) + 1 > left:
            break
        made.append(one)
        left -= tokens(one) + 1
    more = len(holdings) - len(made)
    return "\n".join(made) + (f"\n(and {more} more workspaces)\n" if more else "")


def _counts(holding: WorkspaceSummary) -> str:
    total = sum(holding.tiers.values())
    parts = [f"{holding.tiers[tier]} {tier}" for tier in TIERS if holding.tiers.get(tier)]
    noun = "memory" if total == 1 else "memories"
    return f"{total} {noun} in {holding.files} file{'' if holding.files == 1 else 's'}" + (
        f": {', '.join(parts)}" if parts else ""
    )


def _days(holding: WorkspaceSummary, left: int) -> Iterator[str]:
    """A line a day, as many as there is room for."""
    told = 0
    more = "- and {} earlier days"
    left -= tokens(more) + 3
    for day, headings in holding.days:
        line = _listed(f"- {day}: ", NameList(headings, len(headings)), min(left, TOKENS // 5)) or f"- {day}"
        left -= tokens(line) + 1
        if left < 0:
            break
        told += 1
        yield line
    missing = len(holding.days) - told + holding.more_days
    if missing and told:
        yield more.format(missing) if missing > 1 else "- and 1 earlier day"


def _listed(label: str, names: NameList, room: int) -> str:
    """As many names as fit into the room, and how many more there are; empty when not one fits."""
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
