"""The daemon on a system that has nothing of what only Linux has: a part of the suite, in processes that see none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

FILES = {
    "writing": ("test_put.py", "test_import.py", "unit/test_safe_write.py", "unit/test_system.py"),
    "notes": ("test_notes_written.py",),
    "watching": ("test_watch.py", "test_everyday.py", "test_readers.py", "test_client.py", "unit/test_mirror.py"),
    "names": ("test_moving.py", "test_letter_case.py"),
}
"""What touches the system most, in parts that take about as long, a test process each; `make elsewhere` runs all."""


@pytest.mark.parametrize("part", FILES)
def test_memd_works_without_what_only_linux_has(part: str) -> None:
    hidden = {**os.environ, "PYTHONPATH": str(ROOT / "tests/elsewhere")}
    files = [str(ROOT / "tests" / name) for name in FILES[part]]
    command = [sys.executable, "-m", "pytest", "-m", "not linux", "-p", "no:xdist", *files]
    done = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]


def test_nothing_of_it_is_seen() -> None:
    looks = """
import os, socket
from memd.daemon.process.system import memory_of
from memd.daemon.watching.inotify import MISSING
from watchdog.observers import Observer
print(os.path.exists("/proc/self/fd"), memory_of(1), MISSING, Observer.__name__)
print(hasattr(os, "memfd_create"), hasattr(socket, "SO_PEERCRED"))
"""
    hidden = {**os.environ, "PYTHONPATH": str(ROOT / "tests/elsewhere")}
    done = subprocess.run(
        [sys.executable, "-c", looks], cwd=ROOT, env=hidden, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "0.0", "True", "PollingObserver", "False", "False"]
