"""The files that memd keeps beside Chroma's own: which form the folder has, how many rows it had when it was closed."""

from __future__ import annotations

import json
from pathlib import Path

from memd.indexer.store import checksums

FORMAT = 2
"""The version of the format; a folder of another version is built again."""

FORMAT_FILE = "format.json"
COUNTS_FILE = "counts.json"


def lock_of(folder: Path) -> Path:
    """Held by the one process that may have the folder open; it has the number of that process."""
    return folder.with_name(f"{folder.name}.lock")


def right_format(folder: Path) -> bool:
    known = _read(folder / FORMAT_FILE)
    return known is not None and known.get("format") == FORMAT


def write_format(folder: Path) -> None:
    (folder / FORMAT_FILE).write_text(json.dumps({"format": FORMAT}))


def write_counts(folder: Path, counts: dict[str, int]) -> None:
    (folder / COUNTS_FILE).write_text(json.dumps(counts))


def counts(folder: Path) -> dict[str, int] | None:
    """The rows of each collection of a folder that was closed well and not touched since; None for any other."""
    if not right_format(folder) or not checksums.read(folder) or checksums.broken(folder):
        return None
    return _read(folder / COUNTS_FILE)


def _read(file: Path) -> dict[str, int] | None:
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None
