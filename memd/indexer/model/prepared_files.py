"""The files of installed models, and those that are made from them once and kept in the state directory."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path

from memd.config.paths import replace_file

_log = logging.getLogger(__name__)


def installed(package: str, name: str) -> Path | None:
    """A file or folder of an installed package, which is not imported; None if it is not there."""
    spec = importlib.util.find_spec(package)
    places = [Path(place) / name for place in (spec and spec.submodule_search_locations) or ()]
    return next((place for place in places if place.exists()), None)


def digest_of(path: Path) -> str:
    """The sha256 of a file; OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_parts(*parts: str) -> str:
    """The sha256 of several texts in their order."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def write(path: Path, content: bytes) -> None:
    """Put a whole file in its place, or none; OSError if there is no room."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, content, 0o600)


def sweep(cache: Path, prefix: str, keep: Callable[[Path], bool]) -> None:
    """Remove what other formats, other models and interrupted builds left behind of the files with this prefix."""
    # The star before the prefix: while a file is written its name begins with a dot.
    for path in cache.glob(f"*{prefix}-*"):
        if not keep(path):
            remove(path)


def remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", path, error)
