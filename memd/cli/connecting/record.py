"""Remembers what `connect` wrote and where in a file it stands, so that `disconnect` leaves the bytes of before."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memd.config import paths

FILE = "connections.json"


@dataclass(frozen=True, slots=True)
class Trace:
    """What was done to one file. Of the file's own text nothing is kept."""

    digest: str
    """Of the file as `connect` left it."""
    added: list[list[int]]
    made_file: bool = False
    made_dirs: list[str] = field(default_factory=list)
    made: list[list[str]] = field(default_factory=list)
    """Containers in it that were not there."""
    backup: str = ""
    """Where the copy is of what had to be replaced."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of(path: Path) -> Trace | None:
    """What was done to a file, if it was."""
    found = _all().get(str(path))
    try:
        return Trace(**found) if isinstance(found, dict) else None
    except TypeError:
        return None


def keep(path: Path, trace: Trace | None) -> None:
    """Remember a file, or with None forget it."""
    traces = {name: one for name, one in _all().items() if name != str(path)}
    if trace is not None:
        traces[str(path)] = asdict(trace)
    directory = paths.private_dir(paths.state_dir())
    temporary = directory / f".{FILE}.{os.getpid()}"
    temporary.write_text(json.dumps(traces, indent=1) + "\n", encoding="utf-8")
    temporary.replace(directory / FILE)


def _all() -> dict[str, Any]:
    try:
        traces = json.loads((paths.state_dir() / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return traces if isinstance(traces, dict) else {}
