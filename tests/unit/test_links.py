"""Where a memory points: what is declared and what is written, and nothing that only looks like it."""

from __future__ import annotations

import pytest

from memd.notes.metadata import MemoryLink, declared_link, entry_of, links_of
from memd.notes.parse import parse


def links(text: str, path: str = "memory/2026-02-15.md") -> list[tuple[str, str, float | None, str]]:
    (memory,) = parse(path, text).memories
    return [(link.rel, link.target, link.weight, link.origin) for link in links_of(path, memory)]


def targets(text: str, path: str = "memory/2026-02-15.md") -> list[str]:
    return [target for _, target, _, _ in links(text, path)]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("deploy", MemoryLink("relates_to", "deploy")),
        ("refines:deploy", MemoryLink("refines", "deploy")),
        ("refines(0.7):2026-02-15#ersatztv", MemoryLink("refines", "2026-02-15#ersatztv", 0.7)),
        ("contradicts(1):MEMORY#Home Network", MemoryLink("contradicts", "memory#home-network", 1.0)),
        ("note:of things", MemoryLink("relates_to", "note:of things")),
        ("[[Deploy|the deploy]]", MemoryLink("relates_to", "deploy")),
        ("refines:[[Deploy#Steps]]", MemoryLink("refines", "deploy#steps")),
        ("refines(7):deploy", None),
        ("refines(much):deploy", None),
    ],
)
def test_a_declared_link_is_a_key_a_relation_and_a_weight(entry: str, expected: MemoryLink | None) -> None:
    assert declared_link(entry) == expected


@pytest.mark.parametrize(
    ("rel", "key", "weight", "entry"),
    [
        ("relates_to", "a", None, "a"),
        ("relates_to", "a", 0.5, "a"),
        ("relates_to", "a", 0.7, "relates_to(0.7):a"),
        ("refines", "a#b", None, "refines:a#b"),
        ("refines", "a#b", 0.8, "refines:a#b"),
        ("contains", "a", 0.0, "contains(0):a"),
        ("relates_to", "implies:x", None, "relates_to:implies:x"),
    ],
)
def test_an_entry_says_it_shortly_and_reads_back(rel: str, key: str, weight: float | None, entry: str) -> None:
    assert entry_of(rel, key, weight) == entry
    back = declared_link(entry)
    assert back is not None and (back.rel, back.target) == (rel, key)


def test_front_matter_and_comments_declare() -> None:
    topic = "---\nlinks: [a, 'refines(0.3):b']\n---\n\nText.\n"
    assert links(topic, "memory/topics/x.md") == [
        ("relates_to", "a", None, "declared"),
        ("refines", "b", 0.3, "declared"),
    ]
    section = "## One\n<!-- memd: links=a,contradicts:2026-02-15#b -->\n\nText.\n"
    assert links(section) == [
        ("relates_to", "a", None, "declared"),
        ("contradicts", "2026-02-15#b", None, "declared"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [[Deploy]] and [[Deploy|again]].", ["deploy"]),
        ("See [[Home Network#The Router|it]].", ["home network#the-router"]),
        ("| a | [[x\\|label]] |\n|---|---|\n| b | c |", ["x"]),
        ("![[embedded]]", ["embedded"]),
        ("In this file: [[#Other part]].", ["memory/2026-02-15.md#other-part"]),
        ("[[]] and [[ ]] and [[#]] and [ [x] ]", []),
        ("[long](../MEMORY.md#home-network)", ["memory.md#home-network"]),
        (
            "[day](2026-02-14.md) and [topic](topics/My%20Topic.md)",
            ["memory/2026-02-14.md", "memory/topics/my topic.md"],
        ),
        ("[here](#below)", ["memory/2026-02-15.md#below"]),
        ("[abs](/memory/topics/x.mdk)", ["memory/topics/x.mdk"]),
        ("[angle](<topics/a b.md>)", ["memory/topics/a b.md"]),
        ("[out](../../other/x.md) [web](https://e.org/x.md) [mail](mailto:a@b.md) [code](app.py)", []),
        ("![picture](x.md)", []),
        ("As [said] before.\n\n[said]: topics/x.md", ["memory/topics/x.md"]),
    ],
)
def test_links_that_people_write(text: str, expected: list[str]) -> None:
    assert targets(text) == expected


def test_code_is_no_link() -> None:
    text = "Use `[[not this]]` but [[this]].\n\n```sh\n[[ -f x ]] && echo [a](b.md)\n```\n\n    [[indented]]\n"
    assert targets(text) == ["this"]


def test_what_is_declared_counts_before_what_is_written() -> None:
    text = "## One\n<!-- memd: links=relates_to(0.9):deploy -->\n\nSee [[Deploy]] and [[more]].\n"
    assert links(text) == [("relates_to", "deploy", 0.9, "declared"), ("relates_to", "more", None, "written")]


@pytest.mark.parametrize(
    "field", ["ttl: 30 days", "ttl: 30", "importance: 80", "importance: high", "pinned: yes please"]
)
def test_values_that_say_nothing_are_warned_of(field: str) -> None:
    (warning,) = parse("memory/topics/a.md", f"---\n{field}\n---\n\nText.\n").warnings
    assert warning.startswith(f"`{field.partition(':')[0]}` must be ")
    (every,) = parse("memory/topics/a.md", "---\nttl: no\nimportance: lots\npinned: 3\n---\n\nText.\n").warnings
    assert [part.split("`")[1] for part in every.split("; ")] == ["ttl", "importance", "pinned"]
    good = "---\nttl: 30d\nimportance: 0.8\npinned: false\nkind: fact\n---\n\nText.\n"
    assert parse("memory/topics/a.md", good).warnings == ()


def test_links_that_mean_nothing_are_warned_of():
    front = 'links: [bread, "refines:tea", "refines(2):tea", "see:tea", "refines(x):tea"]'
    note = parse("memory/topics/a.md", f"---\n{front}\n---\n\nText.\n")
    assert [warning.split("`")[1] for warning in note.warnings] == ["refines(2):tea", "see:tea", "refines(x):tea"]
    (warning,) = parse("MEMORY.md", "---\nlinks:\n  - refines: tea\n---\n\n## A\n\na\n\n## B\n\nb\n").warnings
    assert warning.startswith("`links` has an entry that is not a text")
    assert parse("MEMORY.md", "---\nlinks: tea, bread\ntags: [a, 1]\n---\n\n## A\n\na\n").warnings == ()
