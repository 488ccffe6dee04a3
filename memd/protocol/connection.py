"""One connection to the daemon's socket: lines out, lines in, and what can go wrong in words.

Light on purpose. `_socket` is the part of the standard `socket` module that talks to the kernel; the rest of
that module takes as long to import as Python takes to start.
"""

import _socket
import os
import sys
import time

from memd.errors import Busy, MemdError, NoDaemon, UnsafePlace, in_shell

FIRST_DESCRIPTOR = 3
"""The first that systemd hands over."""
BACKLOG = 1024
"""How many callers may wait at the socket."""
HANDED_SOCKET = "MEMD_HANDED_SOCKET"
"""The variable by which `memd restart` hands a new daemon the socket at which callers wait: `DESCRIPTOR:INODE`."""
LOCAL_PEERCRED = 1
"""The option by which macOS and the BSDs tell of the other end."""
MAX_REPLY = 1 << 28
"""More than any answer; a daemon that sends this much without a newline is not ours."""


class Closed(Exception):
    """The daemon hung up."""


class Connection:
    """A connected socket that speaks in lines."""

    def __init__(self, path: str, timeout: float) -> None:
        self._socket = connect(path, timeout)
        self._timeout = timeout
        self._unread = b""

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.settimeout(self._timeout)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise silent(self._timeout) from None
        except OSError:
            raise Closed from None

    def line(self, patience: float | None) -> bytes:
        """The next line; NoDaemon when nothing comes for `patience` seconds. None waits for ever."""
        self._socket.settimeout(patience)
        parts, size = [self._unread], 0
        while b"\n" not in parts[-1]:
            try:
                part = self._socket.recv(1 << 16)
            except TimeoutError:
                raise silent(patience or 0) from None
            except OSError:
                raise Closed from None
            size += len(part)
            if not part or size > MAX_REPLY:
                raise Closed
            parts.append(part)
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line


def connect(path: str, timeout: float) -> _socket.socket:
    """A socket connected to a daemon of this user, or NoDaemon."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.settimeout(timeout)
    try:
        _connect(link, path, time.monotonic() + timeout)
        _check_owner(link, path)
    except MemdError:
        link.close()
        raise
    return link


def listen(path: str) -> int:
    """The descriptor of a socket that callers can wait at; one that a dead daemon left is replaced."""
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener.detach()


def raise_file_limit() -> None:
    """As many open files as the system allows: a thousand clients are a thousand descriptors."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS names no hard limit, and refuses to have none in force: this is the most that it always gives.
    soft = 10_240 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def inherited() -> int:
    """The descriptor of the socket at which systemd listens for this process; 0 where it has none."""
    ours = os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1"
    return FIRST_DESCRIPTOR if ours else 0


def _connect(link: _socket.socket, path: str, deadline: float) -> None:
    while True:
        try:
            return link.connect(path)
        except BlockingIOError:
            # The queue of waiting connections is full, and the kernel does not wait for us.
            if time.monotonic() > deadline:
                raise Busy("the daemon has too many callers", "try again in a moment") from None
            time.sleep(0.01)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            raise NoDaemon("no daemon is running", "start it: memd start") from error
        except PermissionError as error:
            raise NoDaemon(f"you may not use the socket {path}", _look(path)) from error
        except OSError as error:
            raise NoDaemon(f"the socket {path} cannot be used: {error.strerror or error}", _look(path)) from error


def _check_owner(link: _socket.socket, path: str) -> None:
    """Tell nothing to a daemon that another user runs."""
    if (owner := peer_uid(link)) not in (os.getuid(), 0):
        raise UnsafePlace(f"uid {owner} listens at {path}, not you", _look(path))


def _look(path: str) -> str:
    return f"look at it: ls -la {in_shell(path)}"


def peer_uid(link: _socket.socket) -> int:
    """The user at the other end of a Unix socket."""
    if hasattr(_socket, "SO_PEERCRED"):
        # The process, the user and the group.
        return int.from_bytes(link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
    return uid_of_xucred(link.getsockopt(0, LOCAL_PEERCRED, 128))


def uid_of_xucred(data: bytes) -> int:
    """The user in what macOS and the BSDs tell, which begins with the version of the structure, and the user."""
    version, uid = (int.from_bytes(data[at : at + 4], sys.byteorder) for at in (0, 4))
    if version != 0:
        raise OSError(f"credentials of an unknown version {version}")
    return uid


def silent(seconds: float) -> NoDaemon:
    hint = "see what it is doing: memd logs; start it anew: memd restart"
    return NoDaemon(f"the daemon did not answer within {seconds:g} seconds", hint)
