"""What ranks the chunks follows the ledger: whatever changes, the arrays are what reading all of it anew gives."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from memd.indexer.query import lookup
from memd.indexer.store import catalog, columns
from memd.indexer.store.columns import ChunkColumns
from memd.indexer.store.stores import FIRST_LOOKS
from memd.models import Filters
from tests.lab import Lab

DAYS = [f"memory/2026-02-{day:02d}.md" for day in range(1, 13)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.stores.close()


def note(rng: random.Random) -> str:
    declared = rng.choice(["", "", "<!-- memd: pinned -->\n", "<!-- memd: importance=0.9 priority=low ttl=3d -->\n"])
    words = [f"word{rng.randrange(50)}" for _ in range(rng.choice([5, 5, 200]))]
    return f"## Entry {rng.randrange(40)}\n{declared}\n{' '.join(words)}.\n\n"


RESTING = """
SELECT m.id FROM memories m
WHERE m.tier IN ('dormant', 'sensory') AND COALESCE(json_extract(m.declared, '$.pinned'), 0) <> 1
"""
OUTDATED = """
SELECT e.other FROM edges e JOIN memories n ON n.id = e.one
WHERE e.rel = 'refines' AND e.removed = 0 AND n.file IS NOT NULL AND n.deleted IS NULL
AND COALESCE(n.expires > strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now'), true)
"""


def agree(lab: Lab) -> ChunkColumns:
    """Both agree, and with the rows that hits are made of."""
    index = lab.stores.index("agent")
    followed, anew = index.columns, ChunkColumns.read(index.reader, index.id)
    assert followed.files == anew.files
    for name, ours, theirs in zip(anew.ranked._fields, followed.ranked, anew.ranked, strict=True):
        assert np.array_equal(ours, theirs), name
    rows = lookup.join(index.reader, anew.ranked.chunk.tolist(), Filters())
    shown = {place.chunk: place for place in followed.described(followed.shown(followed.ranked.chunk))}
    assert shown.keys() == rows.keys()
    resting, outdated = ({row[0] for row in index.reader.execute(query)} for query in (RESTING, OUTDATED))
    for chunk, row in rows.items():
        place, at = shown[chunk], shown[chunk].at
        assert (place.path, place.stem, place.line) == (row["path"], row["stem"], row["start_line"])
        assert (place.memory, place.resting) == (row["memory"], row["memory"] in resting)
        day = lookup.own_day(row)
        assert followed.ranked.day[at] == (day.toordinal() if day else 0)
        assert bool(followed.ranked.semantic[at]) == (row["kind"] == "semantic")
        assert (followed.ranked.outdated_until[at] > time.time()) == (row["memory"] in outdated)
        assert followed.ranked.tier[at] == columns.TIER.get(row["tier"], 0.0)
    some = followed.ranked.chunk[::7].tolist()
    part, of_them = ChunkColumns.of_memories(index.reader, index.id, some), np.isin(anew.ranked.chunk, some)
    memories = np.isin(anew.ranked.memory, anew.ranked.memory[of_them])
    for ours, theirs in zip(part.ranked, anew.ranked.at(np.flatnonzero(memories)), strict=True):
        assert np.array_equal(ours, theirs)
    told = [place[:-1] for place in part.described(part.shown(some))]
    assert told == [place[:-1] for place in followed.described(followed.shown(some))]
    return followed


@pytest.mark.parametrize("seed", range(4))
def test_they_follow_whatever_changes(lab: Lab, seed: int) -> None:
    rng = random.Random(seed)
    notes = {path: "".join(note(rng) for _ in range(4)) for path in [*DAYS, "MEMORY.md"]}
    lab.add(notes)
    ledger = lab.stores.ledger
    agree(lab)

    def files() -> None:
        path = rng.choice([*notes, f"memory/topics/t{rng.randrange(5)}.md"])
        lab.save({path: "".join(note(rng) for _ in range(rng.randrange(5)))})

    def gone() -> None:
        (lab.folder / "agent" / (path := rng.choice([*notes]))).unlink(missing_ok=True)
        lab.save({})
        del path

    def tiers() -> None:
        tier = rng.choice(["dormant", "sensory", "stm", "ltm"])
        ledger.transact(
            lambda run: run.execute("UPDATE memories SET tier = ? WHERE id % 5 = ?", (tier, rng.randrange(5)))
        )

    def removals() -> None:
        when = rng.choice([None, "2026-02-01T00:00:00.000+00:00"])
        ledger.transact(lambda run: run.execute("UPDATE memories SET deleted = ? WHERE id % 7 = 1", (when,)))

    def ends() -> None:
        when = rng.choice([None, "2020-02-01T00:00:00.000+00:00", "2999-02-01T00:00:00.000+00:00"])
        ledger.transact(lambda run: run.execute("UPDATE memories SET expires = ? WHERE id % 6 = 1", (when,)))

    def edges() -> None:
        made = "INSERT OR IGNORE INTO edges (workspace, one, other, rel, base, weight, origin, made)"
        query = f"{made} SELECT workspace, id, id - 1, 'refines', 1, 1, 'declared', '' FROM memories WHERE id % 4 = ?"
        others = "UPDATE edges SET removed = 1 - removed WHERE id % 3 = 1", "DELETE FROM edges WHERE id % 5 = 2"
        query, values = rng.choice([(query, (rng.randrange(4),)), *((other, ()) for other in others)])

        def change(run) -> None:
            run.execute("PRAGMA defer_foreign_keys = ON")
            run.execute(query, values)
            run.execute("DELETE FROM edges WHERE other NOT IN (SELECT id FROM memories)")

        ledger.transact(change)

    seen = -1
    for step in rng.choices([files, gone, tiers, removals, ends, edges], k=40):
        step()
        if rng.random() < 0.6:
            seen, before = agree(lab).number, seen
            assert seen >= before


def test_a_note_is_outdated_for_as_long_as_one_that_refines_it_lives(lab: Lab) -> None:
    index = lab.add({"memory/topics/new.md": "Two.\n", "memory/topics/old.md": "One.\n"})
    columns_of = "workspace, one, other, rel, base, weight, origin, made"
    refined = f"INSERT INTO edges ({columns_of}) VALUES (1, ?, ?, 'refines', 1, 1, '', '')"
    ids = dict(index.reader.execute("SELECT f.stem, m.id FROM memories m JOIN files f ON f.id = m.file"))
    lab.stores.ledger.transact(lambda run: run.execute(refined, (ids["new"], ids["old"])))
    for end, outdated in (("2999", [True]), ("2020", [False]), ("2999", [True]), (None, [True])):
        values = end and f"{end}-02-01T00:00:00.000+00:00", ids["new"]
        with lab.stores.ledger.write() as connection:
            connection.execute("UPDATE memories SET expires = ? WHERE id = ?", values)
        ranked = agree(lab).ranked
        assert (ranked.outdated_until[ranked.memory == ids["old"]] > time.time()).tolist() == outdated


def test_one_change_is_read_at_the_same_cost_however_many_chunks_there_are(lab: Lab) -> None:
    rng = random.Random(1)
    index = lab.add({path: "".join(note(rng) for _ in range(3)) for path in DAYS[:4]})

    def cost() -> int:
        _ = index.columns
        lab.stores.ledger.transact(lambda run: run.execute("UPDATE memories SET role = 'topic' WHERE id = 1"))
        lab.stores.ledger.transact(lambda run: run.execute("UPDATE memories SET role = 'daily' WHERE id = 1"))
        return lab.steps(lambda: index.columns)

    few = cost()
    lab.save({f"memory/2025-{month:02d}-{day:02d}.md": note(rng) for month in range(1, 11) for day in range(1, 29)})
    assert cost() <= few + 10


def test_the_first_looks_read_what_they_need_and_later_ones_follow(lab: Lab) -> None:
    rng = random.Random(3)
    index = lab.add({path: note(rng) for path in DAYS})
    answers = []
    while index._columns is None:
        assert len(answers) <= FIRST_LOOKS
        answers.append([(hit.id, hit.score) for hit in lab.ask("word1 word2 word3 word4", mode="text").hits])
    answers.append([(hit.id, hit.score) for hit in lab.ask("word1 word2 word3 word4", mode="text").hits])
    assert len(answers) > 3 and answers[0] and all(answer == answers[0] for answer in answers)
    index.close()
    assert [(hit.id, hit.score) for hit in lab.ask("word1 word2 word3 word4", mode="text").hits] == answers[0]
    assert index._columns is None


def test_after_very_many_changes_all_is_read_again(lab: Lab, monkeypatch) -> None:
    monkeypatch.setattr(columns, "MOST_FOLLOWED", 10)
    rng = random.Random(2)
    index = lab.add({DAYS[0]: note(rng)})
    known = index.columns
    lab.save({path: "".join(note(rng) for _ in range(4)) for path in DAYS})
    assert agree(lab).number > known.number + 10


def test_the_ledger_keeps_only_the_last_changes(lab: Lab) -> None:
    index = lab.add({DAYS[0]: "## A\n\nOne.\n"})
    with lab.stores.ledger.write() as connection:
        connection.executemany("INSERT INTO changed (memory) VALUES (?)", [(1,)] * 80_000)
    assert catalog.number_of(index.reader, "SELECT COUNT(*) FROM changed") < 70_000
    assert agree(lab).number >= 80_000


def test_somebody_in_an_older_snapshot_does_not_have_all_read_again(lab: Lab) -> None:
    index = lab.add({DAYS[0]: "## A\n\nOne.\n"})
    newer = ChunkColumns(index.id, index.columns.number + 5, index.columns.ranked, index.columns.files)
    assert newer.followed(index.reader) is newer


def test_a_day_is_that_of_the_note_and_memory_md_has_none(lab: Lab) -> None:
    index = lab.add({"memory/2026-02-03.md": "## A\n\nOne.\n", "MEMORY.md": "## B\n\nTwo.\n"})
    days = {place.path: int(index.columns.ranked.day[place.at]) for place in index.columns.described(np.arange(2))}
    assert days == {"memory/2026-02-03.md": date(2026, 2, 3).toordinal(), "MEMORY.md": 0}
