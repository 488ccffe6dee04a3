"""Asking over the socket: modes, filters, freshness, keys; each against a real daemon."""

from __future__ import annotations

import json
import shlex
import socket
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memd.errors import NotFound, TooLarge, UnknownWorkspace, UsageError
from memd.protocol.client import Client
from tests.conftest import Home, write_notes


def paths_of(answer: dict[str, Any]) -> list[str]:
    """Of everything that came up, what only comes near included."""
    return [hit["path"] for hit in (*answer["hits"], *answer["near"])]


def test_a_hit_says_everything_about_itself(memory: Client, workspace: Path):
    answer = memory.query("ErsatzTV")
    hit = answer["hits"][0]
    assert hit["text"] == (
        "## ErsatzTV\n\nSet up the ErsatzTV skill for Pierce.\nThe API endpoint is http://192.0.2.18:8409."
    )
    assert (hit["path"], hit["start_line"], hit["end_line"]) == ("memory/2026-02-15.md", 3, 6)
    assert (hit["key"], hit["heading"]) == ("2026-02-15#ersatztv", "2026-02-15 › ErsatzTV")
    assert (hit["kind"], hit["tier"], hit["role"], hit["date"]) == ("episodic", "stm", "daily", "2026-02-15")
    assert (hit["ns"], hit["root"], hit["also"]) == ("agent", str(workspace), [])
    assert hit["ranks"]["text"] == 1
    assert answer["verdict"] == "found"
    assert answer["degraded"] == []
    assert answer["pending"] == 0
    assert answer["clock"].startswith("c:")


def test_every_mode_finds_it_and_says_by_which_voice(memory: Client):
    for mode, voices in (
        ("text", {"text"}),
        ("vector", {"vector"}),
        ("exact", {"exact"}),
        ("hybrid", {"text", "vector"}),
    ):
        hit = memory.query("ErsatzTV skill", mode=mode)["hits"][0]
        assert hit["key"] == "2026-02-15#ersatztv"
        assert set(hit["ranks"]) == voices


def test_exact_reads_the_files_whatever_the_case_and_the_borders_of_words(memory: Client):
    assert paths_of(memory.query("atzT", mode="exact")) == ["memory/2026-02-15.md"]
    assert memory.query("no such words at all", mode="exact")["verdict"] == "none"


def test_exact_shows_the_part_of_a_long_line_that_has_the_letters(memory: Client, workspace: Path):
    words = " and ".join(f"word{number}" for number in range(200))
    (workspace / "memory/long.md").write_text(f"## Long\n\n{words}.\n\n## Short\n\nOnly word150 again.\n")
    memory.sync()
    for number in range(199):
        asked = f"word{number} AND"
        hit = memory.query(asked, mode="exact", marks=True)["hits"][0]
        if hit["marks"]:
            assert asked.casefold() in hit["text"]
        else:
            assert hit["text"].endswith(f"word{number}"), "the line is cut between the two words"
    hits = memory.query("word150", mode="exact")["hits"]
    assert [(hit["start_line"], "word150" in hit["text"]) for hit in hits] == [(3, True), (5, True)]
    assert len(memory.query("and word", mode="exact")["hits"]) > 2, "every part has it"
    for mode in ("text", "hybrid"):
        told = memory.why_not("memory/long.md", 3, "word150", mode=mode)
        assert told["indexed"] and "word150" in told["text"]
    question = {"question": "word120", "expect_text": "word120"}
    assert memory.eval(questions=[question], mode="exact")["misses"] == []


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"path": "memory/topics"}, {"memory/topics/sourdough.md"}),
        ({"path": "memory/2026-*"}, {"memory/2026-02-15.md", "memory/2026-02-16.md"}),
        ({"path": "MEMORY.md"}, {"MEMORY.md"}),
        ({"since": "2026-02-16", "role": "daily"}, {"memory/2026-02-16.md"}),
        ({"until": "2026-02-15", "role": "daily"}, {"memory/2026-02-15.md"}),
        ({"since": "2026-02", "until": "2026-02", "role": "daily"}, {"memory/2026-02-15.md", "memory/2026-02-16.md"}),
        ({"kind": "semantic"}, {"MEMORY.md", "memory/topics/sourdough.md"}),
        ({"tags": ["Bread"]}, {"memory/topics/sourdough.md"}),
        ({"tags": ["bread", "style"]}, set()),
        ({"tags": ["#style"]}, {"MEMORY.md"}),
        ({"tier": "ltm"}, {"MEMORY.md", "memory/topics/sourdough.md"}),
    ],
)
def test_filters_hold_in_every_mode(memory: Client, filters: dict[str, Any], expected: set[str]):
    question = "the router ErsatzTV apple backup starter answers"
    assert set(paths_of(memory.query(question, limit=50, mode="hybrid", **filters))) == expected
    assert set(paths_of(memory.query(question, limit=50, mode="vector", **filters))) == expected
    assert set(paths_of(memory.query(question, limit=50, mode="text", **filters))) <= expected


