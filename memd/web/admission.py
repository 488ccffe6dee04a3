"""Who may see the page: a token that works once opens a session, and a session that nobody uses ends.

A token is a file in the user's private directory, named by its digest: whoever can make one is this user, and to
unlink it is to use it. So `memd web` lets a browser into a page that systemd runs, too.
"""

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from memd.config import paths
from memd.config.tokens import digest_of

TOKEN_SECONDS = 600.0
"""An address that nobody opened within this time is worth nothing."""
IDLE_SECONDS = 3600.0
MAX_SESSIONS = 64


def new_token(port: int) -> str:
    """A token for the page on this port; those that are too old go."""
    paths.remove_old(_folder(), TOKEN_SECONDS)
    token = secrets.token_urlsafe(32)
    _file_of(token, port).touch(mode=0o600, exist_ok=False)
    return token


def redeem(token: str, port: int) -> bool:
    """Use a token up; False where it never was one, was used, or is too old."""
    file = _file_of(token, port)
    try:
        made = file.stat().st_mtime
        file.unlink()
    except FileNotFoundError:
        return False
    return time.time() - made < TOKEN_SECONDS


def _file_of(token: str, port: int) -> Path:
    return _folder() / digest_of(f"{port}:{token}")


def _folder() -> Path:
    return paths.private_dir(paths.run_dir() / "web")


class Sessions:
    """The browsers that were let in, each known by the digest of its cookie."""

    def __init__(self, idle: float = IDLE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle = idle
        self._clock = clock
        self._seen: dict[str, float] = {}

    def open(self) -> str:
        """Let a browser in: the value of its cookie."""
        self._end_idle()
        while len(self._seen) >= MAX_SESSIONS:
            del self._seen[min(self._seen, key=self._seen.__getitem__)]
        cookie = secrets.token_urlsafe(32)
        self._seen[digest_of(cookie)] = self._clock()
        return cookie

    def admits(self, cookie: str, *, is_use: bool = True) -> bool:
        """Whether this is the cookie of a session; a look that nobody asked for is no use of it."""
        self._end_idle()
        known = digest_of(cookie)
        admitted = known in self._seen
        if admitted and is_use:
            self._seen[known] = self._clock()
        return admitted

    def close(self, cookie: str) -> None:
        self._seen.pop(digest_of(cookie), None)

    @property
    def empty(self) -> bool:
        self._end_idle()
        return not self._seen

    def _end_idle(self) -> None:
        now = self._clock()
        self._seen = {known: seen for known, seen in self._seen.items() if now - seen < self._idle}


def is_other_user(client_port: int, port: int) -> bool:
    """Whether the other end of a connection on this machine belongs to someone else, as far as the kernel tells.

    The address stands in the arguments of the browser, which everyone on the machine can read.
    """
    theirs, ours = f":{client_port:04X}", f":{port:04X}"
    try:
        connections = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return False
    rows = map(str.split, connections)
    users = (int(row[7]) for row in rows if row[1].endswith(theirs) and row[2].endswith(ours))
    return next(users, os.getuid()) != os.getuid()
