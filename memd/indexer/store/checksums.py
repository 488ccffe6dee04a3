"""A seal on a cache's folder: size and checksum of each file, so that damage is seen before a library reads it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

NAME = "seal.json"
UNSEALED = frozenset({NAME, "format.json", "open.json", "MAIN_WRITELOCK"})
PIECE = 1 << 20

Sums = dict[str, list[int]]


def write(folder: Path, known: Mapping[str, list[int]] | None = None) -> Sums:
    """Seal a folder that nobody writes to; `known` are the sums of files that never change."""
    known = known or {}
    sums = {name: known.get(name) or _sum(folder / name) for name in _names(folder)}
    fresh = folder / f"{NAME}.tmp"
    try:
        fresh.write_text(json.dumps(sums))
        fresh.rename(folder / NAME)
    except OSError:
        # No room: an unsealed folder is opened with less certainty, that is all.
        fresh.unlink(missing_ok=True)
    return sums


def remove(folder: Path) -> None:
    """Take the seal off before writing: a process that dies while it writes leaves an unsealed folder."""
    (folder / NAME).unlink(missing_ok=True)


def read(folder: Path) -> Sums:
    """What the seal says; nothing when there is none."""
    try:
        found = json.loads((folder / NAME).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def broken(folder: Path) -> str:
    """Which file is not as it was sealed; empty when all are, or when nothing is sealed."""
    for name, told in read(folder).items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if (folder / name).stat().st_size != told[0]:
            return f"{name} has another length than it was written with"
        if _sum(folder / name) != told:
            return f"{name} is not as it was written"
    return ""


def _names(folder: Path) -> Iterator[str]:
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in UNSEALED and file.suffix != ".tmp":
            yield file.relative_to(folder).as_posix()


def _sum(file: Path) -> list[int]:
    """Length and checksum, read in pieces."""
    size, checksum = 0, 0
    with file.open("rb") as opened:
        while piece := opened.read(PIECE):
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    return [size, checksum]
