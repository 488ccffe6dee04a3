"""`memd grep`: what a careful person does with grep over every memory file, from the files themselves."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memd.daemon.handlers.handler_context import ALONE
from memd.errors import MemdError, TooLarge, UsageError
from memd.indexer.query import grep as exact
from memd.indexer.query.pattern import MAX_LINE, MAX_PATTERN, Pattern
from memd.models import Workspace
from memd.protocol.client import Client
from tests.conftest import Home, write_notes

DAY = "# 2026-02-15\n\nfirst\nsecond\nthird\nErsatzTV at noon\nfifth\nsixth\nseventh\neighth\nninth\ntenth\n"
NOTES = {
    "MEMORY.md": "# Memory\n\nThe ersatztv box hums.\n",
    "memory/2026-02-15.md": DAY,
    "memory/2026-03-01.md": "ErsatzTV again\n",
    "memory/topics/tv.md": "No box here.\n",
}
LONG_AGO = 1_577_836_800
"""The first day of 2020, in seconds."""


def started(home: Home) -> Client:
    root = write_notes(home.path.parent / "agent", NOTES)
    os.utime(root / "MEMORY.md", (LONG_AGO, LONG_AGO))
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\npath = "{root}"\nns = "agent"\n')
    return home.start()


@pytest.fixture
def memory(home: Home) -> Iterator[Client]:
    """A daemon of the test's own, whose files it may change."""
    with started(home) as client:
        yield client


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    """A daemon for the tests that only look."""
    folder = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(folder / "h")
    try:
        started(home).close()
        yield home
    finally:
        home.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def looking(place: Home) -> Iterator[Client]:
    with Client(str(place.socket)) as client:
        yield client


def grep(memory: Client, pattern: str, **params: Any) -> list[dict[str, Any]]:
    return list(memory.call("grep", {"pattern": pattern, **params})["blocks"])


def places(blocks: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(block["path"], block["line"]) for block in blocks]


# --- the pattern ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "text", "spans"),
    [
        ("ersatz", "An ErsatzTV\nERSATZ", {1: [(3, 9)], 2: [(0, 6)]}),
        ("a.b", "axb a.b", {1: [(4, 7)]}),
        ("strasse", "Die Straße hier", {1: [(4, 10)]}),
        ("STRASSE", "Die strasse\nx", {1: [(4, 11)]}),
        ("café", "Cafe\u0301 und CAFÉ", {1: [(0, 5), (10, 14)]}),
        ("b\nc", "a b\nc d", {1: [(2, 3)], 2: [(0, 1)]}),
        ("日本", "ここは日本です", {1: [(3, 5)]}),
        ("#", "a # b", {1: [(2, 3)]}),
        ("two  words", "two  words, two words", {1: [(0, 10)]}),
    ],
)
def test_plain_text_is_found_where_it_stands(wanted: str, text: str, spans: dict[int, list[tuple[int, int]]]) -> None:
    assert Pattern(wanted).matches(text) == spans


def test_a_text_that_repeats_itself_is_found_without_trying_every_place() -> None:
    line, wanted = "x" * 200_000, "X" * 150_000
    assert Pattern(wanted).matches(line) == {1: [(0, 150_000)]}
    assert Pattern(wanted).matches(f"ß{line}") == {1: [(1, 150_001)]}
    assert Pattern(wanted, case=True).matches(line) == {}


@pytest.mark.parametrize(
    ("wanted", "text", "spans"),
    [("s", "ß ss", [(2, 3), (3, 4)]), ("SS", "ß xSs", [(0, 1), (3, 5)]), ("sss", "sß ßs", [(0, 2), (3, 5)]),
     ("x", "ßßx İx ﬁx", [(2, 3), (5, 6), (8, 9)]), ("fi", "ﬁ fi", [(0, 1), (2, 4)]),
     ("istanbul", "ß İstanbul", [(2, 10)]),
     ("İSPARTA", "ısparta", [(0, 7)]), ("ss", "Masßstab", [(3, 4)]),
     ("ß", "sẞ", [(1, 2)])],
)  # fmt: skip
def test_letters_that_are_several_in_small_ones_keep_their_places(
    wanted: str, text: str, spans: list[tuple[int, int]]
) -> None:
    assert Pattern(wanted).matches(text) == {1: spans}


