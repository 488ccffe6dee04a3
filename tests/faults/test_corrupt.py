"""Damaged store files: caches are put aside and made again, a damaged ledger is refused and mended by the doctor."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memd.protocol.client import Client
from tests.conftest import NOTES, Home, write_notes
from tests.faults.agreement import SOAK, assert_agreement, eventually, serve, shown, wait_for_collections

LOADED = True

FILES = 11
MANY, FEW = 100, 5
"""Sections in each file. With more than 1,000 chunks Chroma writes its graph, with its levels, to the disk."""


@pytest.fixture(scope="module")
def large() -> Iterator[Path]:
    yield from _made(MANY)


@pytest.fixture(scope="module")
def small() -> Iterator[Path]:
    yield from _made(FEW)


def _made(sections: int) -> Iterator[Path]:
    """A home whose stores were made by a daemon that stopped cleanly."""
    with tempfile.TemporaryDirectory(prefix="memd-sound-") as place:
        home = Home(Path(place) / "h")
        home.collections = True
        serve(home, _notes(Path(place) / "agent", sections)).sync(vectors=True)
        wait_for_collections(home)
        assert home.stop() == 0
        yield Path(place)


def _notes(root: Path, sections: int) -> Path:
    write_notes(root, NOTES)
    for nth in range(FILES):
        parts = (f"## Part {part}\n\nrecord {nth} {part} of the wren{part}.\n" for part in range(sections))
        (root / "memory" / f"bulk-{nth}.md").write_text("# Bulk\n\n" + "\n".join(parts))
    return root


def copy_of(home: Home, sound: Path) -> Path:
    """The same home for one test; answers the workspace."""
    shutil.copytree(sound / "h" / "state", home.state)
    home.state.chmod(0o700)
    workspace = home.path.parent / "agent"
    shutil.copytree(sound / "agent", workspace)
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    return workspace


@pytest.fixture
def mine(home: Home, small: Path) -> Path:
    return copy_of(home, small)


@pytest.fixture
def mine_large(home: Home, large: Path) -> Path:
    return copy_of(home, large)


# --- the damages --------------------------------------------------------------------------------------------


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(0, len(data), max(1, len(data) // 50)):
        data[at] ^= 0xFF
    file.write_bytes(data)


def delete(file: Path) -> None:
    file.unlink()


DAMAGES: tuple[Callable[[Path], None], ...] = (truncate, zero, flip, delete)


def cases(patterns: tuple[str, ...]) -> list[tuple[str, Callable[[Path], None]]]:
    """Each file with each damage in a soak; each file with one of them by default."""
    every = [(pattern, damage) for pattern in patterns for damage in DAMAGES]
    return every if SOAK else [(pattern, DAMAGES[nth % 4]) for nth, pattern in enumerate(patterns)]


def damage_all(state: Path, pattern: str, damage: Callable[[Path], None]) -> None:
    files = [file for file in state.glob(pattern) if file.is_file()]
    assert files, f"no file is called {pattern}"
    for file in files:
        damage(file)


def wrens(client: Client) -> int:
    """How many of the notes about the third wren are found: there is one in each file."""
    return shown(client, "wren3").count("of the wren3.")


# --- the text index -----------------------------------------------------------------------------------------

TEXT = ("text/*/*.toc", "text/*/*.trm", "text/*/*.pst", "text/*/*_stored.col", "text/*/*_body_len.col",
        "text/*/format.json")  # fmt: skip


@pytest.mark.parametrize(("pattern", "damage"), cases(TEXT))
def test_a_damaged_text_index_is_made_again(
    home: Home, mine: Path, pattern: str, damage: Callable[[Path], None]
) -> None:
    damage_all(home.state, pattern, damage)
    client = home.start()
    assert "ErsatzTV" in shown(client, "ErsatzTV")
    assert wrens(client) == FILES
    (mine / "MEMORY.md").write_text("## New\n\nthe mended goshawk\n")
    client.sync()
    assert "goshawk" in shown(client, "goshawk")
    assert client.status()["embedded"] <= 1
    assert_agreement(home, mine, vectors=False)


# --- Chroma -------------------------------------------------------------------------------------------------

CHROMA = ("chroma/*/link_lists.bin", "chroma/*/header.bin", "chroma/chroma.sqlite3", "chroma/*/data_level0.bin",
          "chroma/*/length.bin", "chroma/*/index_metadata.pickle", "chroma/format.json")  # fmt: skip
FEW_OF_CHROMA = [("chroma/*/link_lists.bin", zero), ("chroma/*/header.bin", truncate),
                 ("chroma/chroma.sqlite3", flip), ("chroma/*/data_level0.bin", delete)]  # fmt: skip


def _vectors_work(home: Home, workspace: Path, put_aside: bool = True) -> None:
    """Text and vectors are answered at once, whatever Chroma does in its own process; then it is made again."""
    client = home.start()
    assert "ErsatzTV" in shown(client, "ErsatzTV")
    client.sync(vectors=True)
    assert "apple trees" in shown(client, "Planted two apple trees behind the shed", mode="vector")
    assert_agreement(home, workspace)
    status = client.status()
    assert status["embedded"] == 0, "the vectors came from the ledger, not from the model"
    assert status["degraded"] == [], status["degraded_details"]
    assert home.daemon is not None and home.daemon.poll() is None
    assert bool(list(home.state.glob("quarantine/chroma.*"))) == put_aside


@pytest.mark.parametrize(("pattern", "damage"), cases(CHROMA) if SOAK else FEW_OF_CHROMA)
def test_a_damaged_chroma_is_made_again_from_the_ledger(
    home: Home, mine_large: Path, pattern: str, damage: Callable[[Path], None]
) -> None:
    if not list(home.state.glob(pattern)):
        pytest.skip(f"this Chroma writes no {pattern}")
    damage_all(home.state, pattern, damage)
    # Without its format it is a folder of another memd, which is not kept.
    _vectors_work(home, mine_large, put_aside=pattern != "chroma/format.json")


def test_a_chroma_that_crashes_its_process_leaves_the_daemon_alone(home: Home, mine_large: Path) -> None:
    """Without its seal, as after a power cut, the damage is met only when Chroma opens the files."""
    damage_all(home.state, "chroma/*/link_lists.bin", zero)
    (home.state / "chroma" / "seal.json").unlink()
    _vectors_work(home, mine_large)


def test_chroma_files_that_go_while_it_runs(home: Home, mine: Path) -> None:
    client = home.start()
    client.sync(vectors=True)
    shutil.rmtree(home.state / "chroma")
    (mine / "MEMORY.md").write_text("## New\n\nthe sudden merlin\n")
    client.sync()
    assert "merlin" in shown(client, "merlin", mode="hybrid"), "text answers, whatever Chroma does"
    home.kill()
    client = home.start()
    client.sync(vectors=True)
    assert "apple trees" in shown(client, "Planted two apple trees behind the shed", mode="vector")
    assert_agreement(home, mine)


# --- the ledger ---------------------------------------------------------------------------------------------


def doctor(home: Home, *flags: str) -> tuple[int, dict[str, str], str]:
    """What the doctor says without a daemon: exit code, states by name, everything it said."""
    done = subprocess.run(
        [sys.executable, "-m", "memd.daemon", "--doctor", *flags], env=home.env, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    states: dict[str, str] = {}
    for finding in json.loads(done.stdout)["findings"]:
        states.setdefault(finding["name"], finding["state"])
    return done.returncode, states, done.stdout


def refused(home: Home) -> str:
    """Start a daemon that must not run; answers what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "memd.daemon"], env=home.env, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 6, done
    return done.stderr


