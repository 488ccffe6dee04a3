"""Fits memories into a prompt: packed into a budget of tokens, and the index card of a workspace. Pure."""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memd.prose import FENCE, LINE, SENTENCE, CodeFence, flat_line

PINNED_SHARE = 4
"""Pinned memories take at most 1/4 of the budget."""

MOST_TOKENS = 400
"""The most tokens of one memory."""

LEAST = 25
"""An excerpt of fewer tokens is not worth its heading."""

SURELY_LONGER = 12
"""No text has so many characters per token: a longer one need not be counted."""

MISSES = 10
"""After so many memories in a row that did not fit, no more are tried."""


@dataclass(frozen=True, slots=True)
class PackedMemory:
    """A memory as text, and why it is there."""

    memory: int
    phase: str
    """pinned, search, edge or contradiction."""
    text: str
    tokens: int
    excerpt: bool = False
    squeezed: bool = False
    """Shortened because of the budget, not because of its own length."""
    against: int | None = None
    """The memory that it contradicts and follows."""


@dataclass(slots=True)
class PackedContext:
    """The packed memories, and how many did not fit."""

    packed: list[PackedMemory] = field(default_factory=list)
    dropped: int = 0

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.packed)

    @property
    def memories(self) -> set[int]:
        return {one.memory for one in self.packed}

    @property
    def overflowed(self) -> bool:
        return self.dropped > 0 or any(one.squeezed for one in self.packed)


@dataclass(frozen=True, slots=True)
class Packer:
    """Turns memories into text that fits a budget."""

    head: Callable[[int, int | None], str]
    """The heading of a memory: where it is, and what it contradicts."""
    body: Callable[[int], str]
    count: "Count"
    worth: "Worth"
    against: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The memories that contradict each one: shown with it, or it is not shown."""
    most: int = MOST_TOKENS

    def pinned(self, memories: Iterable[int], budget: int) -> PackedContext:
        """Pack pinned memories, in their order, into their part of the budget."""
        context = PackedContext()
        self.fill(context, [(memory, "pinned") for memory in memories], budget // PINNED_SHARE)
        return context

    def fill(self, context: PackedContext, ranked: Sequence[tuple[int, str]], budget: int) -> None:
        """Pack memories with their phases, the best first, into what is left of the budget."""
        misses = 0
        for nth, (memory, phase) in enumerate(ranked):
            if memory in context.memories:
                continue
            group = self._group(context, memory, phase, budget - context.tokens)
            context.packed += group
            misses = 0 if group else misses + 1
            context.dropped += not group
            if misses >= MISSES:
                context.dropped += sum(left not in context.memories for left, _ in ranked[nth + 1 :])
                break

    def _group(self, context: PackedContext, memory: int, phase: str, room: int) -> list[PackedMemory]:
        """A memory with what contradicts it; nothing if not even excerpts of all of them fit."""
        others = [other for other in self.against.get(memory, ()) if other not in context.memories]
        members = [(memory, phase, None), *((other, "contradiction", memory) for other in others)]
        heads = [self.head(one, against) for one, _, against in members]
        needs = [self.count(head) for head in heads]
        group: list[PackedMemory] = []
        for nth, (one, why, against) in enumerate(members):
            # Keep free what the rest of the group needs at least.
            later = sum(head + LEAST for head in needs[nth + 1 :])
            text, cut = self._fitting(one, min(room - later, self.most) - needs[nth])
            if not text:
                return []
            tokens = needs[nth] + self.count(text)
            squeezed = cut and room - later < self.most
            group.append(PackedMemory(one, why, heads[nth] + text, tokens, cut, squeezed, against))
            room -= tokens
        return group

    def _fitting(self, memory: int, room: int) -> tuple[str, bool]:
        """As much of a memory's text as fits, and whether that is an excerpt."""
        if room <= 0:
            return "", False
        text = self.body(memory)
        if len(text) <= room * SURELY_LONGER and self.count(text) <= room:
            return text, False
        # The blank line at the end is a token of its own.
        cut = excerpt(text, room - 1, self.count, self.worth) if room >= LEAST else ""
        return (f"{cut}\n\n" if cut else ""), True


# --- an excerpt of one memory: its best lines, with whole sentences and code blocks where possible ------------


ELLIPSIS = "…"
HEADING = re.compile(r" {0,3}#{1,6}\s[^\n]*\n\s*\Z")
LONG = 200
"""A longer line is split into sentences."""

BESIDE = 0.25
"""The share of its neighbours' worth that a line gains: the subject is often in the line before."""

MISSED_LINES = 8
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
    fence = CodeFence()
    for line in LINE.findall(text):
        within = fence.open
        if fence.holds(line) and not within:
            pieces.append(line)
        elif within or (pieces and not line.strip()):
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
        if misses >= MISSED_LINES:
            break
    return sorted(chosen)


def _best_first(worths: Sequence[float]) -> list[int]:
    around = [0.0, *worths, 0.0]
    smoothed = [around[at] + BESIDE * (around[at - 1] + around[at + 1]) for at in range(1, len(around) - 1)]
    return sorted(range(len(worths)), key=lambda at: (-smoothed[at], at))


def _joined(pieces: Sequence[str], chosen: Sequence[int]) -> str:
    out: list[str] = []
    for before, at in pairwise((-1, *chosen, len(pieces))):
        if at != before + 1:
            _leave_out(out)
        out += pieces[at : at + 1]
    return "".join(out).rstrip()


def _leave_out(out: list[str]) -> None:
    """An ellipsis on a line of its own, or at the end of an unfinished line."""
    inside = bool(out) and not out[-1].endswith("\n")
    out.append(f"{'' if not inside or out[-1].endswith(' ') else ' '}{ELLIPSIS}{' ' if inside else chr(10)}")


def _part(piece: str, room: int, count: Count) -> str:
    """As much of a piece as fits, by lines of a code block, which is closed again, else by words."""
    if fence := FENCE.match(piece):
        opening, *lines = LINE.findall(piece)
        return _longest(lines, lambda part: f"{opening}{part.rstrip()}\n{ELLIPSIS}\n{fence[1]}", room, count)
    words = re.findall(r"\S+\s*", piece)
    by_words = _longest(words, lambda part: f"{part.rstrip()} {ELLIPSIS}", room, count)
    return by_words or _longest(list(piece), lambda part: f"{part}{ELLIPSIS}", room, count)


def _longest(parts: Sequence[str], finish: Callable[[str], str], room: int, count: Count) -> str:
    """As many parts as fit, from the first; empty if not even one does."""

    def shortened(most: int) -> str:
        return finish("".join(parts[:most]))

    most = bisect_right(range(1, len(parts) + 1), room, key=lambda most: count(shortened(most)))
    return shortened(most) if most else ""


# --- the index card of a workspace --------------------------------------------------------------------------


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
    """The content of a workspace, the newest first."""

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
    total, files = sum(summary.tiers.values()), summary.files
    return f"{total} {'memory' if total == 1 else 'memories'} in {files} file{'' if files == 1 else 's'}"


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
    flat = flat_line(name)
    return flat if len(flat) <= SHORT else f"{flat[: SHORT - 1].rstrip()}…"