def test_times_in_words_filter_as_operators_do(memory: Client, workspace: Path):
    day = date.today() - timedelta(days=1)
    (workspace / f"memory/{day}.md").write_text("## Shed\n\nPlanted pear trees behind the shed.\n")
    for filters in ({"since": "yesterday"}, {"since": "3 days ago", "until": "yesterday"}, {"since": str(day)}):
        assert paths_of(memory.query("trees", role="daily", **filters)) == [f"memory/{day}.md"]
    assert paths_of(memory.query("trees on:yesterday")) == [f"memory/{day}.md"]


def test_an_edit_is_found_at_once_and_the_old_text_never_again(memory: Client, workspace: Path):
    note = workspace / "memory/2026-02-16.md"
    note.write_text(note.read_text().replace("disk full", "a squirrel ate the cable"))
    assert paths_of(memory.query("squirrel", sync="full", mode="text")) == ["memory/2026-02-16.md"]
    assert all("disk full" not in hit["text"] for hit in memory.query("disk full", limit=50)["hits"])


def test_an_empty_answer_was_checked_against_the_files(memory: Client, workspace: Path):
    answer = memory.query("zyzzyva", mode="text")
    assert answer["hits"] == []
    assert (answer["checked"], answer["verdict"]) == (True, "none")
    (workspace / "memory/2026-02-17.md").write_text("# 2026-02-17\n\n## Words\n\nA zyzzyva is a weevil.\n")
    assert paths_of(memory.query("zyzzyva", mode="text")) == ["memory/2026-02-17.md"]


def test_an_empty_answer_says_which_files_it_was_not_compared_with(memory: Client, workspace: Path, run):
    (workspace / "memory/long.md").write_text("zyzzyva " * 600_000)
    answer = memory.query("zyzzyva", mode="text", sync="full")
    assert (answer["hits"], answer["checked"]) == ([], False)
    assert answer["unchecked"].startswith("memory/long.md is left out (") and "more" not in answer["unchecked"]
    (workspace / "memory/picture.md").write_bytes(b"\0" * 999)
    assert ", and 1 more: memd status" in memory.query("zyzzyva", mode="text", sync="full")["unchecked"]
    assert "not compared with the files: memory/" in run("query", "zyzzyva").stderr


def test_an_empty_answer_names_the_file_that_has_the_word_where_no_question_looks(memory: Client, workspace: Path, run):
    (workspace / "memory/anna.md").write_text("---\nphone: zyzzyva-4711\n---\n\n## Anna\n\nShe gardens.\n")
    (workspace / "memory/stub.md").write_text("---\ntitle: Quokka habitat\n---\n")
    for word, path in (("zyzzyva", "memory/anna.md"), ("quokka", "memory/stub.md")):
        for _ in range(2):
            answer = memory.query(word, mode="text")
            assert (answer["hits"], answer["checked"]) == ([], False)
            assert answer["unchecked"] == f"“{word}” stands in {path}, where no question looks: memd grep {word}"
        assert path in run("grep", word).stdout
        assert f"stands in {path}" in run("query", word).stderr
    assert memory.query("xylophone", mode="text")["checked"]


