"""Reads the log file, its rotated predecessors too, without a daemon."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.2


def last_lines(file: Path, wanted: int) -> list[str]:
    """The newest `wanted` lines, oldest first."""
    lines: deque[str] = deque()
    for part in newest_first(file):
        found = part.read_text(encoding="utf-8", errors="replace").splitlines()
        lines.extendleft(reversed(found[-(wanted - len(lines)) :]))
        if len(lines) >= wanted:
            break
    return list(lines)


def newest_first(file: Path) -> list[Path]:
    """`memd.log`, `memd.log.1`, `memd.log.2`, as far as they exist."""
    rotated = [part for part in file.parent.glob(f"{file.name}.*") if part.suffix[1:].isdigit()]
    rotated.sort(key=lambda part: int(part.suffix[1:]))
    return [part for part in (file, *rotated) if part.is_file()]


def follow(file: Path) -> Iterator[str]:
    """Lines as they are written, for ever; goes along when the file is rotated."""
    log = _open_at_end(file)
    rest = b""
    while True:
        if log and (data := log.read()):
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
        elif log is None or _was_rotated(log, file):
            if log:
                log.close()
            log = file.open("rb") if file.is_file() else None
            if log is None:
                time.sleep(POLL_SECONDS)
        else:
            time.sleep(POLL_SECONDS)


def _open_at_end(file: Path) -> BinaryIO | None:
    if not file.is_file():
        return None
    log = file.open("rb")
    log.seek(0, os.SEEK_END)
    return log


def _was_rotated(log: BinaryIO, file: Path) -> bool:
    try:
        return file.stat().st_ino != os.fstat(log.fileno()).st_ino or file.stat().st_size < log.tell()
    except FileNotFoundError:
        return False
