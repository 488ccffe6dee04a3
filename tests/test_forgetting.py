"""Forgetting for good: no byte of a memory's text is left in memd's home, or the reply names where it is."""

from __future__ import annotations

import json
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from memd.errors import Proposed, Refused
from memd.indexer.maintenance import backups
from memd.indexer.store.stores import Stores
from memd.indexer.writing import purge
from memd.protocol.client import Client
from tests.conftest import Home, write_notes
from tests.test_past import holders
from tests.written import opened, sync

CANARY = "zebra4711"
SECRET = f"The {CANARY} opens the cellar door of the old mill."
DAY = "memory/2026-03-01.md"


@pytest.fixture
def cautious(home: Home, workspace: Path) -> Client:
    """The owner's client of a daemon that keeps what agents write until it is accepted."""
    write_notes(workspace, {DAY: f"# Day\n\n## Hush\n\n{SECRET}\n\n## Kept\n\nThe plain marmot.\n"})
    # The first backup, which a daemon that rests makes, would be named beside the one of a test.
    home.configure('[server]\ntrust = "propose"\n[jobs]\nbackup = "off"\n')
    with home.start() as starting:
        starting.workspace_add(str(workspace))
    client = Client(home.socket, who="cli")
    client.sync(vectors=True)
    return client


def left(home: Home, told: dict[str, object]) -> list[str]:
    """The files of the home that have the canary and are not named in a reply."""
    assert home.stop() == 0
    return [file for file in holders(home.path, CANARY) if str(home.path / file) not in json.dumps(told)]


def test_after_renames_proposals_undo_and_exports_no_byte_is_left_that_is_not_named(
    home: Home, workspace: Path, cautious: Client
) -> None:
    client, note = cautious, workspace / DAY
    client.put("2026-03-01#hush", f"Older: {SECRET}")
    client.undo()
    client.patch("2026-03-01#hush", f"@@ -3 +3,2 @@\n {SECRET}\n+Nobody knows of the {CANARY}.\n")
    moved = note.rename(note.with_name("2026-03-02.md"))
    client.sync(vectors=True)
    client.put("2026-03-02#hush", f"Newer: {SECRET}")
    with Client(home.socket, who="mcp:stranger") as stranger, pytest.raises(Proposed):
        stranger.put("mill", f"{SECRET} Ask the miller.")
    assert client.proposal_list()["proposals"]
    client.reflect()
    (home.path / "export.json").write_text(home.run("export", "-n", "agent").stdout)
    backup = client.backup()["backup"]
    copy = moved.with_name("2026-03-02.sync-conflict-20260302-101010-ABCDEF7.md")
    copy.write_text(moved.read_text())
    client.sync()
    assert len(holders(home.path, CANARY)) > 2, "the test would see it"
    told = client.rm("2026-03-02#hush", hard=True)
    assert client.proposal_list()["proposals"] == []
    assert {"what": backup, "why": f"a backup from before; to remove it: rm {backup}"} in told["kept"]
    files = {one["what"] for one in told["kept"]} - {"chroma"}
    assert files == {backup, str(copy), str(home.path / "export.json")}
    assert left(home, dict(told)) == [] and CANARY not in moved.read_text()
    for file in files:
        Path(file).unlink()
    assert holders(home.path.parent, CANARY) == [] and holders(home.path, "marmot"), "only the neighbour stays"


def test_what_a_former_workspace_has_of_it_is_forgotten_too(home: Home, cautious: Client, tmp_path: Path) -> None:
    outer = write_notes(tmp_path / "outer", {"MEMORY.md": "# Top\n", "sub/n.md": "# Note\n\nzero\n"})
    cautious.workspace_add(str(outer / "sub"), ns="inner", globs=["**/*.md"])
    for text in (f"inner {SECRET}", "inner ok"):
        cautious.put("n", text, ns="inner")
    cautious.workspace_rm(ns="inner")
    cautious.workspace_add(str(outer), ns="outer", globs=["**/*.md"])
    cautious.rm("n", hard=True, ns="outer")
    cautious.workspace_add(str(outer / "sub"), ns="inner", globs=["**/*.md"])
    assert cautious.trash(ns="inner")["memories"] == []
    with sqlite3.connect(home.state / "state.db") as ledger:
        texts = [zlib.decompress(body).decode() for (body,) in ledger.execute("SELECT body FROM texts")]
    assert not any(text.startswith("inner ") for text in texts)


