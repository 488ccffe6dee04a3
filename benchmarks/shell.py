"""The cost of `memd query` from a shell: a new process each time, against `python -c pass` of the same Python."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from figures import Figure, median, percentile
from store import Store

from memd.protocol.client import Client

ROUNDS = 60
MOST = 2.5
QUESTION = "handbook"


def measure(store: Store) -> list[Figure]:
    home = store.home
    try:
        client = home.start()
        home.ready(client)
        for _ in range(5):
            client.query(QUESTION, cwd=str(home.workspace), marks=True)
        return _compare(commands(), home.env, str(home.workspace), lambda: _took(client, str(home.workspace)))
    finally:
        home.stop()


def commands() -> dict[str, list[str]]:
    """The commands that are compared; the console script only where memd is installed."""
    script = Path(sys.executable).with_name("memd")
    found = {"python -c pass": [sys.executable, "-c", "pass"]}
    if script.exists():
        found["memd query"] = [str(script), "query", QUESTION]
    return found | {"python -m memd query": [sys.executable, "-m", "memd", "query", QUESTION]}


def _took(client: Client, cwd: str) -> float:
    """The daemon's own time for the very same question, in ms."""
    return float(client.query(QUESTION, cwd=cwd, marks=True)["took_ms"])


def _compare(commands: dict[str, list[str]], env: dict[str, str], cwd: str, took: Callable[[], float]) -> list[Figure]:
    times: dict[str, list[float]] = {name: [] for name in commands}
    daemon = []
    os.chdir(cwd)
    for command in commands.values():
        _wall(command, env)
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(_wall(command, env))
        daemon.append(took())
    return _figures(times, median(daemon))


def _wall(command: list[str], env: dict[str, str]) -> float:
    """Milliseconds from spawn to exit; the answer goes to /dev/null."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    started = time.perf_counter()
    pid = os.posix_spawn(command[0], command, env, file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    took = (time.perf_counter() - started) * 1000
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(command)} exited with {os.waitstatus_to_exitcode(status)}")
    return took


def _figures(times: dict[str, list[float]], daemon: float) -> list[Figure]:
    base = median(times["python -c pass"])
    figures = [
        Figure("python -c pass, p50", base, note=f"{ROUNDS} rounds, the commands in turn"),
        Figure("the daemon's own time (took_ms), p50", daemon),
    ]
    for name, walls in times.items():
        if name == "python -c pass":
            continue
        middle = median(walls)
        figures += [
            Figure(f"{name}, p50", middle, note=f"p95 {percentile(walls, 0.95):.1f}, best {min(walls):.1f}"),
            Figure("  less the daemon's time / python -c pass", (middle - daemon) / base, "times", most=MOST),
        ]
    return figures
