"""Looks at what rewrites left beside a user's files when they were killed, or when somebody kept a file open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memd.notes.read import digest_of
from memd.notes.safe_write import ASIDE, bytes_of, conflict_copy, in_use


def sweep(folder: Path, ours: Callable[[bytes], bool] = lambda data: False) -> list[str]:
    """Look at what rewrites left behind, killed or with a file that stayed open; answers the copies that were kept.

    Old bytes that nobody changed go, and new ones (`ours` knows them) that a killed process did not put in their
    place; a line that was written to the old ones in the last moment stays in a conflict copy.
    """
    kept = []
    for aside in folder.glob(f".*{ASIDE}"):
        name, digest = aside.name.removesuffix(ASIDE).rsplit(".", 2)[:2]
        data = bytes_of(aside)
        if data is None or in_use(aside):
            continue
        file = aside.with_name(name[1:])
        if digest_of(data) == digest or data == bytes_of(file) or ours(data):
            aside.unlink(missing_ok=True)
        else:
            kept.append(conflict_copy(aside, file))
            aside.unlink(missing_ok=True)
    return kept
