"""History, undo, trash and time travel, on a real daemon and real files."""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memd.errors import AlreadyExists, Conflict, MemdError, NotFound, Refused, UsageError
from memd.indexer.indexing import ingest
from memd.indexer.indexing.read_files import changed_paths
from memd.indexer.indexing.scan import scan
from memd.indexer.record import actions, history
from memd.indexer.store import catalog
from memd.indexer.views import as_of
from memd.indexer.writing import write_files
from memd.models import Ask
from memd.protocol.client import Client
from tests.conftest import NOTES, PATIENCE, Home, write_notes
from tests.faults.agreement import serve
from tests.written import apply, opened, sync

DAY = "memory/2026-02-15.md"
GARDEN = "2026-02-15#garden"
TOPIC = "memory/topics/sourdough.md"
ODD = b"\xef\xbb\xbf# Odd\r\n\r\n## A\r\n\r\n\xff\r\n\r\n\r\n## B\r\n\r\nx  "
"""A byte order mark, two kinds of blank lines, a byte that is no UTF-8, and no line end."""


@pytest.fixture
def client(home: Home, workspace: Path) -> Client:
    made = serve(home, workspace)
    made.sync()
    return made


def change(client: Client, file: Path, old: str, new: str) -> None:
    """What a person does in an editor."""
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    client.sync()


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


# --- versions ---------------------------------------------------------------------------------------------------