def test_exact_names_the_file_that_has_the_letters_where_no_question_looks(memory: Client, workspace: Path, run):
    """A title, front matter and an index line are in no passage; a filter hides nothing of that kind."""
    index = "## Specialized Knowledge\n\n- aardvark: what it eats\n"
    (workspace / "memory/okapi.md").write_text(
        f"---\nphone: zyzzyva-4711\n---\n# Project Okapi\n\n## A\n\nText.\n\n{index}"
    )
    for letters in ("oject oka", "zyzzyva-47", "aardvark: what", "---"):
        answer = memory.query(letters, mode="exact")
        assert (answer["verdict"], answer["checked"], answer["expired"]) == ("none", False, 0)
        hint = answer["unchecked"].removeprefix(
            f"“{letters}” stands in memory/okapi.md, where no question looks: memd "
        )
        assert "memory/okapi.md" in run(*shlex.split(hint)).stdout
    assert "stands in memory/okapi.md" in run("query", "--mode", "exact", "Project Okapi").stderr
    for letters, filters in (("xylophone", {}), ("ErsatzTV", {"path": "MEMORY.md"})):
        answer = memory.query(letters, mode="exact", **filters)
        assert answer["checked"] and "unchecked" not in answer
    (workspace / "memory/found.md").write_text("The project okapi is in a passage.\n")
    answer = memory.query("Project Okapi", mode="exact", sync="full")
    assert paths_of(answer) == ["memory/found.md"] and "unchecked" not in answer
    (reason,) = memory.why_not("memory/okapi.md", 4, "okapi")["reasons"]
    assert "a title of the file" in reason


def test_a_weak_answer_that_lacks_a_word_names_what_was_left_out(memory: Client, workspace: Path, run):
    (workspace / "memory/long.md").write_text("zyzzyva " * 600_000)
    answer = memory.query("zyzzyva router garden", mode="text", sync="full")
    assert (answer["verdict"], answer["missing"]) == ("weak", ["zyzzyva"])
    assert answer["unchecked"].startswith("memory/long.md is left out (") and not answer["checked"]
    assert "not compared with the files: memory/" in run("query", "--mode", "text", "zyzzyva router garden").stderr
    for complete in ("router garden", "router"):
        assert "unchecked" not in memory.query(complete, mode="text"), "nothing is missing"


def test_the_same_question_gets_the_same_bytes(memory: Client):
    def asked() -> str:
        answer = memory.query("where is the router and the backup", limit=20, explain=True)
        return json.dumps(answer["hits"])

    assert asked() == asked() == asked()


def test_marks_show_where_the_words_stand(memory: Client):
    hit = memory.query("apple tree planting", marks=True)["hits"][0]
    assert {hit["text"][start:end] for start, end in hit["marks"]} == {"Planted", "apple", "trees"}


def test_a_word_without_blanks_around_it_is_marked_whole(memory: Client, workspace: Path):
    write_notes(workspace, {"memory/2026-02-19.md": "## 服务器\n\n周六晚上进行数据库备份，由李明负责。\n"})
    (hit,) = memory.query("数据库备份", mode="text", marks=True, sync="full")["hits"]
    assert [hit["text"][start:end] for start, end in hit["marks"]] == ["数据库备份"]
    (hit,) = memory.query("库备份", mode="exact", marks=True)["hits"]
    assert [hit["text"][start:end] for start, end in hit["marks"]] == ["库备份"]


