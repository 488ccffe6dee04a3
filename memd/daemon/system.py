"""What differs between systems: each thing by what the system can do, with a way that works where it cannot."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import struct
import sys
import threading
from pathlib import Path

PEER = struct.Struct("3i")
"""Process, user and group, as Linux tells them of the other end of a socket."""
XUCRED, LOCAL_PEERCRED = struct.Struct("=2I"), 1
"""The beginning of what macOS and the BSDs tell: the version of the structure, and the user."""
STATM = Path("/proc/self/statm")
HEAP_LIMITS = {
    "MALLOC_ARENA_MAX": (-8, 2),
    "MALLOC_MMAP_THRESHOLD_": (-3, 1 << 18),
    "MALLOC_TRIM_THRESHOLD_": (-1, 1 << 18),
}
"""What glibc may keep of memory that was freed: a limit's name in the environment, its number for `mallopt`, its value.
By itself glibc keeps a heap for every thread, which grows with each edit: after 2,000 edits 56 MB of 89 were free."""


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end of a Unix socket."""
    if hasattr(socket, "SO_PEERCRED"):
        return int(PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[1])
    return uid_of_xucred(connection.getsockopt(0, LOCAL_PEERCRED, 128))


def uid_of_xucred(data: bytes) -> int:
    version, uid = XUCRED.unpack_from(data)
    if version != 0:
        raise OSError(f"credentials of an unknown version {version}")
    return int(uid)


def memory_mb() -> float:
    """Resident memory, as the kernel counts it; without /proc the most that it ever was."""
    try:
        return round(int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # In bytes on macOS, in KB elsewhere.
        return round(most / 1e6 if sys.platform == "darwin" else most / 1e3, 1)


def give_way(nice: int) -> None:
    """Let other threads go first; only Linux takes a thread for a process that can be nice."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def bound_heap() -> None:
    """Have what is freed go back to the system, in this process and in its children."""
    # Other C libraries have no such call, and nothing to bound.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for name, (parameter, limit) in HEAP_LIMITS.items():
        if mallopt is not None and name not in os.environ:
            mallopt(parameter, limit)
            os.environ[name] = str(limit)


def release_freed() -> None:
    """Give back what was freed between things that stay; this takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
