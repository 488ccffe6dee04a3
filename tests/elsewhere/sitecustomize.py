"""Hides what only Linux has, from the tests and from every process that they start: a stand-in for macOS and others.

Python imports this file by its name where its folder is on the path (`make elsewhere`). Gone are /proc, inotify, files
in memory, the peer's credentials as Linux gives them, and thread priorities; a socket tells its peer as on macOS.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

PEER_CREDENTIALS = socket.SO_PEERCRED
LOCAL_PEERCRED = 1
"""The number of macOS' own option."""


def without_proc(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, for which there is nothing below /proc."""

    def guarded(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        name = path if isinstance(path, int) else os.fsdecode(path)
        if isinstance(name, str) and (name == "/proc" or name.startswith("/proc/")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return call(path, *args, **kwargs)

    return guarded


def as_on_macos(self: socket.socket, level: int, option: int, *size: int) -> int | bytes:
    """A socket's option; the peer's user as macOS packs it."""
    if (level, option) == (0, LOCAL_PEERCRED):
        _, uid, _ = struct.unpack("3i", get_option(self, socket.SOL_SOCKET, PEER_CREDENTIALS, 12))
        return struct.pack("=2I", 0, uid)
    return get_option(self, level, option, *size)


class NoInotify:
    """Fails as watchdog does with a C library that has no inotify: it takes its polling observer then."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "watchdog.observers.inotify_c":
            from watchdog.utils import UnsupportedLibcError

            raise UnsupportedLibcError("this system has no inotify")


def hide() -> None:
    builtins.open = io.open = without_proc(io.open)
    for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access"):
        setattr(os, name, without_proc(getattr(os, name)))
    del os.memfd_create
    del socket.SO_PEERCRED
    socket.socket.getsockopt = as_on_macos  # type: ignore[assignment,method-assign]
    sys.meta_path.insert(0, NoInotify())


get_option: Callable[..., Any] = socket.socket.getsockopt
hide()
