"""The folder of a cache: its format, its checksums, whose cache it is, and where it goes when it is broken.

By sizes and checksums damage is seen before a library reads the files.
"""

import json
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memd.errors import DiskFull

SEAL = "seal.json"
FORMAT_FILE = "format.json"
COUNTS_FILE = "counts.json"
UNCHECKED = frozenset({SEAL, FORMAT_FILE, "MAIN_WRITELOCK"})
PIECE = 1 << 20

CACHES_OF = "caches-of"
"""The file that says which ledger the caches beside it were built from."""

CHROMA_FORMAT = 3
"""The version of the format of Chroma's folder; a folder of another version is built again."""

Sums = dict[str, list[int]]


# --- what is written beside the files of a library ------------------------------------------------------------


def format_of(folder: Path) -> int:
    """The version of a folder's format; 0 when it says none."""
    version = (_read(folder / FORMAT_FILE) or {}).get("format")
    return version if isinstance(version, int) else 0


def write_format(folder: Path, version: int) -> None:
    (folder / FORMAT_FILE).write_text(json.dumps({"format": version}))


def write_counts(folder: Path, counts: dict[str, int]) -> None:
    """Note how many rows each collection of Chroma's has when it is closed."""
    (folder / COUNTS_FILE).write_text(json.dumps(counts))


def counts(folder: Path) -> dict[str, int] | None:
    """The rows of each collection of a folder that was closed well and not touched since; None for any other."""
    if format_of(folder) != CHROMA_FORMAT or not sums_of(folder) or broken(folder):
        return None
    return _read(folder / COUNTS_FILE)


def lock_of(folder: Path) -> Path:
    """Held by the one process that may have Chroma's folder open; it has the number of that process."""
    return folder.with_name(f"{folder.name}.lock")


def _read(file: Path) -> dict[str, Any] | None:
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


# --- checksums ------------------------------------------------------------------------------------------------


def write(folder: Path, known: Mapping[str, list[int]] | None = None) -> Sums:
    """Write the checksums of a folder that nobody writes to; `known` are those of files that never change."""
    known = known or {}
    sums = {name: known.get(name) or _sum(folder / name) for name in _names(folder)}
    fresh = folder / f"{SEAL}.tmp"
    try:
        fresh.write_text(json.dumps(sums))
        fresh.rename(folder / SEAL)
    except OSError:
        # The disk is full: a folder without checksums is opened unchecked.
        fresh.unlink(missing_ok=True)
    return sums


def remove(folder: Path) -> None:
    """Remove the checksums before writing, so that a process that dies meanwhile leaves none that are wrong."""
    (folder / SEAL).unlink(missing_ok=True)


def sums_of(folder: Path) -> Sums:
    """The checksums on disk; empty when there are none."""
    return _read(folder / SEAL) or {}


def broken(folder: Path) -> str:
    """Which file is damaged, and how; empty when none is, or when there are no checksums."""
    for name, expected in sums_of(folder).items():
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


# --- in the state directory -----------------------------------------------------------------------------------


def own_caches(state: Path, ledger: str) -> None:
    """Delete the caches of another ledger, where the same numbers mean other chunks."""
    stamp = state / CACHES_OF
    try:
        known = stamp.read_text() if stamp.exists() else ""
        if known == ledger:
            return
        for name in ("text", "chroma"):
            if (state / name).exists():
                shutil.rmtree(state / name)
        stamp.write_text(ledger)
    except OSError as error:
        raise DiskFull(f"{state} cannot be written: {error.strerror}", "make room, then: memd start") from error


def quarantine(state: Path, folder: Path) -> Path | None:
    """Put a broken store aside for inspection: of a cache the last one is kept, of the ledger every one."""
    if not folder.exists():
        return None
    aside = state / "quarantine"
    aside.mkdir(mode=0o700, exist_ok=True)
    name = "-".join(folder.relative_to(state).parts)
    for older in aside.glob(f"{name}.*"):
        if older.is_dir():
            shutil.rmtree(older, ignore_errors=True)
    target = aside / f"{name}.{time.strftime('%Y%m%dT%H%M%S')}"
    folder.rename(target)
    os.utime(target)
    return target