def test_every_change_is_a_version_whoever_made_it(client: Client, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    client.restore(GARDEN, 1, who="mcp:test")
    told = client.history(GARDEN)
    assert [(one["version"], one["who"], one["current"]) for one in told["versions"]] == [
        (3, "mcp:test", True), (2, "editor", False), (1, "editor", False),
    ]  # fmt: skip
    assert told["versions"][0]["characters"] == told["versions"][2]["characters"]
    assert told["path"] == DAY and told["gone"] is None


@pytest.mark.parametrize("lost", ["emptied", "removed"])
def test_a_file_that_is_seen_empty_while_it_is_rewritten_keeps_its_memories(tmp_path: Path, lost: str) -> None:
    root = write_notes(tmp_path / "agent")
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    file, text = root / DAY, (root / DAY).read_text()
    if lost == "emptied":
        file.write_text("")
    else:
        file.unlink()
    sync(stores, index)
    file.write_text(text.replace("two apple trees", "three pear trees") + "\n## Attic\n\na new ladder\n")
    sync(stores, index)
    rows = stores.ledger.reader.execute("SELECT id, slug FROM memories WHERE slug IN ('garden', 'attic') ORDER BY id")
    (garden, _), (attic, slug) = rows
    assert slug == "attic"
    told = history.versions(stores.ledger.reader, garden)
    assert [(one.number, one.digest is None) for one in told] == [(1, False), (2, False)], "nothing was removed"
    assert [one.number for one in history.versions(stores.ledger.reader, attic)] == [1]
    stores.close()


def test_a_file_that_is_put_back_after_minutes_was_away(tmp_path: Path) -> None:
    """A moment later an editor rewrote it; within an hour, under another name, somebody moved it."""
    root = write_notes(tmp_path / "agent")
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    file, text = root / DAY, (root / DAY).read_text()
    file.unlink()
    sync(stores, index)
    ago = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-600 seconds')"
    with stores.ledger.write() as connection:
        connection.execute(f"UPDATE versions SET at = {ago} WHERE digest IS NULL")
        connection.execute(f"UPDATE memories SET gone = {ago} WHERE gone IS NOT NULL")
    file.write_text(text)
    sync(stores, index)
    (garden,) = stores.ledger.reader.execute("SELECT id FROM memories WHERE slug = 'garden'").fetchone()
    told = history.versions(stores.ledger.reader, garden)
    assert [one.digest is None for one in told] == [False, True, False]
    stores.close()


def test_what_was_removed_on_purpose_does_not_live_on_under_its_name(client: Client, workspace: Path) -> None:
    client.rm(GARDEN)
    client.sync()
    with (workspace / DAY).open("a") as file:
        file.write("\n## Garden\n\nquite another garden\n")
    client.sync()
    assert [one["version"] for one in client.history(GARDEN)["versions"]] == [1]


def test_a_diff_is_the_last_change_or_the_one_asked_for(client: Client, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    change(client, workspace / DAY, "behind the shed", "before the house")
    last = client.diff(GARDEN)
    assert (last["old"], last["new"]) == (2, 3)
    assert "-Planted three pear trees behind the shed." in last["diff"].splitlines()
    assert "+Planted three pear trees before the house." in last["diff"].splitlines()
    first = client.diff(GARDEN, 1)
    assert (first["old"], first["new"]) == (1, 3) and "-Planted two apple trees behind the shed." in first["diff"]
    assert client.diff(GARDEN, 1, 1)["diff"] == ""
    with pytest.raises(NotFound, match="no version 9"):
        client.diff(GARDEN, 1, 9)


def test_an_unknown_key_suggests_a_near_one(client: Client) -> None:
    with pytest.raises(NotFound) as caught:
        client.history("2026-02-15#gardn")
    assert GARDEN in caught.value.hint


# --- restoring --------------------------------------------------------------------------------------------------


def test_a_version_comes_back_in_place_and_nothing_else_changes(client: Client, workspace: Path) -> None:
    before = (workspace / DAY).read_bytes()
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    edited = (workspace / DAY).read_bytes()
    done = client.restore(GARDEN, 1)
    assert (workspace / DAY).read_bytes() == before
    assert done["version"] == 1 and done["paths"] == [DAY] and not done["was_gone"]
    assert client.query("apple trees", mode="text")["hits"][0]["key"] == GARDEN
    client.undo()
    assert (workspace / DAY).read_bytes() == edited
    assert client.restore(GARDEN)["version"] == 3, "without a number: the text before the present one"


def test_a_section_deleted_in_an_editor_comes_back(client: Client, workspace: Path) -> None:
    section = "## ErsatzTV\n\nSet up the ErsatzTV skill for Pierce.\nThe API endpoint is http://192.0.2.18:8409.\n\n"
    change(client, workspace / DAY, section, "")
    (lost,) = client.trash()["memories"]
    assert lost["key"] == "2026-02-15#ersatztv" and lost["who"] == "editor"
    assert lost["restore"] == "memd restore 2026-02-15#ersatztv@1"
    with pytest.raises(NotFound, match="was removed on ") as told:
        client.get("2026-02-15#ersatztv")
    assert told.value.hint == "to bring it back: memd restore 2026-02-15#ersatztv"
    rest = (workspace / DAY).read_text()
    done = client.restore("2026-02-15#ersatztv", 1)
    assert done["was_gone"] and (workspace / DAY).read_text() == f"{rest}\n{section.rstrip()}\n"
    client.sync()
    assert client.trash()["memories"] == []
    assert [one["version"] for one in client.history("2026-02-15#ersatztv")["versions"]] == [3, 2, 1]


def test_a_removed_section_is_not_taken_for_the_one_that_has_its_key_now(client: Client, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("# D\n\n## Log\n\nfirst\n\n## Log\n\nsecond\n")
    client.sync()
    client.put("MEMORY#log-2", "second, edited")
    client.rm("MEMORY#log")
    client.sync()
    before = (workspace / "MEMORY.md").read_text()
    with pytest.raises(UsageError, match="one that is removed") as told:
        client.restore("MEMORY#log")
    assert (workspace / "MEMORY.md").read_text() == before
    named = re.search(r"memd restore (MEMORY#log~\d+);", told.value.hint)
    assert named and named[1] in {one["key"] for one in client.trash()["memories"]}
    client.restore(named[1])
    client.sync()
    assert (workspace / "MEMORY.md").read_text() == f"{before}\nfirst\n".replace("\nfirst", "\n## Log\n\nfirst")
    client.restore("MEMORY#log", 1)
    assert "edited" not in (workspace / "MEMORY.md").read_text()


def test_a_title_that_was_alone_for_a_while_is_not_in_the_trash(client: Client, workspace: Path) -> None:
    (workspace / "memory/2026-03-01.md").write_text("# 2026-03-01\n\n## Solo\n\nThe lion sleeps at noon.\n")
    client.sync()
    client.rm("2026-03-01#solo", who="cli")
    (lost,) = client.trash()["memories"]
    assert lost["key"] == "2026-03-01#solo" and client.get("2026-03-01")["text"] == "# 2026-03-01"
    client.undo(who="cli")
    assert client.trash()["memories"] == []
    with pytest.raises(AlreadyExists, match="has this text already"):
        client.restore("2026-03-01", 1)


def test_a_title_that_was_alone_for_a_while_was_not_removed(client: Client, workspace: Path) -> None:
    places = {
        "memory/foo.md": "# Foo\n",
        "memory/2026-03-01.md": "# 2026-03-01\n",
        "memory/bar.md": "# Bar\n\nOf iron.\n",
    }
    write_notes(workspace, places)
    client.sync()
    write_notes(
        workspace, {path: f"{text.splitlines()[0]}\n\n## Lion\n\nIt sleeps.\n" for path, text in places.items()}
    )
    client.sync()
    for key in ("foo", "2026-03-01#"):
        for look in (client.get, client.rm):
            with pytest.raises(NotFound, match=f"no memory has the key `{key.rstrip('#')}`") as told:
                look(key)
            assert f"`{key.rstrip('#')}#lion`" in told.value.hint
    with pytest.raises(NotFound, match="`bar` was removed on"):
        client.get("bar")
    client.restore("bar")
    assert (workspace / "memory/bar.md").read_text() == "# Bar\n\nOf iron.\n\n## Lion\n\nIt sleeps.\n"
    (workspace / "memory/foo.md").unlink()
    client.sync()
    with pytest.raises(NotFound, match="`foo` was removed on"):
        client.get("foo")


def test_a_version_that_is_the_present_one_is_not_said_to_be_restored(client: Client, workspace: Path) -> None:
    with pytest.raises(AlreadyExists, match=f"{DAY} has this text already"):
        client.restore(GARDEN, 1)
    assert (workspace / DAY).read_text() == NOTES[DAY]


OVERWRITTEN = {
    "its old buffer": lambda file, before: file.write_bytes(before),
    "its buffer, changed": lambda file, before: file.write_bytes(before.replace(b"two apple", b"three pear")),
    "something else": lambda file, before: file.write_bytes(b"# Anew\n\n## Anew\n\nnothing else\n"),
    "nothing": lambda file, before: file.unlink(),
}
"""What an editor does with a file that it loaded before memd wrote to it."""


@pytest.mark.parametrize("what", OVERWRITTEN)
def test_what_an_editor_saves_over_before_it_is_indexed_is_in_the_history(
    home: Home, workspace: Path, what: str
) -> None:
    file, day = workspace / DAY, "2026-02-15T09:00:00"
    client = serve(home, workspace, "[watch]\nsettle_ms = 1000\n")
    client.sync()
    before = file.read_bytes()
    notes = [client.note(text=f"The {bird} calls\n\nat {bird} o'clock", now=day) for bird in ("plover", "bittern")]
    OVERWRITTEN[what](file, before)
    client.sync()
    assert b"plover" not in (file.read_bytes() if file.exists() else b"")
    for note in notes:
        gone, written = client.history(key=note["key"])["versions"]
        assert (written["action"], gone["who"], gone["gone"]) == (note["action"], "editor", True)
        assert note["key"] in {row["key"] for row in client.trash()["memories"]}
        client.restore(key=note["key"])
    client.sync()
    assert file.read_bytes().count(b"o'clock") == 2
    assert client.doctor()["ok"]


def test_what_an_editor_took_back_long_ago_is_not_written_again(client: Client, workspace: Path) -> None:
    client.topic_memorize("other", content="x", summary="s", ns="agent")
    before = (workspace / "MEMORY.md").read_bytes()
    client.put("MEMORY#preferences", "A plan.")
    client.sync()
    (workspace / "MEMORY.md").write_bytes(before)
    client.sync()
    versions = client.history("MEMORY#preferences")["versions"]
    client.topic_refine("other", add_tags=["tag"], ns="agent")
    client.sync()
    assert (workspace / "MEMORY.md").read_bytes() == before
    assert client.history("MEMORY#preferences")["versions"] == versions


@pytest.mark.parametrize("data", [NOTES[DAY].encode(), ODD])
def test_a_file_deleted_in_an_editor_comes_back_byte_for_byte(client: Client, workspace: Path, data: bytes) -> None:
    (workspace / DAY).write_bytes(data)
    client.sync()
    (workspace / DAY).unlink()
    client.sync()
    (lost,) = client.trash()["files"]
    assert lost["path"] == DAY and lost["what"] == "file-removed"
    client.restore(path=DAY)
    assert (workspace / DAY).read_bytes() == data
    client.sync()
    gone = {one["heading"] for one in client.trash()["memories"]}
    assert client.trash()["files"] == [] and gone.isdisjoint({"A", "B"})
    with pytest.raises(NotFound):
        client.restore(path=DAY)


def test_undo_takes_back_the_restore_of_a_file_and_no_earlier_change(client: Client, workspace: Path) -> None:
    client.put(GARDEN, "Three pear trees.")
    (workspace / TOPIC).unlink()
    client.sync()
    restored = client.restore(path=TOPIC)
    assert client.undo()["undid"]["action"] == restored["action"]
    assert not (workspace / TOPIC).exists() and "pear" in (workspace / DAY).read_text()
    assert client.undo()["undid"]["what"] == "put"
    assert (workspace / DAY).read_text() == NOTES[DAY]


def test_a_file_that_was_emptied_comes_back(client: Client, workspace: Path) -> None:
    (workspace / DAY).write_text("")
    client.sync()
    (lost,) = client.trash()["files"]
    client.undo(lost["action"])
    assert (workspace / DAY).read_text() == NOTES[DAY]


def test_one_memory_of_a_file_that_is_gone_comes_back_alone(client: Client, workspace: Path) -> None:
    for path in (DAY, TOPIC):
        (workspace / path).unlink()
    client.sync()
    client.restore(GARDEN)
    assert (workspace / DAY).read_text() == "# 2026-02-15\n\n## Garden\n\nPlanted two apple trees behind the shed.\n"
    client.restore("sourdough")
    assert (workspace / TOPIC).read_text() == NOTES[TOPIC], "with its front matter"


def test_a_renamed_file_is_not_lost(client: Client, workspace: Path) -> None:
    (workspace / DAY).rename(workspace / "memory/2026-02-14.md")
    client.sync()
    assert client.trash()["files"] == [] and client.trash()["memories"] == []
    for wanted in ({}, {"key": "2026-02-14#garden"}, {"who": "editor", "what": "file-renamed"}):
        renamed = client.log(**wanted)["entries"][0]
        assert (renamed["what"], renamed["paths"]) == ("file-renamed", [DAY, "memory/2026-02-14.md"])
        assert not renamed["undoable"]
    assert client.log(key="sourdough", what="file-renamed")["entries"] == []


@pytest.mark.parametrize("seen", ["before", "twice"])
def test_a_file_that_is_renamed_while_files_are_listed_is_not_lost(tmp_path: Path, seen: str) -> None:
    root, new_name = write_notes(tmp_path / "agent"), "memory/2026-02-14.md"
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    # What was written a moment ago is read again. A list of many files may have a name, or two, that is no longer so.
    listed = changed_paths(index, scan(index.workspace)) if seen == "before" else {new_name}
    (root / DAY).rename(root / new_name)
    apply(stores, index, listed)
    apply(stores, index, changed_paths(index, scan(index.workspace)))
    done = stores.ledger.reader.execute("SELECT what, detail FROM actions").fetchall()
    assert [(row["what"], json.loads(row["detail"])["paths"]) for row in done] == [("file-renamed", [DAY, new_name])]
    (garden,) = stores.ledger.reader.execute("SELECT id FROM memories WHERE slug = 'garden'").fetchall()
    assert [one.number for one in history.versions(stores.ledger.reader, garden["id"])] == [1]
    stores.close()


def test_a_renamed_folder_with_most_of_the_files_is_not_taken_for_a_loss(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent", {f"memory/old/{n}.md": f"## S{n}\n\nnumber {n}\n" for n in range(200)})
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    before = stores.ledger.reader.execute("SELECT slug, id FROM memories ORDER BY id").fetchall()
    (root / "memory/old").rename(root / "memory/new")
    paths = changed_paths(index, scan(index.workspace))
    while paths:
        done = apply(stores, index, paths)
        assert not done.held and not index.held
        paths = set(done.restless)
    assert stores.ledger.reader.execute("SELECT slug, id FROM memories ORDER BY id").fetchall() == before
    assert {row["what"] for row in stores.ledger.reader.execute("SELECT what FROM actions")} == {"file-renamed"}
    stores.close()


def test_the_log_of_a_memory_has_everything_that_was_undone(client: Client, workspace: Path) -> None:
    put = client.put("tea", "Green.", ns="agent")["action"]
    other = client.note("Not about it.", ns="agent")["action"]
    undone = client.undo(put)["action"]
    again = client.undo(undone)["action"]
    last = client.undo(again)["action"]
    client.undo(other)
    assert [entry["action"] for entry in client.log(key="tea")["entries"]] == [last, again, undone, put]


def test_several_memories_that_had_one_key_can_each_come_back(client: Client, workspace: Path) -> None:
    file = workspace / "memory/2026-03-01.md"
    for text in ("walrus", "heron"):
        file.write_text(f"# Day\n\n## Todo\n\nfeed the {text}\n\n## Kept\n\nsteady\n")
        client.sync()
        file.write_text("# Day\n\n## Kept\n\nsteady\n")
        client.sync()
    lost = client.trash()["memories"]
    assert len(lost) == 2 and all(one["key"].startswith("2026-03-01#todo~") for one in lost)
    client.restore(lost[1]["key"], lost[1]["version"])
    assert "feed the walrus" in file.read_text() and "heron" not in file.read_text()


# --- undoing ----------------------------------------------------------------------------------------------------


def test_undo_takes_back_this_clients_last_change(client: Client, workspace: Path) -> None:
    original = (workspace / DAY).read_bytes()
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    edited = (workspace / DAY).read_bytes()
    client.restore(GARDEN, 1, who="cli")
    with pytest.raises(NotFound, match="python"):
        client.undo()
    first = client.undo(who="cli")
    assert (workspace / DAY).read_bytes() == edited and first["undid"]["what"] == "restore"
    with pytest.raises(NotFound):
        client.undo(who="cli")
    with pytest.raises(Refused, match="undone already"):
        client.undo(first["undid"]["action"], who="cli")
    client.undo(first["action"], who="cli")
    assert (workspace / DAY).read_bytes() == original, "an undo can be undone"
    client.undo(who="cli")
    assert (workspace / DAY).read_bytes() == edited


def test_a_repeated_undo_takes_back_one_change(client: Client, workspace: Path) -> None:
    client.note("the first of two", ns="agent")
    client.note("the second of two", ns="agent")
    once, again = (client.undo(request_id="u-1") for _ in range(2))
    assert (once["repeated"], again["repeated"]) == (False, True) and once["undid"] == again["undid"]
    notes = "".join(file.read_text() for file in workspace.rglob("*.md"))
    assert "the first of two" in notes and "the second of two" not in notes
    client.useful("2026-02-15#garden", ns="agent")
    vote = client.log(what="useful")["entries"][0]["action"]
    assert [client.undo(vote, request_id="u-2")["back"] for _ in range(2)] == [1, 1]
    (workspace / DAY).unlink()
    client.sync()
    assert [client.restore(path=DAY, request_id="u-3")["repeated"] for _ in range(2)] == [False, True]


def test_a_job_is_never_undone_by_accident(client: Client, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    done = client.restore(GARDEN, 1, who="job:reflect")
    with pytest.raises(NotFound):
        client.undo(who="job:reflect")
    assert client.undo(done["action"])["undid"]["who"] == "job:reflect"


def test_an_undo_keeps_what_others_wrote_elsewhere(client: Client, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    client.restore(GARDEN, 1)
    change(client, workspace / DAY, "for Pierce", "for Ada")
    client.undo()
    text = (workspace / DAY).read_text()
    assert "for Ada" in text and "three pear trees" in text


def test_a_conflict_is_explained_and_nothing_is_overwritten(client: Client, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    done = client.restore(GARDEN, 1)
    change(client, workspace / DAY, "two apple trees", "nine plum trees")
    before = (workspace / DAY).read_bytes()
    with pytest.raises(Conflict) as caught:
        client.undo()
    assert DAY in caught.value.message and "an editor at" in caught.value.hint
    assert (workspace / DAY).read_bytes() == before
    failed = client.log(what="undo")["entries"][0]
    assert failed["state"] == "failed" and failed["key"] == str(done["action"])


# --- the log ----------------------------------------------------------------------------------------------------


def test_the_log_has_actions_and_edits_in_order(client: Client, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    done = client.restore(GARDEN, 1, who="cli")
    change(client, workspace / "MEMORY.md", "fjord", "heron")
    said = [(one["who"], one["what"], one["key"]) for one in client.log()["entries"]]
    assert said[:3] == [
        ("editor", "changed", "MEMORY#home-network"), ("cli", "restore", GARDEN), ("editor", "changed", GARDEN),
    ]  # fmt: skip
    assert said[-1][:2] == ("editor", "added")
    (mine,) = client.log(who="cli")["entries"]
    assert mine["action"] == done["action"] and mine["undoable"] and mine["paths"] == [DAY]
    assert {one["what"] for one in client.log(what="added")["entries"]} == {"added"}
    about = client.log(key=GARDEN)["entries"]
    assert [one["who"] for one in about] == ["cli", "editor", "editor"]
    assert len(client.log(limit=1)["entries"]) == 1
    assert client.log(since="2999-01-01")["entries"] == client.log(since="tomorrow")["entries"] == []
    assert client.log(since="yesterday")["entries"] == client.log()["entries"]


# --- time travel ------------------------------------------------------------------------------------------------


def found(client: Client, question: str, **how: Any) -> list[str]:
    return [hit["text"] for hit in client.query(question, **{"mode": "text", **how})["hits"]]


def test_a_note_counts_from_its_own_date(client: Client) -> None:
    assert found(client, "ErsatzTV skill", as_of="2026-02-15")
    assert not found(client, "backup photo archive", as_of="2026-02-15")
    assert found(client, "backup photo archive", as_of="2026-02")
    assert not found(client, "router fjord", as_of="2026-02-15"), "MEMORY.md was written later"
    with pytest.raises(NotFound) as unknown:
        client.get("MEMORY#home-network", as_of="2026-02-15")
    assert unknown.value.hint == "since when it is there: memd history MEMORY#home-network"
    assert client.get(GARDEN, as_of="2026-02-15")["version"] == 1
    with pytest.raises(NotFound):
        client.get(GARDEN, as_of="2026-02-14")


def test_a_section_that_stays_as_it_was_keeps_its_day(client: Client, workspace: Path) -> None:
    file = workspace / "MEMORY.md"
    file.write_text(
        "# Long-term\n\n## Walrus\n\nThe walrus is called Otto.\n\n## Penguin\n\nThe penguin is called Pia.\n"
    )
    written = datetime(2026, 1, 5, 12).timestamp()
    os.utime(file, (written, written))
    client.sync()
    change(client, file, "Pia", "Polly")
    days = {memory["key"]: memory["date"] for memory in client.list(role="memory")["memories"]}
    assert days["MEMORY#walrus"] == "2026-01-05" < days["MEMORY#penguin"]
    assert found(client, "walrus Otto", until="2026-01", mode="text")
    assert found(client, "walrus Otto", as_of="2026-01-31")


@pytest.mark.parametrize("text", ["Otto the walrus eats herring.", "Otto the walrus eats squid."])
@pytest.mark.parametrize("path", ["memory/topics/otto.md", "memory/2026-03-01.md"])
def test_what_a_note_declares_is_what_it_declared_then(client: Client, workspace: Path, path: str, text: str) -> None:
    """Also in front matter, which belongs to the text of no memory; with its text, or alone."""
    file, heading = workspace / path, "" if "topics" in path else "## Otto\n\n"
    front = "---\ntags: [sea]\nkind: procedural\npinned: true\nttl: 90000d\n---\n"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{front}{heading}Otto the walrus eats herring. #zoo\n")
    client.sync()
    then = now()
    file.write_text(
        f"---\ntags: [land]\nkind: semantic\n---\n{heading}{text} #{'zoo' if 'herring' in text else 'ark'}\n"
    )
    client.sync()

    def told(**how: Any) -> list[tuple[Any, ...]]:
        hits = client.query("Otto walrus", mode="text", **how)["hits"]
        return [(hit["kind"], hit["tags"]) for hit in hits if hit["path"] == path]

    assert told(as_of=then) == [("procedural", ["sea", "zoo"])]
    for asked in ({"tags": ["sea"]}, {"kind": "procedural"}, {"tier": "pinned"}):
        assert told(as_of=then, **asked) and not told(**asked)
    assert not told(as_of=then, tags=["land"]) and told(tags=["land"]) == told()


def test_a_file_without_a_date_counts_from_when_it_was_first_written(client: Client, workspace: Path) -> None:
    file = workspace / "MEMORY.md"
    file.write_text("## Penguin\n\nThe penguin is called Pia.\n")
    written = datetime(2026, 1, 5, 12).timestamp()
    os.utime(file, (written, written))
    client.sync()
    change(client, file, "Pia", "Polly")
    (hit,) = client.query("penguin called", mode="text", as_of="2026-01-31")["hits"]
    assert "Pia" in hit["text"] and hit["date"] == "2026-01-05"
    assert not found(client, "penguin called", as_of="2026-01-04")


def test_before_the_ledger_kept_facts_a_section_has_those_of_its_text(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent", {DAY: "## Otto\n\nOtto the walrus eats herring. #sea\n"})
    stores, index = opened(tmp_path / "state", root)
    sync(stores, index)
    then = as_of.moment(now())
    (root / DAY).write_text("## Otto\n\nOtto the walrus eats herring. #land\n")
    sync(stores, index)
    with stores.ledger.write() as connection:
        connection.execute("DELETE FROM facts")
        connection.execute("UPDATE meta SET value = ? WHERE key = 'facts_since'", (actions.now(),))
    (hit,) = as_of.search_as_of(stores, Ask("walrus", ("agent",), mode="text"), then).hits
    assert (hit.key, hit.tags) == ("2026-02-15#otto", ["sea"])
    stores.close()


@pytest.mark.parametrize("mode", ["text", "hybrid", "exact"])
def test_a_memory_has_the_key_that_it_had_then(client: Client, workspace: Path, mode: str) -> None:
    """Whether its file was renamed, it was moved to another one, or a section of its name went."""
    client.sync(vectors=True)
    file, other = workspace / "memory/2026-03-05.md", workspace / "memory/2026-03-06.md"
    file.write_text("## Todo\n\nFeed the lynx.\n\n## Todo\n\nFeed the otter.\n")
    client.sync()
    before = now()
    file.write_text("## Todo\n\nFeed the otter.\n")
    client.sync()
    between = now()
    file.rename(other)
    client.sync()
    change(client, other, "otter", "otter twice")
    keys = {before: "2026-03-05#todo-2", between: "2026-03-05#todo", now(): "2026-03-06#todo"}
    for then, key in keys.items():
        (hit, *_) = client.query("feed the otter", mode=mode, as_of=then)["hits"]
        told = client.get(key, as_of=then)
        assert (hit["key"], hit["path"]) == (key, told["path"]) and "otter" in hit["text"] and "otter" in told["text"]
        for elsewhen in keys.keys() - {then}:
            with suppress(NotFound):
                assert "otter" not in client.get(key, as_of=elsewhen)["text"]


def test_a_memory_is_in_the_tier_that_it_had_then(client: Client) -> None:
    client.curate(GARDEN, "archive", ns="agent")
    archived = now()
    client.curate(GARDEN, "promote", ns="agent")
    (hit,) = client.query("apple trees", mode="text", as_of=archived, tier="dormant")["hits"]
    assert (hit["key"], hit["tier"]) == (GARDEN, "dormant") and not found(client, "apple trees", tier="dormant")
    assert not found(client, "apple trees", as_of=archived, tier="stm")


def test_what_was_not_shown_then_is_not_shown_as_of_then(client: Client, workspace: Path) -> None:
    client.curate(GARDEN, "delete", ns="agent")
    deleted = now()
    client.undo()
    assert found(client, "apple trees", as_of=now()) and not found(client, "apple trees", as_of=deleted)


@pytest.mark.parametrize("mode", ["text", "hybrid", "vector", "exact"])
def test_the_past_is_asked_in_its_own_words(client: Client, workspace: Path, mode: str) -> None:
    client.sync(vectors=True)
    then = now()
    change(client, workspace / DAY, "two apple trees behind the shed", "nothing at all")
    (workspace / "memory/2026-02-16.md").unlink()
    client.sync(vectors=True)
    assert "apple" not in " ".join(found(client, "apple trees", mode=mode))
    told = client.query("apple trees", mode=mode, as_of=then)["hits"]
    assert "two apple trees" in told[0]["text"] and told[0]["version"] == 1 and told[0]["key"] == GARDEN
    assert "nothing at all" not in " ".join(found(client, "nothing at all", mode=mode, as_of=then))
    archive = client.query("photo archive", mode=mode, as_of=then)["hits"]
    assert archive[0]["path"] == "memory/2026-02-16.md", "the file is gone, its text is not"
    assert client.query("apple trees", mode=mode, as_of=now())["hits"][:1] != told[:1]


def test_what_stands_unchanged_is_found_as_ever(client: Client, workspace: Path) -> None:
    plain = client.query("ErsatzTV skill", mode="text")["hits"]
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    past = client.query("ErsatzTV skill", mode="text", as_of=now())["hits"]
    assert [hit["id"] for hit in past] == [hit["id"] for hit in plain]
    assert past[0]["score"] == pytest.approx(plain[0]["score"], abs=0.05)


def test_get_as_of_gives_the_version_of_then(client: Client, workspace: Path) -> None:
    first = now()
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    second = now()
    change(client, workspace / DAY, "## Garden\n\nPlanted three pear trees behind the shed.\n", "")
    assert "two apple" in client.get(GARDEN, as_of=first)["text"]
    assert "three pear" in client.get(GARDEN, as_of=second)["text"]
    with pytest.raises(NotFound):
        client.get(GARDEN, as_of=now())
    # A daily note counts from its day.
    assert "two apple" in client.get(GARDEN, as_of="yesterday")["text"]
    assert client.query("apple trees", as_of="last week")["hits"][0]["key"] == GARDEN
    with pytest.raises(NotFound):
        client.get(GARDEN, as_of="20 years ago")
    for wrong in ("someday", "2026-13-01"):
        with pytest.raises(UsageError, match="as_of"):
            client.get(GARDEN, as_of=wrong)


def test_a_version_begins_after_its_text_was_read(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent")
    stores, index = opened(tmp_path / "state", root)
    read: list[str] = []

    def restless(path: str, mtime_ns: int) -> bool:
        time.sleep(0.005)
        read.append(actions.now())
        return False

    how = 1_000_000, ingest.PLAIN, lambda: False
    for _ in ingest.apply_in_pieces(stores, index, [DAY], *how, restless=restless):
        pass
    (first,) = stores.ledger.reader.execute("SELECT MIN(at) FROM versions").fetchone()
    assert read and first >= read[-1]


# --- on the command line ----------------------------------------------------------------------------------------


def test_the_commands(client: Client, home: Home, workspace: Path) -> None:
    change(client, workspace / DAY, "two apple trees", "three pear \x1b[31mtrees")
    shown = home.run("history", GARDEN, cwd=workspace)
    assert shown.returncode == 0 and shown.stdout.startswith("@2 ") and "(current)" in shown.stdout
    shown = home.run("diff", GARDEN, cwd=workspace)
    assert "-Planted two apple trees behind the shed.\n" in shown.stdout
    shown = home.run("restore", f"{GARDEN}@1", cwd=workspace)
    assert shown.returncode == 0 and f"Restored {GARDEN}@1 in {DAY}" in shown.stdout
    assert "two apple trees" in (workspace / DAY).read_text()
    shown = home.run("undo", cwd=workspace)
    assert shown.returncode == 0 and f"(restore of {GARDEN}) in {DAY}" in shown.stdout
    assert "three pear" in (workspace / DAY).read_text()
    assert home.run("undo", cwd=workspace).returncode == 1
    shown = home.run("log", cwd=workspace)
    assert "undo" in shown.stdout.splitlines()[0] and "restore" in shown.stdout.splitlines()[1]
    assert home.run("history", "nothing#here", cwd=workspace).returncode == 1
    assert home.run("restore", f"{GARDEN}@x", cwd=workspace).returncode == 2
    client.sync(vectors=True)  # while the model loads, nothing found is not sure
    assert home.run("query", "ErsatzTV", "--as-of", "2026-02-14", cwd=workspace).returncode == 1
    shown = home.run("query", "ErsatzTV", "--as-of", "2026-02-15", "--json", cwd=workspace)
    assert shown.returncode == 0 and json.loads(shown.stdout)["hits"][0]["version"] == 1
    shown = home.run("get", GARDEN, "--as-of", "2026-02-15", cwd=workspace)
    assert "two apple trees" in shown.stdout
    (workspace / DAY).unlink()
    client.sync()
    shown = home.run("trash", cwd=workspace)
    assert f"{DAY} (the whole file)" in shown.stdout and f"memd restore {GARDEN}@" in shown.stdout
    assert home.run("restore", DAY, cwd=workspace).returncode == 0 and (workspace / DAY).exists()
    for command in ("history", "diff"):
        assert json.loads(home.run(command, GARDEN, "--json", cwd=workspace).stdout)["key"] == GARDEN


# --- killed -----------------------------------------------------------------------------------------------------


def test_what_a_killed_process_wrote_is_on_the_disk_before_it_counts_as_done(
    tmp_path: Path, synced: list[tuple[str, bytes]]
) -> None:
    """It was killed between its write and its fsync, and nothing is left to do but that."""
    (tmp_path / "agent").mkdir()
    stores, index = opened(tmp_path / "state", tmp_path / "agent")
    with stores.ledger.write() as connection:
        action = actions.begin(connection, index.id, "cli", "note", paths=["MEMORY.md"])
        actions.keep_splice(connection, action, 0, actions.splice_of("MEMORY.md", None, b"## A\n"))
    (tmp_path / "agent" / "MEMORY.md").write_bytes(b"## A\n")
    synced.clear()
    write_files.recover(stores, index)
    assert ("MEMORY.md", b"## A\n") in synced and ("agent", b"") in synced
    state = stores.ledger.reader.execute("SELECT state FROM actions WHERE id = ?", (action,)).fetchone()["state"]
    assert state == "done"
    stores.close()


@pytest.mark.parametrize(
    ("place", "state"), [("safe-write-before-exchange", "failed"), ("safe-write-exchanged", "done")]
)
def test_a_killed_write_is_decided_by_what_stands_in_the_file(
    home: Home, workspace: Path, place: str, state: str
) -> None:
    client = serve(home, workspace)
    client.sync()
    change(client, workspace / DAY, "two apple trees", "three pear trees")
    edited = (workspace / DAY).read_bytes()
    assert home.stop() == 0
    client = home.start(MEMD_FAILPOINT=place)
    with pytest.raises(MemdError):
        client.call("restore", {"key": GARDEN, "version": 1})
    assert home.daemon is not None and home.daemon.wait(PATIENCE) == -9
    client = home.start()
    client.sync()
    (entry,) = client.log(what="restore")["entries"]
    assert entry["state"] == state
    assert (workspace / DAY).read_bytes() == (edited if state == "failed" else NOTES[DAY].encode())
    assert not list(workspace.rglob("*.memd-aside")) and not list(workspace.rglob("*.conflict-*"))


# --- retention and purging --------------------------------------------------------------------------------------


def test_former_texts_go_when_they_are_old_and_the_last_two_stay(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent")
    stores, index = opened(tmp_path / "state", root)
    file = root / "memory/2026-02-16.md"
    for word in ("one", "two", "three", "four"):
        file.write_text(f"# Day\n\n## Backup\n\nnumber {word}\n\n#{word}\n")
        sync(stores, index)
    memory = stores.ledger.reader.execute("SELECT id FROM memories WHERE slug = 'backup'").fetchone()["id"]
    with stores.ledger.write() as connection:
        assert history.expire(connection, "2026-01-01T00:00:00.000+00:00") == 0
    assert len(history.versions(stores.ledger.reader, memory)) == 4
    facts = "SELECT COUNT(*) FROM facts"
    assert catalog.number_of(stores.ledger.reader, facts) == 3
    with stores.ledger.write() as connection:
        assert history.expire(connection, actions.now()) == 2
        assert history.expire(connection, actions.now()) == 0
    assert catalog.number_of(stores.ledger.reader, facts) == 0
    left = history.versions(stores.ledger.reader, memory)
    assert [version.number for version in left] == [3, 4]
    texts = [history.text_of(stores.ledger.reader, version.digest or "") for version in left]
    assert [text and text.split()[-1] for text in texts] == ["#three", "#four"]
    kept = stores.ledger.reader.execute("SELECT COUNT(*) FROM texts").fetchone()[0]
    assert kept == stores.ledger.reader.execute("SELECT COUNT(DISTINCT digest) FROM versions").fetchone()[0]
    stores.close()


def holders(state: Path, word: str) -> list[str]:
    """Every file that has a word, as it is or in anything that zlib can unpack, in whatever letters."""
    found = []
    for file in (file for file in state.rglob("*") if file.is_file()):
        data = file.read_bytes()
        pieces = [text.lower() for text in (data, *_unpacked(data))]
        if any(word.encode(code) in text for text in pieces for code in ("utf-8", "utf-16-le", "utf-16-be")):
            found.append(str(file.relative_to(state)))
    return found


def _unpacked(data: bytes) -> list[bytes]:
    found = []
    for start in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
        with suppress(zlib.error):
            found.append(zlib.decompressobj().decompress(data[start.start() : start.start() + 65_536]))
    return found


def test_a_hard_removal_leaves_no_trace(home: Home, workspace: Path) -> None:
    # A backup from before would be named, and stay: a daemon that rests makes its first one.
    client = serve(home, workspace, '[jobs]\nbackup = "off"\n')
    file = workspace / "memory/2026-03-01.md"
    hush = "the zyxquokka is kept in the cellar #zyxquokka"
    file.write_text(f"# Day\n\n## Hush\n\n{hush}\n\n## Kept\n\nthe plain marmot\n")
    client.sync(vectors=True)
    change(client, file, "in the cellar #zyxquokka", "in the grumblefjord attic #grumblefjord")
    client.restore("2026-03-01#hush", 1)
    client.sync(vectors=True)
    assert holders(home.state, "zyxquokka"), "the test would see it"
    told = client.call("rm", {"key": "2026-03-01#hush", "hard": True})
    assert home.stop() == 0
    for word in ("zyxquokka", "grumblefjord"):
        assert holders(home.state, word) == [], told
        assert word not in file.read_text()
    assert holders(home.state, "marmot"), "the neighbour stays"
    client = home.start()
    client.sync()
    assert found(client, "marmot") and not found(client, "zyxquokka")
    with pytest.raises(NotFound):
        client.history("2026-03-01#hush")


def test_a_text_that_was_forgotten_is_no_empty_text(client: Client, workspace: Path) -> None:
    hush = "## Hush\n\nthe zyxquokka is kept in the grumblefjord attic\n\n"
    file = workspace / "memory/2026-03-01.md"
    file.write_text(f"# Day\n\n{hush}{hush.replace('Hush', 'Plain')}")
    client.sync()
    file.write_text(f"# Day\n\n{hush}## Plain\n\nthe marmot\n")
    client.sync()
    client.call("rm", {"key": "2026-03-01#hush", "hard": True})
    for ask in (client.diff, lambda key: client.get(key, version=1), lambda key: client.restore(key, 1)):
        with pytest.raises(NotFound):
            ask("2026-03-01#plain")


def test_a_hard_removal_waits_for_a_collection_that_is_not_open_yet(home: Home, workspace: Path) -> None:
    """As after a start: the model is loaded first, and Chroma still has the text."""
    home.collections = True
    client = serve(home, workspace, '[jobs]\nbackup = "off"\n')
    client.sync(vectors=True)
    assert client.doctor()["ok"] and holders(home.state / "chroma", "apple trees"), "the test would see it"
    assert home.stop() == 0
    told = home.start().call("rm", {"key": GARDEN, "hard": True})
    assert told["purged"]["collection"] == "made again" and told["kept"] == []
    assert home.stop() == 0 and holders(home.state, "apple trees") == []


def test_a_hard_removal_names_the_backups_that_it_cannot_reach(client: Client, home: Home, workspace: Path) -> None:
    backup = home.state / "backups" / "state-2026.db"
    backup.parent.mkdir(exist_ok=True)
    backup.write_bytes(b"an old copy")
    assert client.job_run("backup")["job"]["ok"]
    (night,) = backup.parent.glob("state-night-*.db")
    copied = night.read_bytes()
    told = client.call("rm", {"key": GARDEN, "hard": True})
    assert {str(backup), str(night)} <= {one["what"] for one in told["kept"]}
    assert backup.read_bytes() == b"an old copy" and night.read_bytes() == copied
