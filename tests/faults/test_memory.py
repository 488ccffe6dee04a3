"""Too little memory: a file of a million lines costs a bounded amount, and what the kernel kills has lost nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from memd.errors import MemdError
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.faults.agreement import SOAK, assert_agreement, children, eventually, rounds, shown

LIMIT_MB = 400
GROUPS = Path("/sys/fs/cgroup")

BALLOON = """
import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x") * 1_000_000)
    time.sleep(0.005)
sys.stdin.read()
"""
"""Takes megabyte after megabyte."""

THREADS = """
import ctypes, sys, threading
from memd.daemon.process.system import bound_heap
bound_heap()
together = threading.Barrier(12)
def work():
    together.wait()
    held = [bytearray(100_000) for _ in range(50)]
    together.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = libc.fdopen(1, b"w")
libc.malloc_info(0, ctypes.c_void_p(out))
libc.fflush(ctypes.c_void_p(out))
"""
"""Twelve threads take and free five megabytes each at the same time; prints the heaps that are left."""


HOLES = """
from pathlib import Path
from memd.daemon.process.system import release_freed
def memory():
    return int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])
before = memory()
held = [bytes(2_000) for _ in range(50_000)]
full = memory()
held = held[::50]
release_freed()
print((memory() - before) / (full - before))
"""
"""Takes a hundred megabytes and frees 49 of 50 pieces; prints how much of it memd still has."""


def test_what_was_freed_between_things_that_stay_is_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert float(told.stdout) < 0.3


def test_what_threads_free_does_not_stay_with_each_of_them() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    told = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=True)
    assert len(ElementTree.fromstring(told.stdout).findall("heap")) <= 2


def test_the_children_of_a_daemon_give_back_what_they_free(home: Home, memory: Client) -> None:
    memory.query("ErsatzTV")
    # A child that was only just forked still has the environment of its daemon.
    eventually(lambda: (pids := children(home.daemon.pid)) and all(map(gives_back, pids)))


def gives_back(pid: int) -> bool:
    try:
        return b"MALLOC_ARENA_MAX=2\0" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        # It ended meanwhile.
        return False


@pytest.fixture
def group(home: Home) -> Iterator[Path]:
    """A control group that may use 400 MB."""
    first = (GROUPS / "memory", "memory.limit_in_bytes") if (GROUPS / "memory").is_dir() else (GROUPS, "memory.max")
    made = first[0] / f"memd-test-{os.getpid()}"
    try:
        made.mkdir()
        (made / first[1]).write_text(str(LIMIT_MB * 1_000_000))
    except OSError as error:
        with suppress(OSError):
            made.rmdir()
        pytest.skip(f"no memory control group can be made here: {error}")
    yield made
    home.close()
    eventually(lambda: not (made / "cgroup.procs").read_text())
    made.rmdir()


def inside(group: Path, *command: str) -> list[str]:
    """A command that runs in the group, with everything that it starts."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]


def started_in(group: Path, home: Home) -> Client:
    # When there is no memory left, memd's processes are killed and nobody else's.
    command = inside(group, "choom", "-n", "1000", "--", sys.executable, "-m", "memd.daemon")
    with (home.path / "daemon.stderr").open("ab") as stderr:
        home.daemon = subprocess.Popen(command, env=home.env, stderr=stderr, stdin=subprocess.DEVNULL)
    return home.wait()


def test_what_the_kernel_kills_for_its_memory_has_lost_nothing(home: Home, workspace: Path, group: Path) -> None:
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    client = started_in(group, home)
    client.sync(vectors=True)
    written: list[str] = []
    for nth in range(rounds(1, 20)):
        balloon = subprocess.Popen(
            inside(group, sys.executable, "-c", BALLOON, str(LIMIT_MB - 10)), stdin=subprocess.PIPE
        )
        with suppress(MemdError):
            while balloon.poll() is None:
                client.note(f"The oryx{nth}x{len(written)} drinks.", title="Oryx", now="2026-03-01T12:00")
                written.append(f"oryx{nth}x{len(written)}")
        assert home.daemon is not None and home.daemon.wait(PATIENCE) == -9
        balloon.communicate()
        client = started_in(group, home)
    client.sync(vectors=True)
    print(f"{len(written)} notes acknowledged")
    stands = (workspace / "memory" / "2026-03-01.md").read_text()
    assert written and all(stands.count(f"{word} drinks") == 1 for word in written)
    assert_agreement(home, workspace)
    assert client.status()["degraded"] == []


MILLION = 1_000_000


@pytest.mark.parametrize("line", ["a million lines\n", "ab\n"] if SOAK else ["a million lines\n"])
def test_a_file_of_a_million_lines_costs_a_bounded_amount(home: Home, workspace: Path, line: str) -> None:
    """Larger than `index.max_file_kb` it is left out and listed; smaller it is indexed, by no more than is allowed."""
    large = len(line) > 4
    (workspace / "memory" / "million.md").write_text("# All\n\n## Words\n\nthe endless gannet\n\n" + line * MILLION)
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    most = 500_000_000 if large else 1_500_000_000
    with (home.path / "daemon.stderr").open("ab") as stderr:
        home.daemon = subprocess.Popen(
            ["prlimit", f"--data={most}", sys.executable, "-m", "memd.daemon"],
            env=home.env, stderr=stderr, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    client = home.wait()
    client.sync()
    assert ("gannet" in shown(client, "gannet")) is not large
    assert "ErsatzTV" in shown(client, "ErsatzTV")
    listed = {entry["path"]: entry["why"] for entry in client.status()["workspaces"][0]["skipped"]}
    assert ("max_file_kb" in listed.get("memory/million.md", "")) is large
    assert "Traceback" not in home.log and "MemoryError" not in home.log
