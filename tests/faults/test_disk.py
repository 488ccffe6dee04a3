"""A full disk and failing writes: the notes stay as they are, memd says so, and heals without a restart."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memd.config import paths
from memd.errors import DiskFull, MemdError
from tests.conftest import NOTES, ROOT, Home, write_notes
from tests.faults.agreement import SOAK, assert_agreement, eventually, rounds, serve, shown
from tests.written import expected, opened, sync

LOADED = True


@contextlib.contextmanager
def small_disk(home: Home, place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own, of a few megabytes, for one directory."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "memd-test", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted: {done.stderr.strip()}")
    try:
        yield place
    finally:
        home.close()
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def cramped(home: Home) -> Iterator[Path]:
    """The state directory on a small disk."""
    home.state.mkdir(mode=0o700)
    with small_disk(home, home.state, 16) as place:
        yield place


@pytest.fixture
def cramped_notes(home: Home, workspace: Path) -> Iterator[Path]:
    """The folder of the notes on a small disk."""
    shutil.rmtree(workspace / "memory")
    (workspace / "memory").mkdir()
    with small_disk(home, workspace / "memory", 3) as place:
        write_notes(workspace)
        yield place


def fill(disk: Path) -> Path:
    """Take all the room there is."""
    filler = disk / "filler"
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
            # Chroma lies on the same disk.
            assert set(client.sync()["degraded"]) - {"collections"} == {"disk"}
        except DiskFull as error:
            assert error.code == "disk_full" and error.retryable and error.hint
        assert eventually(lambda: "disk" in client.status()["degraded"])
        assert any("room" in one["fix"] for one in client.status()["degraded_details"] if one["what"] == "disk")
        assert "ErsatzTV" in shown(client, "ErsatzTV", sync="none"), "what was known is still answered"
        assert note.read_text() == text
        for path, before in NOTES.items():
            assert (workspace / path).read_text() == before
        filler.unlink()
        # Nobody asks for anything: it heals by itself.
        eventually(lambda: client.status()["degraded"] == [])
        eventually(lambda nth=nth: f"smew{nth}" in shown(client, f"smew{nth}", sync="none"))
        client.sync(vectors=True)
        assert_agreement(home, workspace)
        note.unlink()
        client.sync(vectors=True)


def test_a_refused_write_is_told_and_questions_are_answered_all_the_same(
    home: Home, workspace: Path, cramped: Path
) -> None:
    client = serve(home, workspace)
    client.sync(vectors=True)
    filler = fill(cramped)
    with pytest.raises(DiskFull):
        client.note(long("garganey"))
    assert "disk" in client.status()["degraded"]
    (workspace / "MEMORY.md").write_text(f"## New\n\n{long('gadwall')}")
    answer = client.query("gadwall", mode="text")
    assert answer["hits"] or (not answer["checked"] and answer["unchecked"])
    assert "ErsatzTV" in shown(client, "ErsatzTV")
    filler.unlink()
    eventually(lambda: client.status()["degraded"] == [])
    eventually(lambda: "gadwall" in shown(client, "gadwall", sync="none"))


def test_a_disk_that_is_full_at_the_start(home: Home, workspace: Path, cramped: Path) -> None:
    home.from_nothing = True
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
    eventually(lambda: "goosander" in shown(client, "goosander", sync="none"))
    eventually(lambda: client.status()["degraded"] == [])
    client.sync(vectors=True)
    assert_agreement(home, workspace)


def long(word: str) -> str:
    """More than fits into what is left of a file's last block."""
    return f"the crowded {word} " * 500


def test_a_full_disk_under_the_notes_loses_nothing_and_heals(home: Home, workspace: Path, cramped_notes: Path) -> None:
    client = serve(home, workspace)
    client.sync()
    for nth in range(rounds(1, 10)):
        filler = fill(cramped_notes)
        before, text = _files(cramped_notes), long(f"smew{nth}")
        for write in (
            partial(client.note, text, now="2026-02-15T10:00"),
            partial(client.note, text, now="2026-04-01T10:00"),
            partial(client.put, "sourdough", text),
            partial(client.put, "new", text),
            partial(client.write, "Long", text, role="edit"),
        ):
            with pytest.raises(DiskFull) as refused:
                write()
            assert refused.value.code == "disk_full" and refused.value.retryable and refused.value.hint
            assert _files(cramped_notes) == before
        assert "ErsatzTV" in shown(client, "ErsatzTV") and f"smew{nth}" not in shown(client, f"smew{nth}")
        filler.unlink()
        client.note(text, now="2026-02-15T10:00")
        client.put("sourdough", text)
        assert f"crowded smew{nth}" in shown(client, f"smew{nth}")
    assert_agreement(home, workspace, vectors=False)
    assert client.status()["degraded"] == []


