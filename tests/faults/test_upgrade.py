"""Homes that earlier versions of memd left: the memd of today takes each of them over with all that it holds."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from memd.indexer.store.ledger import Ledger
from memd.indexer.store.ledger_check import STEPS, VERSION
from tests.conftest import Home
from tests.faults.agreement import assert_agreement, serve, shown
from tests.fixtures.freeze import FROZEN, archive

LOADED = True
SCHEMAS = sorted(int(file.name.removesuffix(".tar.xz").partition("-")[2]) for file in FROZEN.glob("schema-*.tar.xz"))


@pytest.fixture
def frozen(home: Home, request: pytest.FixtureRequest) -> Path:
    """The workspace of a home as it was kept."""
    with tarfile.open(archive(request.param)) as kept:
        kept.extractall(home.path, filter="data")
    home.state.chmod(0o700)
    (home.path / "agent").rename(home.path.parent / "agent")
    return home.path.parent / "agent"


def schema(file: Path) -> dict[str, str]:
    """Every table and index of a ledger, and how it was made."""
    with closing(sqlite3.connect(file)) as ledger:
        rows = ledger.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in rows}


def schema_number(home: Home) -> int:
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        return int(ledger.execute("PRAGMA user_version").fetchone()[0])


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock"}


def lives(file: Path) -> dict[int, tuple[str, str, int]]:
    """Since when each memory is known, its tier, and how often it was of use."""
    with closing(sqlite3.connect(file)) as ledger:
        rows = ledger.execute("SELECT id, first_seen, tier, useful FROM memories").fetchall()
    return {memory: (first_seen, tier, useful) for memory, first_seen, tier, useful in rows}


def test_the_schema_of_today_is_kept() -> None:
    assert VERSION in SCHEMAS, "python -m tests.fixtures.freeze"


@pytest.mark.parametrize("frozen", SCHEMAS, indirect=True)
def test_a_home_of_an_earlier_memd_is_taken_over(home: Home, frozen: Path) -> None:
    before = lives(home.state / "state.db")
    if schema_number(home) < VERSION:
        kept = contents(home.state)
        looked = home.run("doctor")
        assert looked.returncode == 0 and "an older memd wrote it" in looked.stdout
        assert contents(home.state).items() >= kept.items(), "a mere look changes nothing"
    client = serve(home, frozen)
    assert "whistles at nine" in shown(client, "kettle", sync="none"), "before any file is read"
    client.sync(vectors=True)
    assert "ErsatzTV" in shown(client, "Set up the ErsatzTV skill for Pierce", mode="vector")
    assert [one["version"] for one in client.history("tea")["versions"]] == [2, 1]
    assert "Green tea, two minutes." in client.get("tea")["text"]
    ends = [{edge["from"], edge["to"]} for edge in client.edge_list("tea")["edges"]]
    assert {"tea", "2026-02-15#ersatztv"} in ends
    assert {"put", "rm", "undo"} <= {entry["what"] for entry in client.log(limit=100)["entries"]}
    assert client.restore("coffee")["path"] and "Not any more" in shown(client, "coffee")
    client.sync(vectors=True)
    assert_agreement(home, frozen)
    assert client.doctor()["ok"] and client.status()["degraded"] == []
    assert home.stop() == 0
    after = lives(home.state / "state.db")
    assert len(before) > 5 and {memory: after[memory] for memory in before} == before
    fresh = Ledger(home.path / "fresh.db")
    fresh.close()
    assert schema(home.state / "state.db") == schema(home.path / "fresh.db"), "a step that was kept is never edited"


@pytest.mark.parametrize("number", range(1, VERSION))
def test_a_ledger_of_each_step_is_backed_up_and_migrated(tmp_path: Path, number: int) -> None:
    file = tmp_path / "state.db"
    with closing(sqlite3.connect(file)) as old:
        for step in STEPS[:number]:
            old.executescript(step)
        old.execute("INSERT INTO workspaces (ns, root) VALUES ('agent', '/old')")
        old.execute(f"PRAGMA user_version = {number}")
        old.commit()
    before = schema(file)
    ledger = Ledger(file)
    assert [row["root"] for row in ledger.reader.execute("SELECT root FROM workspaces")] == ["/old"]
    ledger.close()
    assert schema(tmp_path / f"state.before-{VERSION}.db") == before
    fresh = Ledger(tmp_path / "fresh.db")
    fresh.close()
    assert schema(file) == schema(tmp_path / "fresh.db")
