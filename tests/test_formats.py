"""The forms in which answers are written for other tools' users, and the list of memories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memd.cli import fast_search, hits
from memd.cli.flags import QUERY
from memd.errors import UsageError
from memd.indexer.views.inventory import body_of
from memd.protocol.client import Client
from memd.protocol.methods.base import parameters_of
from tests.conftest import Home, write_notes

FORMATS = [name for name in QUERY.choices["format"] if name not in hits.FORMAT_ALIASES]
SHARED = """# Shared

## Build Config
_2026-02-21 14:27_

use pnpm for all builds

[unused]: http://192.0.2.1/

that is all

## Agent Permissions
_2026-02-20 9:05_

agents may rebuild, with pnpm

## Pnpm
_2026-02-22 08:00_

see elsewhere
"""
NOTES = {
    ".muxcode/memory/shared.md": SHARED,
    ".muxcode/memory/edit.md": "## delegation rules\n_2026-02-20 17:30_\n\nask before a build\n",
    "memory/2026-02-07.md": "# 2026-02-07\n\n## Radio\n\nThe pnpm cache is at /var/cache. #tools\n\n"
    "## Later\n\nPNPM!\n",
    "MEMORY.md": "# Memory\n\nNothing about packages.\n",
}


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    """A daemon for the tests that only ask."""
    folder = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(folder / "h")
    try:
        root = write_notes(folder / "agent", NOTES)
        os.utime(root / "MEMORY.md", (1_577_836_800, 1_577_836_800))
        home.configure('[embedding]\nprovider = "none"\n')
        with home.start() as client:
            client.workspace_add(root)
        yield home
    finally:
        home.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def memory(place: Home) -> Iterator[Client]:
    with Client(str(place.socket)) as client:
        yield client


def query(place: Home, *args: str) -> subprocess.CompletedProcess[str]:
    return place.run("query", *args, cwd=place.path.parent / "agent")


# --- formats of a query -----------------------------------------------------------------------------------------


def test_memory_search(place: Home) -> None:
    done = query(place, "--format", "memory-search", "--role=daily", "pnpm")
    first, second = done.stdout.split("\n\nMemory Result 2: [source: memory/2026-02-07.md]\n")
    told = query(place, "--role=daily", "pnpm", "--json")
    texts = [hit["text"] for hit in json.loads(told.stdout)["hits"]]
    assert first == f"Memory Result 1: [source: memory/2026-02-07.md]\n{texts[0]}"
    assert second == f"{texts[1]}\n" and done.returncode == 0


def test_grep_names_the_line_of_the_first_word(place: Home) -> None:
    done = query(place, "--format=grep", "cache")
    assert done.stdout == (
        "--- memory/2026-02-07.md (line 5) ---\n## Radio\n\nThe pnpm cache is at /var/cache. #tools\n---\n"
    )


def test_files_are_named_once_best_first(place: Home) -> None:
    hits_ = json.loads(query(place, "pnpm", "--json").stdout)["hits"]
    assert len(hits_) > len({hit["path"] for hit in hits_})
    expected = list(dict.fromkeys(hit["path"] for hit in hits_))
    assert query(place, "pnpm", "--format", "files").stdout.splitlines() == expected


def test_jsonl_is_a_hit_a_line(place: Home) -> None:
    lines = query(place, "pnpm", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == json.loads(query(place, "pnpm", "--json").stdout)["hits"]


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found_leaves_standard_output_empty(place: Home, name: str) -> None:
    done = query(place, "--format", name, "zyzzyva")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing found for “zyzzyva”" in done.stderr


@pytest.mark.parametrize("name", FORMATS)
def test_by_typer_it_is_the_same(place: Home, name: str) -> None:
    """`-l3` in one word is a spelling that the fast way leaves to Typer."""
    assert query(place, f"--format={name}", "-l3", "pnpm").stdout == query(place, f"--format={name}", "-l", "3", "pnpm").stdout  # fmt: skip # noqa: E501


def test_several_workspaces_are_told_apart() -> None:
    hit = {"ns": "a", "root": "/n/a", "path": "MEMORY.md", "start_line": 4, "text": "one\ntwo\n", "marks": [[4, 7]]}
    both = {"hits": [hit, {**hit, "ns": "b", "root": "/n/b"}], "ns": ["a", "b"]}
    assert hits.written("files", both, False) == "/n/a/MEMORY.md\n/n/b/MEMORY.md"
    assert hits.written("grep", both, False).startswith("--- a:MEMORY.md (line 5) ---\none\ntwo\n---\n--- b:")
    assert "[source: b:MEMORY.md]" in hits.written("memory-search", both, False)


def test_text_of_notes_cannot_drive_the_terminal() -> None:
    hit = {"ns": "a", "root": "/a", "path": "x\x1b[2J.md", "start_line": 1, "text": "bad \x1b[2J \u202e", "marks": []}
    for name in ("memory-search", "grep", "files"):
        assert "\x1b" not in hits.written(name, {"hits": [hit], "ns": ["a"]}, False)
    entry = {"role": "r\x1b", "title": "t\n\u202e", "time": "2026", "score": 1.0, "text": "\x9b"}
    assert hits.written("entries", {"hits": [entry]}, False).isprintable() is False  # the newline before the body
    assert not any(char in hits.written("entries", {"hits": [entry]}, False) for char in "\x1b\x9b\u202e")


# --- bus --------------------------------------------------------------------------------------------------------


def test_memory_search_is_the_buss_own_command_and_silent_without_hits(place: Home) -> None:
    here = place.path.parent / "agent"
    asked = query(place, "--format", "entries", "pnpm")
    done = place.run("memory", "search", "pnpm", cwd=here)
    assert done.stdout == asked.stdout.rstrip("\n") + "\n" and done.stdout.startswith("--- [")
    for none in (place.run("memory", "search", "quixotic", cwd=here), query(place, "-q", "quixotic")):
        assert (none.returncode, none.stdout, none.stderr) == (1, "", "")
    assert query(place, "quixotic").stderr.startswith("memd: nothing found")


def test_bus_prints_whole_entries_by_their_count(place: Home) -> None:
    done = query(place, "--format", "bus", "pnpm", "build")
    blocks = done.stdout.rstrip("\n").split("\n\n--- ")
    assert blocks[0] == (
        "--- [shared] Build Config (2026-02-21 14:27) score:4.0 ---\n"
        "use pnpm for all builds\n\n[unused]: http://192.0.2.1/\n\nthat is all"
    )
    assert [block.split(" ---\n")[0].removeprefix("--- ") for block in blocks[1:]] == [
        "[shared] Pnpm (2026-02-22 08:00) score:2.0",
        "[shared] Agent Permissions (2026-02-20 09:05) score:2.0",
        "[edit] delegation rules (2026-02-20 17:30) score:1.0",
        "[daily] Later (2026-02-07) score:1.0",
        "[daily] Radio (2026-02-07) score:1.0",
    ]
    assert blocks[1].endswith("---\nsee elsewhere") and done.returncode == 0


def test_bus_counts_what_the_entry_says_now(place: Home, memory: Client) -> None:
    told = memory.call("bus", {"query": "PNPM", "role": "shared", "limit": 1})
    assert told["total"] == 3 and [entry["title"] for entry in told["entries"]] == ["Pnpm"]
    assert told["entries"][0]["key"] == "shared#pnpm" and told["entries"][0]["score"] == 2.0
    second = memory.call("bus", {"query": "PNPM", "role": "shared", "limit": 1, "offset": 1})["entries"]
    assert [entry["title"] for entry in second] == ["Build Config"]


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        ("%", []), ("_", []), ("n_m", []), ("/VAR/cache", ["Radio"]), ("!", ["Later"]),
        (" ".join(f"word{nth}" for nth in range(60)) + " cache", ["Radio"]),
    ],
)  # fmt: skip
def test_bus_takes_words_as_they_stand(memory: Client, words: str, titles: list[str]) -> None:
    assert [entry["title"] for entry in memory.call("bus", {"query": words})["entries"]] == titles


def test_bus_follows_the_files(home: Home) -> None:
    root = write_notes(
        home.path.parent / "agent", {"memory/roles/x.md": "## Ärger\n\nÜBER den Fluß\n\n### über\n\nsub\n"}
    )
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\npath = "{root}"\n')
    with home.start() as client:
        (entry,) = client.call("bus", {"query": "über ärger"})["entries"]
        assert (entry["score"], entry["text"]) == (4.0, "ÜBER den Fluß\n\n### über\n\nsub")
        (root / "memory/roles/x.md").write_text("## Quiet\n\nzyzzyva\n")
        told = client.call("bus", {"query": "zyzzyva"})
        assert [entry["text"] for entry in told["entries"]] == ["zyzzyva"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("## Title\n_2026-02-21 14:27_\n\nbody", "body"),
        ("Title\n-----\n\n_2026-02-21_\nbody\nmore", "body\nmore"),
        ("_2026-02-21 14:27_\nbody", "body"),
        ("body\n\n## no heading of its own", "body\n\n## no heading of its own"),
        ("## Title\r\n_2026-02-21 14:27_\r\n\r\nbody", "body"),
        ("## Title\n\nsaid _2026-02-21 14:27_ in passing", "said _2026-02-21 14:27_ in passing"),
        ("## Title", ""),
        ("#tag is no heading", "#tag is no heading"),
        ("  indented\nbody", "  indented\nbody"),
    ],
)
def test_an_entry_is_its_body(text: str, body: str) -> None:
    assert body_of(text) == body


def test_bus_refuses_what_it_does_not_have(place: Home) -> None:
    done = query(place, "--format", "bus", "--mode", "text", "pnpm")
    assert done.returncode == 2 and "--mode" in done.stderr
    done = query(place, "--format", "bus", "--as-of", "2026-02", "pnpm")
    assert done.returncode == 2 and "leave --as-of out" in done.stderr


# --- list -------------------------------------------------------------------------------------------------------


def listed(place: Home, *args: str) -> list[str]:
    done = place.run("list", *args, cwd=place.path.parent / "agent")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_list_has_four_columns_newest_first(place: Home) -> None:
    assert listed(place) == [
        "shared     Pnpm                                 2026-02-22 08:00  shared#pnpm",
        "shared     Build Config                         2026-02-21 14:27  shared#build-config",
        "edit       delegation rules                     2026-02-20 17:30  edit#delegation-rules",
        "shared     Agent Permissions                    2026-02-20 09:05  shared#agent-permissions",
        "daily      Later                                2026-02-07        2026-02-07#later",
        "daily      Radio                                2026-02-07        2026-02-07#radio",
        "memory     Memory                               2020-01-01        MEMORY",
    ]
    key = listed(place, "--role", "edit")[0].split()[-1]
    assert "delegation" in place.run("get", key, cwd=place.path.parent / "agent").stdout


@pytest.mark.parametrize(
    ("args", "titles"),
    [
        (["--role", "edit"], ["delegation rules"]),
        (["--kind", "semantic"], ["Memory"]),
        (["--tier", "ltm"], ["Memory"]),
        (["--tags", "TOOLS"], ["Radio"]),
        (["--tags", "tools,none"], []),
        (["--path", "memory/"], ["Later", "Radio"]),
        (["--sort", "oldest", "--limit", "2"], ["Memory", "Radio"]),
        (["--sort", "title", "-l", "2"], ["Agent Permissions", "Build Config"]),
        (["--sort", "key", "-l", "1"], ["Later"]),
        (["--sort", "role", "-l", "3"], ["Radio", "Later", "delegation rules"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_list_filters_and_sorts(place: Home, args: list[str], titles: list[str]) -> None:
    assert [line[11:47].strip() for line in listed(place, *args)] == titles


def test_list_on_the_wire_is_paged(memory: Client) -> None:
    whole = memory.call("list", {"limit": 0})
    assert whole["total"] == 7 == len(whole["memories"])
    assert whole["roles"] == {"daily": 2, "edit": 1, "memory": 1, "shared": 3}
    pages = [memory.call("list", {"limit": 3, "offset": offset})["memories"] for offset in (0, 3, 6, 9)]
    assert [len(page) for page in pages] == [3, 3, 1, 0] and [row for page in pages for row in page] == whole[
        "memories"
    ]
    assert whole["memories"][0] == {
        "ns": "agent", "root": whole["memories"][0]["root"], "key": "shared#pnpm", "path": ".muxcode/memory/shared.md",
        "start_line": 17, "end_line": 20, "role": "shared", "title": "Pnpm", "kind": "episodic", "tier": "stm",
        "tags": [], "date": "2026-02-22", "time": "2026-02-22 08:00",
    }  # fmt: skip


def test_the_command_gathers_every_page(home: Home) -> None:
    notes = {f"memory/{year}-01-{day:02}.md": "".join(f"## N{n}\n\nkestrel {year} {day}\n\n" for n in range(60))
             for year in range(2001, 2003) for day in range(1, 11)}  # fmt: skip
    root = write_notes(home.path.parent / "agent", notes)
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\npath = "{root}"\n')
    with home.start() as client:
        client.sync()
    assert len(home.run("list", "--limit", "0").stdout.splitlines()) == 1_200
    assert len(home.run("list", "--limit", "1100").stdout.splitlines()) == 1_100
    assert home.run("query", "--format", "bus", "--limit", "0", "kestrel").stdout.count(" score:1.0 ---") == 1_200
    all_ = home.run("query", "--limit", "0", "kestrel", "--format", "jsonl")
    assert len(all_.stdout.splitlines()) == 200
    assert "these are the best 200, the most that one answer has" in all_.stderr


def test_all_that_says_the_same_is_one_line_and_every_place_is_counted(home: Home) -> None:
    notes = {
        f"memory/2001-{month:02}-{day:02}.md": "## Bird\n\nkestrel\n" for month in range(1, 13) for day in range(1, 6)
    }
    root = write_notes(home.path.parent / "agent", notes)
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\npath = "{root}"\n')
    with home.start() as client:
        client.sync()
    done = home.run("query", "--limit", "0", "kestrel", "--format", "jsonl")
    (hit,) = (json.loads(line) for line in done.stdout.splitlines())
    assert len(hit["also"]) == len(notes) - 1
    assert "the most that one answer has" not in done.stderr


def test_a_role_that_nobody_has_is_told(place: Home) -> None:
    done = query(place, "--role", "bogus", "pnpm")
    assert done.returncode == 1
    assert "no memory has the role “bogus”; there are: daily, edit, memory, shared" in done.stderr
    assert "there are" not in query(place, "--role", "edit", "zyzzyva").stderr
    empty = place.run("list", "--role", "bogus", cwd=place.path.parent / "agent")
    assert (empty.returncode, empty.stdout) == (0, "") and "there are: daily" in empty.stderr


# --- beside the hits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "until", "fine"),
    [("2026-03", "2026-02", False), ("2026-02-16", "2026-02-15", False), ("2027", "2026-12-31", False),
     ("2026-02-16", "2026-02", True), ("2026-02", "2026-02-01", True), ("2026", "2026", True)],
)  # fmt: skip
@pytest.mark.parametrize("limit", ["--limit=5", "-l5"], ids=["fast", "typer"])
def test_since_is_not_later_than_until(place: Home, since: str, until: str, fine: bool, limit: str) -> None:
    span = ("--since", since, "--until", until, limit)
    for done in (query(place, *span, "pnpm"), *(place.run(command, *span) for command in ("list", "timeline"))):
        assert (done.returncode != 2) == fine, done.stderr
        assert fine or f"`since` {since} is later than `until` {until}" in done.stderr


def asked(**given: Any) -> fast_search.TypedQuery:
    return fast_search.TypedQuery(["x"], given)


def test_marks_are_asked_for_where_they_are_shown() -> None:
    assert asked().params()["marks"] and asked(format="grep").params()["marks"]
    assert "marks" not in asked(format="files").params() and "marks" not in asked(json=True).params()


@pytest.mark.parametrize("name", QUERY.params)
def test_what_a_query_can_be_told_is_sent_to_bus_or_refused(name: str) -> None:
    given = asked(format="bus", **{name: "2026"})
    if name in parameters_of("bus"):
        given.check()
        assert given.params()[name] == "2026"
    else:
        with pytest.raises(UsageError, match=f"has no --{name.replace('_', '-')}"):
            given.check()


HIT = {
    "ns": "agent", "key": "a#b", "path": "a.md", "start_line": 3, "heading": "H", "text": "alpha", "score": 0.5,
    "date": "2026-02-15", "ranks": {"text": 1, "vector": 12}, "also": [], "root": "/a",
    "explain": {"score parts": {"text": 0.25, "vector": 0.125, "recency": {"days": 3, "weight": 0.5}}, "note": "a, b"},
}  # fmt: skip


def test_explanations_stand_below_each_other() -> None:
    shown = hits.written("text", {"hits": [HIT], "ns": ["agent"]}, False).split("\n")
    assert shown[2:] == [
        "  ranks",
        "    text    1",
        "    vector  12",
        "  score parts",
        "    text    0.2500",
        "    vector  0.1250",
        "    recency",
        "      days    3",
        "      weight  0.5000",
        "  note  a, b",
    ]


def test_what_is_near_is_shown_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    result = {"hits": [], "near": [HIT], "verdict": "none", "ns": ["agent"], "degraded": [], "pending": 0}
    fast_search._show_hits(asked(), result)
    out, told = capfd.readouterr()
    assert out == "" and "to see the closest passage all the same, add --all" in told
    fast_search._show_hits(asked(all=True), result)
    out, told = capfd.readouterr()
    assert out.startswith("a.md:3") and "these are the closest passages" in told and "--all" not in told
    fast_search._show_hits(asked(format="jsonl", all=True), result)
    assert json.loads(capfd.readouterr().out) == HIT
    fast_search._show_hits(asked(), {**result, "hits": [HIT], "verdict": "found"})
    assert capfd.readouterr().out.count("a.md:3") == 1


def test_spellings_that_were_tried_are_told() -> None:
    result = {
        "hits": [HIT],
        "verdict": "found",
        "ns": ["agent"],
        "degraded": [],
        "corrected": {"kubernets": ["kubernetes"]},
    }
    assert hits.remarks("x", result) == ["no note has “kubernets”; searched also for “kubernetes”"]
    result["corrected"] = {"kubernets": ["kubernetes", "kuber\x1bnet"]}
    told = hits.remarks("x", result)
    assert told == ["no note has “kubernets”; searched also for “kubernetes” and “kuber␛net”"]
