"""What memd writes down stands in the files byte for byte, once, and is found: notes, saved texts, entries of roles."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from memd.config.schema import Settings
from memd.daemon.process.health import Health
from memd.daemon.writer import tasks
from memd.daemon.writer.queue import Turn
from memd.daemon.writer.worker import Worker
from memd.errors import MemdError, NotFound, Refused, SecretFound, UsageError
from memd.indexer.writing.write_files import FileChange, WriteAction
from memd.notes.names import layout_of
from memd.notes.parse import parse
from memd.protocol.client import Client
from tests.conftest import PATIENCE, ROOT, Home, write_notes
from tests.faults.agreement import eventually, rounds, serve
from tests.written import opened, sync

NOW = "2026-02-07T14:27"
DAILY = "memory/2026-02-07.md"
PAGE = ROOT / "docs" / "writing.md"
SECRET = "the key is ghp_" + "a1B2" * 10


@pytest.fixture
def client(home: Home, workspace: Path) -> Client:
    made = serve(home, workspace)
    made.sync()
    return made


def seq(clock: str) -> int:
    return int(clock.rpartition(":")[2])


# --- what is written --------------------------------------------------------------------------------------------


def test_nothing_is_written_where_the_folder_is_gone(client: Client, workspace: Path) -> None:
    client.note("The disk of Mimas is full.", now=NOW)
    away = workspace.rename(workspace.with_name("away"))
    for write in (client.note, lambda text: client.save(text, "long_term"), lambda text: client.put("parcel", text)):
        with pytest.raises(NotFound, match="is not there") as raised:
            write("buy milk")
        assert "memd remove" in raised.value.hint
    assert not workspace.exists()
    away.rename(workspace)
    client.sync()
    assert client.query("Mimas", mode="text")["verdict"] == "found"
    assert client.note("buy bread")["path"]


def test_a_note_makes_the_day_with_its_header_and_goes_on_with_it(client: Client, workspace: Path) -> None:
    first = client.note("The NAS moved to the cellar.", title="NAS", tags=["home", "network"], now=NOW)
    second = client.note("Bought bread.", now="2026-02-07T18:02")
    assert (workspace / DAILY).read_bytes() == (
        b"# 2026-02-07\n"
        b"\n## 14:27 NAS\n<!-- memd: tags=home,network -->\n\nThe NAS moved to the cellar.\n"
        b"\n## 18:02\n\nBought bread.\n"
    )
    assert (first["key"], second["key"]) == ("2026-02-07#14-27-nas", "2026-02-07#18-02")
    assert first["path"] == DAILY and first["paths"] == [DAILY] and not first["conflicts"]
    assert client.get(first["key"])["tags"] == ["home", "network"]


def test_equal_headings_are_told_by_the_keys_under_which_they_are_found(client: Client) -> None:
    keys = [client.note(f"pelican {nth}", now=NOW)["key"] for nth in range(3)]
    assert keys == ["2026-02-07#14-27", "2026-02-07#14-27-2", "2026-02-07#14-27-3"]
    for nth, key in enumerate(keys):
        assert client.get(key)["text"].endswith(f"pelican {nth}")


def test_a_text_that_begins_with_a_heading_is_titled_by_it(client: Client, workspace: Path) -> None:
    client.note("# Deploy\n\nIt works.\n", now=NOW)
    assert (workspace / DAILY).read_text().endswith("\n## 14:27 Deploy\n\nIt works.\n")


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("before\n\n## Not a section\n\nafter", "before\n\n### Not a section\n\nafter"),
        ("before\n\n# Nor this\n\nafter", "before\n\n### Nor this\n\nafter"),
        ("Underlined\n---\nafter", "### Underlined\nafter"),
        ("```sh\n# a comment\n## another\n```", "```sh\n# a comment\n## another\n```"),
        ("```\nnever closed", "```\nnever closed\n```"),
        ("<!-- never closed", "<!-- never closed\n-->"),
        ("windows\r\nlines", "windows\nlines"),
    ],
)
def test_no_text_opens_a_section_or_swallows_the_next(client: Client, workspace: Path, text: str, stands: str) -> None:
    client.note(text, title="One", now=NOW)
    client.note("second", title="Two", now=NOW)
    data = (workspace / DAILY).read_text()
    assert data == f"# 2026-02-07\n\n## 14:27 One\n\n{stands}\n\n## 14:27 Two\n\nsecond\n"
    assert [memory.heading for memory in parse(DAILY, data).memories] == ["14:27 One", "14:27 Two"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"# Day\r\n\r\nhello\r\n", b"# Day\r\n\r\nhello\r\n\r\n## 14:27\r\n\r\none\r\ntwo\r\n"),
        (b"# Day\n\nno end", b"# Day\n\nno end\n\n## 14:27\n\none\ntwo\n"),
        (b"# Day\r\nno end", b"# Day\r\nno end\r\n\r\n## 14:27\r\n\r\none\r\ntwo\r\n"),
        (b"\xef\xbb\xbf# Day\n", b"\xef\xbb\xbf# Day\n\n## 14:27\n\none\ntwo\n"),
        (b"latin \xe9\n", b"latin \xe9\n\n## 14:27\n\none\ntwo\n"),
        (b"", b"# 2026-02-07\n\n## 14:27\n\none\ntwo\n"),
    ],
)
def test_what_stands_in_a_file_stays_as_it_is(client: Client, workspace: Path, before: bytes, after: bytes) -> None:
    (workspace / DAILY).write_bytes(before)
    (workspace / DAILY).chmod(0o640)
    client.note("one\ntwo", now=NOW)
    assert (workspace / DAILY).read_bytes() == after
    assert (workspace / DAILY).stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("known", "daily", "long_term", "role"),
    [
        ([], "memory/D.md", "MEMORY.md", "memory/roles/r.md"),
        (["memory/MEMORY.md"], "memory/D.md", "memory/MEMORY.md", "memory/roles/r.md"),
        (["daily/2026-02-01.md"], "daily/D.md", "MEMORY.md", "memory/roles/r.md"),
        (["2026-02-01.md", "x/2026-02-01.md", "2026-02-02.md"], "D.md", "MEMORY.md", "memory/roles/r.md"),
        ([".muxcode/memory/edit.md"], "memory/D.md", "MEMORY.md", ".muxcode/memory/r.md"),
        (["memory/shared.md"], "memory/D.md", "MEMORY.md", "memory/r.md"),
    ],
)
def test_writes_go_where_the_workspace_keeps_such_things(
    known: list[str], daily: str, long_term: str, role: str
) -> None:
    layout = layout_of(known)
    assert (layout.daily_note("D"), layout.long_term, layout.role("r")) == (daily, long_term, role)


NEW_DAYS = [f"Daily/2026-10-{day:02}.md" for day in range(1, 32)]
OLD_DAYS = [f"Old/2020-{month:02}-{day:02}.md" for month in range(1, 13) for day in range(1, 20)]


@pytest.mark.parametrize(
    ("known", "day", "note"),
    [
        # The note of the day is there.
        (["Daily/2026-11-19.md", "Old/2025-01-01.md", "Old/2025-01-02.md"], "2026-11-19", "Daily/2026-11-19.md"),
        # Where those next to it are, however many are elsewhere.
        ([*NEW_DAYS, *OLD_DAYS], "2026-11-19", "Daily/2026-11-19.md"),
        ([*NEW_DAYS, *OLD_DAYS], "2020-03-30", "Old/2020-03-30.md"),
        # By year and month.
        (["J/2025/10/2025-10-30.md", "J/2025/10/2025-10-31.md", "J/2025/09/2025-09-01.md"], "2026-01-02",
         "J/2026/01/2026-01-02.md"),
        (["J/2025-10/2025-10-30.md"], "2025-11-02", "J/2025-11/2025-11-02.md"),
        # The team's are changed by review.
        (["team/2026-11-19.md"], "2026-11-19", "memory/2026-11-19.md"),
    ],
)  # fmt: skip
def test_a_daily_note_is_that_of_the_day_or_beside_those_next_to_it(known: list[str], day: str, note: str) -> None:
    assert layout_of(known).daily_note(day) == note


def test_a_workspace_with_a_daily_folder_gets_its_note_there(home: Home) -> None:
    root = home.path.parent / "ghost"
    (root / "daily").mkdir(parents=True)
    (root / "daily" / "2026-02-06.md").write_text("# 2026-02-06\n")
    client = serve(home, root)
    client.sync()
    assert client.note("hello", now=NOW)["path"] == "daily/2026-02-07.md"


# --- saving -----------------------------------------------------------------------------------------------------


def test_save_answers_in_the_words_agents_know(client: Client, workspace: Path) -> None:
    assert client.save("Likes tea.", "daily", now=NOW)["saved"] == "Saved to daily log (2026-02-07.md)"
    done = client.save("Likes tea.", "long_term", title="Tea", now=NOW)
    assert done["saved"] == "Saved to long-term memory (MEMORY.md)" and done["key"] == "MEMORY#tea"
    assert (workspace / "MEMORY.md").read_text().endswith("short answers. #style\n\n## Tea\n\nLikes tea.\n")
    with pytest.raises(UsageError, match="daily, long_term"):
        client.save("x", "somewhere")


@pytest.mark.parametrize("title", ["", "   "])
def test_without_a_title_a_saved_text_has_its_time(client: Client, workspace: Path, title: str) -> None:
    client.save("Likes tea.", "long_term", title=title, now=NOW)
    assert (workspace / "MEMORY.md").read_text().endswith("\n\n## 2026-02-07 14:27\n\nLikes tea.\n")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "index"),
    [
        (
            "# Memory\n\n## Facts\n\nOne.\n\n",
            "## General Project Knowledge\n\nGo.\n\n## Specialized Knowledge\n\n- a: b\n",
        ),
        ("# Memory\n\n## Facts\n\nOne.\n\n", "## Specialized Knowledge\n\n- a: b\n"),
        ("# Memory\n\nOne.\n\n", "## Topics\n\n### General Project Knowledge\n\nGo.\n"),
        ("# Memory\n\nOne.\n\n", "# General Project Knowledge\n\nGo.\n"),
    ],
)
def test_a_saved_text_goes_before_the_list_of_topics(
    client: Client, workspace: Path, before: str, index: str, ending: str
) -> None:
    memory = workspace / "MEMORY.md"
    memory.write_bytes((before + index).replace("\n", ending).encode())
    client.save("Likes tea.", "long_term", title="Tea", now=NOW)
    expected = f"{before}## Tea\n\nLikes tea.\n\n{index}".replace("\n", ending)
    assert memory.read_bytes().decode() == expected


# --- roles ------------------------------------------------------------------------------------------------------


def test_an_entry_of_a_role_has_exactly_these_bytes(client: Client, workspace: Path) -> None:
    role, shared = workspace / "memory/roles/edit.md", workspace / "memory/roles/shared.md"
    done = client.write("Build Config", "use pnpm for all builds", role="edit", now=NOW)
    assert role.read_bytes() == b"\n## Build Config\n_2026-02-07 14:27_\n\nuse pnpm for all builds\n"
    assert (done["path"], done["key"]) == ("memory/roles/edit.md", "edit#build-config")
    client.write("All", "hello", shared=True, now=NOW)
    assert shared.read_bytes() == b"\n## All\n_2026-02-07 14:27_\n\nhello\n"
    assert client.read("edit")["text"] == role.read_text()
    assert client.read()["text"] == shared.read_text()


def test_a_file_that_has_the_roles_name_is_the_roles_file(client: Client, workspace: Path) -> None:
    file = workspace / "memory" / "review.md"
    file.write_text("# Review\n")
    client.sync()
    assert client.write("A", "b", role="review", now=NOW)["path"] == "memory/review.md"
    assert client.read("review")["path"] == "memory/review.md"


@pytest.mark.parametrize("role", ["../x", "a/b", ".hidden", "2026-02-07", "", " "])
def test_a_role_is_a_plain_name(client: Client, role: str) -> None:
    with pytest.raises(UsageError):
        client.write("A", "b", role=role)


def test_what_nobody_wrote_is_not_found_and_near_names_are_told(client: Client) -> None:
    client.write("A", "b", role="builder", now=NOW)
    client.sync()
    with pytest.raises(NotFound) as error:
        client.read("buidler")
    assert "builder" in error.value.hint


def test_recent_without_a_role_has_the_daily_notes_and_every_role(client: Client) -> None:
    client.note("Slept well.", now=NOW)
    client.write("Build", "pnpm", role="edit", now=NOW)
    client.save("Never old.", now=NOW)
    text = client.recent(now=NOW)["text"]
    assert "# Daily Notes\n" in text and "Slept well." in text and "# edit Memory\n" in text and "pnpm" in text
    assert "Never old." not in text, "the long-term memory is not what was written lately"
    assert client.recent(now="2036-03-30T10:00")["text"] == ""


def test_recent_has_the_newest_first_within_days_and_budget(client: Client) -> None:
    client.write("Old", "too old", shared=True, now="2026-01-30T10:00", who="cli")
    client.write("One", "first", shared=True, now="2026-02-05T10:00", who="cli")
    client.write("Two", "second", shared=True, now="2026-02-06T10:00", who="cli")
    client.write("Mine", "own", role="edit", now="2026-02-07T09:00", who="cli")
    client.write("Long", "x" * 2_000, role="edit", now="2026-02-07T10:00", who="cli")
    told = client.recent("edit", now=NOW)
    assert [entry["title"] for entry in told["entries"]] == ["Long", "Mine", "Two", "One"] and told["left_out"] == 0
    told = client.recent("edit", now=NOW, budget=100)
    assert told["text"] == (
        "# Shared Memory\n\n"
        "## Two\n_2026-02-06 10:00_\n\nsecond\n\n"
        "## One\n_2026-02-05 10:00_\n\nfirst\n\n"
        "# edit Memory\n\n"
        "## Mine\n_2026-02-07 09:00_\n\nown\n\n"
        "(1 entry was left out to stay within 100 tokens.)\n"
    )
    assert told["left_out"] == 1 and told["tokens"] <= 100
    assert "Old" in client.recent("edit", now=NOW, days=30)["text"]
    assert client.recent("edit", now="2026-03-30T10:00")["text"] == "# Shared Memory\n\n# edit Memory\n"


# --- the command line -------------------------------------------------------------------------------------------


def test_the_commands(home: Home, workspace: Path, client: Client) -> None:
    today = datetime.now().date().isoformat()
    done = home.run("note", "--title", "NAS", "It", "moved.", "--tags", "a,b", cwd=workspace)
    assert done.returncode == 0 and done.stdout.startswith(f"Noted in memory/{today}.md ({today}#"), done.stderr
    done = home.run("save", "--target", "daily", "-", cwd=workspace, input="from\nstdin\n")
    assert done.stdout == f"Saved to daily log ({today}.md)\n"
    assert (workspace / f"memory/{today}.md").read_text().endswith("\n\nfrom\nstdin\n")
    done = home.run("save", "--target", "long_term", "Likes tea.", cwd=workspace)
    assert done.stdout == "Saved to long-term memory (MEMORY.md)\n"
    done = home.run("save", "--target", "elsewhere", "x", cwd=workspace)
    assert done.returncode == 2 and "daily" in done.stderr and "long_term" in done.stderr
    assert home.run("write", "Build", "use pnpm", "--role", "edit", cwd=workspace).returncode == 0
    assert home.run("write", "Build", "use pnpm", cwd=workspace).returncode == 2
    assert home.run("read", "--role", "edit", cwd=workspace).stdout == (workspace / "memory/roles/edit.md").read_text()
    assert home.run("read", cwd=workspace).returncode == 1
    done = home.run("recent", "--role", "edit", cwd=workspace)
    assert done.stdout.startswith("# Shared Memory\n\n# edit Memory\n\n## Build\n")
    done = home.run("note", "--json", "x", cwd=workspace)
    assert json.loads(done.stdout)["path"] == f"memory/{today}.md"
    assert home.run("note", "-", cwd=workspace, input=" \n").returncode == 2


def test_the_log_knows_who_wrote(home: Home, workspace: Path, client: Client) -> None:
    home.run("note", "x", cwd=workspace)
    client.note("y")
    rows = subprocess.run(
        [sys.executable, "-c", "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute("
         "'SELECT who, what, state FROM actions ORDER BY id').fetchall())", str(home.state / "state.db")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "('cli', 'note', 'done'), ('python', 'note', 'done')" in rows


def test_the_writers_time_zone_decides_the_day(home: Home, workspace: Path, client: Client) -> None:
    for zone, hours in (("<+14>-14", 14), ("<-11>11", -11)):
        there = timezone(timedelta(hours=hours))
        days = {datetime.now(there).date().isoformat()}
        path = json.loads(home.run("note", "--json", "x", cwd=workspace, TZ=zone).stdout)["path"]
        days.add(datetime.now(there).date().isoformat())
        assert path in {f"memory/{day}.md" for day in days}


def test_outside_of_several_workspaces_one_must_be_named(home: Home, workspace: Path, client: Client) -> None:
    other = home.path.parent / "other"
    (other / "memory").mkdir(parents=True)
    client.workspace_add(other)
    done = home.run("note", "x", cwd=home.path)
    assert done.returncode == 2 and "-n" in done.stderr
    assert home.run("note", "x", "-n", "other", cwd=home.path).returncode == 0
    assert list((other / "memory").glob("*.md"))


# --- found at once ----------------------------------------------------------------------------------------------


def test_a_question_sees_at_once_what_was_written(client: Client) -> None:
    for nth in range(20):
        client.note(f"a zebra{nth} crossed the road", now=NOW)
        hits = client.query(f"zebra{nth}", mode="text", sync="auto")["hits"]
        assert any(f"zebra{nth} " in hit["text"] for hit in hits), nth


def test_at_the_promised_clock_it_is_there(home: Home, workspace: Path) -> None:
    """Also while others write: two workspaces, and an editor in each."""
    other = home.path.parent / "other"
    (other / "memory").mkdir(parents=True)
    client = serve(home, workspace)
    client.workspace_add(other)
    client.sync()
    for nth in range(rounds(40, 400)):
        for root, ns in ((workspace, "agent"), (other, "other")):
            (root / "memory" / "edited.md").write_text(f"# Edited\n\nround {nth}\n")
            told = client.note(f"the okapi{nth}{ns} sleeps", ns=ns, now=NOW)
            if nth % 3 == 0:
                visible = seq(told["visible"])
                eventually(lambda visible=visible: seq(client.ping()["clock"]) >= visible)
                hits = client.query(f"okapi{nth}{ns}", ns=ns, mode="text", sync="none")["hits"]
                assert any(f"okapi{nth}{ns} " in hit["text"] for hit in hits), (nth, ns)


def test_what_moves_the_clock_comes_after_what_was_promised(client: Client) -> None:
    """An undo that changes no file, between a write and its place in the index."""
    for nth in range(3):
        useful = client.useful("2026-02-15#garden")
        told = client.note(f"the tapir{nth} swims", now=NOW)
        client.undo(useful["action"])
        eventually(lambda told=told: seq(client.ping()["clock"]) >= seq(told["visible"]))
        hits = client.query(f"tapir{nth}", mode="text", sync="none")["hits"]
        assert any(f"tapir{nth} " in hit["text"] for hit in hits), nth


def test_the_promised_clock_comes_though_the_file_is_as_it_was_indexed(tmp_path: Path) -> None:
    """Of a text that was undone before anybody looked there is nothing to index."""
    stores, index = opened(tmp_path / "state", write_notes(tmp_path / "agent"))
    sync(stores, index)
    worker = Worker(stores, Settings(), Health())
    note = WriteAction("note", "cli", (FileChange("memory/2026-02-15.md", append="## Vicuna\n\nIt grazes.\n"),))
    worker.submit(tasks.write, worker, "agent", note, turn=Turn.WRITES)
    (number,) = stores.ledger.reader.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM actions").fetchone()
    undone = worker.submit(tasks.undo, worker, "agent", number, "cli", turn=Turn.WRITES)
    worker.start()
    try:
        promised = undone.result().visible
        worker.applied().result()
        assert stores.ledger.clock == promised
    finally:
        worker.stop(10)
        stores.close()


# --- once -------------------------------------------------------------------------------------------------------


def test_a_repeated_request_is_one_deed(client: Client, workspace: Path) -> None:
    first = client.note("only once", now=NOW, request_id="r-1")
    again = client.note("only once", now="2026-02-08T09:00", request_id="r-1")
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert {name: first[name] for name in ("action", "paths", "key")} == {name: again[name] for name in ("action", "paths", "key")}  # fmt: skip # noqa: E501
    assert (workspace / DAILY).read_text().count("only once") == 1
    assert not (workspace / "memory/2026-02-08.md").exists()
    client.note("only once", now=NOW, request_id="r-2")
    assert (workspace / DAILY).read_text().count("only once") == 2


class Forgetful:
    """A way to the daemon that hands requests on and loses the first answer to a write."""

    def __init__(self, home: Home, path: Path) -> None:
        self._to, self._lost = str(home.socket), False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            caller, _ = self._listener.accept()
            threading.Thread(target=self._carry, args=(caller,), daemon=True).start()

    def _carry(self, caller: socket.socket) -> None:
        with caller, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(self._to)
            asked, answers = caller.makefile("rb"), daemon.makefile("rb")
            for line in asked:
                daemon.sendall(line)
                answer = answers.readline()
                if not self._lost and json.loads(line)["method"] == "note":
                    self._lost = True
                    return
                caller.sendall(answer)


def test_a_lost_connection_is_asked_again_and_written_once(home: Home, client: Client, workspace: Path) -> None:
    path = home.path.parent / "forgetful.sock"
    Forgetful(home, path)
    with Client(str(path)) as caller:
        caller.ping()
        assert caller.note("through a bad line", now=NOW)["repeated"]
    assert (workspace / DAILY).read_text().count("through a bad line") == 1


@pytest.mark.parametrize("place", ["safe-write-appended", "action-begun"])
def test_killed_while_it_writes_it_is_asked_again_and_written_once(home: Home, workspace: Path, place: str) -> None:
    serve(home, workspace).sync()
    home.stop()
    for nth in range(rounds(6, 40)):
        caller = home.start(MEMD_FAILPOINT=f"{place}:{nth % 3 + 1}")
        done, asked = [], []
        with pytest.raises(MemdError):
            for part in range(50):
                asked.append(f"{place}-{nth}-{part}")
                caller.note(f"quokka {asked[-1]}.", now=NOW, request_id=asked[-1])
                done.append(asked[-1])
        home.kill()
        caller = home.start()
        caller.note(f"quokka {asked[-1]}.", now=NOW, request_id=asked[-1])
        text = (workspace / DAILY).read_text()
        for one in asked:
            assert text.count(f"quokka {one}.") == 1, (one, place)
        assert any(f"quokka {asked[-1]}." in hit["text"] for hit in caller.query(asked[-1], mode="exact")["hits"])
        home.stop()


@pytest.mark.parametrize(
    ("left_open", "end"), [("```sh\nls\n", "```\n"), ("~~~~\nls", "\n~~~~\n"), ("<!-- later\n", "-->\n"), ("ls\n", "")]
)
def test_a_note_is_no_part_of_a_block_that_the_file_leaves_open(
    client: Client, workspace: Path, left_open: str, end: str
) -> None:
    before = f"# Day\n\n## Morning\n\n{left_open}"
    (workspace / DAILY).write_text(before)
    done = client.note("assam", title="Tea", now=NOW)
    assert (workspace / DAILY).read_text() == f"{before}{end}\n## 14:27 Tea\n\nassam\n"
    assert client.get(done["key"])["text"] == "## 14:27 Tea\n\nassam"
    client.undo()
    assert (workspace / DAILY).read_text() == before


# --- refused ----------------------------------------------------------------------------------------------------


def test_a_secret_is_refused_and_then_allowed(home: Home, client: Client, workspace: Path) -> None:
    for refused in (
        lambda: client.note(SECRET, now=NOW),
        lambda: client.note("x", title=SECRET, now=NOW),
        lambda: client.save(SECRET, "long_term"),
        lambda: client.write("A", SECRET, role="edit"),
    ):
        with pytest.raises(SecretFound) as error:
            refused()
        assert "ghp_" not in str(error.value) + error.value.hint
    assert not (workspace / DAILY).exists()
    done = home.run("note", SECRET, cwd=workspace)
    assert done.returncode == 5 and "--allow-secret" in done.stderr and "ghp_" not in done.stderr
    assert home.run("note", "--allow-secret", SECRET, cwd=workspace).returncode == 0
    client.note(SECRET, now=NOW, allow_secret=True)
    assert SECRET in (workspace / DAILY).read_text()


def test_a_link_inside_is_followed_and_one_that_leads_out_is_not(client: Client, workspace: Path) -> None:
    (workspace / "memory/real.md").write_text("# Real\n")
    (workspace / DAILY).symlink_to("real.md")
    client.note("through a link", now=NOW)
    assert (workspace / DAILY).is_symlink()
    assert (workspace / "memory/real.md").read_text() == "# Real\n\n## 14:27\n\nthrough a link\n"
    outside = workspace.parent / "outside.md"
    outside.write_text("mine\n")
    (workspace / "memory/2026-02-08.md").symlink_to(outside)
    with pytest.raises(Refused, match="leads out"):
        client.note("x", now="2026-02-08T10:00")
    assert outside.read_text() == "mine\n"


def test_a_file_with_two_names_is_refused(client: Client, workspace: Path) -> None:
    (workspace / DAILY).write_text("# Day\n")
    os.link(workspace / DAILY, workspace / "memory/twin.md")
    with pytest.raises(Refused, match="hard links"):
        client.note("x", now=NOW)
    assert (workspace / DAILY).read_text() == "# Day\n"


def test_utf16_and_binary_text_are_refused(client: Client, workspace: Path) -> None:
    before = "# Day\n".encode("utf-16")
    (workspace / DAILY).write_bytes(before)
    with pytest.raises(Refused, match="UTF-16"):
        client.note("x", now=NOW)
    assert (workspace / DAILY).read_bytes() == before
    with pytest.raises(UsageError, match="control characters"):
        client.note("a\0b", now="2026-02-08T10:00")


def test_what_no_question_could_find_is_not_written(home: Home, workspace: Path) -> None:
    home.configure(
        f'[index]\nmax_file_kb = 1\n[[workspace]]\npath = "{workspace}"\nns = "agent"\nglobs = ["memory/*.md"]\n'
    )
    client = home.start()
    client.sync()
    with pytest.raises(Refused, match="matches none of the globs"):
        client.save("x", "long_term")
    client.note("x" * 900, now=NOW)
    client.sync()
    with pytest.raises(Refused, match="max_file_kb"):
        client.note("y" * 900, now=NOW)
    assert "y" * 900 not in (workspace / DAILY).read_text()


@pytest.fixture
def closed(workspace: Path) -> Iterator[Path]:
    """The folder of the notes on a file system that cannot be written to."""
    folder = str(workspace / "memory")
    done = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"nothing can be mounted: {done.stderr.strip()}")
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    yield Path(folder)
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_folder_that_cannot_be_written_to_is_told(home: Home, workspace: Path, closed: Path) -> None:
    client = serve(home, workspace)
    client.sync()
    with pytest.raises(MemdError, match=r"2026-02-07\.md could not be written: Read-only file system"):
        client.note("x", now=NOW)
    with pytest.raises(MemdError, match=r"2026-02-15\.md could not be written: Read-only file system"):
        client.note("x", now="2026-02-15T10:00")
    assert client.ping()["pong"]


# --- together ---------------------------------------------------------------------------------------------------

WRITER = """
import sys
from memd.protocol.client import Client
socket, name, day, first, last = sys.argv[1:]
with Client(socket) as client:
    for nth in range(int(first), int(last)):
        client.note(f"{name} wrote {nth}.", now=f"{day}T10:00")
        print(nth, flush=True)
