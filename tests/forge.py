"""Starts daemons and commands for the tests out of a process that has their modules loaded: most of what a start costs.

What runs is `memd.daemon` or `memd` as ever, in a process of its own. How a start goes from nothing is tested too:
whatever is about faults, services and the environment starts the real command.
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
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import memd.failpoints
from memd.protocol.connection import HANDED_SOCKET

COMMAND_MODULES = (
    *("memd.cli.app", "memd.cli.fast_search", "memd.protocol.client", "rich.table", "memd.protocol.methods"),
    *("memd.protocol.unanswered", "memd.protocol.start", "memd.cli.method_command"),
    *("memd.cli.reports", "memd.cli.commands.service", "memd.cli.mcp_bridge", "memd.config.load", "memd.config.tokens"),
    *(f"memd.cli.commands.{name}" for name in ("history", "memories", "notes", "overview", "search", "server")),
    *("memd.cli.commands.workspaces", "memd.installation", "hashlib", "typer._click.decorators"),
)
WORD_MODULES = ("numpy.ma", "rapidfuzz.process", "rapidfuzz.fuzz", "rapidfuzz.distance", "memd.notes.topics")
"""What the first question loads."""
DAEMON_MODULES = (
    *("memd.daemon.app", "memd.daemon.jobs.scheduler", "memd.indexer.store.chroma", "memd.indexer.model.embedder"),
    *("memd.notes.parse", "onnxruntime", "tokenizers", "whoosh.index", "watchdog.observers", "markdown_it"),
    *("yaml", "ruamel.yaml", "apscheduler.schedulers.background", "apscheduler.executors.pool"),
    *("apscheduler.triggers.cron", "apscheduler.triggers.combining", "tzlocal", "tzdata.zoneinfo"),
    *("encodings.ascii", "encodings.utf_8_sig", "memd.mcp.sdk_server"),
    *WORD_MODULES,
)
CHROMA = "memd.indexer.store.chroma_process"
READER = "memd.daemon.readers.process"
CHILDREN = (CHROMA, READER)
"""What a daemon that was started so starts so too, and else from nothing: a second of a core each."""
OWN_CHILDREN = "MEMD_TEST_OWN_CHILDREN"
"""Set for a daemon that starts its children from nothing, as the descriptors that it has open are looked at."""
MODULES = {
    "memd.daemon": DAEMON_MODULES,
    "memd": COMMAND_MODULES,
    CHROMA: ("chromadb", "chromadb.api.rust", "httpx", "numpy"),
    "tests.written": ("tests.written",),
    READER: ("memd.daemon.readers.process", "whoosh.index", "memd.indexer.views.keys", *WORD_MODULES),
}
QUIET = {"OPENBLAS_NUM_THREADS": "1", "ANONYMIZED_TELEMETRY": "False", "ORT_DISABLE_TELEMETRY": "1"}
"""What the daemon sets before it loads these."""
MESSAGE = 1 << 18
CHROMA_AFTER = "MEMD_TEST_CHROMA_AFTER"
"""Seconds before a daemon opens Chroma. To load that is half of what a short test costs, and few look at it."""


class Forged:
    """A process that was started so, with as much of `subprocess.Popen` as the tests use."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int(status.recv(MESSAGE))
        self.returncode: int | None = None
        self._lock = threading.Lock()
        """Several threads may wait; the end is told once."""

    def poll(self) -> int | None:
        return self._hear(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._hear(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["memd"], timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may end by itself between the look and the signal.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float | None) -> int | None:
        told = select.poll()
        told.register(self._status, select.POLLIN)
        if self.returncode is None and told.poll(None if timeout is None else timeout * 1000):
            with self._lock:
                if self.returncode is None:
                    self.returncode = int(self._status.recv(MESSAGE))
        return self.returncode


class Forge:
    """The process with the modules of `memd.daemon`, of `memd`, the command, of Chroma, …; it ends with the tests."""

    def __init__(self, module: str, daemons: Forge | None = None) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The module among the arguments: `memd.daemon` is what memd knows its daemons by, and they inherit it.
        # It belongs to no home: what runs in one is killed with it.
        env = {name: value for name, value in os.environ.items() if not name.startswith("MEMD_")} | QUIET
        handles = [theirs.fileno(), *([daemons._control.fileno()] if daemons is not None else [])]
        command = [sys.executable, __file__, *map(str, handles), module]
        subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, pass_fds=handles)
        theirs.close()

    @classmethod
    def at(cls, control: int) -> Forge:
        """One that runs already."""
        forge = cls.__new__(cls)
        forge._control = socket.socket(fileno=control)
        return forge

    def start(
        self, env: dict[str, str], files: Sequence[int], args: Sequence[str] = (), cwd: Path | None = None,
        session: bool = False,
    ) -> Forged:  # fmt: skip
        """A process with this environment, whose standard input, output and errors are these files."""
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wish = json.dumps({"env": env, "cwd": str(cwd or Path.cwd()), "args": args, "session": session}).encode()
        socket.send_fds(self._control, [wish], [*files, theirs.fileno()])
        theirs.close()
        return Forged(status)

    def run(
        self, args: Sequence[str], env: dict[str, str], cwd: Path, input: str | None, timeout: float | None
    ) -> subprocess.CompletedProcess[str]:
        """Start a process and wait for its end, as `subprocess.run` does."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write((input or "").encode())
            given.seek(0)
            process = self.start(env, [given.fileno(), out.fileno(), err.fileno()], args, cwd)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return subprocess.CompletedProcess(list(args), code, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


# --- in the process that has the modules ------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Start processes and tell how each ended, until nobody can ask any more. Returns in a new process."""
    waking, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    started: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, waking], [], [])
        if waking in ready:
            os.read(waking, MESSAGE)
            _bury(started)
        if control in ready:
            wish, handles, _, _ = socket.recv_fds(control, MESSAGE, 5)
            if not wish:
                sys.exit(0)
            *files, number = handles
            status = socket.socket(fileno=number)
            pid = os.fork()
            if pid == 0:
                for one in (control, status, *started.values()):
                    one.close()
                _become(json.loads(wish), files)
                return
            for file in files:
                os.close(file)
            started[pid] = status
            # A daemon that asked for a child may have been killed since.
            with suppress(OSError):
                status.send(str(pid).encode())


