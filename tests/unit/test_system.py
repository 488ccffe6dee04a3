"""Where a system lacks what Linux has: each way around it, forced here. None of it was run on a Mac."""

from __future__ import annotations

import errno
import os
import plistlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from memd import processes
from memd.cli.commands import service
from memd.config import paths
from memd.config.schema import WatchSettings
from memd.daemon.process import system
from memd.daemon.watching import watcher
from memd.daemon.watching.watcher import Watcher
from memd.errors import MemdError
from memd.indexer.store import mirror
from memd.indexer.store.own_stores import OwnStores
from memd.models import Workspace
from memd.protocol import connection, start
from tests.conftest import PATIENCE
from tests.hash_embedder import HashEmbedder
from tests.lab import Lab


def test_the_user_at_the_other_end_is_known_by_either_way():
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert connection.peer_uid(one) == os.getuid()
    assert connection.uid_of_xucred(struct.pack("=2I", 0, 501) + bytes(68)) == 501
    with pytest.raises(OSError, match="unknown version 7"):
        connection.uid_of_xucred(struct.pack("=2I", 7, 501))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_a_thread_of_a_daemon_that_gives_way_already_stays_so():
    """A user who starts memd by `nice -n 15` may not give it more again: its threads died of asking for that."""

    def priority() -> int:
        own = os.PRIO_PROCESS, threading.get_native_id()
        os.setpriority(*own, 15)
        system.give_way()
        return os.getpriority(*own)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(priority).result() == 15


def test_memory_is_told_without_proc(monkeypatch, tmp_path):
    assert system.memory_mb() > 1
    monkeypatch.setattr(system, "PROC", tmp_path)
    assert system.memory_mb() > 1


def test_vectors_are_shared_by_a_file_where_there_are_none_in_memory(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    own = mirror.Mirror(2)
    own.add([7], np.array([[0.6, 0.8]], np.float32))
    path = own.place.path
    assert path.is_file() and not str(path).startswith("/proc")
    seen = mirror.Mirror.attach(own.place, 2)
    assert len(seen) == 1 and seen.take([7]).tolist() == own.take([7]).tolist()
    del seen, own
    assert not path.exists()


def test_a_start_removes_the_file_of_vectors_that_a_killed_daemon_left(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    lab = Lab(tmp_path, HashEmbedder())
    left = lab.add({"MEMORY.md": "ErsatzTV plays on the old box.\n"}).mirror.place.path
    assert left.is_relative_to(tmp_path)
    lab.close()
    # A kill runs no finalizer: the file stays.
    left.write_bytes(b"vectors")
    OwnStores(tmp_path / "state").close()
    assert not left.exists()


def test_a_process_is_known_by_ps_where_there_is_no_proc(monkeypatch, tmp_path):
    with_proc = processes.command_line_of(os.getpid())
    monkeypatch.setattr(processes, "PROC", tmp_path / "none")
    assert b"python" in processes.command_line_of(os.getpid()) and b"python" in with_proc
    assert processes.command_line_of(2**22 + 1) == b""


def test_the_work_of_a_process_is_told_by_ps_where_there_is_no_proc(monkeypatch, tmp_path):
    """Else one that works for longer than one that hangs is waited for would be ended."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    while processes.work_of(busy.pid)[0] < 2.0:
        time.sleep(0.1)
    os.kill(busy.pid, signal.SIGSTOP)
    while (told := processes.work_of(busy.pid))[1] != "T":
        time.sleep(0.1)
    monkeypatch.setattr(processes, "PROC", tmp_path / "none")
    # ps tells whole seconds here, and hundredths on macOS.
    assert processes.work_of(busy.pid) == (int(told[0]), "T")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert processes.work_of(busy.pid) == (0.0, ""), "without ps"
    monkeypatch.undo()
    busy.kill()
    busy.wait()
    assert processes.work_of(busy.pid) == (0.0, "")


def test_a_daemon_that_works_is_waited_for_and_one_that_hangs_is_not(monkeypatch, tmp_path, capsys):
    """Whether it works is told by its processor time, so any process will do."""
    # Where ps tells it in whole seconds, one must have been worked in this time on a busy machine too.
    monkeypatch.setattr(start, "STOP_SECONDS", 8.0)
    ended, said = tmp_path / "ended", ""
    busy = subprocess.Popen([sys.executable, "-c", f"import os\nwhile not os.path.exists({str(ended)!r}): pass"])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(start._wait_for_exit, busy.pid)
        while not (said or waiting.done()):
            time.sleep(0.02)
            said = capsys.readouterr().err
        ended.touch()
        waiting.result(PATIENCE)
    assert f"waiting for the daemon (pid {busy.pid}), which is still at work" in said and busy.wait() == 0
    hanging = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    os.kill(hanging.pid, signal.SIGSTOP)
    with pytest.raises(MemdError, match="does not stop"):
        start._wait_for_exit(hanging.pid)
    hanging.kill()
    hanging.communicate()


def test_without_inotify_the_systems_own_observer_says_when_to_look(monkeypatch, tmp_path):
    def none() -> None:
        raise OSError(errno.ENOSYS, "this system has no inotify")

    monkeypatch.setattr(watcher, "Inotify", none)
    looked: list[tuple[str, ...]] = []
    seen = threading.Event()

    def rescan(names: tuple[str, ...]) -> None:
        looked.append(names)
        if (tmp_path / "memory/new.md").exists():
            seen.set()

    (tmp_path / "memory").mkdir()
    watching = Watcher(WatchSettings(poll_seconds=3_600), lambda changed: None, rescan)
    watching.start()
    try:
        watching.add(Workspace("agent", tmp_path))
        assert watching.mode("agent")[0] == "poll" and "own observer" in watching.mode("agent")[1]
        (tmp_path / "memory/new.md").write_text("## New\n\nIt is.\n")
        assert seen.wait(PATIENCE), looked
        watching.remove("agent")
    finally:
        watching.stop()


def test_launchd_is_given_the_daemon_where_there_is_no_systemd(monkeypatch, tmp_path):
    """By a `launchctl` that writes down what it was asked: there is no other here."""
    home, tools = tmp_path / "home", tmp_path / "bin"
    home.mkdir(), tools.mkdir()
    (tools / "launchctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (tools / "launchctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MEMD_HOME", str(home / "memd"))
    paths.private_dir(paths.state_dir())
    assert service.launchd_in_charge() and not service.take_down()
    told = service.set_up(now=True, linger=False, web=False, serve=False)
    written = plistlib.loads(Path(told["plist"]).read_bytes())
    assert written["ProgramArguments"] == start.command_of(start.DAEMON) and written["RunAtLoad"] is True
    assert service.take_down() and not service.plist_file().exists()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [
        f"bootstrap gui/{os.getuid()} {told['plist']}",
        f"bootout gui/{os.getuid()}/{service.LAUNCHD_LABEL}",
    ]
