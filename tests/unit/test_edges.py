"""How edges live, and how the ledger keeps them: mentions, tags, likeness, use and time, on real stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from memd.indexer.lifecycle import edges, mentions, similarity
from memd.indexer.lifecycle.lives import record_accesses
from memd.indexer.lifecycle.similarity import DOUBT, SAME, SimilarPair, same_words, verdicts
from memd.indexer.model.scale import Scale
from memd.lifecycle.lives import Edge, components, ends, faded_weight, reach, strengthened, summary_of
from memd.models import RELATIONS, Relation
from tests.hash_embedder import HashEmbedder
from tests.lab import Lab

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_every_relation_has_its_weight() -> None:
    assert tuple(RELATIONS) == get_args(Relation)


# --- pure ---------------------------------------------------------------------------------------------------


def test_use_strengthens_less_and_less() -> None:
    assert strengthened(0.5) == pytest.approx(0.5 + 0.05 * 0.5)
    assert strengthened(0.5, 2) == pytest.approx(strengthened(strengthened(0.5)))
    assert strengthened(0.4, 0) == pytest.approx(0.4)
    assert strengthened(1.0, 3) == 1.0 and strengthened(0.9, 1000) <= 1.0


@pytest.mark.parametrize(
    ("accesses", "idle", "origin", "expected"),
    [
        (0, timedelta(days=30), "similar", 0.8),
        (0, timedelta(days=31) - timedelta(seconds=1), "similar", 0.8),
        (0, timedelta(days=31), "similar", 0.72),
        (2, timedelta(days=32), "tag", 0.648),
        (3, timedelta(days=300), "tag", 0.8),
        (0, timedelta(days=300), "declared", 0.8),
        (0, timedelta(days=300), "written", 0.8),
        (0, timedelta(days=-1), "similar", 0.8),
    ],
)
def test_what_nobody_made_fades_when_it_is_not_used(
    accesses: int, idle: timedelta, origin: str, expected: float
) -> None:
    assert faded_weight(0.8, accesses, idle, origin) == pytest.approx(expected)


def edge(one: int, other: int, weight: float = 0.5, rel: str = "relates_to") -> Edge:
    return Edge(one * 100 + other, one, other, rel, weight, "declared")


def test_reaching_takes_the_shortest_way_and_of_those_the_strongest() -> None:
    web = [
        edge(1, 2, 0.9),
        edge(2, 3, 0.9),
        edge(1, 3, 0.1),
        edge(4, 2, 0.5),
        edge(4, 5, 0.5),
        edge(2, 4, 0.8, "refines"),
    ]

    def of(some: object) -> list[Edge]:
        return [one for one in web if {one.one, one.other} & set(some)]  # type: ignore[call-overload]

    assert [(way.memory, round(way.weight, 3)) for way in reach(1, of, 1)] == [(2, 0.9), (3, 0.1)]
    far = reach(1, of, 3)
    assert [(way.memory, len(way.path), round(way.weight, 3)) for way in far] == [
        (2, 1, 0.9), (3, 1, 0.1), (4, 2, 0.72), (5, 3, 0.36),
    ]  # fmt: skip
    assert [step.rel for step in far[2].path] == ["relates_to", "refines"]


def test_groups_do_not_depend_on_the_order_of_pairs() -> None:
    pairs = [(1, 2), (3, 4), (2, 3), (8, 9)]
    assert components(pairs, 2) == components(pairs[::-1], 2) == [(1, 2, 3, 4), (8, 9)]
    assert components(pairs, 3) == [(1, 2, 3, 4)] and components([], 2) == []


def test_a_summary_contains_half_of_its_group() -> None:
    assert summary_of((1, 2, 3, 4), {9: [1, 2]}) == 9
    assert summary_of((1, 2, 3, 4, 5), {9: [1, 2]}) is None
    assert summary_of((1, 2, 3), {3: [1, 7]}) == 3, "it may be of the group itself"
    assert summary_of((1, 2), {}) is None


def test_only_what_has_no_direction_is_turned_round() -> None:
    assert ends(5, 2, "relates_to") == (2, 5) and ends(5, 2, "refines") == (5, 2)


# --- on stores ------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, HashEmbedder())
    yield made
    made.close()


def resolve(lab: Lab, now: datetime = NOW, everything: bool = False) -> int:
    """What the writer does soon after a save."""
    index = lab.stores.index("agent")
    some, index.unlinked = set(index.unlinked), set()
    with lab.stores.ledger.write() as connection:
        return mentions.resolve(connection, index.id, None if everything else some, now)


def told(lab: Lab, rel: str = "") -> set[tuple[str, str, str, float, str]]:
    index = lab.stores.index("agent")
    found = edges.list_edges(lab.stores, [index], "", rel or None, 0.0, 1000)["edges"]
    return {(one["from"], one["rel"], one["to"], round(one["weight"], 3), one["origin"]) for one in found}


def topic(name: str, text: str, front: str = "") -> dict[str, str]:
    return {f"memory/topics/{name}.md": (f"---\n{front}\n---\n\n" if front else "") + f"{text}\n"}


def test_mentions_become_edges_by_key_stem_alias_title_and_path(lab: Lab) -> None:
    lab.add({
        **topic("deploy", "How we deploy.", "title: Shipping it\naliases: [rollout]"),
        **topic("by-key", "[[deploy]]"),
        **topic("by-alias", "[[Rollout]]"),
        **topic("by-title", "[[shipping IT]]"),
        **topic("by-path", "[x](deploy.md)"),
        **topic("by-part", "[[topics/deploy]]"),
        **topic("typed", "Text.", "links: ['refines(0.7):deploy']"),
        "MEMORY.md": "# Memory\n\n## Home network\n\nThe router.\n\n## Other\n\n[[MEMORY#Home network]] [[nothing]]\n",
    })  # fmt: skip
    resolve(lab)
    written = {
        frozenset((one, other)) for one, rel, other, weight, origin in told(lab) if (weight, origin) == (0.5, "written")
    }
    by = ("by-key", "by-alias", "by-title", "by-path", "by-part")
    assert written == {
        *(frozenset(("deploy", name)) for name in by),
        frozenset(("MEMORY#home-network", "MEMORY#other")),
    }
    assert {one for one in told(lab) if one[4] == "declared"} == {("typed", "refines", "deploy", 0.7, "declared")}
    assert len(told(lab)) == 7
    assert resolve(lab) == 0 and resolve(lab, everything=True) == 0, "run twice is run once"


def test_a_name_of_two_memories_names_none_and_a_later_one_can(lab: Lab) -> None:
    lab.add(
        {**topic("one", "[[Backup]] [[late]]"), "memory/a.md": "## Backup\n\nA.\n", "memory/b.md": "## Backup\n\nB.\n"}
    )
    resolve(lab)
    assert told(lab) == set()
    lab.save(topic("late", "Here now."))
    resolve(lab)
    assert {(a, b) for a, _, b, _, _ in told(lab)} == {("one", "late")}


def test_edges_go_with_their_mention_and_follow_a_rename(lab: Lab) -> None:
    lab.add({**topic("one", "See [[two]]."), **topic("two", "The second topic, as it is.")})
    resolve(lab)
    folder = lab.folder / "agent" / "memory" / "topics"
    (folder / "two.md").rename(folder / "zwei.md")
    lab.save({})
    resolve(lab)
    assert {(a, b) for a, _, b, _, _ in told(lab)} == {("one", "zwei")}, "the text says two, and means the same"
    lab.save(topic("one", "See nothing."))
    resolve(lab)
    assert told(lab) == set()


def test_edges_rest_while_a_memory_is_gone_and_come_back_with_it(lab: Lab) -> None:
    lab.add({**topic("one", "See [[two]]."), **topic("two", "The second topic, as it is.")})
    resolve(lab)
    file = lab.folder / "agent" / "memory" / "topics" / "two.md"
    text = file.read_text()
    file.unlink()
    lab.save({})
    resolve(lab, everything=True)
    assert told(lab) == set()
    file.write_text(text)
    lab.save({})
    resolve(lab, everything=True)
    assert {(a, b) for a, _, b, _, _ in told(lab)} == {("one", "two")}


def tagged(count: int, tag: str = "rare") -> dict[str, str]:
    return {path: text for nth in range(count) for path, text in topic(f"t{nth}", f"Text {nth}. #{tag}").items()}


@pytest.mark.parametrize(("count", "edges_"), [(1, 0), (2, 1), (8, 28), (9, 0)])
def test_a_tag_that_few_share_links_them(lab: Lab, count: int, edges_: int) -> None:
    lab.add(tagged(count))
    resolve(lab)
    found = told(lab)
    assert len(found) == edges_ and all(one[1:2] + one[3:] == ("relates_to", 0.3, "tag") for one in found)
    assert resolve(lab, everything=True) == 0


def test_a_tag_that_becomes_common_or_goes_unlinks(lab: Lab) -> None:
    lab.add(tagged(8))
    resolve(lab)
    lab.save(topic("ninth", "One more. #Rare"))
    resolve(lab)
    assert told(lab) == set(), "nine are too many"
    lab.save(topic("ninth", "One more."))
    resolve(lab, everything=True)
    assert len(told(lab)) == 28
    lab.save(topic("t0", "Text 0."))
    resolve(lab)
    assert len(told(lab)) == 21


def test_what_someone_took_away_is_not_made_again(lab: Lab) -> None:
    index = lab.add({**tagged(2), **topic("one", "[[t0]]"), **topic("two", "x", "links: [t0]")})
    resolve(lab)
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE edges SET removed = 1")
    for nth in range(2):
        lab.save({**topic("t0", f"Text again {nth}. #rare"), **topic("one", f"{nth} [[t0]]")})
        resolve(lab)
        resolve(lab, everything=True)
    assert {one[4] for one in told(lab)} == {"declared"}, "whoever declares it wants it; the rest stays removed"
    assert index.id


# --- use and time -------------------------------------------------------------------------------------------


def numbers(lab: Lab) -> dict[str, int]:
    index = lab.stores.index("agent")
    rows = lab.stores.ledger.reader.execute("SELECT id FROM memories WHERE file IS NOT NULL").fetchall()
    named = edges.named(lab.stores.ledger.reader, index.id, [row["id"] for row in rows])
    return {one["key"]: number for number, one in named.items()}


def age(lab: Lab, now: datetime) -> tuple[int, int]:
    """How many edges changed their weight, and how many of those withered."""
    with lab.stores.ledger.write() as connection:
        index = lab.stores.index("agent").id
        while edges.count_uses(connection, index):
            pass
        changed = edges.fading(connection, index, now)
        return len(changed), edges.fade(connection, changed)


def test_coming_up_together_strengthens_once_per_client_and_hour(lab: Lab) -> None:
    lab.add({**tagged(2), **topic("lonely", "x")})
    resolve(lab)
    known = numbers(lab)
    with lab.stores.ledger.write() as connection:
        for client, hours in (("a", 0), ("a", 0), ("b", 0), ("a", 1)):
            record_accesses(connection, known.values(), client, NOW + timedelta(hours=hours), together=True)
    assert told(lab) == {("t0", "relates_to", "t1", 0.3, "tag")}, "nothing counts before it is folded in"
    for _ in range(2):
        age(lab, NOW)
        assert told(lab) == {("t0", "relates_to", "t1", round(strengthened(0.3, 3), 3), "tag")}
    (found,) = edges.of(lab.stores.ledger.reader, [known["t0"]])
    assert (
        (found.accesses, found.origin) == (3, "tag") and found.accessed and found.accessed.startswith("2026-03-01T13")
    )


def test_fading_is_a_function_of_time_and_use_brings_back(lab: Lab) -> None:
    lab.add({**tagged(2), **topic("one", "[[t0]]")})
    resolve(lab)
    written = next(one for one in told(lab) if one[4] == "written")
    assert age(lab, NOW + 30 * DAY) == (0, 0)
    assert age(lab, NOW + 32 * DAY) == (1, 0)
    assert {one[3] for one in told(lab)} == {0.5, round(0.3 * 0.81, 3)}
    assert age(lab, NOW + 32 * DAY) == (0, 0), "run twice is run once"
    assert age(lab, NOW + 47 * DAY) == (1, 0) and age(lab, NOW + 48 * DAY) == (1, 1)
    assert told(lab) == {written}
    assert resolve(lab, everything=True) == 0, "what withered is not made again by a pass"
    known = numbers(lab)
    with lab.stores.ledger.write() as connection:
        record_accesses(connection, [known["t0"], known["t1"]], "a", NOW + 50 * DAY, together=True)
    age(lab, NOW + 50 * DAY)
    assert len(told(lab)) == 2


# --- likeness -----------------------------------------------------------------------------------------------


def test_the_marks_are_at_the_numbers_that_people_know() -> None:
    scale = Scale(0.5, 0.85)
    top = float(scale.near(np.ones(1))[0])
    nears = np.array([-1, 0, similarity.RELATED_AT, 1 + (top - 1) / 7, 1 + 2 * (top - 1) / 7, top])
    assert similarity.similarity(nears, scale).tolist() == pytest.approx([0, 0, 0.8, 0.9, 0.92, 1])


def compare(lab: Lab, most: int = 1000, now: datetime = NOW) -> tuple[int, int]:
    """How many edges a pass made, and how many it dropped."""
    index, made, more, before = lab.stores.index("agent"), 0, True, similar_edges(lab)
    while more:
        compared = similarity.compare(lab.stores, index, most)
        more = compared.more
        for part in compared.parts():
            with lab.stores.ledger.write() as connection:
                made += similarity.save(connection, index.id, part, now)
    return made, len(before - similar_edges(lab))


def similar_edges(lab: Lab) -> set[int]:
    rows = lab.stores.ledger.reader.execute("SELECT id FROM edges WHERE origin = 'similar'")
    return {row["id"] for row in rows}


LIKE = "The backup of the photo archive on the old disk failed again because the disk was full {}"


def test_memories_that_are_alike_are_linked_and_only_what_changed_is_compared(lab: Lab) -> None:
    lab.add({
        **topic("one", LIKE.format("tonight.")), **topic("two", LIKE.format("last night.")),
        **topic("far", "Basil grows best next to tomatoes."),
    })  # fmt: skip
    assert compare(lab) == (1, 0)
    ((one, rel, other, weight, origin),) = told(lab)
    assert {one, other} == {"one", "two"} and (rel, origin) == ("relates_to", "similar") and 0.8 <= weight <= 0.95
    assert similarity.compare(lab.stores, lab.stores.index("agent"), 10).memories == {}
    assert compare(lab) == (0, 0)
    lab.save(topic("two", "Bicycle lights need new batteries."))
    assert similarity.compare(lab.stores, lab.stores.index("agent"), 10).memories == {}, "its vector is not made yet"
    lab.embed()
    assert compare(lab) == (0, 1)
    assert told(lab) == set()


def test_nobody_gets_more_than_five_automatic_edges(lab: Lab) -> None:
    lab.add({path: text for nth in range(40) for path, text in topic(f"n{nth}", LIKE.format(f"w{nth}")).items()})
    compare(lab, most=7)
    count: dict[str, int] = {}
    for one, _, other, _, _ in told(lab):
        for end in (one, other):
            count[end] = count.get(end, 0) + 1
    assert len(count) > 30 and max(count.values()) <= 5
    assert compare(lab) == (0, 0)


def test_three_hundred_memories_twice(lab: Lab) -> None:
    words = [f"word{nth % 40} thing{nth % 31} place{nth % 23} about number{nth}" for nth in range(300)]
    lab.add({path: text for nth, word in enumerate(words) for path, text in topic(f"m{nth:03}", f"Of {word}").items()})
    resolve(lab)
    compare(lab)
    before = told(lab)
    assert before
    resolve(lab, everything=True)
    assert compare(lab) == (0, 0) and told(lab) == before


def compare_all(lab: Lab) -> tuple[int, int]:
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE memories SET compared = ''")
    return compare(lab)


def test_an_edge_that_someone_made_or_took_away_is_left_alone(lab: Lab) -> None:
    lab.add({**topic("one", LIKE.format("tonight.") + " [[two]]"), **topic("two", LIKE.format("last night."))})
    resolve(lab)
    compare(lab)
    assert {one[3:] for one in told(lab)} == {(0.5, "written")}
    with lab.stores.ledger.write() as connection:
        connection.execute("UPDATE edges SET removed = 1, origin = 'similar'")
        connection.execute("DELETE FROM mentions")
    compare_all(lab)
    assert told(lab) == set()


# --- duplicates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The disk of fjord was full.", "The disk of fjord was full", True),
        ("## 14:27 Disk\n\nThe disk was full.", "## Disk\n_2026-02-15 14:27_\n\nThe disk was full.", True),
        ("The API is on port 8080.", "The API is on port 8081.", False),
        ("Deploys never run on a Friday in the office.", "Deploys run on a Friday in the office.", False),
        ("In the long text below all words are the same but Anna has the key to the shed behind the house",
         "In the long text below all words are the same but Emma has the key to the shed behind the house", False),
        ("Basil grows next to tomatoes.", "The disk of fjord was full.", False),
    ],
)  # fmt: skip
def test_the_very_same_has_the_same_words_numbers_names_and_denials(one: str, other: str, same: bool) -> None:
    assert same_words(one, other) is same and same_words(other, one) is same


def pairs_of(lab: Lab, *keys: str) -> list[SimilarPair]:
    known = numbers(lab)
    return [
        SimilarPair(*sorted((known[one], known[other])), 0.99) for one, other in zip(keys[::2], keys[1::2], strict=True)
    ]


def test_who_stays_and_who_is_laid_aside(lab: Lab) -> None:
    same = "The disk of fjord was full again, so the copy failed."
    lab.add({
        "MEMORY.md": f"# Memory\n\n## Disk\n\n{same}\n\n## Disk again\n\n{same}\n",
        "memory/2026-02-15.md": f"# 2026-02-15\n\n## Disk\n\n{same}\n",
        **topic("lasting", same),
        **topic("pinned", same, "pinned: true"),
        "memory/edit.md": f"## Disk\n\n{same}\n",
        "memory/review.md": f"## Disk\n\n{same}\n",
    })  # fmt: skip
    day, known = "2026-02-15#disk", numbers(lab)
    names = {number: key for key, number in known.items()}

    def decided(*keys: str) -> list[tuple[str, str]]:
        found = list(verdicts(lab.stores.ledger.reader, pairs_of(lab, *keys)))
        assert {verdict for verdict, *_ in found} <= {SAME}
        return [(names[stays], names[goes]) for _, stays, goes, _ in found]

    assert decided(day, "lasting") == [("lasting", day)]
    assert decided(day, "MEMORY#disk") == [("MEMORY#disk", day)]
    assert decided("lasting", "MEMORY#disk") == [("MEMORY#disk", "lasting")]
    assert decided("pinned", "lasting") == [("pinned", "lasting")]
    assert decided("MEMORY#disk", "MEMORY#disk-again") == [], "MEMORY.md never ages"
    assert decided("pinned", "MEMORY#disk") == [], "neither of them can go"
    assert decided("edit#disk", "review#disk") == [], "each role has its own notes"
    assert decided(day, "lasting", day, "MEMORY#disk") == [("lasting", day)], "nobody goes twice"


def test_the_same_sentence_with_another_number_is_doubtful(lab: Lab) -> None:
    lab.add(
        {
            **topic("old", "The media server answers on port 8080."),
            **topic("new", "The media server answers on port 9090."),
        }
    )
    found = verdicts(lab.stores.ledger.reader, pairs_of(lab, "old", "new"))
    assert [verdict for verdict, *_ in found] == [DOUBT]
    known = numbers(lab)
    far = [SimilarPair(*sorted((known["old"], known["new"])), 0.85)]
    assert list(verdicts(lab.stores.ledger.reader, far)) == [], "only what is nearly the same"
