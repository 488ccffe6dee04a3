"""Damaged store files: caches are put aside and made again, a damaged ledger is refused and mended by the doctor."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from memd.errors import LedgerDamaged, MemdError
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
    shutil.copytree(sound / "h" / "state", home.state, ignore=shutil.ignore_patterns("backups"))
    home.state.chmod(0o700)
    workspace = home.path.parent / "agent"
    shutil.copytree(sound / "agent", workspace)
    # None but those that a test makes.
    home.configure(f'[jobs]\nbackup = "off"\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
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
    done = home.run_daemon("--doctor", *flags)
    assert done.stdout, done.stderr
    states: dict[str, str] = {}
    for finding in json.loads(done.stdout)["findings"]:
        states.setdefault(finding["name"], finding["state"])
    return done.returncode, states, done.stdout


def refused(home: Home) -> str:
    """Start a daemon that must not run; answers what it said."""
    done = home.run_daemon()
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


def empty(file: Path) -> None:
    file.write_bytes(b"")


GONE = [(damage, beside) for damage in (delete, empty) for beside in ("backup", "caches", "log")]


@pytest.mark.parametrize(("damage", "beside"), GONE if SOAK else GONE[::2])
def test_a_ledger_that_is_gone_is_no_fresh_start(
    home: Home, mine: Path, damage: Callable[[Path], None], beside: str
) -> None:
    ledger, known = home.state / "state.db", (home.state / "caches-of").read_text()
    if beside == "backup":
        backed_up(home)
    else:
        for file in home.state.iterdir():
            left = ("text", "chroma", "caches-of") if beside == "caches" else ("memd.log",)
            if file.name not in ("state.db", *left):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
    damage(ledger)
    said = refused(home)
    assert "was there before" in said and "memd doctor --fix" in said
    assert ("state-2026-01-01.db" in said) == (beside == "backup")
    done = home.run("query", "ErsatzTV")
    assert done.returncode == 3 and "memd doctor --fix" in done.stderr
    code, states, said = doctor(home)
    assert code == 6 and states["state.db"] == "broken"
    assert not ledger.exists() or not ledger.stat().st_size, "looking changes nothing"
    code, states, said = doctor(home, "--fix")
    assert code == 0 and states["state.db"] == "mended"
    assert ("state-2026-01-01.db" in said) if beside == "backup" else ("could not be brought back" in said)
    client = home.start()
    client.sync(vectors=True)
    assert client.doctor()["ok"] and client.ping()["clock"].split(":")[1] != known
    assert_agreement(home, mine)


def backed_up(home: Home) -> Path:
    (home.state / "backups").mkdir()
    return Path(shutil.copy(home.state / "state.db", home.state / "backups" / "state-2026-01-01.db"))


def test_a_fresh_home_with_the_log_of_a_start_that_failed_is_still_fresh(home: Home, workspace: Path) -> None:
    home.state.mkdir(mode=0o700)
    (home.state / "memd.log").write_text("2026-01-01 ERROR memd: something kept it from starting\n")
    assert "ErsatzTV" in shown(serve(home, workspace), "ErsatzTV")


def test_a_ledger_that_lost_its_number_is_known_by_its_tables(home: Home, mine: Path) -> None:
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        actions = ledger.execute("SELECT COUNT(*) FROM versions").fetchone()
        ledger.execute("PRAGMA user_version = 0")
    client = home.start()
    assert "ErsatzTV" in shown(client, "ErsatzTV") and client.doctor()["ok"]
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        assert ledger.execute("SELECT COUNT(*) FROM versions").fetchone() == actions
    assert not list(home.state.glob("quarantine/*"))


# --- damage that shows later --------------------------------------------------------------------------------


def overwrite_pages(file: Path) -> None:
    """Thirty pages at random with random bytes, but the first two, which every connection reads."""
    chance, data = random.Random(3), bytearray(file.read_bytes())
    for page in chance.sample(range(2, len(data) // PAGE), min(30, len(data) // PAGE // 2)):
        data[page * PAGE : (page + 1) * PAGE] = chance.randbytes(PAGE)
    write_in_place(file, data)


def zero_late_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    begin = len(data) * 2 // 3 // PAGE * PAGE
    data[begin:] = bytes(len(data) - begin)
    write_in_place(file, data)


def flip_bytes(file: Path) -> None:
    chance, data = random.Random(5), bytearray(file.read_bytes())
    for _ in range(200):
        data[chance.randrange(100, len(data))] ^= 0xFF
    write_in_place(file, data)


def lose_tables(file: Path) -> None:
    with closing(sqlite3.connect(file)) as ledger:
        ledger.executescript("PRAGMA foreign_keys = OFF; DROP TABLE memories; DROP TABLE chunks;")


PAGE = 4096
LATER = [overwrite_pages, zero_late_pages, flip_bytes, lose_tables]
EVEN = [(damage, bool(nth % 2)) for nth, damage in enumerate(LATER)]
ODD = [(damage, not backup) for damage, backup in EVEN]
"""Each damage is tried stopped in one of these ways and running in the other; in a soak both ways in both."""


def write_in_place(file: Path, data: bytes) -> None:
    """The same file with other bytes: whoever has it open reads them."""
    with file.open("r+b") as opened:
        opened.write(data)


def assert_mended(home: Home, workspace: Path, client: Client) -> None:
    client.sync(vectors=True)
    assert "ErsatzTV" in shown(client, "ErsatzTV") and wrens(client) == FILES
    assert client.status()["degraded"] == [] and client.doctor()["ok"]
    assert list(home.state.glob("quarantine/state.db.*"))
    assert_agreement(home, workspace)


@pytest.mark.parametrize(("damage", "backup"), [*EVEN, *(ODD if SOAK else [])])
def test_a_stopped_ledger_is_mended_by_one_command_whatever_was_done_to_it(
    home: Home, mine: Path, damage: Callable[[Path], None], backup: bool
) -> None:
    if backup:
        backed_up(home)
    damage(home.state / "state.db")
    code, states, said = doctor(home)
    assert code == 6 and states["state.db"] == "broken", said
    code, states, said = doctor(home, "--fix")
    assert code == 0 and states["state.db"] == "mended", said
    assert ("state-2026-01-01.db" if backup else "brought back") in said
    assert_mended(home, mine, home.start())


@pytest.mark.parametrize(("damage", "backup"), [*ODD, *(EVEN if SOAK else [])])
def test_a_running_daemon_says_what_is_damaged_answers_from_the_files_and_mends_it(
    home: Home, mine: Path, damage: Callable[[Path], None], backup: bool
) -> None:
    client = home.start(MEMD_DAEMON__READERS="0")
    client.sync(vectors=True)
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if backup:
        backed_up(home)
    damage(home.state / "state.db")
    found = client.doctor()
    assert not found["ok"] and [one["name"] for one in found["findings"] if one["state"] == "broken"] == ["state.db"]
    status = client.status()
    (trouble,) = (one for one in status["degraded_details"] if one["what"] == "ledger")
    assert status["degraded"] == ["ledger"] and trouble["fix"].startswith("memd doctor --fix")
    assert "pending   unknown, like the counts above: see degraded" in home.run("status").stdout
    for mode in ("hybrid", "text", "exact"):
        answer = client.query("ErsatzTV", mode=mode)
        assert "ledger" in answer["degraded"] and answer["verdict"] == "found" and "ErsatzTV" in str(answer["hits"])
    assert client.grep("ErsatzTV")["blocks"]
    assert client.query("xylophone")["checked"]
    odd = mine / "memory" / "odd.md"
    odd.write_bytes(bytes(1_000))
    answer = client.query("xylophone")
    assert not answer["checked"] and answer["unchecked"].startswith("memory/odd.md is left out"), answer
    odd.unlink()
    before = {file: file.read_bytes() for file in mine.rglob("*.md")}
    for refused_call in (lambda: client.note("the plover calls"), lambda: client.query("tv", mode="vector")):
        with pytest.raises(LedgerDamaged) as error:
            refused_call()
        assert error.value.hint.startswith("memd doctor --fix")
    assert {file: file.read_bytes() for file in mine.rglob("*.md")} == before
    done = home.run("doctor", "--fix")
    assert done.returncode == 0 and "state.db" in done.stdout, done
    assert ("state-2026-01-01.db" in done.stdout) == backup
    assert home.run("status").returncode == 0, "the daemon answers again when the command returns"
    client = eventually(lambda: restarted(home), 60)
    assert_mended(home, mine, client)


def restarted(home: Home) -> Client | None:
    """A client of the daemon that took the place of the one that mended its ledger."""
    with suppress(MemdError):
        client = Client(home.socket)
        return client if client.status()["degraded"] == [] else None
    return None


def test_damage_is_found_by_whoever_meets_it_first(home: Home, mine: Path) -> None:
    client = home.start()
    client.sync(vectors=True)
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        ledger.execute("UPDATE memories SET tags = '{'")
        ledger.execute("UPDATE texts SET body = x'00'")
        ledger.commit()
    with pytest.raises(LedgerDamaged):
        client.list()
    assert "ledger" in client.ping()["degraded"] and "made a mistake" not in home.log


def test_what_can_be_read_of_a_damaged_ledger_is_kept(home: Home, mine: Path) -> None:
    """Without a backup: what memd observed stands in tables that were not hit."""
    client = home.start()
    client.sync(vectors=True)
    useful = client.useful("2026-02-15#garden")["useful"]
    assert home.stop() == 0
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        (page,) = ledger.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chunks'").fetchone()
        ledger.execute("UPDATE texts SET body = x'00' WHERE digest IN (SELECT digest FROM texts LIMIT 1)")
        ledger.commit()
    data = bytearray((home.state / "state.db").read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    write_in_place(home.state / "state.db", data)
    code, _, said = doctor(home, "--fix")
    assert code == 0 and "its readable rows took its place" in said and "rows of texts" in said, said
    client = home.start()
    client.sync(vectors=True)
    assert client.useful("2026-02-15#garden")["useful"] == useful + 1, "what was observed is known"
    assert client.status()["embedded"] == 0, "the vectors were kept"
    assert_mended(home, mine, client)


def test_the_first_backup_is_made_once_the_first_notes_are_indexed(home: Home, workspace: Path) -> None:
    serve(home, workspace).sync()
    eventually(lambda: list(home.state.glob("backups/state-*.db")), 60)


# --- caches of another ledger -------------------------------------------------------------------------------


def test_the_caches_of_a_lost_ledger_are_not_believed(home: Home, mine: Path) -> None:
    """A new ledger counts from one again: what the caches have under those numbers are other texts."""
    delete(home.state / "state.db")
    assert doctor(home, "--fix")[0] == 0
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
    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.execute("PRAGMA foreign_keys = ON")
        ledger.execute("DELETE FROM chunks WHERE id % 2 = 0")
        # As if the ledger had not noted what is to be sent.
        ledger.execute("DELETE FROM unsent")
    code, states, said = doctor(home)
    assert code == 6 and states["agent: text index"] == states["agent: vectors"] == "broken", said
    code, states, _ = doctor(home, "--fix")
    assert code == 0 and states["agent: text index"] == states["agent: vectors"] == "mended"
    client = home.start()
    assert client.doctor()["ok"]


def test_text_files_that_go_while_it_runs_are_made_again(home: Home, mine: Path) -> None:
    client = home.start()
    assert wrens(client) == FILES
    for file in home.state.glob("text/*/*"):
        file.unlink()
    (mine / "memory" / "new.md").write_text("## New\n\nthe new avocet\n")
    client.sync()
    assert shown(client, "avocet") and wrens(client) == FILES and client.status()["degraded"] == []
    assert "Traceback" not in home.log
    assert_agreement(home, mine, vectors=False)


def test_a_running_daemon_mends_its_text_index(home: Home, mine: Path) -> None:
    client = home.start()
    client.sync()
    damage_all(home.state, "text/*/*.pst", zero)
    damage_all(home.state, "text/*/*.trm", zero)
    client.doctor(fix=True)
    eventually(lambda: wrens(client) == FILES)
    assert_agreement(home, mine, vectors=False)
