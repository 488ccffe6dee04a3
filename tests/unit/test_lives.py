"""What is observed of memories: counted once an hour and client, settled by reflect, moved with a way back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memd.errors import Conflict
from memd.indexer.lifecycle import lives
from memd.indexer.lifecycle.lives import TierMove
from memd.indexer.record import actions
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.writing.write_files import undo
from tests.lab import Lab

NOW = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOTES = {
    "MEMORY.md": "## Router\n\nThe router is called fjord.\n",
    "memory/2026-03-01.md": "## Tap\n\nThe tap drips.\n\n"
    "## Cat\n\n<!-- memd: tier=sensory importance=0.9 -->\n\nGrey.\n",
    "memory/topics/bread.md": "---\npinned: true\n---\n\nTwo hours to rise.\n",
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    made.add(NOTES)
    yield made
    made.close()


@pytest.fixture
def index(lab: Lab) -> WorkspaceIndex:
    return lab.stores.index("agent")


def number(lab: Lab, slug: str) -> int:
    row = lab.stores.ledger.reader.execute("SELECT id FROM memories WHERE slug = ?", (slug,)).fetchone()
    return int(row["id"])


def saw(lab: Lab, memory: int, client: str, at: datetime) -> None:
    with lab.stores.ledger.write() as connection:
        lives.record_accesses(connection, [memory], client, at)


def settle(lab: Lab, now: datetime) -> None:
    index = lab.stores.index("agent")
    with lab.stores.ledger.write() as connection:
        lives.count_accesses(connection, lives.uncounted(connection, index.id, 0, 100), now)
        lives.sweep_accesses(connection, now)


def move(lab: Lab, index: WorkspaceIndex, *moves: TierMove, at: datetime = NOW) -> int:
    with lab.stores.ledger.write() as connection:
        action = actions.add(connection, index.id, "cli", "curate")
        for nth, one in enumerate(moves):
            lives.move(connection, action, nth, one, at)
    return action


def test_lives_begin_where_their_notes_say(lab: Lab, index: WorkspaceIndex):
    found = {life.memory: life for life in lives.lives(lab.stores.ledger.reader, index.id)}
    tap, cat, router = (found[number(lab, slug)] for slug in ("tap", "cat", "router"))
    assert (tap.tier, tap.base, tap.importance, tap.exempt) == ("stm", 0.5, 0.5, False)
    assert (cat.tier, cat.base, cat.importance) == ("sensory", 0.9, 0.9)
    assert (router.tier, router.exempt) == ("ltm", True)
    bread = next(life for life in found.values() if life.role == "topic")
    assert (bread.tier, bread.pinned, bread.exempt) == ("ltm", True, True)


def test_lives_come_in_pages(lab: Lab, index: WorkspaceIndex):
    reader, after, found = lab.stores.ledger.reader, 0, []
    while page := lives.lives(reader, index.id, after, 2):
        assert len(page) <= 2
        after = page[-1].memory
        found += page
    assert [life.memory for life in found] == [life.memory for life in lives.lives(reader, index.id)]
    assert len(found) == 4


def test_an_access_counts_once_per_client_and_hour_and_only_when_it_is_settled(lab: Lab):
    tap, reader = number(lab, "tap"), lab.stores.ledger.reader
    for client, at in (("a", NOW), ("a", NOW + HOUR / 3), ("b", NOW), ("a", NOW + HOUR)):
        saw(lab, tap, client, at)
    assert lives.life_of(reader, tap).accesses == 0
    settle(lab, NOW + HOUR)
    life = lives.life_of(reader, tap)
    assert (life.accesses, life.days, life.accessed) == (3, 1, NOW + HOUR)
    saw(lab, tap, "a", NOW + HOUR + HOUR / 4)
    settle(lab, NOW + HOUR + HOUR / 4)
    assert lives.life_of(reader, tap).accesses == 3, "the same hour again"


def test_days_are_counted_apart_from_accesses(lab: Lab):
    tap = number(lab, "tap")
    for days in (0, 0, 1, 1, 5):
        for hours in (1, 2):
            saw(lab, tap, "a", NOW + timedelta(days=days, hours=hours))
        settle(lab, NOW + timedelta(days=days, hours=3))
    life = lives.life_of(lab.stores.ledger.reader, tap)
    assert (life.accesses, life.days) == (6, 3)


def test_an_access_late_in_the_evening_is_of_that_day(lab: Lab):
    tap, late = number(lab, "tap"), datetime(2026, 3, 1, 23, 10, tzinfo=UTC)
    saw(lab, tap, "a", late)
    settle(lab, late + timedelta(days=3))
    saw(lab, tap, "a", late + HOUR)
    settle(lab, late + timedelta(days=3))
    assert lives.life_of(lab.stores.ledger.reader, tap).days == 2


def test_settling_twice_counts_once_and_old_entries_go(lab: Lab):
    tap = number(lab, "tap")
    saw(lab, tap, "a", NOW)
    for _ in range(2):
        settle(lab, NOW)
    assert lives.life_of(lab.stores.ledger.reader, tap).accesses == 1
    settle(lab, NOW + lives.KEPT + timedelta(hours=2))
    assert lab.stores.ledger.reader.execute("SELECT COUNT(*) FROM accesses").fetchone()[0] == 0


def test_what_is_gone_is_not_counted(lab: Lab):
    saw(lab, 999, "a", NOW)
    assert lab.stores.ledger.reader.execute("SELECT COUNT(*) FROM accesses").fetchone()[0] == 0


def test_a_declared_importance_begins_anew_and_another_edit_does_not(lab: Lab):
    tap = number(lab, "tap")
    with lab.stores.ledger.write() as connection:
        lives.fade(connection, [(tap, 0.2)])
    lab.save({"memory/2026-03-01.md": "## Tap\n\nThe tap drips at night.\n"})
    assert lives.life_of(lab.stores.ledger.reader, tap).importance == 0.2
    lab.save({"memory/2026-03-01.md": "## Tap\n\n<!-- memd: importance=0.7 -->\n\nThe tap drips at night.\n"})
    life = lives.life_of(lab.stores.ledger.reader, tap)
    assert (life.importance, life.base) == (0.7, 0.7)


def test_a_move_says_why_and_can_be_taken_back_and_forth(lab: Lab, index: WorkspaceIndex):
    tap = number(lab, "tap")
    action = move(lab, index, TierMove(tap, "dormant", "rule:x", "nobody asked"))
    row = lab.stores.ledger.reader.execute("SELECT * FROM memories WHERE id = ?", (tap,)).fetchone()
    assert (row["tier"], row["home"], row["moved_by"], row["moved_why"]) == ("dormant", "stm", "rule:x", "nobody asked")
    back = undo(lab.stores, index, action, "cli")
    life = lives.life_of(lab.stores.ledger.reader, tap)
    assert (back.back, life.tier, life.moved_by) == (1, "stm", "cli")
    assert life.since > life.first_seen, "what a person decided begins to age anew"
    undo(lab.stores, index, back.action, "cli")
    assert lives.life_of(lab.stores.ledger.reader, tap).tier == "dormant"


def test_what_moved_again_since_is_left_as_it_is(lab: Lab, index: WorkspaceIndex):
    tap, cat = number(lab, "tap"), number(lab, "cat")
    first = move(lab, index, TierMove(tap, "dormant", "rule:x", ""), TierMove(cat, "stm", "rule:y", ""))
    move(lab, index, TierMove(tap, "ltm", "cli", ""), at=NOW + HOUR)
    assert undo(lab.stores, index, first, "cli").back == 1
    found = {memory: lives.life_of(lab.stores.ledger.reader, memory).tier for memory in (tap, cat)}
    assert found == {tap: "ltm", cat: "sensory"}


def test_an_undo_that_could_change_nothing_is_a_conflict_and_leaves_no_trace(lab: Lab, index: WorkspaceIndex):
    tap = number(lab, "tap")
    first = move(lab, index, TierMove(tap, "dormant", "rule:x", ""))
    move(lab, index, TierMove(tap, "ltm", "cli", ""), at=NOW + HOUR)
    count = lab.stores.ledger.reader.execute("SELECT COUNT(*) FROM actions").fetchone()[0]
    with pytest.raises(Conflict):
        undo(lab.stores, index, first, "cli")
    assert lab.stores.ledger.reader.execute("SELECT COUNT(*) FROM actions").fetchone()[0] == count
    row = lab.stores.ledger.reader.execute("SELECT undone FROM actions WHERE id = ?", (first,)).fetchone()
    assert row["undone"] is None


def test_a_move_to_where_it_is_changes_nothing(lab: Lab, index: WorkspaceIndex):
    tap = number(lab, "tap")
    move(lab, index, TierMove(tap, "stm", "cli", ""))
    assert lives.life_of(lab.stores.ledger.reader, tap).moved is None


def test_usefulness_is_counted_and_undone(lab: Lab, index: WorkspaceIndex):
    tap = number(lab, "tap")
    with lab.stores.ledger.write() as connection:
        assert not lives.has_feedback(connection, index.id)
        action = actions.add(connection, index.id, "cli", "useful")
        assert lives.found_useful(connection, action, 0, tap) == 1
        assert lives.has_feedback(connection, index.id)
    undo(lab.stores, index, action, "cli")
    assert lives.life_of(lab.stores.ledger.reader, tap).useful == 0


def test_a_life_goes_on_through_an_edit_and_a_new_name(lab: Lab, index: WorkspaceIndex):
    tap = number(lab, "tap")
    move(lab, index, TierMove(tap, "ltm", "cli", ""))
    root = index.workspace.root
    (root / "memory/2026-03-01.md").rename(root / "memory/2026-03-02.md")
    lab.save({"memory/2026-03-02.md": NOTES["memory/2026-03-01.md"].replace("The tap drips", "The tap drips a lot")})
    assert number(lab, "tap") == tap
    assert lives.life_of(lab.stores.ledger.reader, tap).tier == "ltm"