def test_workspaces_are_asked_by_name_by_place_or_all_together(memory: Client, workspace: Path):
    other = write_notes(workspace.parent / "other", {"MEMORY.md": "## Router\n\nThis router is another one.\n"})
    memory.workspace_add(str(other), ns="agent:two")
    assert {hit["ns"] for hit in memory.query("router")["hits"]} == {"agent", "agent:two"}
    assert {hit["ns"] for hit in memory.query("router", ns="agent:two")["hits"]} == {"agent:two"}
    assert memory.query("router", cwd=str(workspace / "memory"))["ns"] == ["agent"]
    with pytest.raises(UnknownWorkspace, match="agent:two"):
        memory.query("router", ns="nobody")
    memory.workspace_rm(ns="agent:two")
    assert {hit["ns"] for hit in memory.query("router")["hits"]} == {"agent"}
    assert (other / "MEMORY.md").exists()


def test_get_by_key_and_by_path(memory: Client, workspace: Path):
    garden = memory.get(key="2026-02-15#garden")
    assert garden["text"] == "## Garden\n\nPlanted two apple trees behind the shed."
    assert (garden["start_line"], garden["end_line"]) == (8, 10)
    assert memory.get(key="sourdough")["tags"] == ["baking", "bread"]
    assert memory.get(path="memory/2026-02-15.md", from_=8, lines=1)["text"] == "## Garden"
    with pytest.raises(NotFound) as missing:
        memory.get(key="2026-02-15#gardn")
    assert "2026-02-15#garden" in missing.value.hint
    for escape in ("../h/config.toml", "/etc/passwd", "memory/../../h/config.toml"):
        with pytest.raises(NotFound):
            memory.get(path=escape)


def test_stems_that_are_not_unique_make_keys_of_paths(memory: Client, workspace: Path):
    (workspace / "daily").mkdir()
    (workspace / "daily/2026-02-15.md").write_text("## Garden\n\nA pear tree.\n")
    memory.sync()
    assert memory.query("pear")["hits"][0]["key"] == "daily/2026-02-15.md#garden"
    assert memory.get(key="daily/2026-02-15.md#garden")["text"].endswith("A pear tree.")
    with pytest.raises(UsageError, match="several"):
        memory.get(key="2026-02-15#garden")


def test_identity_follows_edits_moves_and_renames(memory: Client, workspace: Path, home: Home):
    def lives() -> dict[str, int]:
        import sqlite3

        with sqlite3.connect(home.state / "state.db") as ledger:
            rows = ledger.execute("SELECT heading, id FROM memories WHERE gone IS NULL").fetchall()
        return dict(rows)

    before = lives()
    note = workspace / "memory/2026-02-15.md"
    ersatz, garden = note.read_text().split("## Garden")
    note.write_text(f"# 2026-02-15\n\n## Garden{garden}\n" + ersatz.split("\n", 2)[2].replace("8409", "8410"))
    memory.sync()
    assert lives() == before
    note.rename(workspace / "memory/2026-02-18.md")
    memory.sync()
    assert lives() == before
    moved = workspace / "memory/2026-02-18.md"
    moved.write_text(moved.read_text().replace("## Garden", "## Orchard"))
    memory.sync()
    assert lives()["Orchard"] == before["Garden"]


def test_without_a_model_it_is_a_text_search_and_says_so(home: Home, workspace: Path):
    home.configure('[embedding]\nmodel = "/no/such/model"\n')
    del home.env["MEMD_TEST_EMBEDDER"]
    with home.start() as client:
        client.workspace_add(str(workspace))
        answer = client.query("ErsatzTV")
        assert answer["hits"][0]["ranks"] == {"text": 1}
        until_failed(client)
        answer = client.query("ErsatzTV")
        assert answer["degraded"] == ["vectors"]
        assert answer["hits"]
        assert answer["pending"] == client.status()["workspaces"][0]["chunks"], "none has a vector"
        trouble = client.status()["degraded_details"][0]
        assert "/no/such/model" in trouble["why"]
        assert trouble["fix"]


def until_failed(client: Client) -> None:
    import time

    while client.status()["model"]["state"] == "loading":
        time.sleep(0.05)


