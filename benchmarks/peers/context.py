"""The input of every part of the comparison: data, cuts, patience, and a place to work."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Context:
    """How much is measured, and with what."""

    data: Path | None
    collections: tuple[str, ...]
    questions: int | None
    """At most so many questions a workspace; None: all."""
    haystacks: int | None
    """At most so many workspaces a collection; None: all."""
    kilobytes: int
    """At most so much text a workspace; questions about the rest are left out."""
    chunks: int
    asks: int
    patience: float
    remember: Path


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder with a short name, because sockets are put below it; it goes when the work is done."""
    place = Path(tempfile.mkdtemp(prefix="peer-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
