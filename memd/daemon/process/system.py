"""Differences between systems, each with a way that works where the system lacks it; and the side of systemd:
the socket it hands over, and the messages it expects (ready, stopping, watchdog)."""

import ctypes
import os
import resource
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from memd.protocol.connection import HANDED_SOCKET

PROC = Path("/proc")
NICE = 10
"""The priority of threads whose work nobody waits for."""
HEAP_LIMITS = {
    "MALLOC_ARENA_MAX": (-8, 2),
    "MALLOC_MMAP_THRESHOLD_": (-3, 1 << 18),
    "MALLOC_TRIM_THRESHOLD_": (-1, 1 << 18),
}
"""Limits of freed memory that glibc may keep: a limit's name in the environment, its number for `mallopt`, its value.
By itself glibc keeps a heap for every thread, which grows with each edit: after 2,000 edits 56 MB of 89 were free."""


def memory_mb() -> float:
    """Resident memory, as the kernel counts it; without /proc the most that it ever was."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In bytes on macOS, in KB elsewhere.
    return memory_of("self") or round(most / 1e6 if sys.platform == "darwin" else most / 1e3, 1)


def memory_of(process: int | str) -> float:
    """That of any process; nothing where the system does not tell, or the process has ended."""
    try:
        pages = int((PROC / str(process) / "statm").read_text().split()[1])
    except OSError:
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def give_way() -> None:
    """Let other threads go first; only Linux takes a thread for a process that can be nice.

    One that gives way more already stays so: the system refuses less.
    """
    if sys.platform == "linux":
        own = os.PRIO_PROCESS, threading.get_native_id()
        os.setpriority(*own, max(NICE, os.getpriority(*own)))


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
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def notify(state: str) -> None:
    """Send the service manager a state, where there is one."""
    if not (address := os.environ.get("NOTIFY_SOCKET")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    # A manager that went away is no reason to stop serving.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.sendto(state.encode(), address)


def watchdog_seconds() -> float:
    """How often to reassure the watchdog; 0 where there is none."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    return int(usec) / 1e6 / 3 if usec.isdigit() and pid in ("", str(os.getpid())) else 0.0


def handed_socket(path: Path) -> socket.socket | None:
    """The socket at which callers wait since `memd restart` stopped the former daemon."""
    descriptor, _, inode = os.environ.pop(HANDED_SOCKET, "").partition(":")
    if not inode:
        return None
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    # Unless another daemon came and went in between, and left no socket or its own.
    return listener if path.exists() and path.stat().st_ino == int(inode) else None


def managed() -> bool:
    """Whether systemd started this process as a service."""
    return bool(os.environ.get("NOTIFY_SOCKET"))