def test_a_program_that_looks_into_the_ledger_after_a_removal_takes_nothing_away(home: Home, cautious: Client) -> None:
    """Who closes a file lets go of all his locks on it: the program would take itself for the last one there."""
    cautious.put("sec", f"A word: {SECRET}")
    cautious.rm("sec", hard=True)
    with closing(sqlite3.connect(home.state / "state.db")) as ledger:
        ledger.execute("SELECT * FROM meta").fetchall()
    assert (home.state / "state.db-wal").exists()
    cautious.put("later", "A text that is written.")
    assert cautious.query("later", sync="full")["hits"] and cautious.status()["degraded"] == []


@pytest.mark.usefixtures("chroma_at_once")
def test_tags_are_forgotten_when_another_memory_was_before(home: Home, cautious: Client) -> None:
    """Chroma keeps the tags of a collection that is deleted; made again, it has a row less."""
    for key, tag in (("first", "plain"), ("last", "codename77")):
        cautious.put(key, f"Something about the {key} person.", tags=[tag])
        cautious.sync(vectors=True)
        assert cautious.doctor()["ok"]
    for key in ("first", "last"):
        assert holders(home.state / "chroma", "codename77"), "the test would see it"
        assert cautious.rm(key, hard=True)["kept"] == [] and cautious.doctor()["ok"]
    assert home.stop() == 0 and holders(home.path, "codename77") == []


def test_undo_does_not_take_back_what_was_done_before_something_was_forgotten(cautious: Client) -> None:
    kept = cautious.note("A good note about tulips.", title="Keep")["action"]
    cautious.put("sec", "xyzzyplugh")
    cautious.rm("sec", hard=True)
    with pytest.raises(Refused, match="was forgotten for good") as refused:
        cautious.undo()
    assert f"memd undo {kept}" in refused.value.hint
    assert cautious.query("tulips")["hits"]
    cautious.undo(action=kept)
    assert not cautious.query("tulips")["hits"]


def test_what_another_note_still_says_stays(home: Home, workspace: Path, cautious: Client) -> None:
    write_notes(workspace, {"memory/2026-03-05.md": f"# Day\n\n## Mill\n\n{SECRET}\n"})
    cautious.sync()
    put = cautious.put("2026-03-05#mill", f"{SECRET}\nAnd a marmot.")
    cautious.rm("2026-03-01#hush", hard=True)
    assert (
        SECRET in cautious.get("2026-03-05#mill")["text"]
        and SECRET in cautious.get("2026-03-05#mill", version=1)["text"]
    )
    cautious.undo(action=put["action"])
    assert (workspace / "memory/2026-03-05.md").read_text() == f"# Day\n\n## Mill\n\n{SECRET}\n"


def test_what_had_the_same_key_before_is_forgotten_with_it(home: Home, workspace: Path, cautious: Client) -> None:
    cautious.put("mill", f"One: {SECRET}")
    cautious.rm("mill")
    cautious.put("mill", "Nothing of the kind was ever here, and nobody knows better.")
    cautious.rm("2026-03-01#hush", hard=True)
    told = cautious.rm("mill", hard=True)
    assert left(home, dict(told)) == []


GONE = {
    "actions.detail", "actions.key", "pages.body", "proposals.params", "splices.inserted", "splices.leading",
    "splices.path", "splices.removed", "splices.trailing", "texts.body",
}  # fmt: skip
"""Columns in which memd itself writes parts of a note: there they are removed, anywhere else they are named."""


