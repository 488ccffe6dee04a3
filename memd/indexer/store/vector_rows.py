"""What memd needs of whatever keeps its collections: rows of vectors by the digest of their text.

Chroma in a child process is one way to have them, a Chroma server that a child process asks is another. Each call may
fail or be late; nobody but the sender's thread of `vectors.py` waits long for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memd.indexer.model.pooling import Vectors


class VectorRows(Protocol):
    """Open collections, by name. Every call may raise StoreBroken or DiskFull, and may come from any thread."""

    def add(self, name: str, digests: Sequence[str], vectors: Vectors) -> None: ...

    def drop(self, name: str, digests: Sequence[str]) -> None: ...

    def search(self, name: str, vector: Vectors, limit: int) -> list[tuple[str, float]] | None:
        """Digests with their cosine, nearest first; None while others are asking. StoreBroken if the answer is late."""

    def digests(self, name: str) -> set[str]: ...

    def counts(self) -> dict[str, int]:
        """The rows of each collection there is."""

    def places(self, name: str) -> int:
        """The rows for which its index takes room, those that were dropped with them; 0 if nobody knows."""

    def delete(self, name: str) -> None: ...

    def compact(self) -> None:
        """Give back the room of what was deleted, so that nothing of it can be read any more."""

    def ping(self) -> None:
        """Wait until it answers, as long as any call may take."""

    def close(self, seconds: float) -> None:
        """Let go, in some seconds at the most; never fails."""


class VectorHost(Protocol):
    """Where the collections are: opened when they are needed, given up when they are broken."""

    def counts(self) -> dict[str, int] | None:
        """The rows of each collection, known without opening them; None if that cannot be trusted."""

    def open(self) -> VectorRows:
        """StoreBroken if that fails for now."""

    def put_aside(self, why: str) -> None:
        """Give up what is there; the next `open` finds nothing."""