def test_capitals_count_when_they_are_meant_to() -> None:
    assert Pattern("tv", case=True).matches("TV\ntv") == {2: [(0, 2)]}
    assert Pattern("^t", regular=True, case=True).matches("TV\ntv") == {2: [(0, 1)]}


def test_a_regular_expression_sees_one_line_at_a_time() -> None:
    assert Pattern(r"^b.*d$", regular=True).matches("abcd\r\nbcd\r\nb\nd") == {2: [(0, 3)]}
    assert Pattern(r"a\s+b", regular=True).matches("a\nb") == {}
    assert Pattern("x*", regular=True).matches("ab") == {1: []}


@pytest.mark.parametrize(
    ("wanted", "where"), [("(a+", "character 4"), ("a**", "character 3"), ("[z-a]", "character"), (r"(?R)+", "itself")]
)
def test_a_bad_pattern_says_where(wanted: str, where: str) -> None:
    with pytest.raises(UsageError, match=where) as refused:
        Pattern(wanted, regular=True)
    assert wanted in refused.value.hint and "^" in refused.value.hint


def test_a_pattern_that_is_a_book_is_refused() -> None:
    with pytest.raises(TooLarge):
        Pattern("a" * (MAX_PATTERN + 1), regular=True)
    with pytest.raises(UsageError, match="too deep"):
        Pattern("(" * 400 + "a" + ")" * 400, regular=True)


def test_a_pattern_that_calls_itself_is_told_from_one_that_looks_so() -> None:
    assert Pattern(r"\(\?R\)", regular=True).matches("a (?R) b") == {1: [(2, 6)]}


def test_a_line_without_end_is_looked_at_as_far_as_promised() -> None:
    pattern = Pattern("b", regular=True)
    assert pattern.matches("a" * MAX_LINE + "b") == {} and pattern.cut
    assert Pattern("b").matches("a" * MAX_LINE + "b") == {1: [(MAX_LINE, MAX_LINE + 1)]}


# --- blocks -----------------------------------------------------------------------------------------------------


def test_newest_files_come_first_with_their_lines(looking: Client) -> None:
    blocks = grep(looking, "ersatztv")
    assert places(blocks) == [("memory/2026-03-01.md", 1), ("memory/2026-02-15.md", 6), ("MEMORY.md", 3)]
    assert blocks[1]["lines"] == ["first", "second", "third", "ErsatzTV at noon", "fifth", "sixth", "seventh"]
    assert (blocks[1]["start_line"], blocks[1]["end_line"]) == (3, 9)
    assert blocks[1]["matches"] == [{"line": 6, "spans": [[0, 8]]}]
    assert blocks[0]["lines"] == ["ErsatzTV again"]


def test_a_file_without_a_date_is_as_new_as_its_last_change(memory: Client, home: Home) -> None:
    root = home.path.parent / "agent"
    os.utime(root / "MEMORY.md")
    assert places(grep(memory, "ersatztv"))[0] == ("MEMORY.md", 3)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (0, [(3, 3), (8, 8)]),
        (1, [(2, 4), (7, 9)]),
        (2, [(1, 10)]),  # 1-5 and 6-10 touch
        (3, [(1, 11)]),
    ],
)
def test_contexts_that_touch_are_one_block(looking: Client, context: int, expected: list[tuple[int, int]]) -> None:
    blocks = grep(looking, "^(first|sixth)$", regex=True, context=context)
    assert [(block["start_line"], block["end_line"]) for block in blocks] == expected
    assert [match["line"] for block in blocks for match in block["matches"]] == [3, 8]
    assert blocks[0]["line"] == 3


