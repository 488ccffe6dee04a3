"""Starts and stops the daemon: through systemd where its unit is installed, else as a process of its own.

Whoever starts a daemon may race with others who do the same. The daemon's own lock decides; all that is
promised here is that a daemon accepts connections when `start` returns.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import memd
from memd.config import paths
from memd.errors import MemdError, NoDaemon
from memd.processes import command_line_of, work_of
from memd.protocol import wire
from memd.protocol.client import Client
from memd.protocol.connection import HANDED_SOCKET, connect, listen

START_SECONDS = 60.0
STOP_SECONDS = 15.0
WORKING = 0.01
"""The share of a core that tells a daemon at work from one that hangs; on a busy machine it gets no more."""
ANSWER_SECONDS = 5.0
UNITS = ("memd.socket", "memd.service")
REFUSED = 5
"""The exit code of a daemon that found another one holding the lock, or an unsafe directory."""
START_LOG_BYTES = 65_536
QUOTED_LINES = 12
SYSTEMD_OWN = frozenset(
    "NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID LISTEN_FDS LISTEN_PID LISTEN_FDNAMES INVOCATION_ID JOURNAL_STREAM".split()
)
"""Meant for the process that systemd started, such as the terminal or the agent that calls us."""


def start(handed: str = "") -> None:
    """Return when a daemon accepts connections; NoDaemon with its own words when it cannot be started. `handed` names
    a socket at which callers wait already."""
    if systemd_in_charge():
        systemctl("reset-failed", *UNITS)
        _have_systemd("start")
        if not listens():
            # The socket was deleted under systemd, which does not notice.
            _have_systemd("restart")
    else:
        _spawn_until_it_listens(time.monotonic() + START_SECONDS, handed)


def stop(before: Callable[[], object] = lambda: None) -> int:
    """Stop the daemon and return when it is gone: its process id, or 0 when none ran. One that answers is stopped
    after `before`."""
    pid = lock_holder()
    if systemd_in_charge():
        _have_systemd("stop")
    if listens():
        pid = _ask_to_stop(before) or pid
    else:
        # It is just starting, or it hangs.
        _terminate(pid)
    if pid:
        _wait_for_exit(pid)
    return pid


def restart() -> None:
    """Stop the daemon and start it again. Whoever asks in between waits for the answer of the new one."""
    handed: list[str] = []
    if systemd_in_charge() and systemctl("is-active", "--quiet", UNITS[1]).returncode == 0:
        _have_systemd("restart", UNITS[1])
    else:
        stop(lambda: handed.append(_take_place()))
    start(*handed)


def _take_place() -> str:
    """Put a listening socket in the place of the daemon's; as HANDED_SOCKET has it."""
    ours = paths.socket_path().with_name("next")
    handed = f"{listen(str(ours))}:{ours.stat().st_ino}"
    ours.replace(paths.socket_path())
    return handed


def lock_holder() -> int:
    """The process that holds the daemon's lock, as far as its lock file and the system tell; else 0."""
    try:
        pid = int(wire.loads(paths.lock_file().read_text(encoding="utf-8"))["pid"])
        command = command_line_of(pid)
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return pid if b"memd.daemon" in command else 0


def _ask_to_stop(before: Callable[[], object]) -> int:
    """Send `shutdown`; a daemon that hangs gets a signal instead."""
    try:
        with Client(timeout=ANSWER_SECONDS) as daemon:
            pid = int(daemon.hello()["pid"])
            before()
            daemon.shutdown()
            return pid
    except (MemdError, KeyError, TypeError):
        return _terminate(lock_holder())


def _terminate(pid: int) -> int:
    """Send SIGTERM, unless there is nobody to send it to."""
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return pid


def listens(answers: bool = False) -> bool:
    """Whether something accepts connections at the socket; or answers, since one can wait in vain at one that was
    handed on."""
    try:
        if answers:
            Client(timeout=START_SECONDS).ping()
        else:
            connect(paths.socket_path_str(), 1.0).close()
    except NoDaemon:
        return False
    return True


# systemd


def unit_file() -> Path:
    return paths.unit_dir() / "memd.service"


def systemd_in_charge() -> bool:
    """Whether the unit is installed for this home and a user manager answers."""
    if os.environ.get("MEMD_HOME") or not unit_file().is_file():
        return False
    return systemctl("show", "--property=Version").returncode == 0


def systemctl(*args: str) -> subprocess.CompletedProcess[str]:
    """Run `systemctl --user`; where there is none, it fails like one that cannot reach its manager."""
    return run_program("systemctl", "--user", *args)


def run_program(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may not be installed, and take down what it says."""
    try:
        nothing = subprocess.DEVNULL
        return subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=nothing, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")


def _have_systemd(verb: str, *units: str) -> None:
    """Have it start, stop or restart the daemon; NoDaemon where it cannot."""
    done = systemctl(verb, *(units or UNITS))
    if done.returncode:
        hint = "see why: journalctl --user -u memd -n 30; check the stores: memd doctor"
        raise NoDaemon(f"systemd could not {verb} memd: {done.stderr.strip()}", hint)


# A process of its own


DAEMON, WEB, HUB, MERGE = "memd.daemon", "memd.web", "memd.hub", "memd.notes.merging"
"""Programs of their own: the daemon, the page, the hub, and the merge of a note's versions for git."""


def command_of(module: str, *arguments: str) -> list[str]:
    """How one of them is started. -P: what lies in the working directory is not memd's code."""
    return [sys.executable, "-P", "-m", module, *arguments]


def run_daemon(*flags: str) -> subprocess.CompletedProcess[bytes]:
    """Run it with flags that let it end by itself."""
    command = command_of(DAEMON, *flags)
    return subprocess.run(command, capture_output=True, env=daemon_environment(), cwd="/", check=False)


def become(module: str, *arguments: str, **settings: str) -> None:
    """Go on as another program of memd, from the same code."""
    os.execve(sys.executable, command_of(module, *arguments), {**os.environ, **_source(), **settings})


def daemon_environment() -> dict[str, str]:
    """This environment, with relative places made absolute: the daemon runs in `/`."""
    environment = {name: value for name, value in os.environ.items() if name not in SYSTEMD_OWN}
    if environment.get("MEMD_HOME"):
        environment["MEMD_HOME"] = str(paths.state_dir().parent)
    return {**environment, **_source()}


def _source() -> dict[str, str]:
    """The environment by which another process finds the code that runs here."""
    source = source_dir()
    return {"PYTHONPATH": os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])} if source else {}