"""
EDITOR = """
import sys
file, first, last = sys.argv[1:]
for nth in range(int(first), int(last)):
    with open(file, "a") as note:
        note.write(f"\\nthe editor wrote {nth}.\\n")
    print(nth, flush=True)
"""


def test_two_writers_and_an_editor_lose_nothing(home: Home, workspace: Path, client: Client) -> None:
    a_day = 250
    for nth in range(rounds(3, 20)):
        day, first, last = f"2026-03-{nth + 1:02d}", nth * a_day, (nth + 1) * a_day
        file = workspace / f"memory/{day}.md"
        file.write_text(f"# {day}\n")
        span = (str(first), str(last))
        racers = [[WRITER, str(home.socket), name, day, *span] for name in ("one", "two")]
        racers.append([EDITOR, str(file), *span])
        running = [subprocess.Popen([sys.executable, "-c", *racer], env={**home.env, "PYTHONPATH": str(ROOT)},
                                    stdout=subprocess.PIPE, text=True) for racer in racers]  # fmt: skip
        told = [process.communicate(timeout=PATIENCE)[0].split() for process in running]
        text = file.read_text()
        for name, numbers in zip(("one", "two", "the editor"), told, strict=True):
            assert len(numbers) == a_day
            missing = [number for number in numbers if text.count(f"{name} wrote {number}.\n") != 1]
            assert not missing, (name, missing[:5])
        assert not list(workspace.rglob("*.conflict-*"))
    client.sync()
    assert client.query("two wrote 17", mode="exact")["hits"]


# --- the page about it ------------------------------------------------------------------------------------------

FILES = dict(re.findall(r"^```markdown (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
"""The files that the page shows."""


def test_the_page_shows_what_is_written(home: Home) -> None:
    root = home.path.parent / "documented"
    (root / "memory").mkdir(parents=True)
    index = FILES["MEMORY.md"].index("## Specialized Knowledge")
    (root / "MEMORY.md").write_text("# Memory\n\n" + FILES["MEMORY.md"][index:])
    client = serve(home, root)
    client.sync()
    client.note("The NAS moved to the cellar.", title="NAS", tags=["home", "network"], now=NOW)
    client.note("Bought bread.", now="2026-02-07T18:02")
    client.save("Pierce likes it green.", "long_term", title="Tea", now=NOW)
    client.save("The router is called fjord.", "long_term", now=NOW)
    client.write("Build Config", "use pnpm for all builds", role="edit", now=NOW)
    for path in (DAILY, "MEMORY.md", "memory/roles/edit.md"):
        assert (root / path).read_text() == FILES[path], path


@pytest.mark.parametrize("path", FILES)
def test_the_files_on_the_page_can_be_read(path: str) -> None:
    note = parse(path, FILES[path])
    assert note.memories and not note.warnings


def test_who_saves_before_a_list_of_topics_is_told_the_key_that_it_has(client: Client) -> None:
    client.topic_memorize("deploy", content="hello", summary="s", ns="agent")

    def save(nth: int) -> tuple[str, str]:
        with Client(client.path) as one:
            return f"fact {nth}", one.save(f"Heading\n\nfact {nth}", ns="agent")["key"]

    with ThreadPoolExecutor(4) as pool:
        saved = list(pool.map(save, range(16)))
    assert all(fact in client.get(key, ns="agent")["text"].splitlines() for fact, key in saved)
