"""Finds groups of memories that belong together: whatever edges hold together, directly or through others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ENOUGH = 0.5
"""The share of a group that one memory must contain to be its summary."""


def components(pairs: Iterable[tuple[int, int]], least: int = 2) -> list[tuple[int, ...]]:
    """The connected groups of at least so many, the largest first."""
    leader: dict[int, int] = {}
    for one, other in pairs:
        first, second = _lead(leader, one), _lead(leader, other)
        if first != second:
            # The smaller number leads, so that the order of the pairs does not matter.
            leader[max(first, second)] = min(first, second)
    groups: dict[int, list[int]] = {}
    for memory in sorted(leader):
        groups.setdefault(_lead(leader, memory), []).append(memory)
    found = [tuple(group) for group in groups.values() if len(group) >= least]
    return sorted(found, key=lambda group: (-len(group), group))


def _lead(leader: dict[int, int], memory: int) -> int:
    """The number that stands for a memory's group; the way there is shortened for the next who asks."""
    leader.setdefault(memory, memory)
    top = memory
    while leader[top] != top:
        top = leader[top]
    while leader[memory] != top:
        memory, leader[memory] = leader[memory], top
    return top


def summary_of(group: Iterable[int], contained: Mapping[int, Iterable[int]]) -> int | None:
    """The memory that contains most of a group, and at least half of it; `contained` has what each one contains."""
    members = set(group)
    counts = []
    for parent, children in contained.items():
        others = members - {parent}
        held = len(others & set(children))
        if others and held >= ENOUGH * len(others):
            counts.append((-held, parent))
    return min(counts)[1] if counts else None