@pytest.mark.parametrize("inner", [True, False])
def test_what_two_workspaces_have_is_forgotten_in_both(
    home: Home, workspace: Path, cautious: Client, inner: bool
) -> None:
    client, project = cautious, workspace / "memory" / "project"
    write_notes(project, {"MEMORY.md": f"# Project\n\n## Pin\n\n{SECRET}\n\n## Kept\n\nThe plain egret.\n"})
    client.workspace_add(str(project))
    client.rm("2026-03-01#hush", hard=True, ns="agent")
    client.sync(vectors=True)
    ns = "project" if inner else "agent"
    key = client.query(CANARY, ns=ns)["hits"][0]["key"]
    told = client.rm(key, hard=True, ns=ns)
    for one in ("agent", "project"):
        assert client.query("egret", ns=one)["hits"]
        gone = client.query(CANARY, ns=one, mode="text")
        assert (gone["hits"], gone["near"], gone["missing"]) == ([], [], [CANARY])
    assert told["kept"] == [] and left(home, told) == []


def test_every_column_of_the_ledger_is_searched(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent", {DAY: f"# Day\n\n## Hush\n\n{SECRET}\n\n## Kept\n\nMarmot.\n"})
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    (memory,) = stores.ledger.reader.execute("SELECT id FROM memories WHERE slug = 'hush'").fetchone()
    (root / DAY).write_text("# Day\n\n## Kept\n\nMarmot.\n")
    sync(stores, index)
    columns = set(planted(stores))
    _, trace = purge.purge(stores, index, memory)
    kept = {one["what"].removeprefix("state.db: ") for one in purge.left_behind(stores, "agent", trace)}
    found = holding(stores.ledger.reader)
    stores.close()
    assert found <= kept, f"searched nowhere: {found - kept}"
    assert columns - found >= GONE and columns >= GONE


def planted(stores: Stores) -> list[str]:
    """Put the secret into each column of each table that has texts or bytes, in a row of its own, as memd would."""
    columns, number = [], 9_000_000
    with sqlite3.connect(stores.ledger.path) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            kinds = {name: kind for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")}
            for column in (name for name, kind in kinds.items() if kind in ("TEXT", "BLOB")):
                number += 1
                row = [written(name, kinds[name], number, SECRET * (name == column)) for name in kinds]
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
                columns.append(f"{table}.{column}")
    return columns


def written(column: str, kind: str, number: int, text: str) -> object:
    """A text as memd keeps it in a column: plain, as JSON, as bytes, or compressed."""
    if kind == "BLOB":
        return zlib.compress(text.encode()) if column in ("body", "removed", "inserted") else text.encode()
    if column in ("detail", "params", "declared", "tags"):
        return json.dumps({"why": [f"Zoë said: {text}"]})
    return text or str(number) if kind == "TEXT" else number


def holding(connection: sqlite3.Connection) -> set[str]:
    """The columns that have the canary."""
    found = set()
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in connection.execute(f"SELECT * FROM {table}"):
            for name in row.keys():  # noqa: SIM118
                data = row[name] if isinstance(row[name], bytes) else str(row[name]).encode()
                data = zlib.decompress(data) if data[:1] == b"\x78" else data
                if CANARY.encode() in data:
                    found.add(f"{table}.{name}")
    return found


def test_a_backup_that_is_being_made_is_named_as_it_will_be_called(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent", {DAY: f"# Day\n\n## Hush\n\n{SECRET}\n\n## Kept\n\nMarmot.\n"})
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    folder = stores.folder / backups.FOLDER
    folder.mkdir()
    (memory,) = stores.ledger.reader.execute("SELECT id FROM memories WHERE slug = 'hush'").fetchone()
    stores.ledger.copying.acquire()
    stores.ledger.backup(folder / ".state-1.db.part")
    (root / DAY).write_text("# Day\n\n## Kept\n\nMarmot.\n")
    sync(stores, index)
    _, trace = purge.purge(stores, index, memory)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(purge.left_behind, stores, "agent", trace)
        with pytest.raises(TimeoutError):
            looking.result(0.5)
        (folder / ".state-1.db.part").rename(folder / "state-1.db")
        stores.ledger.copying.release()
        kept = looking.result()
    stores.close()
    assert [one["what"] for one in kept] == [str(folder / "state-1.db")]