def test_a_write_of_two_files_that_a_full_disk_stops_is_told_and_restored(
    home: Home, workspace: Path, cramped_notes: Path
) -> None:
    """The first file has its change, and while somebody has the old one open there is no room to write it again."""
    files = [cramped_notes / name for name in ("a.md", "b.md")]
    for file in files:
        file.write_text(f"## {file.stem}\n\n#smew\n\n" + "a line of the crowded smew\n" * 1_500)
    # Nothing but what memd knows of its own writes brings the index in step.
    client = serve(home, workspace, '[watch]\nmode = "poll"\npoll_seconds = 3600\nscan_seconds = 3600\n')
    client.sync()
    before = [file.read_bytes() for file in files]
    filler = fill(cramped_notes)
    os.truncate(filler, filler.stat().st_size - len(before[0]) - 12_288)
    with files[0].open("rb"):
        with pytest.raises(DiskFull) as refused:
            client.tag_rename("smew", "goosander")
        told = f"{refused.value} {refused.value.hint}"
        assert "memory/a.md: changed" in told and "nothing was changed" not in told
        assert files[1].read_bytes() == before[1] and b"#goosander" in files[0].read_bytes()
        eventually(lambda: "half_done:agent" in client.status()["degraded"])
        named = [one for one in client.doctor()["findings"] if one["name"] == "agent: writes"]
        assert len(named) == 1 and "memory/a.md" in named[0]["detail"] and named[0]["state"] == "warn"
        client.sync()
    filler.unlink()
    # Nobody asks for anything: it is restored.
    eventually(lambda: client.status()["degraded"] == [])
    assert [file.read_bytes() for file in files] == before
    assert not [one for one in client.doctor()["findings"] if one["name"] == "agent: writes"]
    (entry,) = [entry for entry in client.log()["entries"] if entry["what"] == "tag.rename"]
    assert entry["state"] == "failed" and not entry["undoable"]
    assert client.tag_rename("smew", "goosander")["paths"] == ["memory/a.md", "memory/b.md"]
    assert all(b"#goosander" in file.read_bytes() for file in files)


def _files(folder: Path) -> dict[str, bytes]:
    """What a person sees there, and what is beside it."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != "filler"}


# --- calls that fail --------------------------------------------------------------------------------------------

FEW_CALLS = ("fsync", "renameat2")
CALLS = (*FEW_CALLS, "write", "pwrite64", "fdatasync", "ftruncate", "unlinkat")
ORDERS = ("put", "append", "remove")
BEFORE = b"# Memory\n\n## Home\n\nthe router is called fjord\n"


def strace(*options: str) -> list[str]:
    """A command that runs another one with some of its calls traced."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    command = ["strace", "-f", "-qq", *options]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if "ptrace" in tried.stderr or "not permitted" in tried.stderr:
        pytest.skip(f"strace may not be used here: {tried.stderr.strip()}")
    return command


def failing(call: str, nth: int) -> list[str]:
    """The same, with EIO at the n-th call of each thread."""
    return strace("-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={nth}")


@pytest.mark.parametrize("what", ORDERS if SOAK else ORDERS[:1])
def test_a_write_whose_call_fails_is_done_or_not(tmp_path: Path, what: str) -> None:
    """EIO at each call of a writing process, one after the other; whoever was told that it is done finds it done."""
    text = "\n## Token\n\nthe failing scaup\n" if what == "append" else "## Token\n\nthe failing scaup"
    order = {"what": what, "paths": ["MEMORY.md"], "text": text}
    after, tried = expected(what, BEFORE, text), 0
    for call in CALLS if SOAK else FEW_CALLS:
        for nth in range(1, 1 + _count(tmp_path / call, call, order)):
            place = tmp_path / f"{call}-{nth}"
            done = _write(place, failing(call, nth), order)
            stores, _ = opened(place / "state", place / "agent")
            stands = paths.bytes_of(place / "agent" / "MEMORY.md")
            assert stands in ((after,) if done.returncode == 0 else (BEFORE, after)), (call, nth, done.stderr)
            assert {file.name for file in (place / "agent").iterdir()} <= {"MEMORY.md"}, (call, nth)
            begun = stores.ledger.reader.execute("SELECT COUNT(*) FROM actions WHERE state = 'begun'").fetchone()[0]
            assert not begun, (call, nth)
            stores.close()
            tried += 1
    print(f"{what}: {tried} calls failed, one at a time")
    assert tried >= 4


def _write(place: Path, command: list[str], order: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Let a process of its own write into a new workspace whose stores are made already."""
    (place / "agent").mkdir(parents=True)
    (place / "agent" / "MEMORY.md").write_bytes(BEFORE)
    stores, index = opened(place / "state", place / "agent")
    sync(stores, index)
    stores.close()
    return subprocess.run(
        [*command, sys.executable, "-m", "tests.written", place / "state", place / "agent", json.dumps(order)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip


def _count(place: Path, call: str, order: dict[str, Any]) -> int:
    """How many such calls a write takes."""
    place.mkdir()
    traced = place / "calls"
    done = _write(place, strace("-o", str(traced), "-e", f"trace={call}"), order)
    assert done.returncode == 0, done.stderr
    return sum(f"{call}(" in line for line in traced.read_text().splitlines())


@pytest.mark.parametrize("call", ["pwrite64", "write", "fsync,fdatasync", "ftruncate", "openat"])
def test_a_call_that_fails_leaves_the_old_state_or_the_new(home: Home, workspace: Path, call: str) -> None:
    """EIO at the n-th call of each thread, by strace; then a start without it."""
    if call != "pwrite64" and not SOAK:
        pytest.skip("only in a soak")
    serve(home, workspace).sync(vectors=True)
    home.stop()
    for nth in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144] if SOAK else [4]:
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
    with (home.path / "daemon.stderr").open("ab") as stderr:
        home.daemon = subprocess.Popen(
            [*failing(call, nth), sys.executable, "-m", "memd.daemon"],
            env=home.env,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
        )
    with contextlib.suppress(AssertionError, MemdError):
        home.wait(20).sync()
    home.close()