def source_dir() -> str:
    """The checkout that this memd runs from; empty when it is installed."""
    home = Path(memd.__file__).resolve().parent.parent
    return "" if home.name in ("site-packages", "dist-packages") else str(home)


def _spawn_until_it_listens(deadline: float, handed: str) -> None:
    refusals = 0
    while True:
        process, errors = _spawn(handed)
        answers, handed = bool(handed), ""
        if _listens_before_exit(process, deadline, answers) or (process.returncode == REFUSED and listens()):
            return
        # A daemon that holds the lock and does not listen is just starting or just stopping: wait for it. Without
        # one it was refused for something else, unless the other has just gone.
        refusals += not lock_holder()
        if process.returncode != REFUSED or refusals > 1 or time.monotonic() > deadline:
            raise NoDaemon(*_last_words(process, errors))
        while lock_holder() and time.monotonic() < deadline:
            time.sleep(0.1)
            if listens():
                return


_spawned: list[subprocess.Popen[bytes]] = []
"""Kept, so that Python does not complain of children that outlive the variable that held them."""


def _spawn(handed: str) -> tuple[subprocess.Popen[bytes], tuple[Path, int]]:
    """A daemon in a session of its own, and where its complaints begin."""
    descriptors = [int(handed.partition(":")[0])] if handed else []
    try:
        file = paths.private_dir(paths.state_dir()) / "start.log"
        file.touch(mode=0o600)
        if file.stat().st_size > START_LOG_BYTES:
            os.truncate(file, 0)
        begin = file.stat().st_size
        with file.open("ab") as errors:
            process = subprocess.Popen(
                command_of(DAEMON),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd="/",
                env={**daemon_environment(), "MEMD_DETACHED": "1", HANDED_SOCKET: handed},
                start_new_session=True,
                pass_fds=descriptors,
            )
    except OSError as error:
        raise NoDaemon(f"the daemon could not be started: {error}", "see what is there: memd doctor") from error
    for descriptor in descriptors:
        os.close(descriptor)
    _spawned.append(process)
    return process, (file, begin)


def _listens_before_exit(process: subprocess.Popen[bytes], deadline: float, answers: bool) -> bool:
    pause = 0.01
    while process.poll() is None:
        if listens(answers):
            return True
        if time.monotonic() > deadline:
            why = f"the daemon (pid {process.pid}) was started and does not listen yet"
            raise NoDaemon(why, "see what it is doing: memd logs")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return False


def _last_words(process: subprocess.Popen[bytes], errors: tuple[Path, int]) -> tuple[str, str]:
    """The daemon's last words, as a message and a hint."""
    file, begin = errors
    with file.open("rb") as said:
        said.seek(begin)
        message, hint = daemon_words(said.read(), process.returncode)
    if process.returncode == REFUSED and lock_holder():
        return f"{message}, and it does not listen", _other_socket()
    return f"the daemon could not start: {message}", hint


def daemon_words(stderr: bytes, code: int) -> tuple[str, str]:
    """The message and the hint of a daemon that gave up, from what it wrote; of one that crashed, its last lines."""
    words = stderr.decode("utf-8", "replace").strip()
    _, found, complaint = ("\n" + words).rpartition("\nmemd: ")
    if not found:
        lines = "\n  ".join(words.splitlines()[-QUOTED_LINES:]) or "it said nothing"
        return f"it ended with code {code}:\n  {lines}", "check the stores: memd doctor; read the log: memd logs"
    *message, hint = complaint.split("\n")
    return ("\n".join(message), hint.strip()) if message else (hint, "")


def _other_socket() -> str:
    """The daemon of a login session listens where XDG_RUNTIME_DIR points; not every shell has it set."""
    usual = f"/run/user/{os.getuid()}"
    if "XDG_RUNTIME_DIR" not in os.environ and Path(usual, "memd", "memd.sock").exists():
        return f"this shell does not know its place: export XDG_RUNTIME_DIR={usual}"
    return "stop it first: memd stop"


def _wait_for_exit(pid: int) -> None:
    """Wait for a daemon that stops, however long it works; not for one that hangs."""
    deadline, worked, hint = time.monotonic() + STOP_SECONDS, work_of(pid)[0], f"end it, nothing is lost: kill -9 {pid}"
    while _alive(pid):
        if time.monotonic() > deadline:
            before, worked = worked, work_of(pid)[0]
            if worked - before < WORKING * STOP_SECONDS:
                raise MemdError(f"the daemon (pid {pid}) does not stop", hint)
            sys.stderr.write(f"memd: waiting for the daemon (pid {pid}), which is still at work; to {hint}\n")
            deadline = time.monotonic() + STOP_SECONDS
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    for child in _spawned:
        child.poll()  # A child that ended is "alive" until it has been asked about.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    # It may have ended, and wait for a parent that does not ask: an agent's session that started it.
    return work_of(pid)[1] != "Z"
