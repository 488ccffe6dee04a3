"""Hides what only Linux has, from memd in the tests and in the processes that they start: a stand-in for macOS.

Python imports this file by its name where its folder is on the path (`make elsewhere`, tests/test_elsewhere.py). Gone
are /proc, inotify, files in memory, the exchange of two names, leases, and the kernel's word that a peer closed one
half of a socket. A socket tells its peer as on macOS, and open files have no hard limit. The tests themselves still
look into /proc.
"""

from __future__ import annotations

import _socket
import builtins
import ctypes
import errno
import fcntl
import io
import os
import resource
import select
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

PEER_CREDENTIALS = socket.SO_PEERCRED
LOCAL_PEERCRED = 1
"""The number of macOS' own option."""
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
MEMD = os.path.join(os.path.dirname(os.path.dirname(TESTS)), "memd") + os.sep
get_option: Callable[..., Any] = _socket.socket.getsockopt
OF_LINUX = ("renameat2", "mallopt", "malloc_trim")
"""Calls of the C library that others lack."""


def asked_by_a_test() -> bool:
    """Whether the nearest caller of this project is a test, rather than memd."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith((TESTS, MEMD)):
            return file.startswith(TESTS)
        frame = frame.f_back
    return False


def without_proc(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, for which there is nothing below /proc."""

    def guarded(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        name = path if isinstance(path, int) else os.fsdecode(path)
        if isinstance(name, str) and (name == "/proc" or name.startswith("/proc/")) and not asked_by_a_test():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return call(path, *args, **kwargs)

    return guarded


def as_on_macos(self: socket.socket, level: int, option: int, *size: int) -> int | bytes:
    """A socket's option; the peer's user as macOS packs it."""
    if (level, option) == (0, LOCAL_PEERCRED):
        _, uid, _ = struct.unpack("3i", get_option(self, socket.SOL_SOCKET, PEER_CREDENTIALS, 12))
        return struct.pack("=2I", 0, uid)
    return get_option(self, level, option, *size)


class Socket(_socket.socket):
    """The socket below Python's own, which the client uses."""

    getsockopt = as_on_macos  # type: ignore[assignment]


def no_such_call(library: ctypes.CDLL, name: str) -> Any:
    if name in OF_LINUX:
        raise AttributeError(name)
    return find_call(library, name)


def unlimited(what: int) -> tuple[int, int]:
    """The limits of a resource; for open files macOS names no hard one."""
    soft, hard = get_limits(what)
    return (soft, resource.RLIM_INFINITY) if what == resource.RLIMIT_NOFILE else (soft, hard)


def limit(what: int, limits: tuple[int, int]) -> None:
    """Sets the limits of a resource, which for open files must be in numbers."""
    soft, hard = limits
    if what == resource.RLIMIT_NOFILE:
        if soft == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        hard = get_limits(what)[1]
        soft = min(soft, hard)
    set_limits(what, (soft, hard))


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
    del os.memfd_create, socket.SO_PEERCRED, _socket.SO_PEERCRED, select.POLLRDHUP, fcntl.F_SETLEASE
    socket.socket.getsockopt = as_on_macos  # type: ignore[assignment,method-assign]
    _socket.socket = Socket  # type: ignore[misc]
    ctypes.CDLL.__getattr__ = no_such_call  # type: ignore[method-assign]
    resource.getrlimit, resource.setrlimit = unlimited, limit
    sys.meta_path.insert(0, NoInotify())


find_call: Callable[..., Any] = ctypes.CDLL.__getattr__
get_limits, set_limits = resource.getrlimit, resource.setrlimit
hide()
