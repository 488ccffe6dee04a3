"""A real daemon in a MEMD_HOME of its own: started, waited for, looked at, stopped."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from memd.errors import MemdError
from memd.protocol.client import Client

LONGEST_FILL = 4 * 3_600
"""Seconds: a collection of 300,000 rows is filled in an hour or two."""
CALM_SHARE = 0.03
"""A daemon that uses less of a core than this has nothing left to do."""


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """The folder that is to be kept, or one that goes when the work is done."""
    place = keep or Path(tempfile.mkdtemp(prefix="memd-bench-"))
    try:
        yield place.resolve()
    finally:
        if keep is None:
            shutil.rmtree(place, ignore_errors=True)


class Home:
    """One MEMD_HOME with one workspace, `notes`, and at most one daemon."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workspace = path / "notes"
        # Without PYTHONDONTWRITEBYTECODE and its like: an installed memd has its bytecode.
        self.env = {name: os.environ[name] for name in os.environ if not name.startswith(("MEMD_", "PYTHON"))}
        self.env |= {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        self.env |= {"MEMD_HOME": str(path), "NO_COLOR": "1"}
        self.daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.stop()

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def socket(self) -> str:
        return str(self.path / "run" / "memd.sock")

    @property
    def pid(self) -> int:
        assert self.daemon is not None, "no daemon was started"
        return self.daemon.pid

    def configure(self) -> None:
        self.workspace.mkdir(parents=True, exist_ok=True)
        (self.path / "config.toml").write_text(f'[[workspace]]\npath = "{self.workspace}"\nns = "notes"\n')

    def client(self) -> Client:
        return Client(self.socket, timeout=600)

    # --- its life -----------------------------------------------------------------------------------------

    def spawn(self, **env: str) -> None:
        """Start the daemon without waiting for it."""
        with (self.path / "daemon.stderr").open("ab") as stderr:
            self.daemon = subprocess.Popen(
                [sys.executable, "-m", "memd.daemon"],
                env=self.env | env, cwd=self.path, stdin=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def start(self, **env: str) -> Client:
        """Start the daemon and wait until it answers."""
        self.spawn(**env)
        return self.wait()

    def wait(self, seconds: float = 60, pause: float = 0.005) -> Client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            client = self.client()
            try:
                client.ping()
                return client
            except MemdError:
                self._must_live()
                time.sleep(pause)
        raise RuntimeError(f"no answer within {seconds} s: {self._errors()}")

    def stop(self) -> None:
        """Stop as systemd would, and wait for the end."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()

    def _must_live(self) -> None:
        if self.daemon is not None and self.daemon.poll() is not None:
            raise RuntimeError(f"the daemon exited with {self.daemon.returncode}: {self._errors()}")

    def _errors(self) -> str:
        return (self.path / "daemon.stderr").read_text(errors="replace")[-2_000:]

    # --- waiting for more than an answer ------------------------------------------------------------------

    def take_in(self, client: Client) -> float:
        """Wait until the notes are indexed, however many there are; answers the seconds that it took."""
        started = time.monotonic()
        client.call("sync", timeout=LONGEST_FILL)
        return time.monotonic() - started

    def ready(self, client: Client, seconds: float = LONGEST_FILL) -> dict[str, Any]:
        """Wait until the model runs, the collections have followed and nothing is left to do; answers `status`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            told = client.status()
            if told["degraded"] or told["model"]["state"] == "failed":
                raise RuntimeError(f"the daemon is degraded: {told['degraded_details']} {told['model']['note']}")
            if told["model"]["state"] == "ready" and not told["pending"] and self.followed() and self.calm():
                return client.status()
            self._must_live()
            time.sleep(0.1)
        raise RuntimeError(f"not ready within {seconds} s")

    def followed(self) -> bool:
        """Whether the ledger says of every collection that it has taken in everything."""
        with closing(sqlite3.connect(self.state / "state.db")) as ledger:
            return not ledger.execute("SELECT 1 FROM unsent").fetchall()

    def calm(self, seconds: float = 0.7) -> bool:
        """Whether the daemon rests; also the sign that the last thing it began is done."""
        before = self.cpu_seconds()
        time.sleep(seconds)
        return self.cpu_seconds() - before < CALM_SHARE * seconds

    # --- what the kernel says about it --------------------------------------------------------------------

    def processes(self) -> list[int]:
        """The daemon and the processes that it started."""
        parents = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
        family = [self.pid]
        for pid in family:
            family += [child for child, parent in parents.items() if parent == pid]
        return family

    def cpu_seconds(self) -> float:
        """The sum over all of them."""
        total = 0
        for pid in self.processes():
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                # With that of children that have ended.
                total += sum(map(int, fields[11:15]))
        return total / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> dict[str, float]:
        """VmRSS and PSS with their parts, in MB of 10^6 bytes; the sum over all of them."""
        total: Counter[str] = Counter()
        for pid in self.processes():
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/status").read_text() + Path(f"/proc/{pid}/smaps_rollup").read_text()
                for part in (line.split() for line in lines.splitlines()):
                    if part[0] in ("VmRSS:", "RssAnon:", "RssFile:", "Pss:", "Pss_Anon:", "Pss_Shmem:"):
                        total[part[0].rstrip(":")] += int(part[1])
        return {name: kilobytes * 1024 / 1e6 for name, kilobytes in total.items()}
