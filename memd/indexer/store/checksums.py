"""Sizes and checksums of the files of a cache, so that damage is seen before a library reads them."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

NAME = "seal.json"
UNCHECKED = frozenset({NAME, "format.json", "MAIN_WRITELOCK"})
PIECE = 1 << 20

Sums = dict[str, list[int]]


def write(folder: Path, known: Mapping[str, list[int]] | None = None) -> Sums:
    """Write the checksums of a folder that nobody writes to; `known` are those of files that never change."""
    known = known or {}
    sums = {name: known.get(name) or _sum(folder / name) for name in _names(folder)}
    fresh = folder / f"{NAME}.tmp"
    try:
        fresh.write_text(json.dumps(sums))
        fresh.rename(folder / NAME)
    except OSError:
        # The disk is full: a folder without checksums is opened unchecked.
        fresh.unlink(missing_ok=True)
    return sums


def remove(folder: Path) -> None:
    """Remove the checksums before writing, so that a process that dies meanwhile leaves none that are wrong."""
    (folder / NAME).unlink(missing_ok=True)


def read(folder: Path) -> Sums:
    """The checksums on disk; empty when there are none."""
    try:
        sums = json.loads((folder / NAME).read_text())
    except (OSError, ValueError):
        return {}
    return sums if isinstance(sums, dict) else {}


def broken(folder: Path) -> str:
    """Which file is damaged, and how; empty when none is, or when there are no checksums."""
    for name, expected in read(folder).items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if (folder / name).stat().st_size != expected[0]:
            return f"{name} has another length than it was written with"
        if _sum(folder / name) != expected:
            return f"{name} is not as it was written"
    return ""


def _names(folder: Path) -> Iterator[str]:
    # By strings: after each commit a Path for each file took most of the time.
    for place, _, names in os.walk(folder):
        inside = place[len(str(folder)) + 1 :]
        for name in names:
            if name not in UNCHECKED and not name.endswith(".tmp"):
                yield f"{inside}/{name}" if inside else name


def _sum(file: Path) -> list[int]:
    """Length and checksum, read in pieces."""
    size, checksum = 0, 0
    with file.open("rb") as opened:
        while piece := opened.read(PIECE):
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    return [size, checksum]
