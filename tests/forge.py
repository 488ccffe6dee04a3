"""Starts daemons for the tests out of a process that has its modules loaded: that is most of what a start costs.

What runs is `memd.daemon` as the command runs it, in a process of its own. How a start goes from nothing is tested too:
whatever is about faults, services and commands starts the command.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import memd.failpoints

MODULES = (
    *("memd.daemon.app", "memd.daemon.scheduler", "memd.indexer.store.chroma_child", "memd.indexer.model.embedder"),
    *("memd.notes.parse", "onnxruntime", "tokenizers", "whoosh.index", "watchdog.observers", "markdown_it"),
    *("yaml", "apscheduler.schedulers.background"),
)
QUIET = {"OPENBLAS_NUM_THREADS": "1", "ANONYMIZED_TELEMETRY": "False", "ORT_DISABLE_TELEMETRY": "1"}
"""What the daemon sets before it loads these."""
MESSAGE = 1 << 18


class Forged:
    """A daemon that was started so, with as much of `subprocess.Popen` as the tests use."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int(status.recv(MESSAGE))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._hear(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._hear(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["memd.daemon"], timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may end by itself between the look and the signal.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._status.recv(MESSAGE))
            self._status.close()
        return self.returncode


class Forge:
    """The process with the modules; it ends with the test run."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # `memd.daemon` among the arguments: that is what memd knows its daemons by, and they inherit it.
        subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), "memd.daemon"],
            env=os.environ | QUIET, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()

    def start(self, env: dict[str, str], errors: int) -> Forged:
        """A daemon with this environment, whose errors go to a file."""
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wish = json.dumps({"env": env, "cwd": str(Path.cwd())}).encode()
        socket.send_fds(self._control, [wish], [errors, theirs.fileno()])
        theirs.close()
        return Forged(status)


# --- in the process that has the modules ------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Start daemons and tell how each ended, until nobody can ask any more. Returns in a daemon."""
    waking, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    daemons: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, waking], [], [])
        if waking in ready:
            os.read(waking, MESSAGE)
            _bury(daemons)
        if control in ready:
            wish, handles, _, _ = socket.recv_fds(control, MESSAGE, 2)
            if not wish:
                sys.exit(0)
            errors, status = handles[0], socket.socket(fileno=handles[1])
            pid = os.fork()
            if pid == 0:
                for one in (control, status, *daemons.values()):
                    one.close()
                _become(json.loads(wish), errors)
                return
            os.close(errors)
            status.send(str(pid).encode())
            daemons[pid] = status


def _bury(daemons: dict[int, socket.socket]) -> None:
    while daemons:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = daemons.pop(pid)
        told.send(str(os.waitstatus_to_exitcode(status)).encode())
        told.close()


def _become(wish: dict[str, dict[str, str] | str], errors: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(errors, 2)
    os.close(errors)
    os.environ.clear()
    os.environ.update(wish["env"])  # type: ignore[arg-type]
    os.chdir(str(wish["cwd"]))
    sys.argv = ["memd.daemon"]
    # The one module that reads the environment when it is loaded.
    importlib.reload(memd.failpoints)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked)
    runpy.run_module("memd.daemon", run_name="__main__", alter_sys=True)
