"""Files that are made from an installed model once and kept in the state directory."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

UNFINISHED = ".tmp"


def digest_of(path: Path) -> str:
    """The sha256 of a file; OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path: Path, content: bytes | memoryview) -> None:
    """Put a whole file in its place, or none; OSError if there is no room."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    prefix = path.name.partition(".")[0]
    handle, temporary = tempfile.mkstemp(prefix=f"{prefix}-", suffix=UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).rename(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