@pytest.mark.parametrize("damage", [truncate, zero, flip])
def test_a_damaged_ledger_is_refused(home: Home, mine: Path, damage: Callable[[Path], None]) -> None:
    damage_all(home.state, "state.db", damage)
    said = refused(home)
    assert "state.db" in said and "memd doctor --fix" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("damage", [truncate, zero, flip] if SOAK else [zero])
def test_a_damaged_ledger_is_mended_by_the_doctor(home: Home, mine: Path, damage: Callable[[Path], None]) -> None:
    damage_all(home.state, "state.db", damage)
    code, states, _ = doctor(home)
    assert code == 6 and states["state.db"] == "broken"
    code, states, _ = doctor(home, "--fix")
    assert code == 0 and states["state.db"] == "mended"
    client = home.start()
    client.sync(vectors=True)
    assert "ErsatzTV" in shown(client, "ErsatzTV")
    assert_agreement(home, mine)


def test_a_damaged_ledger_is_replaced_by_its_backup(home: Home, mine: Path) -> None:
    backup = home.state / "backups"
    backup.mkdir()
    shutil.copy(home.state / "state.db", backup / "state-2026-01-01.db")
    zero(home.state / "state.db")
    assert "state-2026-01-01.db" in refused(home), "the newest backup is named"
    code, _, said = doctor(home, "--fix")
    assert code == 0 and "state-2026-01-01.db" in said
    client = home.start()
    client.sync(vectors=True)
    assert client.status()["embedded"] == 0, "what it knew is known again"
    assert_agreement(home, mine)


