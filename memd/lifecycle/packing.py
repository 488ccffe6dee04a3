"""Packs memories into a budget of tokens: pinned ones first, then by score, each with what contradicts it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memd.lifecycle.excerpts import Count, Worth, excerpt

PINNED_SHARE = 3
"""Pinned memories take at most 1/3 of the budget."""

MOST = 400
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
    """What was packed, and how much did not fit."""

    packed: list[PackedMemory] = field(default_factory=list)
    tokens: int = 0
    dropped: int = 0

    @property
    def memories(self) -> set[int]:
        return {one.memory for one in self.packed}

    @property
    def overflowed(self) -> bool:
        return self.dropped > 0 or any(one.squeezed for one in self.packed)

    def take(self, group: Sequence[PackedMemory]) -> None:
        self.packed += group
        self.tokens += sum(one.tokens for one in group)


@dataclass(frozen=True, slots=True)
class Packer:
    """Turns memories into text that fits a budget."""

    head: Callable[[int, int | None], str]
    """The heading of a memory: where it is, and what it contradicts."""
    body: Callable[[int], str]
    count: Count
    worth: Worth
    against: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The memories that contradict each one: shown with it, or it is not shown."""
    most: int = MOST

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
            context.take(group)
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
            group.append(
                PackedMemory(one, why, heads[nth] + text, tokens, cut, cut and room - later < self.most, against)
            )
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
