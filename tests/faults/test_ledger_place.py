"""`state.db` is removed or replaced while memd runs: nothing is acknowledged into a file that is gone."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from memd.errors import LedgerMoved, MemdError
from memd.protocol.client import Client
from tests.conftest import Home
from tests.faults.agreement import SOAK, assert_agreement, eventually, serve, shown

LOADED = True

GARDEN = "2026-02-15#garden"


def unlinked(ledger: Path) -> None:
    ledger.unlink()


def renamed(ledger: Path) -> None:
    ledger.rename(ledger.with_name("elsewhere"))


def swept(ledger: Path) -> None:
    for file in (ledger, *logs_of(ledger)):
        file.unlink()


def without_its_log(ledger: Path) -> None:
    for file in logs_of(ledger):
        file.unlink()


def logs_of(ledger: Path) -> list[Path]:
    return [ledger.with_name("state.db-wal"), ledger.with_name("state.db-shm")]


def noted(client: Client, text: str) -> int | None:
    """The number of the action, if it was acknowledged."""
    try:
        return client.note(text)["action"]
    except MemdError:
        return None


@pytest.mark.parametrize("gone", [unlinked, renamed, swept, without_its_log] if SOAK else [swept, without_its_log])
def test_a_ledger_that_goes_while_it_runs_is_put_back(
    home: Home, workspace: Path, gone: Callable[[Path], None]
) -> None:
    client = serve(home, workspace)
    client.sync(vectors=True)
    known = client.useful(GARDEN), client.ping()["clock"].split(":")[1]
    acknowledged = {noted(client, f"the plover{nth} calls"): f"plover{nth}" for nth in range(3)}
    gone(home.state / "state.db")
    eventually(lambda: "put back" in home.log)
    # Written while it notices and starts again: what was told to be done must be there, whatever happens now.
    for nth in range(3, 6):
        number = eventually(lambda nth=nth: noted(client, f"the plover{nth} calls"))
        acknowledged[number] = f"plover{nth}"
    home.kill()
    client = home.start()
    client.sync(vectors=True)
    assert client.ping()["clock"].split(":")[1] == known[1], "it is the same ledger"
    assert client.useful(GARDEN)["useful"] == known[0]["useful"] + 1, "what was observed is known"
    actions = {entry["action"] for entry in client.log(limit=100)["entries"] if entry["what"] == "note"}
    assert acknowledged.keys() <= actions
    assert all(word in shown(client, word) for word in acknowledged.values())
    assert client.status()["degraded"] == [] and client.doctor()["ok"]
    assert_agreement(home, workspace)


def test_a_ledger_that_is_replaced_while_it_runs_is_told_and_nothing_is_written(home: Home, workspace: Path) -> None:
    client = serve(home, workspace)
    client.sync(vectors=True)
    ledger, mine, other = home.state / "state.db", home.state / "mine", home.state / "other"
    client.note("the plover calls")
    client.sync(vectors=True)
    before = {file: file.read_bytes() for file in workspace.rglob("*.md")}
    shutil.copy(ledger, other)
    foreign = other.read_bytes()
    os.link(ledger, mine)
    os.replace(other, ledger)
    with pytest.raises(LedgerMoved, match="another file took the place"):
        client.note("the dunlin calls")
    # Nobody asks for anything: it is noticed.
    told = eventually(lambda: [one for one in client.status()["degraded_details"] if one["what"] == "ledger"])[0]
    (kept,) = (home.state / "backups").glob("state-*.db")
    assert str(kept) in told["why"] and str(kept) in told["fix"]
    with closing(sqlite3.connect(kept)) as copy:
        assert copy.execute("SELECT COUNT(*) FROM actions WHERE what = 'note'").fetchone() == (1,)
    assert {file: file.read_bytes() for file in workspace.rglob("*.md")} == before
    with ThreadPoolExecutor(8) as threads:
        # More at once than before: each thread of the daemon answers, from what it had.
        asked = threads.map(lambda _: shown(Client(home.socket), "plover", sync="none"), range(16))
        assert all("plover" in answer for answer in asked)
    assert {one["name"]: one["state"] for one in client.doctor()["findings"]}["state.db"] == "broken"
    assert ledger.read_bytes() == foreign
    os.replace(mine, ledger)
    eventually(lambda: client.status()["degraded"] == [])
    assert client.note("the dunlin calls")["action"]
    client.sync(vectors=True)
    assert_agreement(home, workspace)
