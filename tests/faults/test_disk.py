"""A full disk and failing writes: the notes stay as they are, memd says so, and heals without a restart."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memd.errors import DiskFull, MemdError
from tests.conftest import NOTES, Home
from tests.faults.agreement import assert_agreement, eventually, rounds, serve, shown

SIZE_MB = 16


@pytest.fixture
def cramped(home: Home) -> Iterator[Path]:
    """The state directory on a file system of its own, of a few megabytes."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    home.state.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=700", "memd-test", str(home.state)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted: {done.stderr.strip()}")
    try:
        yield home.state
    finally:
        home.close()
        subprocess.run(["umount", "-l", str(home.state)], check=True)


def fill(state: Path) -> Path:
    """Take all the room there is."""
    filler = state / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65_536, 4_096, 512, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    return filler


def test_a_full_disk_is_told_and_heals_by_itself(home: Home, workspace: Path, cramped: Path) -> None:
    client = serve(home, workspace)
    client.sync(vectors=True)
    for nth in range(rounds(1, 10)):
        filler = fill(cramped)
        text = f"# Full {nth}\n\n" + "\n\n".join(f"## Part {n}\n\nthe crowded smew{nth} {n}\n" * 20 for n in range(30))
        note = workspace / "memory" / f"full-{nth}.md"
        note.write_text(text)
        try:
            assert client.sync()["degraded"] == ["disk"]
        except DiskFull as error:
            assert error.code == "disk_full" and error.retryable and error.hint
        assert eventually(lambda: "disk" in client.status()["degraded"])
        assert "room" in client.status()["degraded_details"][0]["fix"]
        assert "ErsatzTV" in shown(client, "ErsatzTV", sync="none"), "what was known is still answered"
        assert note.read_text() == text
        for path, before in NOTES.items():
            assert (workspace / path).read_text() == before
        filler.unlink()
        # Nobody asks for anything: it heals by itself.
        eventually(lambda: client.status()["degraded"] == [], 30)
        eventually(lambda nth=nth: f"smew{nth}" in shown(client, f"smew{nth}", sync="none"), 30)
        client.sync(vectors=True)
        assert_agreement(home, workspace)
        note.unlink()
        client.sync(vectors=True)


def test_a_disk_that_is_full_at_the_start(home: Home, workspace: Path, cramped: Path) -> None:
    serve(home, workspace).sync(vectors=True)
    home.stop()
    filler = fill(cramped)
    (workspace / "MEMORY.md").write_text("".join(f"## New {n}\n\nthe cramped goosander {n}\n" for n in range(200)))
    try:
        client = home.start()
    except AssertionError:
        # Refusing is right as well, as long as it says why.
        assert home.daemon is not None and home.daemon.returncode == 6
        assert "room" in home.log and "Traceback" not in home.log, home.log
        filler.unlink()
        client = home.start()
    else:
        eventually(lambda: "disk" in client.status()["degraded"])
        filler.unlink()
    eventually(lambda: "goosander" in shown(client, "goosander", sync="none"), 30)
    eventually(lambda: client.status()["degraded"] == [], 30)
    client.sync(vectors=True)
    assert_agreement(home, workspace)


@pytest.mark.parametrize("call", ["pwrite64", "write", "fsync,fdatasync", "ftruncate", "openat"])
def test_a_call_that_fails_leaves_the_old_state_or_the_new(home: Home, workspace: Path, call: str) -> None:
    """EIO at the n-th call of each thread, by strace; then a start without it."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if call != "pwrite64" and rounds(0, 1) == 0:
        pytest.skip("only in a soak")
    serve(home, workspace).sync(vectors=True)
    home.stop()
    for nth in [4] if rounds(0, 1) == 0 else [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]:
        (workspace / "MEMORY.md").write_text(f"## Only\n\nthe failing scaup{nth}\n")
        (workspace / "memory" / f"new-{nth}.md").write_text(f"## New\n\nanother eider{nth}\n")
        kept = {note: note.read_bytes() for note in workspace.rglob("*.md")}
        _run_with_failures(home, call, nth)
        assert {note: note.read_bytes() for note in workspace.rglob("*.md")} == kept
        client = home.start()
        client.sync(vectors=True)
        assert f"scaup{nth}" in shown(client, f"scaup{nth}")
        assert_agreement(home, workspace)
        home.stop()


def _run_with_failures(home: Home, call: str, nth: int) -> None:
    """Let a daemon with failing calls get as far as it gets."""
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error=EIO:when={nth}",
    ]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if "ptrace" in tried.stderr or "not permitted" in tried.stderr:
        pytest.skip(f"strace may not be used here: {tried.stderr.strip()}")
    with (home.path / "daemon.stderr").open("ab") as stderr:
        home.daemon = subprocess.Popen(
            [*command, sys.executable, "-m", "memd.daemon"], env=home.env, stderr=stderr, stdin=subprocess.DEVNULL
        )
    with contextlib.suppress(AssertionError, MemdError):
        home.wait(20).sync()
    home.close()