def test_the_caches_of_a_lost_ledger_are_not_believed(home: Home, mine: Path) -> None:
    """A new ledger counts from one again: what the caches have under those numbers are other texts."""
    delete(home.state / "state.db")
    for note in (mine / "memory").glob("bulk-*.md"):
        note.unlink()
    (mine / "memory" / "2026-02-14.md").write_text("# Day\n\n## First\n\nthe first hoopoe\n")
    client = home.start()
    client.sync(vectors=True)
    assert_agreement(home, mine)
    assert "hoopoe" in shown(client, "the first hoopoe", mode="vector").splitlines()[0] + shown(client, "hoopoe")


# --- the doctor ---------------------------------------------------------------------------------------------


def test_the_doctor_names_and_mends(home: Home, mine: Path) -> None:
    damage_all(home.state, "text/*/*.trm", truncate)
    damage_all(home.state, "chroma/chroma.sqlite3", zero)
    damaged = sorted(file.name for file in home.state.glob("text/*/*"))
    code, states, said = doctor(home)
    assert sorted(file.name for file in home.state.glob("text/*/*")) == damaged, "looking changes nothing"
    assert code == 6 and states["agent: text index"] == states["chroma"] == "broken", said
    assert "doctor --fix" in said
    code, states, said = doctor(home, "--fix")
    assert code == 0 and states["agent: text index"] == states["chroma"] == "mended", said
    client = home.start()
    client.sync(vectors=True)
    assert client.doctor()["ok"] and client.status()["embedded"] == 0
    assert_agreement(home, mine)


def test_the_doctor_finds_caches_that_differ_from_the_ledger(home: Home, mine: Path) -> None:
    import sqlite3

    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.execute("PRAGMA foreign_keys = ON")
        ledger.execute("DELETE FROM chunks WHERE id % 2 = 0")
    code, states, said = doctor(home)
    assert code == 6 and states["agent: text index"] == states["agent: vectors"] == "broken", said
    code, states, _ = doctor(home, "--fix")
    assert code == 0 and states["agent: text index"] == states["agent: vectors"] == "mended"
    client = home.start()
    assert client.doctor()["ok"]


def test_a_running_daemon_mends_its_text_index(home: Home, mine: Path) -> None:
    client = home.start()
    client.sync()
    damage_all(home.state, "text/*/*.pst", zero)
    damage_all(home.state, "text/*/*.trm", zero)
    client.doctor(fix=True)
    eventually(lambda: wrens(client) == FILES)
    assert_agreement(home, mine, vectors=False)