def test_the_files_answer_and_not_the_index(memory: Client, home: Home) -> None:
    root = home.path.parent / "agent"
    (root / "memory" / "2026-03-02.md").write_text("A zyzzyva.\n")
    assert places(grep(memory, "zyzzyva")) == [("memory/2026-03-02.md", 1)]
    memory.sync()
    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.execute("DELETE FROM chunks")
    assert places(grep(memory, "zyzzyva")) == [("memory/2026-03-02.md", 1)]
    (root / "memory" / "2026-03-02.md").unlink()
    assert grep(memory, "zyzzyva") == []


@pytest.mark.parametrize(
    ("path", "count"), [("memory", 2), ("memory/", 2), ("MEMORY.md", 1), ("memory/2026-02-*", 1), ("nowhere", 0)]
)
def test_a_path_narrows_it(looking: Client, path: str, count: int) -> None:
    assert len(grep(looking, "ersatztv", path=path)) == count


def test_a_path_may_be_given_in_another_spelling(memory: Client, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(workspace)
    other = write_notes(tmp_path / "other", {"memory/2026-02-15.md": "## Fence\n\nThe ErsatzTV fence is red.\n"})
    memory.workspace_add(str(other))
    file = "memory/2026-02-15.md"
    spellings = (
        f"./{file}",
        f"memory/./{file.removeprefix('memory/')}",
        f"{workspace}/{file}",
        f"{tmp_path}/link/{file}",
    )
    for path in (file, *spellings):
        for ns in ["agent"], ["agent", "other"]:
            calls = (
                memory.query("ErsatzTV", mode="text", path=path, ns=ns)["hits"],
                memory.grep("ErsatzTV", path=path, ns=ns)["blocks"],
                memory.list(path=path, ns=ns)["memories"],
                memory.tree(path, ns=ns)["memories"],
                memory.context("ErsatzTV", path=path, ns=ns)["memories"],
            )
            expected = {"agent", *(ns if not path.startswith("/") else [])}
            assert all({one["ns"] for one in found} == expected for found in calls), (path, ns, calls)
        assert memory.why_not(path, 3, "ErsatzTV", ns=["agent"])["indexed"], path
        assert memory.get(path=path, from_=3, lines=1, ns=["agent"])["path"] == file
    elsewhere = {"path": f"{workspace}/{file}", "cwd": str(other)}
    assert memory.get(**elsewhere)["ns"] == memory.list(**elsewhere)["memories"][0]["ns"] == "agent"
    everything = memory.list(ns=["agent"])["memories"]
    for path in (".", "./", str(workspace), f"{tmp_path}/link/"):
        assert memory.list(path=path, ns=["agent"])["memories"] == everything
    for path in ("/nowhere", "../agent", "a\0b", "/a\0b", f"{tmp_path}/link/../other"):
        assert memory.list(path=path, ns=["agent"])["memories"] == [], path


def test_answers_are_continued_where_they_ended(looking: Client) -> None:
    seen: list[tuple[str, int]] = []
    after = ""
    while True:
        page = looking.call("grep", {"pattern": "e", "context": 0, "max_results": 2, "after": after})
        assert len(page["blocks"]) == 2 or not page["next"]
        seen += places(page["blocks"])
        if not (after := page["next"]):
            break
    whole = looking.call("grep", {"pattern": "e", "context": 0, "max_results": 0})
    assert seen == places(whole["blocks"]) and len(seen) > 4 and whole["next"] == ""
    with pytest.raises(UsageError, match="after"):
        grep(looking, "e", after="nonsense")


def test_a_large_answer_comes_in_parts(memory: Client, home: Home) -> None:
    line = "wide " * 20_000
    (home.path.parent / "agent/memory/wide.md").write_text((line + "\n\n") * 15)
    first = memory.call("grep", {"pattern": "wide", "context": 0, "max_results": 0})
    assert 0 < len(first["blocks"]) < 15 and first["next"]
    shown = home.run("grep", "wide", "-C", "0", "--max-results", "0")
    assert shown.stdout.count("memory/wide.md (line") == 15


def test_what_cannot_be_read_is_told(memory: Client, home: Home) -> None:
    (home.path.parent / "agent/memory/picture.md").write_bytes(b"\x00\x01\x02" * 400)
    told = memory.call("grep", {"pattern": "zyzzyva"})
    assert told["skipped"] == [{"ns": "agent", "path": "memory/picture.md", "why": "it is binary"}]
    blank = memory.call("grep", {"pattern": "^$", "regex": True, "max_results": 0})
    assert blank["blocks"] and all(block["path"] != "memory/picture.md" for block in blank["blocks"])
    done = home.run("grep", "zyzzyva")
    assert done.returncode == 1 and "not read: memory/picture.md (it is binary)" in done.stderr


def test_a_workspace_that_is_gone_is_told(memory: Client, home: Home) -> None:
    (home.path.parent / "agent").rename(home.path.parent / "elsewhere")
    told = memory.call("grep", {"pattern": "ersatztv"})
    assert told["blocks"] == [] and told["skipped"] == [
        {"ns": "agent", "path": "", "why": "the directory is not there"}
    ]


def test_a_pattern_without_end_is_stopped_while_others_are_answered(memory: Client, home: Home) -> None:
    (home.path.parent / "agent/memory/trap.md").write_text("a" * 5_000 + "b\n")
    stopped: list[MemdError] = []

    def trapped() -> None:
        with Client(str(home.socket)) as client, pytest.raises(MemdError, match="was stopped after 2 seconds") as error:
            client.call("grep", {"pattern": "(a+)+$", "regex": True})
        stopped.append(error.value)

    thread = threading.Thread(target=trapped)
    thread.start()
    answered = 0
    while thread.is_alive():
        assert memory.ping()["pong"]
        answered += 1
        time.sleep(0.01)
    thread.join()
    assert stopped and stopped[0].exit_code == 6 and stopped[0].hint
    assert answered > 1


def test_expressions_without_end_do_not_fill_the_readers(memory: Client, home: Home) -> None:
    (home.path.parent / "agent/memory/trap.md").write_text("a" * 5_000 + "b\n")
    for _ in range(ALONE + 1):
        memory.query("ErsatzTV")
    stopped: list[MemdError] = []

    def trapped() -> None:
        with Client(str(home.socket), timeout=300) as client, pytest.raises(MemdError, match="was stopped") as error:
            client.call("grep", {"pattern": "(a|aa)+$", "regex": True})
        stopped.append(error.value)

    threads = [threading.Thread(target=trapped) for _ in range(12)]
    for thread in threads:
        thread.start()
    answered = 0
    while any(thread.is_alive() for thread in threads):
        assert memory.query("ErsatzTV")["hits"]
        answered += 1
    # Behind expressions that have every reader, there would be one answer to each round of them.
    assert answered > 12
    assert len(stopped) == 12


def test_exact_mode_finds_the_same_lines(memory: Client, home: Home) -> None:
    hits = memory.query("ersatztv", mode="exact", limit=50)["hits"]
    assert {hit["path"] for hit in hits} == {path for path, _ in places(grep(memory, "ersatztv"))}
    index: Any = type("Shelf", (), {"workspace": Workspace("agent", home.path.parent / "agent")})
    found = [(path, lines) for path, lines, _ in exact.lines_with(index, "ERSATZtv", 1 << 20)]
    assert found == [("memory/2026-03-01.md", [1]), ("memory/2026-02-15.md", [6]), ("MEMORY.md", [3])]


def test_exact_mode_does_not_miss_what_is_not_taken_in_yet(home: Home) -> None:
    root = write_notes(home.path.parent / "agent", NOTES)
    # A change is left alone for two seconds, longer than a question waits by itself.
    workspace = f'[[workspace]]\npath = "{root}"\nns = "agent"\n'
    home.configure(f'[embedding]\nprovider = "none"\n[watch]\nsettle_ms = 10000\n{workspace}')
    with home.start() as memory:
        memory.sync()
        (root / "memory/2026-03-02.md").write_text("ErsatzTV at last\n")
        (root / "MEMORY.md").write_text("# Memory\n\nThe box is gone.\n\n## TV\n\nAn ersatztv box hums.\n")
        hits = memory.query("ersatztv", mode="exact")["hits"]
    assert [hit["path"] for hit in hits] == [
        "MEMORY.md", "memory/2026-03-02.md", "memory/2026-03-01.md", "memory/2026-02-15.md",
    ]  # fmt: skip
    assert hits[0]["heading"].endswith("TV")


# --- the command ------------------------------------------------------------------------------------------------


def test_it_looks_as_promised(place: Home) -> None:
    done = place.run("grep", "noon", cwd=place.path.parent / "agent")
    block = (
        "--- memory/2026-02-15.md (line 6) ---\nfirst\nsecond\nthird\nErsatzTV at noon\nfifth\nsixth\nseventh\n---\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, block, "")
    assert place.run("grep", "-C1", "-E", "N[o]{2}n$").stdout == (
        "--- memory/2026-02-15.md (line 6) ---\nthird\nErsatzTV at noon\nfifth\n---\n"
    )


def test_matches_stand_out_in_colour(place: Home) -> None:
    shown = place.run("grep", "noon", "-C", "0", "--color=always").stdout
    assert "ErsatzTV at \x1b[1;33mnoon\x1b[0m\n" in shown


def test_the_rest_is_told_of_and_can_be_had(place: Home) -> None:
    few = place.run("grep", "ersatztv", "--max-results", "1")
    assert few.stdout.count("(line ") == 1 and "--max-results 0" in few.stderr
    every = place.run("grep", "ersatztv", "--max-results", "0")
    assert every.stdout.count("(line ") == 3 and every.stderr == ""


def test_several_workspaces_are_named(memory: Client, home: Home) -> None:
    other = write_notes(home.path.parent / "other", {"MEMORY.md": "ErsatzTV there too.\n"})
    memory.workspace_add(other, ns="side")
    shown = home.run("grep", "ersatztv").stdout
    assert "--- side:MEMORY.md (line 1) ---" in shown and "--- agent:MEMORY.md (line 3) ---" in shown
    assert "--- MEMORY.md (line 1) ---" in home.run("grep", "ersatztv", "-n", "side").stdout
    assert "--- MEMORY.md (line 1) ---" in home.run("grep", "ersatztv", "-w", str(other)).stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["zyzzyva"], 1, "nothing found for “zyzzyva” in the files of agent"),
        (["ErsatzTV", "--case-sensitive"], 0, ""),
        (["ersatzTV", "--case-sensitive"], 1, "nothing found"),
        (["-i", "ERSATZTV"], 0, ""),
        (["-i", "x", "--case-sensitive"], 2, "exclude each other"),
        (["-E", "(a"], 2, "missing ) at character 3"),
        (["--", "-C"], 1, "nothing found"),
        (["-C", "x", "y"], 2, "-C"),
        (["two", "patterns"], 2, "patterns"),
        ([""], 2, "nothing to look for"),
        (["x", "-n", "nobody"], 2, "nobody"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_exit_codes_and_what_is_said(place: Home, args: list[str], code: int, said: str) -> None:
    done = place.run("grep", *args)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr
    assert bool(done.stdout) == (code == 0)


def test_json_is_the_wire_result_and_notes_cannot_drive_the_terminal(memory: Client, home: Home) -> None:
    (home.path.parent / "agent/memory/2026-04-01.md").write_text("A kestrel \x1b[2J \u202ehides.\n")
    told = json.loads(home.run("grep", "kestrel", "--json").stdout)
    assert told["blocks"][0]["lines"] == ["A kestrel \x1b[2J \u202ehides."]
    shown = home.run("grep", "kestrel", "--color", "always").stdout
    assert "kestrel" in shown and "\x1b[2J" not in shown and "\u202e" not in shown


def test_files_are_read_where_links_lead_inside_only(memory: Client, home: Home) -> None:
    (home.path.parent / "secret.md").write_text("ErsatzTV password\n")
    Path(home.path.parent / "agent/memory/out.md").symlink_to(home.path.parent / "secret.md")
    assert all(block["path"] != "memory/out.md" for block in grep(memory, "password"))