def _bury(started: dict[int, socket.socket]) -> None:
    while started:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        # Whoever asked may have been killed since: a reset connection is no reason to end.
        with started.pop(pid) as told, suppress(OSError):
            told.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(wish: dict[str, Any], files: list[int]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        if file != number:
            os.dup2(file, number)
            os.close(file)
    os.environ.clear()
    os.environ.update(wish["env"])
    os.chdir(wish["cwd"])
    if wish["session"]:
        os.setsid()
    sys.argv = [sys.argv[-1], *wish["args"]]
    # The one module that reads the environment when it is loaded.
    importlib.reload(memd.failpoints)
    if CHROMA_AFTER in os.environ:
        importlib.import_module("memd.indexer.store.vectors").GATHER_SECONDS = float(os.environ[CHROMA_AFTER])


def remember_parameters() -> None:
    """Read the declarations of all methods, which a process keeps: each would read those that it is asked for."""
    base = importlib.import_module("memd.protocol.methods.base")
    importlib.import_module("memd.protocol.methods")
    for method in base.METHODS:
        base.parameters_of(method)


def forged_processes(home: Path) -> set[str]:
    """The numbers of the processes that memd started so: nothing that the system tells of them says whose they are."""
    known = _list_of(home)
    return set(known.read_text().split()) if known.exists() else set()


def _list_of(home: Path) -> Path:
    """Beside the home, which may go."""
    return home.with_name(f"{home.name}.forged")


def _known(started: Forged, env: dict[str, str]) -> Forged:
    if "MEMD_HOME" in env:
        with _list_of(Path(env["MEMD_HOME"])).open("a") as known:
            known.write(f"{started.pid}\n")
    return started


def start_children_from(forges: dict[str, Forge]) -> None:
    """Let the processes that memd starts for itself come out of these; those of other modules start from nothing."""
    child = importlib.import_module("memd.child")

    def popen(command: list[str], *, stdin: int, pass_fds: Sequence[int], env: dict[str, str]) -> Any:
        module, nice, _, *arguments = command[command.index("memd.child") + 1 :]
        if module not in forges or "MEMD_HOME" not in env or OWN_CHILDREN in env:
            return subprocess.Popen(command, stdin=stdin, pass_fds=pass_fds, env=env)
        return _known(forges[module].start(env, [*pass_fds, 1, 2], [module, nice, "0", *arguments]), env)

    child.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen})


def start_daemons_from(daemons: Forge) -> None:
    """Let the daemons that a command starts come out of a forge; what it starts otherwise starts from nothing."""
    start = importlib.import_module("memd.protocol.start")

    def popen(
        command: list[str], *, env: dict[str, str], stderr: IO[bytes], pass_fds: Sequence[int], **_: Any
    ) -> Forged:
        with Path(os.devnull).open("r+b") as nothing:
            files = [nothing.fileno(), nothing.fileno(), stderr.fileno(), *pass_fds]
            if pass_fds:
                env = {**env, HANDED_SOCKET: f"3:{env[HANDED_SOCKET].partition(':')[2]}"}
            return _known(daemons.start(env, files, _flags(command), Path("/"), session=True), env)

    def run(command: list[str], *, env: dict[str, str] | None = None, **how: Any) -> subprocess.CompletedProcess[Any]:
        if env is None or "memd.daemon" not in command:
            return subprocess.run(command, env=env, **how)
        done = daemons.run(_flags(command), env, Path("/"), None, timeout=None)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.encode(), done.stderr.encode())

    start.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen, "run": run})


def _flags(command: list[str]) -> list[str]:
    return command[command.index("memd.daemon") + 1 :]


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    asked_at, *others, name = sys.argv[1:]
    forges = {module: Forge(module) for module in CHILDREN} if name == "memd.daemon" else {}
    for module in MODULES[name]:
        importlib.import_module(module)
    if name in ("memd.daemon", "memd"):
        remember_parameters()
    if forges:
        start_children_from(forges)
    for control in others:
        start_daemons_from(Forge.at(int(control)))
    gc.freeze()
    with socket.socket(fileno=int(asked_at)) as asked:
        serve(asked)
    if name in CHILDREN:
        importlib.import_module("memd.child").run(*sys.argv[1:])
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
