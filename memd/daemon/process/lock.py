"""The lock that decides which process owns the stores. Light on purpose: a daemon takes it before it loads the rest."""

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from memd.config import paths
from memd.errors import AlreadyRunning, UnsafePlace
from memd.version import __version__

NAMED_SECONDS = 1.0
OWNED = ("state.db", "text", "chroma", "model", "backups", "memd.l", "start.log")
"""How the names begin of what memd cannot do without; a volume may have a `lost+found` of another owner."""


class Lock:
    """Held from before the stores open until after they close; the kernel lets go of it when the process dies."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = _owner(self._descriptor)
            os.close(self._descriptor)
            raise AlreadyRunning(f"a memd daemon is running already{owner}", "stop it with: memd stop") from error
        os.ftruncate(self._descriptor, 0)
        # On a full disk the lock holds all the same; it only cannot say whose it is.
        with suppress(OSError):
            os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), "version": __version__}).encode(), 0)

    def close(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _owner(descriptor: int) -> str:
    """Who holds the lock; waited for, since whoever took it a moment ago may not have written it down yet."""
    until = time.monotonic() + NAMED_SECONDS
    while time.monotonic() < until:
        with suppress(ValueError, KeyError, TypeError, OSError):
            said = json.loads(os.pread(descriptor, 1000, 0))
            os.kill(said["pid"], 0)
            return f" (pid {said['pid']}, version {said['version']})"
        time.sleep(0.01)
    return ""


def take_state() -> Lock:
    """Make the daemon's directories, and take the lock that makes them this process's own."""
    try:
        state = paths.private_dir(paths.state_dir())
        for place in filter(lambda one: one.name.startswith(OWNED), state.iterdir()):
            with suppress(FileNotFoundError):
                paths.check_owner(place, state)
        paths.private_dir(paths.run_dir())
        paths.check_socket_length(paths.socket_path())
        return Lock(paths.lock_file())
    except OSError as error:
        why = f"{error.filename or paths.state_dir()} cannot be used: {error.strerror}"
        raise UnsafePlace(why, "see that it can be written, or use another place: export MEMD_HOME=DIR") from error
