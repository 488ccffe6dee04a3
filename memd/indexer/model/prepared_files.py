"""The files of installed models, and those that are made from them once and kept in the state directory."""

import hashlib
import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memd import installation
from memd.config.paths import replace_file
from memd.errors import ModelUnavailable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A package that brings the files of a model; it is not imported for them."""

    title: str
    package: str
    distribution: str

    @property
    def reinstall(self) -> str:
        return f"Run: {installation.packages(self.distribution, again=True)}"

    def place(self, name: str) -> Path:
        """A file or folder of it; ModelUnavailable if that is not there."""
        spec = importlib.util.find_spec(self.package)
        places = [Path(place) / name for place in (spec and spec.submodule_search_locations) or ()]
        if (found := next((place for place in places if place.exists()), None)) is None:
            raise ModelUnavailable(f"{self.title} is not installed.", self.reinstall)
        return found

    def check(self, path: Path, sha256: str) -> None:
        """ModelUnavailable if a file is not the one that memd was built for."""
        try:
            found = digest_of(path)
        except OSError as error:
            raise ModelUnavailable(f"{path} cannot be read: {error.strerror}.", self.reinstall) from error
        if found != sha256:
            raise ModelUnavailable(f"{path} is not what memd was built for: its sha256 differs.", self.reinstall)

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """A file of it that cannot be read, as ModelUnavailable."""
        try:
            yield
        except OSError as error:
            raise ModelUnavailable(f"{self.title} cannot be prepared: {error}.", self.reinstall) from error


class TableFile:
    """A table that stays in its file: of tens of megabytes a text needs a few kilobytes."""

    def __init__(self, path: Path, row: np.dtype[Any], offset: int = 0) -> None:
        self._file = path.open("rb", buffering=0)
        self._row, self._offset = row, offset

    def __getitem__(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of these numbers."""
        rows, size = np.empty(numbers.size, self._row), self._row.itemsize
        for row, number in zip(rows, numbers.ravel().tolist(), strict=True):
            if os.preadv(self._file.fileno(), [row.data], self._offset + number * size) != size:
                raise ModelUnavailable("A file of an embedding model was cut short.", "Run: memd restart")
        return rows.reshape(*numbers.shape, *self._row.shape)


def digest_of(path: Path) -> str:
    """The sha256 of a file; OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_parts(*parts: str) -> str:
    """The sha256 of several texts in their order."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def prepared(cache: Path, prefix: str, version: str, suffix: str, make: Callable[[], bytes]) -> Path | bytes:
    """A file that is made once: the one of this version whose content has the hash in its name, or a new one.

    If the cache cannot be written, its bytes. Other files with the prefix are removed.
    """
    known = next((path for path in sorted(cache.glob(f"{prefix}-{version}-*{suffix}")) if _is_whole(path)), None)
    # Damaged ones, and what other versions and interrupted builds left: while a file is written its name begins with
    # a dot.
    for path in cache.glob(f"*{prefix}-*"):
        if path != known:
            with suppress(OSError):
                path.unlink()
    if known is not None:
        return known
    content = make()
    made = cache / f"{prefix}-{version}-{hashlib.sha256(content).hexdigest()}{suffix}"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(made, content, 0o600)
    except OSError as error:
        _log.warning("%s is not cached and stays in memory: %s", made.name, error)
        return content
    return made


def _is_whole(path: Path) -> bool:
    with suppress(OSError):
        return path.stem.endswith(digest_of(path))
    return False
