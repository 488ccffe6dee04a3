"""Looking in: the index card, the counts, the tree, the timeline, and what rests."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memd.errors import UsageError
from memd.indexer.model import granite
from memd.lifecycle import packing
from memd.lifecycle.packing import NameList, WorkspaceSummary, cards, tokens
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home, write_notes
from tests.faults.agreement import wait_for_collections

CARD = """\
# Memory: agent
6 memories in 4 files
Long-term: Home network; Preferences
Topics: sourdough
- 2026-02-16: Backup
- 2026-02-15: ErsatzTV; Garden
"""


def pinned(workspace: Path) -> None:
    file = workspace / "MEMORY.md"
    file.write_text(
        file.read_text().replace("## Preferences\n", "## Preferences\n<!-- memd: pinned importance=0.9 -->\n")
    )


def laid_to_rest(home: Home, key: str) -> None:
    """As a rule would do it."""
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute(
            "UPDATE memories SET tier = 'dormant', moved = '2026-03-01T10:00:00.000+00:00', moved_by = 'rule:stale',"
            " moved_why = 'nobody asked for it', home = 'stm' WHERE slug = ?",
            (key,),
        )


# --- the card ---------------------------------------------------------------------------------------------------


def test_peek_is_the_same_bytes_until_something_changes(home: Home, memory: Client, workspace: Path) -> None:
    first = memory.peek(ns="agent")
    assert first["text"] == CARD and first["tokens"] == tokens(CARD) and first["ns"] == ["agent"]
    memory.query("ErsatzTV")
    assert home.run("peek", cwd=workspace).stdout == CARD
    pinned(workspace)
    memory.sync()
    changed = memory.peek(ns="agent")["text"]
    assert "Pinned: MEMORY#preferences\n" in changed
    assert json.loads(home.run("peek", "--json", cwd=workspace).stdout)["text"] == changed


def test_peek_of_nothing_is_a_card_too(home: Home) -> None:
    empty = write_notes(home.path.parent / "empty", {})
    empty.mkdir()
    home.configure(f'[[workspace]]\npath = "{empty}"\nns = "empty"\n')
    assert home.start().peek()["text"] == "# Memory: empty\n0 memories in 0 files\n"


WORDS = {
    "english": "Kubernetes deployment of the sourdough bakery",
    "codes": "x9f-3a7 v2.11.0-rc1 192.0.2.18:8409 0xDEADBEEF",
    "german": "Übergröße für Straßenbahnhaltestellen",
    "japanese": "東京の天気と予定表",
    "emoji": "🎉🎊 party 👩‍👩‍👧 plan",
    "thai": "การจัดการหน่วยความจำ",
    "signs": "!!! -> *** ((())) ~~~ ``` ### ||| &&&",
}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The one of the model that comes with memd."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(granite.read_pack(granite.find_pack()).tokenizer.decode())
    made.no_truncation()
    made.no_padding()
    return made


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS.keys())
@pytest.mark.parametrize("workspaces", [1, 2, 7, 40])
def test_a_card_never_takes_more_than_200_tokens(tokenizer: Any, words: str, workspaces: int) -> None:
    names = [f"{words} {nth}" for nth in range(60)]
    days = [(f"2026-02-{day:02}", names) for day in range(28, 20, -1)]
    tiers = {"sensory": 12_345, "stm": 99_999, "ltm": 100_000, "dormant": 7}
    holding = WorkspaceSummary(words, 99_999, tiers, *[NameList(names, 12_345)] * 3, days, 300)
    text = cards([holding] * workspaces)
    assert len(tokenizer.encode(text).ids) <= tokens(text) + 2, "the estimate is no bound"
    assert tokens(text) <= packing.TOKENS
    assert text == cards([holding] * workspaces) and "memories in" in text


def test_a_card_says_how_much_it_leaves_out() -> None:
    names = [f"topic number {nth}" for nth in range(30)]
    days = [(f"2026-02-{day:02}", ["Garden", "Shed"]) for day in range(28, 20, -1)]
    none = NameList([], 0)
    text = cards([WorkspaceSummary("agent", 31, {"ltm": 90}, none, none, NameList(names, 77), days, 300)])
    shown = text.count("topic number")
    assert f"; and {77 - shown} more\n" in text and 1 <= shown < 30
    told = text.count("- 2026-02-")
    assert told >= 1 and f"- and {308 - told} earlier days\n" in text


# --- counts -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("chroma_at_once")
def test_stats_count_what_is_there(home: Home, memory: Client, workspace: Path) -> None:
    pinned(workspace)
    memory.sync(vectors=True)
    wait_for_collections(home)
    laid_to_rest(home, "garden")
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE memories SET accesses = 3, days = 2, useful = 1 WHERE slug = 'ersatztv'")
        ledger.execute("INSERT INTO accesses SELECT id, 'cli', '2026-03-01T10', 0 FROM memories WHERE slug = 'backup'")
    told = memory.stats(ns="agent")
    assert told["files"] == 4 and told["chunks"] == told["vectors"] == 6
    assert told["memories"]["total"] == 6 and told["memories"]["pinned"] == 1 and told["memories"]["gone"] == 0
    assert told["memories"]["tier"] == {"dormant": 1, "ltm": 3, "stm": 2}
    assert told["memories"]["role"] == {"daily": 3, "memory": 2, "topic": 1}
    assert told["memories"]["kind"] == {"episodic": 3, "semantic": 3}
    assert told["versions"] == 7
    assert told["accesses"]["counted"] == 3 and told["accesses"]["useful"] == 1 and told["accesses"]["waiting"] == 1
    assert [one["key"] for one in told["most_used"]] == ["2026-02-15#ersatztv"]
    assert "2026-02-15#ersatztv" not in [one["key"] for one in told["least_used"]] and len(told["least_used"]) == 5
    assert all(told["disk"][name] > 0 for name in ("ledger", "text", "chroma"))
    shown = home.run("stats", cwd=workspace).stdout
    assert "6, 1 pinned; 0 gone" in shown and "1 dormant, 3 ltm, 2 stm" in shown


def test_a_file_that_is_left_out_is_counted_nowhere(home: Home, memory: Client, workspace: Path) -> None:
    (workspace / "memory/picture.md").write_bytes(b"\0" * 999)
    assert memory.sync()["files"] == memory.stats()["files"] == memory.status()["workspaces"][0]["files"] == 4
    assert "in 4 files" in memory.peek()["text"]
    assert home.run("sync", cwd=workspace).stdout.startswith("4 files, ")


def test_stats_count_edges_by_relation_and_origin(home: Home, memory: Client) -> None:
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("DELETE FROM edges")
        for rel, origin, removed in (("refines", "declared", 0), ("relates_to", "similar", 0), ("implies", "tag", 1)):
            ledger.execute(
                "INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, removed)"
                " SELECT m.workspace, m.id, n.id, ?, 0.5, 0.5, ?, '2026-03-01', ? FROM memories m, memories n"
                " WHERE m.slug = 'ersatztv' AND n.slug = 'garden'",
                (rel, origin, removed),
            )
    told = memory.stats(ns="agent")["edges"]
    assert told == {"total": 2, "rel": {"refines": 1, "relates_to": 1}, "origin": {"declared": 1, "similar": 1}}
    memory.curate("2026-02-15#garden", "delete", ns="agent")
    assert memory.edge_list(ns="agent")["edges"] == [] and memory.stats(ns="agent")["edges"]["total"] == 0


# --- the tree ---------------------------------------------------------------------------------------------------


def test_the_tree_has_a_line_for_each_memory_by_file(home: Home, memory: Client, workspace: Path) -> None:
    pinned(workspace)
    memory.sync()
    assert home.run("tree", cwd=workspace).stdout.splitlines()[:6] == [
        "MEMORY.md",
        *(f"    MEMORY#home-network  ltm  {memory.tree(ns='agent')['memories'][0]['date']}",),
        *(f"  * MEMORY#preferences  ltm  {memory.tree(ns='agent')['memories'][1]['date']}  0.90",),
        "memory/2026-02-15.md",
        "    2026-02-15#ersatztv  stm  2026-02-15",
        "    2026-02-15#garden  stm  2026-02-15",
    ]
    assert memory.tree(ns="agent")["total"] == 6


@pytest.mark.parametrize(
    ("path", "number"), [("memory", 4), ("memory/", 4), ("memory/topics", 1), ("memory/*-16.md", 1), ("MEMORY.md", 2)]
)
def test_a_part_of_the_tree(memory: Client, path: str, number: int) -> None:
    assert memory.tree(path, ns="agent")["total"] == number


def test_the_tree_comes_in_pages(home: Home, memory: Client, workspace: Path) -> None:
    whole = memory.tree(ns="agent")["memories"]
    parts = [memory.tree(ns="agent", offset=nth, limit=4) for nth in (0, 4)]
    assert [one for part in parts for one in part["memories"]] == whole
    assert all(part["total"] == 6 for part in parts)
    assert json.loads(home.run("tree", "--json", cwd=workspace).stdout)["memories"] == whole
    nothing = home.run("tree", "nowhere", cwd=workspace)
    assert nothing.returncode == 0 and nothing.stdout == "" and "there are no memories" in nothing.stderr


def test_what_a_heading_holds_cannot_steer_a_terminal(home: Home, memory: Client, workspace: Path) -> None:
    write_notes(workspace, {"memory/2026-03-01.md": "## Evil \x1b[31m\u202e heading\n\nx\n"})
    memory.sync()
    for command in (["tree"], ["timeline", "--since", "2026-03"], ["stats"]):
        shown = home.run(*command, cwd=workspace)
        assert shown.returncode == 0 and "\x1b" not in shown.stdout and "\u202e" not in shown.stdout


# --- the timeline -----------------------------------------------------------------------------------------------


def test_the_timeline_tells_days_newest_first(home: Home, memory: Client, workspace: Path) -> None:
    told = memory.timeline(ns="agent", since="2026-02", until="2026-02")
    assert [day["date"] for day in told["days"]] == ["2026-02-16", "2026-02-15"] and told["total"] == 2
    assert [one["key"] for one in told["days"][1]["headings"]] == ["2026-02-15#ersatztv", "2026-02-15#garden"]
    assert told["days"][1]["notes"] == 2 and told["days"][1]["actions"] == []
    assert memory.timeline(ns="agent", until="2026-02", limit=1)["days"] == told["days"][:1]
    shown = home.run("timeline", "--since", "2026-02-15", "--until", "2026-02-15", cwd=workspace).stdout
    assert shown.splitlines() == ["2026-02-15", "  ErsatzTV  2026-02-15#ersatztv", "  Garden  2026-02-15#garden"]


def test_the_timeline_tells_what_was_done_by_name_or_by_number(home: Home, memory: Client, workspace: Path) -> None:
    memory.put("deploy", "Push on green.", ns="agent")
    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    day = memory.timeline(ns="agent", since=today)["days"][0]
    assert memory.timeline(ns="agent", since="today")["days"] == [day]
    assert day["date"] == today and day["written"] == {"added": 7}
    assert {"what": "put", "count": 1, "keys": ["deploy"]} in day["actions"]
    for nth in range(4):
        memory.put(f"deploy-{nth}", "Push on green.", ns="agent")
    memory.sync()
    day = memory.timeline(ns="agent", since=today)["days"][0]
    assert {"what": "put", "count": 5, "keys": []} in day["actions"] and day["written"] == {"added": 11}
    shown = home.run("timeline", "-l", "1", cwd=workspace)
    assert "put ×5" in shown.stdout and "earlier days" in shown.stderr


def test_many_notes_of_a_day_are_counted(home: Home, memory: Client, workspace: Path) -> None:
    write_notes(workspace, {"memory/2026-03-01.md": "".join(f"## Bird {nth}\n\nA wren.\n\n" for nth in range(20))})
    memory.sync()
    (day,) = memory.timeline(ns="agent", since="2026-03-01", until="2026-03-01")["days"]
    assert day["notes"] == 20 and [one["heading"] for one in day["headings"]] == [f"Bird {nth}" for nth in range(8)]
    assert "  and 12 more" in home.run("timeline", "--until", "2026-03-01", cwd=workspace).stdout.splitlines()


def test_a_day_has_none_of_the_notes_that_were_deleted(memory: Client) -> None:
    memory.curate("2026-02-15#garden", "delete", ns="agent")
    (day,) = memory.timeline(ns="agent", since="2026-02-15", until="2026-02-15")["days"]
    assert day["notes"] == 1 and [one["key"] for one in day["headings"]] == ["2026-02-15#ersatztv"]


def test_moves_are_counted_by_tier_until_they_are_taken_back(home: Home, memory: Client) -> None:
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute(
            "INSERT INTO actions (id, at, workspace, who, what, state) SELECT 900, '2026-03-05T12:00:00.000+00:00', id,"
            " 'job:reflect', 'reflect', 'done' FROM workspaces"
        )
        ledger.execute(
            'INSERT INTO shifts SELECT 900, id, id, \'tier\', \'{"tier": "stm"}\', \'{"tier": "dormant"}\''
            " FROM memories WHERE role = 'daily'"
        )
    (day,) = memory.timeline(ns="agent", since="2026-03-05", until="2026-03-05")["days"]
    assert day["moves"] == {"dormant": 3} and day["notes"] == 0
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE actions SET undone = 901 WHERE id = 900")
    assert memory.timeline(ns="agent", since="2026-03-05", until="2026-03-05")["days"][0]["moves"] == {}


@pytest.mark.parametrize("given", [{"since": "soon"}, {"until": "2026-13"}, {"limit": 0}, {"limit": 1_001}])
def test_a_timeline_that_has_no_meaning_is_refused(memory: Client, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        memory.timeline(ns="agent", **given)


# --- what rests -------------------------------------------------------------------------------------------------


def test_gc_names_what_rests_and_never_removes_it(home: Home, memory: Client, workspace: Path) -> None:
    memory.put("gone-soon", "A word for a second.", ns="agent", ttl="90m")
    memory.sync()
    laid_to_rest(home, "garden")
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE memories SET expires = '2026-01-01T00:00:00.000+00:00' WHERE expires IS NOT NULL")
    told = memory.gc(ns="agent", hard=True, dry_run=True)
    assert [one["key"] for one in told["expired"]] == ["gone-soon"] and told["purged"] == [] and not told["hard"]
    assert [one["key"] for one in memory.list(ns="agent")["memories"] if one.get("expired")] == ["gone-soon"]
    listed = home.run("list", cwd=workspace).stdout
    assert re.search("gone-soon.*  expired\n", listed) and listed.count("expired") == 1
    assert "expired 2026-01-01T00:00" in home.run("get", "gone-soon", cwd=workspace).stderr
    assert told["dormant_total"] == 1
    (one,) = told["dormant"]
    assert one["key"] == "2026-02-15#garden" and one["moved_why"] == "nobody asked for it"
    for command in (["gc"], ["gc", "--dry-run"], ["gc", "--hard", "--dry-run"]):
        shown = home.run(*command, cwd=workspace).stdout
        assert "gone-soon" in shown and "2026-02-15#garden" in shown and "(nobody asked for it)" in shown
    done = home.run("gc", "--hard", "--yes", cwd=workspace)
    assert done.returncode == 0 and "gone-soon" in done.stdout
    assert "apple trees" in (workspace / "memory" / "2026-02-15.md").read_text()
    assert memory.gc(ns="agent")["dormant_total"] == 1


# --- over time --------------------------------------------------------------------------------------------------


def test_the_tiers_of_days_gone_by_are_counted_back_from_now(home: Home, memory: Client) -> None:
    ago = (datetime.now(UTC) - timedelta(days=10)).isoformat(timespec="milliseconds")
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE memories SET first_seen = ? WHERE slug <> 'ersatztv'", (ago,))
    memory.curate("2026-02-15#garden", "archive")
    assert memory.stats(ns="agent")["tier_days"] == []
    days = memory.stats(ns="agent", days=12)["tier_days"]
    assert [day["date"] for day in days] == sorted(day["date"] for day in days) and len(days) == 12
    assert days[-1]["tiers"] == {"sensory": 0, "stm": 2, "ltm": 3, "dormant": 1}
    assert [day["tiers"]["dormant"] for day in days[:-1]] == [0] * 11
    assert days[-2]["tiers"]["stm"] == 2 and days[0]["tiers"]["stm"] == days[0]["tiers"]["ltm"] == 0


def test_who_was_shown_a_memory_is_told_once_it_is_counted(memory: Client) -> None:
    key = "2026-02-15#ersatztv"
    lives = [memory.get(key, who="ada")["life"] for _ in range(2)]
    assert lives[0] == lives[1] and lives[0]["shown"] == []
    memory.reflect()
    (shown,) = memory.get(key, observe=False)["life"]["shown"]
    assert shown["who"] == "ada" and shown["at"][:10] == datetime.now(UTC).date().isoformat()


# --- days, files and folders --------------------------------------------------------------------------------------


def test_notes_that_were_copied_together_have_no_day_of_their_own(memory: Client, workspace: Path) -> None:
    topics = {f"memory/topics/bird-{nth}.md": f"# Bird {nth}\n\nIt sings.\n" for nth in range(6)}
    write_notes(workspace, topics)
    for path in topics:
        os.utime(workspace / path, (1_700_000_000, 1_700_000_000))
    os.utime(write_notes(workspace, {"memory/topics/owl.md": "# Owl\n\nIt does not.\n"}) / "memory/topics/owl.md",
             (1_700_000_000 - 86_400, 1_700_000_000 - 86_400))  # fmt: skip
    memory.sync()
    dates = {row["key"]: row["date"] for row in memory.list(path="memory/topics")["memories"]}
    assert {dates[f"bird-{nth}"] for nth in range(6)} == {""}
    assert dates["owl"] == datetime.fromtimestamp(1_700_000_000 - 86_400).date().isoformat()


def test_a_day_and_a_folder_are_shown_by_their_names(home: Home, memory: Client, workspace: Path) -> None:
    write_notes(workspace, {"memory/2026-04-01.md": "# 2026-04-01\n\n## One\n\nFirst.\n\n## Two\n\nSecond.\n"})
    memory.sync()
    assert home.run("get", "2026-04-01", cwd=workspace).stdout == (workspace / "memory/2026-04-01.md").read_text()
    assert home.run("get", "2026-04-02", cwd=workspace).returncode == 1
    everything, some = (home.run("ls", *where, "--json", cwd=workspace) for where in ([], ["memory/2026-04-01.md"]))
    assert [row["key"] for row in json.loads(some.stdout)["memories"]] == ["2026-04-01#two", "2026-04-01#one"]
    assert len(json.loads(everything.stdout)["memories"]) > 2