def test_with_vectors_turned_off_nothing_is_degraded(home: Home, workspace: Path):
    home.configure('[embedding]\nprovider = "none"\n')
    with home.start() as client:
        client.workspace_add(str(workspace))
        answer = client.query("ErsatzTV")
        assert answer["hits"]
        assert (answer["degraded"], answer["pending"]) == ([], 0)
        assert client.status()["model"]["state"] == "off"


def test_ten_lines_of_any_language_are_enough(memory: Client, home: Home):
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(home.socket))
        raw.sendall(b'{"jsonrpc":"2.0","id":1,"method":"query","params":{"query":"router"}}\n')
        answer = json.loads(raw.makefile().readline())
    assert answer["result"]["hits"][0]["path"] == "MEMORY.md"


def test_no_text_of_a_memory_or_a_question_reaches_the_log(memory: Client, workspace: Path, home: Home):
    (workspace / "memory/2026-02-19.md").write_text("## Secret\n\nThe password is hunter2banana.\n")
    memory.sync(vectors=True)
    memory.query("unusual-question-word")
    written = home.log + (home.state / "memd.log").read_text()
    assert "indexed" in written
    assert "hunter2banana" not in written
    assert "unusual-question-word" not in written


def test_a_question_by_meaning_right_after_a_start_waits_for_the_model(home: Home, workspace: Path):
    """Nothing is found by its words, and the model is still loading: that is no empty answer yet."""
    home.configure(f'[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    with home.start() as client:
        client.sync(vectors=True)
    home.stop()
    with home.start() as client:
        answer = client.query("zyzzyva", mode="vector")
        assert answer["near"]
        assert set(answer["near"][0]["ranks"]) == {"vector"}
    home.stop()
    with home.start() as client:
        assert client.query("zyzzyva")["near"]


def test_the_asker_decides_which_day_is_today(home: Home, workspace: Path, memory: Client):
    (workspace / "memory" / "2026-03-08.md").write_text("## Bread\n\nBought bread.\n")
    memory.sync()
    for asked in ({"query": "bread on:today"}, {"query": "bread", "since": "today", "until": "today"}):
        found = [bool(memory.query(**asked, now=f"2026-03-{day}T00:30")["hits"]) for day in ("07", "08", "09")]
        assert found == [False, True, False], asked
    assert memory.query("yesterday", now="2026-03-09T00:30")["hits"][0]["path"] == "memory/2026-03-08.md"
    here, there = (str(datetime.now(ZoneInfo(zone)).date()) for zone in ("Pacific/Kiritimati", "Pacific/Midway"))
    (workspace / "memory" / f"{here}.md").write_text("## Rye\n\nBought rye.\n")
    memory.sync()
    # Other notes than daily ones may be of the machine's own day.
    asked = ("query", "rye on:today", "--role", "daily")
    assert home.run(*asked, cwd=workspace, TZ="Pacific/Kiritimati").returncode == 0
    assert home.run(*asked, cwd=workspace, TZ="Pacific/Midway").returncode == (here != there)


@pytest.mark.parametrize("much", [{"tags": ["a"] * 1_100}, {"path": "memory/" + "*" * 60_000}])
def test_more_than_can_be_asked_for_at_once_is_no_damage(memory: Client, much: dict[str, Any]):
    with pytest.raises(TooLarge, match="at once"):
        memory.query("router", **much)
    assert memory.status()["degraded"] == []


def test_a_workspace_that_is_named_twice_is_asked_once(memory: Client):
    twice, once = (memory.query("router", ns=["agent"] * times) for times in (2, 1))
    assert (twice["ns"], twice["hits"]) == (once["ns"], once["hits"]) and once["ns"] == ["agent"]


@pytest.mark.parametrize(
    "nonsense", [{"since": "2026-13-45"}, {"until": "someday"}, {"kind": "bogus"}, {"mode": "magic"}, {"limit": 201}]
)
def test_filters_that_mean_nothing_are_refused(memory: Client, nonsense: dict[str, Any]):
    with pytest.raises(UsageError):
        memory.query("router", **nonsense)
