"""Messages between the daemon and a reader process, over a socket that nobody else has.

A function goes by its name, the stores and the index of a workspace by a reference, so that the reader's own are used.
The daemon also sends its `DaemonState`, whenever that changes.
"""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memd.errors import MemdError
from memd.indexer.store.stores import Stores, WorkspaceIndex

STORES = ""
"""Refers to the stores; anything else is the name of a workspace."""


class ReaderGone(MemdError):
    """The reader died or failed before it answered; the question can be asked again elsewhere."""


@dataclass(frozen=True, slots=True)
class ReadCall:
    """To the reader: run a function."""

    number: int
    work: bytes
    """The pickle of the function and its arguments."""


@dataclass(frozen=True, slots=True)
class DaemonCall:
    """To the daemon: something that only it can do."""

    number: int
    name: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CallResult:
    """In answer to either call: the value, or the error."""

    number: int
    value: Any = None
    error: Exception | None = None
    seq: int = 0
    """The clock's count of the snapshot in which a reader ran it."""


@dataclass(frozen=True, slots=True)
class Ready:
    """To the daemon: the reader has started, or it has heard the `Ready` that it was sent."""


class _WorkPickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> str | None:
        if isinstance(value, Stores):
            return STORES
        return value.workspace.ns if isinstance(value, WorkspaceIndex) else None


class _WorkUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, stores: Stores) -> None:
        super().__init__(file)
        self._stores = stores

    def persistent_load(self, reference: str) -> Stores | WorkspaceIndex:
        return self._stores if reference == STORES else self._stores.index(reference)


def dump_work(work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """A function and its arguments."""
    file = io.BytesIO()
    _WorkPickler(file, pickle.HIGHEST_PROTOCOL).dump((work, args, kwargs))
    return file.getvalue()


def load_work(work: bytes, stores: Stores) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The same with the stores of this process."""
    function, args, kwargs = _WorkUnpickler(io.BytesIO(work), stores).load()
    return function, args, kwargs
