"""Work that is done a piece at a time, so that whoever does it can look after something else in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Pieces = Generator[None, None, T]
"""Yields after each piece; returns the result."""


def in_one_go(pieces: Pieces[T]) -> T:
    """Do all of it; returns the result."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
