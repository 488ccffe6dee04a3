"""The daemon's life: one at a time, in a safe place, stopped in time, and at ease with what an older one left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from memd.daemon.process.lock import Lock
from memd.errors import AlreadyRunning, MemdError
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home
from tests.faults.agreement import (
    SOAK,
    assert_agreement,
    children,
    eventually,
    rounds,
    serve,
    shown,
    wait_for_collections,
)
from tests.forge import OWN_CHILDREN


def run_daemon(home: Home, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A daemon that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "memd.daemon", *arguments], env={**home.env, **env}, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip


# --- one at a time ------------------------------------------------------------------------------------------


def test_of_ten_that_start_at_once_one_runs(home: Home, workspace: Path) -> None:
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    for _ in range(rounds(1, 10)):
        command = [sys.executable, "-m", "memd.daemon"]
        started = [
            subprocess.Popen(command, env=home.env, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
            for _ in range(10)
        ]
        eventually(lambda started=started: sum(one.poll() is not None for one in started) == 9)
        (runs,) = [one for one in started if one.poll() is None]
        for other in started:
            if other is not runs:
                assert other.stderr is not None
                said = other.stderr.read()
                assert other.returncode == 5 and f"pid {runs.pid}" in said, said
        assert home.wait().status()["pid"] == runs.pid
        runs.kill()
        runs.communicate()


def test_who_comes_second_names_the_first_and_not_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "memd.lock"
    path.write_text(json.dumps({"pid": 2**22 + 1, "version": "0.1.0"}))
    with path.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        late = threading.Timer(0.2, path.write_text, [json.dumps({"pid": os.getpid(), "version": "0.1.0"})])
        late.start()
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()},"):
            Lock(path)
        late.join()


@pytest.mark.parametrize("what", ["the socket", "its folder"])
def test_a_socket_that_is_removed_while_memd_runs_is_there_again(home: Home, workspace: Path, what: str) -> None:
    with home.start() as before:
        before.workspace_add(str(workspace))
        home.socket.unlink()
        if what == "its folder":
            home.socket.parent.rmdir()
        eventually(home.socket.exists)
        with home.wait() as after:
            assert after.status()["pid"] == before.status()["pid"]
        assert home.socket.stat().st_mode & 0o777 == 0o600 and home.socket.parent.stat().st_mode & 0o777 == 0o700
    assert home.stop() == 0 and not home.socket.exists()


def test_a_stale_socket_is_replaced(home: Home, workspace: Path) -> None:
    serve(home, workspace).sync()
    home.kill()
    assert home.socket.exists()
    assert "ErsatzTV" in shown(home.start(), "ErsatzTV")
    home.kill()
    home.socket.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(home.socket))
    listener.close()
    client = home.start()
    assert client.ping()["pong"]
    assert home.socket.stat().st_mode & 0o777 == 0o600
    assert home.stop() == 0
    assert not home.socket.exists()


def test_a_running_daemon_is_not_disturbed_by_a_second(home: Home, workspace: Path) -> None:
    client = serve(home, workspace)
    second = run_daemon(home)
    assert second.returncode == 5 and f"pid {home.daemon.pid if home.daemon else 0}" in second.stderr
    assert client.ping()["pong"] and home.socket.exists()
    checked = run_daemon(home, "--doctor", "--fix")
    assert checked.returncode == 5, "the doctor keeps off stores that are in use"


# --- a safe place -------------------------------------------------------------------------------------------


def _refused(home: Home, *words: str) -> None:
    done = run_daemon(home)
    assert done.returncode == 5, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["run", "state"])
def test_a_place_that_others_can_use_is_refused(home: Home, place: str) -> None:
    folder = home.path / place
    folder.mkdir()
    folder.chmod(0o777)
    _refused(home, f"chmod 700 {folder}")
    folder.chmod(0o700)
    home.start()


@pytest.mark.parametrize("place", ["run", "state"])
def test_a_place_that_is_a_link_is_refused(home: Home, place: str) -> None:
    (home.path / "elsewhere").mkdir(mode=0o700)
    (home.path / place).symlink_to(home.path / "elsewhere")
    _refused(home, "symbolic link", f"rm {home.path / place}")


@pytest.mark.parametrize("place", ["run", "state", "state/start.log"])
def test_a_place_of_another_owner_is_refused(home: Home, place: str) -> None:
    """A backup that is copied back with sudo belongs to root."""
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    folder = home.path / place
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.touch() if folder.suffix else folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    _refused(home, "uid 65534", "take it over: sudo chown -R 0" if folder.suffix else "run memd as that user")
    assert "belongs to uid 65534" in home.run("doctor").stdout


def test_a_socket_path_that_is_too_long_is_refused(home: Home) -> None:
    deep = home.path / ("x" * 100)
    home.env["MEMD_HOME"] = str(deep)
    _refused(home, "107", "MEMD_HOME")


# --- what it is told ----------------------------------------------------------------------------------------


def test_all_problems_of_a_config_are_told_at_once(home: Home) -> None:
    home.configure('[watch]\nsettle_ms = "soon"\nmodee = "poll"\n[wach]\n[embedding]\nprovider = "lokal"\n')
    done = run_daemon(home)
    assert done.returncode == 2
    for told in (":2: `watch.settle_ms`", "did you mean `mode`", "did you mean `watch`", "did you mean `local`"):
        assert told in done.stderr, done.stderr
    checked = run_daemon(home, "--doctor")
    assert checked.returncode == 6 and "watch.settle_ms" in checked.stdout


# --- stopping -----------------------------------------------------------------------------------------------


def _text(nth: int) -> str:
    lines = (f"## Part {part}\n\n" + f"many words{part} of note{nth} about the harrier. " * 8 for part in range(15))
    return "# Note\n\n" + "\n\n".join(lines)


def test_a_stop_in_the_middle_of_an_import(home: Home, workspace: Path) -> None:
    """It does not wait for its end; the next start goes on where this one was."""
    home.from_nothing = SOAK
    for nth in range(rounds(700, 3_000)):
        (workspace / "memory" / f"note-{nth}.md").write_text(_text(nth))
    serve(home, workspace)
    eventually(lambda: "indexed ns=agent" in home.log, 60, every=0.005)
    _stopped_while(home, "an import")
    with sqlite3.connect(home.state / "state.db") as ledger:
        done = {row[0] for row in ledger.execute("SELECT id FROM files")}
        first = {row[0] for row in ledger.execute("SELECT id FROM chunks")}
    assert done and len(done) < len(list(workspace.rglob("*.md"))), "it was in the middle"
    client = home.start()
    client.sync()
    assert_agreement(home, workspace, vectors=False)
    with sqlite3.connect(home.state / "state.db") as ledger:
        assert first <= {row[0] for row in ledger.execute("SELECT id FROM chunks")}, "what was done is not done again"
    _, _, log = home.log.rpartition("ready version")
    parsed = sum(map(int, re.findall(r"indexed ns=agent files=(\d+)", log)))
    assert parsed == len(list(workspace.rglob("*.md"))) - len(done), "and not read again either"


def _stopped_while(home: Home, busy: str) -> None:
    """Stop it; it must have ended in one of its two ways."""
    assert home.stop() == 0, busy
    _ended_well(home, busy)


def _ended_well(home: Home, busy: str) -> None:
    last = home.log.strip().splitlines()[-1]
    assert last.endswith(("stopped", "is cut short; nothing is lost")), f"{busy}: {last}"


def test_it_stops_whatever_it_is_doing(home: Home, workspace: Path) -> None:
    """While it starts, imports equal sections, rebuilds, reflects, and while every child of it hangs."""
    home.configure(f'[daemon]\nreaders = 1\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    (workspace / "memory" / "beat.md").write_text("## Heartbeat\n\nHEARTBEAT_OK\n\n" * rounds(2_000, 10_000))
    with (home.path / "daemon.stderr").open("ab") as stderr:
        command = [sys.executable, "-m", "memd.daemon"]
        home.daemon = subprocess.Popen(command, env=home.env, stderr=stderr, stdin=subprocess.DEVNULL)
    eventually(home.socket.exists, every=0.005)
    _stopped_while(home, "starting")
    home.from_nothing = SOAK
    home.env[OWN_CHILDREN] = "1"
    client = home.start()
    eventually(lambda: client.status()["pending"])
    _stopped_while(home, "importing equal sections")
    client = home.start()
    client.sync(vectors=True)
    for work in ("rebuild", "reflect"):
        threading.Thread(target=_ask_in_vain, args=(home, work), daemon=True).start()
        client.ping()
        _stopped_while(home, work)
        client = home.start()
    for _ in range(12):
        client.query("the router", mode="text")
    assert home.daemon is not None
    daemon = home.daemon.pid
    for child in eventually(lambda: children(daemon)):
        os.kill(child, signal.SIGSTOP)
    (workspace / "MEMORY.md").write_text("## New\n\nthe patient wheatear\n")
    threading.Thread(target=_ask_in_vain, args=(home, "query"), daemon=True).start()
    client.ping()
    _stopped_while(home, "with children that hang")
    client = home.start()
    assert "wheatear" in shown(client, "wheatear", sync="full")


def _ask_in_vain(home: Home, method: str) -> None:
    """A call whose answer may not come any more."""
    with contextlib.suppress(MemdError), Client(home.socket) as client:
        getattr(client, method)(*(["the hanging wheatear"] if method == "query" else []))


def test_it_stops_while_clients_are_connected(home: Home, workspace: Path) -> None:
    client = serve(home, workspace)
    client.shutdown()
    assert home.daemon is not None and home.daemon.wait(PATIENCE) == 0
    _ended_well(home, "with a client")
    assert "Traceback" not in home.log and "ERROR" not in home.log, home.log


def test_a_stop_waits_for_no_thread_of_a_library(home: Home, workspace: Path) -> None:
    """Nor does it take the ground from under one: an extension that is at work while Python ends may crash."""
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    program = (
        "import sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(3600,)).start()\n"
        "from memd.daemon.__main__ import main\n"
        "sys.exit(main([]))\n"
    )
    with (home.path / "daemon.stderr").open("ab") as stderr:
        home.daemon = subprocess.Popen([sys.executable, "-c", program], env=home.env, stderr=stderr)
    home.wait()
    assert home.stop() == 0
    _, _, after = home.log.partition("INFO memd: stopped")
    assert not after.strip()


def test_it_goes_on_after_standing_still(home: Home, workspace: Path) -> None:
    home.from_nothing = SOAK
    client = serve(home, workspace)
    assert home.daemon is not None
    for _ in range(rounds(2, 20)):
        home.daemon.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        home.daemon.send_signal(signal.SIGCONT)
        assert client.ping()["pong"]


# --- other versions -----------------------------------------------------------------------------------------


def test_a_ledger_of_a_newer_memd_is_refused_and_left_alone(home: Home, workspace: Path) -> None:
    serve(home, workspace).sync()
    home.stop()
    shutil.copy(home.state / "state.db", home.state / "state.before-99.db")
    ledger = sqlite3.connect(home.state / "state.db")
    ledger.execute("PRAGMA user_version = 99")
    ledger.close()
    before = (home.state / "state.db").read_bytes()
    done = run_daemon(home)
    assert done.returncode == 6 and "newer memd" in done.stderr
    assert run_daemon(home, "--doctor", "--fix").returncode == 6
    assert (home.state / "state.db").read_bytes() == before
    way_back = f"memd restore-backup {home.state / 'state.before-99.db'}"
    assert way_back in done.stderr
    assert home.run(*way_back.split()[1:]).returncode == 0
    assert "ErsatzTV" in shown(home.start(), "ErsatzTV")


def test_caches_of_another_format_are_made_again(home: Home, workspace: Path) -> None:
    home.from_nothing = SOAK
    serve(home, workspace).sync(vectors=True)
    wait_for_collections(home)
    home.stop()
    stamps = [*home.state.glob("text/*/format.json"), home.state / "chroma" / "format.json"]
    assert len(stamps) == 2
    for stamp in stamps:
        stamp.write_text(json.dumps({"format": 0}))
    client = home.start()
    client.sync(vectors=True)
    assert "ErsatzTV" in shown(client, "ErsatzTV")
    assert client.status()["embedded"] == 0
    assert [json.loads(stamp.read_text())["format"] for stamp in stamps] != [0, 0]
    assert_agreement(home, workspace)


def test_while_a_large_text_index_is_filled_again_answers_say_so(home: Home, workspace: Path) -> None:
    """It is filled newest first: of the notes that have a word, the oldest is missing longest."""
    home.from_nothing = SOAK
    client = serve(home, workspace)
    client.sync()
    parts = (f"## Part {nth}\n\nanother apple, number {nth}\n\n" for nth in range(6_000))
    (workspace / "memory" / "many.md").write_text("".join(parts))
    client.sync()
    home.stop()
    (stamp,) = home.state.glob("text/*/format.json")
    for segment in stamp.parent.glob("*.trm"):
        segment.unlink()
    stamp.write_text(json.dumps({"format": 0}))
    client = home.start()
    threading.Thread(target=_ask_in_vain, args=(home, "query"), daemon=True).start()
    eventually(lambda: list(stamp.parent.glob("*.trm")), every=0.005)
    answers: list[dict[str, Any]] = []
    while not answers or "behind the shed" not in str(answers[-1]["hits"]):
        answers.append(dict(client.query("apple trees", mode="text")))
    assert all("text" in answer["degraded"] for answer in answers[:-1])
    eventually(lambda: client.status()["degraded"] == [])


# --- the model ----------------------------------------------------------------------------------------------


def test_without_a_model_it_is_a_text_search(home: Home, workspace: Path) -> None:
    home.from_nothing = SOAK
    serve(home, workspace).sync(vectors=True)
    home.stop()
    client = home.start(MEMD_EMBEDDING__PROVIDER="none")
    (workspace / "MEMORY.md").write_text("## New\n\nthe modelless smew\n")
    client.sync(vectors=True)
    assert "smew" in shown(client, "smew", mode="hybrid")
    assert client.status()["model"]["state"] == "off" and client.status()["pending"] == 0
    home.stop()
    client = home.start()
    client.sync(vectors=True)
    assert client.status()["embedded"] == 1, "only what is new is embedded"
    assert_agreement(home, workspace)


def test_a_model_that_is_missing_degrades_to_text(home: Home, workspace: Path) -> None:
    home.from_nothing = SOAK
    del home.env["MEMD_TEST_EMBEDDER"]
    empty = home.path / "model"
    empty.mkdir()
    client = serve(home, workspace, f'[embedding]\nmodel = "{empty}"\n')
    client.sync(vectors=True)
    eventually(lambda: client.status()["degraded"] == ["vectors"])
    assert "ErsatzTV" in shown(client, "ErsatzTV", mode="hybrid")
    (workspace / "MEMORY.md").write_text("## New\n\nthe modelless garganey\n")
    client.sync()
    assert "garganey" in shown(client, "garganey", mode="hybrid")
    assert client.status()["degraded_details"][0]["fix"]
    home.stop()
    home.env["MEMD_TEST_EMBEDDER"] = "tests.hash_embedder:HashEmbedder"
    client = serve(home, workspace)
    client.sync(vectors=True)
    assert client.status()["degraded"] == []
    assert_agreement(home, workspace)
