"""Pairs that are near each other: which say the same, which replace another, which are in doubt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memd.indexer.context.assemble import ContextTask, assemble
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.reflect import Reflection
from memd.indexer.writing.write_files import undo
from memd.lifecycle.rule_book import BUILT_IN as SHIPPED
from memd.models import Ask
from tests.hash_embedder import HashEmbedder
from tests.lab import TODAY, Lab

BUILT_IN = tuple(replace(rule, enabled=True) for rule in SHIPPED)
PORT = "## Relay port\n\nThe amber relay in the cellar listens on port {} since this morning, as agreed with Ada.\n"
SAME = "## Kiln\n\nThe kiln must not be opened before it has cooled down to forty degrees.\n"
NOTES = {
    "memory/2026-01-01.md": PORT.format(4411) + "\n" + SAME,
    "memory/2026-02-01.md": PORT.format(5522) + "\n## Bread\n\nThe dough rises in two hours.\n",
    "memory/2026-02-02.md": SAME,
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, HashEmbedder())
    made.add(NOTES)
    yield made
    made.close()


def run(
    lab: Lab, rules: Any = BUILT_IN, later: int = 0, dry: bool = False, told: list[int] | None = None
) -> dict[str, Any]:
    """Reflect, so many minutes from now."""
    now = datetime.now(UTC) + timedelta(minutes=later)

    def write(work: Any) -> Any:
        with lab.stores.ledger.write() as connection:
            return work(connection)

    moved = ([] if told is None else told).extend
    index = lab.stores.index("agent")
    return Reflection(lab.stores, index, rules, now, write, dry=dry, who="job:reflect", on_moved=moved).reflect()


def number(lab: Lab, path: str, slug: str) -> int:
    row = lab.stores.ledger.reader.execute(
        "SELECT m.id FROM memories m JOIN files f ON f.id = m.file WHERE f.path = ? AND slug = ?", (path, slug)
    ).fetchone()
    return int(row["id"])


def tier(lab: Lab, path: str, slug: str) -> str:
    return lives.life_of(lab.stores.ledger.reader, number(lab, path, slug)).tier


def test_of_two_that_say_the_same_the_younger_is_laid_aside_and_its_text_stays(lab: Lab):
    found = run(lab)
    assert [(move["key"], move["from"], move["to"], move["rule"]) for move in found["moves"]] == [
        ("2026-02-02#kiln", "stm", "dormant", "dedup-all")
    ]
    assert found["moves"][0]["why"] == "says the same as 2026-01-01#kiln"
    assert tier(lab, "memory/2026-01-01.md", "kiln") == "stm"
    assert SAME in (lab.folder / "agent/memory/2026-02-02.md").read_text()


def test_what_is_laid_aside_is_told_when_it_is_done_and_only_then(lab: Lab):
    told: list[int] = []
    run(lab, dry=True, told=told)
    assert told == []
    run(lab, told=told)
    assert told == [number(lab, "memory/2026-02-02.md", "kiln")]
    run(lab, later=1, told=told)
    assert len(told) == 1, "it is there already"


def test_a_later_note_under_the_same_heading_stands_before_what_it_replaces(lab: Lab):
    before = lab.ask("which port does the amber relay listen on").hits
    assert before[0].score == pytest.approx(before[1].score, abs=0.01)
    run(lab)
    after = lab.ask("which port does the amber relay listen on", explain=True).hits
    assert [hit.path for hit in after[:2]] == ["memory/2026-02-01.md", "memory/2026-01-01.md"]
    assert after[0].score - after[1].score > 0.1
    assert after[1].explain is not None
    assert "outdated" in after[1].explain
    asked_for = lab.ask("was it port 4411 on which the amber relay listened").hits
    assert asked_for[0].path == "memory/2026-01-01.md", "who asks for the earlier one gets it"


def test_a_later_note_stands_before_what_it_replaces_until_it_expires(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    run(lab)
    later, end = number(lab, "memory/2026-02-01.md", "relay-port"), "2999-01-01T00:00:00.000+00:00"
    lab.stores.ledger.transact(lambda run: run.execute("UPDATE memories SET expires = ? WHERE id = ?", (end, later)))

    def explained() -> dict[str, Any]:
        hits = lab.ask("which port does the amber relay listen on", explain=True).hits
        return {hit.path: hit.explain for hit in hits if hit.key.endswith("relay-port")}

    assert "outdated" in explained()["memory/2026-01-01.md"]
    monkeypatch.setattr(time, "time", lambda: datetime(3000, 1, 1).timestamp())
    assert [(path, "outdated" in parts) for path, parts in explained().items()] == [("memory/2026-01-01.md", False)]


def test_a_context_takes_a_renewal_along_only_where_it_is_about_the_task_too(lab: Lab):
    weekly = "## Round\n\nWent through the port, the owner and the backup of {}. All is well, as it mostly is.\n"
    lab.save(
        {"memory/2026-02-05.md": weekly.format("the drawbridge"), "memory/2026-02-12.md": weekly.format("the mill")}
    )
    lab.embed()
    run(lab)
    refined = "SELECT one FROM edges WHERE rel = 'refines' AND removed = 0"
    renewals = {row[0] for row in lab.stores.ledger.reader.execute(refined)}
    assert number(lab, "memory/2026-02-12.md", "round") in renewals, "one heading, and nearly the same words"

    def packed(task: str) -> list[str]:
        asked = ContextTask(Ask(task, ("agent",), today=TODAY), budget=600)
        return [memory["key"] for memory in assemble(lab.stores, asked).result["memories"]]

    assert packed("drawbridge")[0] == "2026-02-05#round", "the later one says nothing of it"
    port = packed("which port does the amber relay listen on")
    assert port[0] == "2026-02-01#relay-port" and "2026-01-01#relay-port" not in port


def test_judging_twice_is_judging_once(lab: Lab):
    run(lab)
    again = run(lab, later=1)
    assert (again["moved"], again["linked"], again["action"]) == (0, 0, None)


def test_what_was_judged_can_be_undone_and_is_not_done_again(lab: Lab):
    found = run(lab)
    index = lab.stores.index("agent")
    undo(lab.stores, index, found["action"], "cli")
    assert tier(lab, "memory/2026-02-02.md", "kiln") == "stm"
    edges = "SELECT COUNT(*) FROM edges WHERE origin = 'rule' AND removed = 0"
    assert lab.stores.ledger.reader.execute(edges).fetchone()[0] == 0
    assert run(lab, later=1)["moved"] == 0


def test_a_text_that_changes_is_judged_anew(lab: Lab):
    run(lab)
    refines = "SELECT COUNT(*) FROM edges WHERE rel = 'refines' AND removed = 0"
    assert lab.stores.ledger.reader.execute(refines).fetchone()[0] == 1
    lab.save({"memory/2026-02-01.md": "## Relay port\n\nNobody knows where the plumber has put the spare keys.\n"})
    lab.embed()
    run(lab, later=1)
    assert lab.stores.ledger.reader.execute(refines).fetchone()[0] == 0


def test_without_the_rules_nothing_is_judged(lab: Lab):
    found = run(lab, rules=())
    assert found["moved"] == 0
    assert lab.stores.ledger.reader.execute("SELECT COUNT(*) FROM edges WHERE origin = 'rule'").fetchone()[0] == 0


def test_a_dry_run_judges_and_writes_nothing(lab: Lab):
    run(lab, rules=())
    ledger = lab.stores.ledger
    ledger.transact(ledger.save_setting, f"judged:{lab.stores.index('agent').id}", "")
    tables = ("actions", "shifts", "edges")
    counted = [lab.stores.ledger.reader.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables]
    assert run(lab, dry=True)["moved"] == 1
    assert counted == [
        lab.stores.ledger.reader.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables
    ]


def test_other_numbers_under_other_headings_are_in_doubt_and_left_alone(lab: Lab):
    lab.save({"memory/2026-03-01.md": PORT.format(9999).replace("Relay port", "Cellar")})
    lab.embed()
    found = run(lab)
    assert any("2026-03-01#cellar" in pair["keys"] for pair in found["doubtful"])
    assert tier(lab, "memory/2026-03-01.md", "cellar") == "stm"
    again = run(lab, later=60)
    assert again["doubtful"] == found["doubtful"], "until someone has looked"
    lab.save({"memory/2026-03-01.md": "## Cellar\n\nThe shelf is painted green.\n"})
    lab.embed()
    left = run(lab, later=120)["doubtful"]
    assert not any("2026-03-01#cellar" in pair["keys"] for pair in left)


def test_a_rule_that_is_switched_on_later_means_what_is_there_already(lab: Lab):
    without = tuple(rule for rule in BUILT_IN if rule.action.verb not in ("dedup", "refine"))
    assert run(lab, rules=without)["moved"] == 0
    assert run(lab, rules=without, later=60)["moved"] == 0
    would = run(lab, later=120, dry=True)
    assert (would["moved"], would["linked"]) == (1, 1), "a dry run counts the links that a rule would make"
    done = run(lab, later=120)
    assert (done["moved"], done["linked"]) == (1, 1)
    assert [move["rule"] for move in done["moves"]] == ["dedup-all"]
    again = run(lab, later=180)
    assert (again["moved"], again["linked"]) == (0, 0)


@pytest.mark.parametrize("path", ["MEMORY.md", "memory/topics/kiln.md"])
def test_what_is_known_for_good_stays_and_the_note_of_a_day_is_laid_aside(lab: Lab, path: str):
    lab.save({path: SAME})
    lab.embed()
    run(lab)
    assert tier(lab, "memory/2026-01-01.md", "kiln") == "dormant"
    assert tier(lab, path, "kiln" if path == "MEMORY.md" else "") == "ltm"
