"""`memd curate`: every verb from every tier, what the files say afterwards, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memd import errors
from memd.protocol.client import Client
from tests.conftest import Home, write_notes

NOTES = {
    "memory/2026-02-15.md": "# 2026-02-15\n\n## Garden\n\nPlanted two apple trees.\n\n## Roof\n\nIt leaks.\n",
    "memory/topics/apples.md": "---\ntitle: Apples\n---\n\nPrune them in February.\n",
    "memory/topics/pears.md": "---\nimportance: 0.95\npinned: true\n---\n\nPrune them in March.\n",
    "memory/rules.md": "---\npinned: true\n---\n\n## One\n\nFirst.\n\n## Two\n\nSecond.\n",
}
DAILY = "2026-02-15#garden"


@pytest.fixture
def root(home: Home) -> Path:
    return write_notes(home.path.parent / "agent", NOTES)


@pytest.fixture
def agent(home: Home, root: Path) -> Iterator[Client]:
    with home.start() as client:
        client.workspace_add(str(root))
        yield client


def tier(client: Client, key: str) -> str:
    return str(client.get(key)["tier"])


def test_a_memory_goes_up_and_down_a_tier_at_a_time(agent: Client) -> None:
    assert tier(agent, DAILY) == "stm"
    for verb, before, after in (
        ("promote", "stm", "ltm"), ("demote", "ltm", "stm"), ("demote", "stm", "dormant"),
        ("promote", "dormant", "stm"), ("promote", "stm", "ltm"), ("archive", "ltm", "dormant"),
        ("promote", "dormant", "ltm"),
    ):  # fmt: skip
        told = agent.curate(DAILY, verb)
        assert (told["what"], told["before"], told["after"], told["changed"]) == ("tier", before, after, True), verb
        assert tier(agent, DAILY) == after


@pytest.mark.parametrize(("first", "verb"), [("promote", "promote"), ("archive", "demote"), ("delete", "delete")])
def test_where_there_is_nowhere_to_go_nothing_is_done(agent: Client, first: str, verb: str) -> None:
    agent.curate(DAILY, first)
    count = len(agent.log()["entries"])
    told = agent.curate(DAILY, verb)
    assert not told["changed"] and told["before"] == told["after"] and told["action"] is None
    assert len(agent.log()["entries"]) == count


def test_a_deleted_topic_is_not_recalled(agent: Client) -> None:
    agent.topic_memorize("oldplan", content="The old plan.", tags=["plans"], summary="Old")
    agent.curate("oldplan", "delete")
    with pytest.raises(errors.NotFound, match="`oldplan` was deleted on"):
        agent.topic_recall("oldplan")
    assert agent.topic_search(["plans"])["topics"] == []
    agent.curate("oldplan", "promote")
    assert agent.topic_recall("oldplan")["content"].strip() == "The old plan."
    assert [row["topic"] for row in agent.topic_search(["plans"])["topics"]] == ["oldplan"]


def test_what_is_deleted_or_has_expired_is_in_no_list(agent: Client) -> None:
    for name, ttl in (("oldplan", "none"), ("brief", "1m")):
        agent.topic_memorize(name, content="Bury the hatchet.", tags=["plans"], summary=name)
        agent.put(name, ttl=ttl, now="2026-02-07T14:27")
        agent.write(name.title(), f"The {name}.", role="edit")
        agent.put(f"edit#{name}", ttl=ttl, now="2026-02-07T14:27")
    agent.write("Kept", "The other one.", role="edit")
    for key in ("oldplan", "edit#oldplan"):
        agent.curate(key, "delete")
    recent = agent.recent("edit")
    assert [entry["title"] for entry in recent["entries"]] == ["Kept"] and "oldplan" not in recent["text"]
    told = agent.topic_list()
    assert [topic["topic"] for topic in told["topics"]] == ["apples", "pears"] and told["missing"] == []
    assert agent.topic_search(["plans"])["topics"] == [] and agent.tag_list()["tags"] == []
    agent.curate("oldplan", "promote")
    agent.curate("edit#oldplan", "promote")
    assert [entry["title"] for entry in agent.recent("edit")["entries"]] == ["Kept", "Oldplan"]
    assert [topic["topic"] for topic in agent.topic_list()["topics"]] == ["apples", "oldplan", "pears"]
    assert agent.tag_list()["tags"] == [{"tag": "plans", "memories": 1}]


def test_what_is_deleted_is_in_no_answer_and_can_be_brought_back(agent: Client, root: Path) -> None:
    before = (root / "memory/2026-02-15.md").read_bytes()
    for restore in (lambda done: agent.undo(done["action"]), lambda done: agent.curate(DAILY, "promote")):
        done = agent.curate(DAILY, "delete")
        assert (done["before"], done["after"]) == ("stm", "deleted")
        asked = agent.query("apple trees planted", all=True)
        assert DAILY not in [hit["key"] for hit in (*asked["hits"], *asked["near"])]
        assert DAILY not in [memory["key"] for memory in agent.list()["memories"]]
        assert DAILY not in [memory["key"] for memory in agent.tree()["memories"]]
        assert "deleted" in str(agent.log()["entries"][0])
        assert "apple trees" not in agent.context("apple trees", all=True)["text"]
        with pytest.raises(errors.NotFound, match="was deleted on") as refused:
            agent.get(DAILY)
        assert f"memd curate {DAILY} promote" in refused.value.hint
        (gone,) = agent.gc(dry_run=True)["expired"]
        assert (gone["key"], gone["deleted"]) == (DAILY, True)
        line = before[: before.index(b"apple")].count(b"\n") + 1
        why = agent.why_not("memory/2026-02-15.md", line, "apple trees")
        assert why["reasons"] == ["it was deleted: memd gc lists it"]
        assert (root / "memory/2026-02-15.md").read_bytes() == before
        restore(done)
        assert DAILY in [hit["key"] for hit in agent.query("apple trees planted")["hits"]]
        assert tier(agent, DAILY) == "stm"


def test_a_new_text_brings_a_deleted_memory_back(agent: Client, root: Path) -> None:
    agent.curate(DAILY, "delete")
    day = root / "memory/2026-02-15.md"
    day.write_text(day.read_text().replace("It leaks.", "It leaks again."))
    agent.sync()
    assert [row["key"] for row in agent.gc()["expired"]] == [DAILY]
    day.write_text(day.read_text().replace("two apple trees", "three apple trees"))
    agent.sync()
    assert agent.gc()["expired"] == [] and DAILY in [hit["key"] for hit in agent.query("apple trees")["hits"]]


def test_a_move_is_in_the_log_and_undo_takes_it_back_without_touching_a_file(agent: Client, root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.md")}
    done = agent.curate(DAILY, "archive", who="mcp:one")
    (entry,) = (entry for entry in agent.log()["entries"] if entry["action"] == done["action"])
    assert (entry["what"], entry["who"], entry["key"]) == ("curate archive", "mcp:one", DAILY)
    agent.undo(done["action"])
    assert tier(agent, DAILY) == "stm"
    assert {path: path.read_bytes() for path in root.rglob("*.md")} == before


def test_pinning_is_declared_in_the_file_and_undone_byte_for_byte(agent: Client, root: Path) -> None:
    day, topic = root / "memory/2026-02-15.md", root / "memory/topics/apples.md"
    done = agent.curate(DAILY, "pin")
    assert (done["what"], done["before"], done["after"]) == ("pinned", False, True)
    assert "## Garden\n<!-- memd: pinned -->\n" in day.read_text()
    assert agent.get(DAILY)["declared"]["pinned"] is True
    agent.curate("apples", "pin")
    assert topic.read_text() == "---\ntitle: Apples\npinned: true\n---\n\nPrune them in February.\n"
    agent.undo(done["action"])
    assert day.read_text() == NOTES["memory/2026-02-15.md"]
    agent.curate("apples", "unpin")
    assert topic.read_text() == NOTES["memory/topics/apples.md"]


def test_importance_changes_by_a_tenth_within_its_bounds(agent: Client, root: Path) -> None:
    for verb, before, after in (("boost", 0.5, 0.6), ("boost", 0.6, 0.7), ("diminish", 0.7, 0.6)):
        told = agent.curate(DAILY, verb)
        assert (told["what"], told["before"], told["after"]) == ("importance", before, after)
    assert "## Garden\n<!-- memd: importance=0.6 -->\n" in (root / "memory/2026-02-15.md").read_text()
    assert agent.curate("pears", "boost")["after"] == 1.0
    assert not agent.curate("pears", "boost")["changed"]


def test_a_pinned_memory_is_not_laid_aside_and_not_pinned_twice(agent: Client, root: Path) -> None:
    for verb in ("demote", "archive", "delete"):
        with pytest.raises(errors.Refused, match="is pinned"):
            agent.curate("pears", verb)
    assert not agent.curate("pears", "pin")["changed"]
    assert agent.curate("pears", "unpin")["changed"] and agent.curate("pears", "archive")["changed"]


def test_a_section_that_its_file_pins_is_not_unpinned_alone(agent: Client, root: Path) -> None:
    with pytest.raises(errors.Refused, match=r"front matter of memory/rules\.md"):
        agent.curate("rules#one", "unpin")
    assert (root / "memory/rules.md").read_text() == NOTES["memory/rules.md"]


def test_a_repeated_request_is_one_deed(agent: Client) -> None:
    first = agent.curate(DAILY, "demote", request_id="d1")
    again = agent.curate(DAILY, "demote", request_id="d1")
    assert again["action"] == first["action"] and again["repeated"] and tier(agent, DAILY) == "dormant"
    agent.curate("apples", "boost", request_id="b1")
    assert agent.curate("apples", "boost", request_id="b1")["repeated"]
    assert agent.get("apples")["declared"]["importance"] == 0.6


def test_mistakes_are_told_and_change_nothing(home: Home, agent: Client, root: Path) -> None:
    with pytest.raises(errors.UsageError, match="promote, demote, archive, delete, boost, diminish, pin, unpin"):
        agent.curate(DAILY, "fly")
    with pytest.raises(errors.NotFound):
        agent.curate("nowhere", "pin")
    with pytest.raises(errors.UsageError, match="needs `verb`"):
        agent.curate(DAILY, "")
    assert home.run("curate", DAILY, "fly", cwd=root).returncode == 2
    assert not [entry for entry in agent.log()["entries"] if entry["what"].startswith("curate")]


def test_the_command_says_from_where_to_where(home: Home, agent: Client, root: Path) -> None:
    def said(key: str, verb: str) -> tuple[int, str, str]:
        done = home.run("curate", key, verb, cwd=root)
        return done.returncode, done.stdout.strip(), done.stderr

    assert said(DAILY, "promote") == (0, f"{DAILY}: stm → ltm", "")
    assert said(DAILY, "promote") == (0, f"{DAILY} stays: its tier is ltm already", "")
    assert said(DAILY, "boost") == (0, f"{DAILY}: importance 0.5 → 0.6", "")
    assert said(DAILY, "pin") == (0, f"{DAILY} is pinned now", "")
    assert said(DAILY, "pin") == (0, f"{DAILY} is pinned already", "")
    code, out, err = said(DAILY, "delete")
    assert code == 5 and out == "" and "unpin" in err
    assert said(DAILY, "unpin")[0] == 0
    code, out, err = said(DAILY, "delete")
    assert (code, out) == (0, f"{DAILY}: ltm → deleted") and f"memd rm {DAILY}" in err
    assert "Planted two apple trees." in (root / "memory/2026-02-15.md").read_text()


# --- summaries --------------------------------------------------------------------------------------------------


def test_a_summary_is_expanded_as_soon_as_it_is_written(agent: Client) -> None:
    for nth in range(20):
        agent.consolidate(f"summary-{nth}", f"Number {nth} of the trees.", [DAILY, "apples"])
        assert [one["key"] for one in agent.expand(f"summary-{nth}")["children"]] == [DAILY, "apples"], nth
