"""The side of systemd: the socket it hands over, and the messages it expects (ready, stopping, watchdog)."""

from __future__ import annotations

import os
import socket

FIRST_DESCRIPTOR = 3


def notify(state: str) -> None:
    """Send the service manager a state, where there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            # A manager that went away is no reason to stop serving.
            return


def watchdog_seconds() -> float:
    """How often to reassure the watchdog; 0 where there is none."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(usec) / 1e6 / 3


def inherited_socket() -> socket.socket | None:
    """The listening socket of a socket unit."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    return socket.socket(fileno=FIRST_DESCRIPTOR)


def managed() -> bool:
    """Whether systemd started this process as a service."""
    return bool(os.environ.get("NOTIFY_SOCKET"))
