"""A note that is parsed again, from one that is nearly the same, is the note that it would be without."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from memd.indexer.store.catalog import digest_of_chunk, digest_of_memory
from memd.notes.blocks import in_one_go
from memd.notes.parse import CACHED_FILES, ParseCache, parse, reparse
from tests.written import opened, sync

PIECES = (
    *("## Alpha\n", "## Alpha 2\n", "# Title\n", "### Deeper\n", "##\n", "   ## Shifted\n", "    ## No heading\n"),
    *("Beta\n====\n", "Gamma\n---\n", "---\n", "```\n", "~~~\n", "<div>\n", "<!-- a comment\n", "-->\n", "> quoted\n"),
    *("- item\n", "  - nested\n", "1. one\n", "- ## in an item\n", "> ## quoted heading\n", "| a |\n|---|\n| 1 |\n"),
    *("text #tag\n", "text\n", "\n", "\n\n", "\t## tab\n", "a line without an end", "tags: [x]\n", "pinned: true\n"),
    *("[ref]: http://example.org\n", "\r\n", "## Omega #\r\n", "_2026-02-03_ a dated entry\n", "x" * 700 + "\n"),
    *("## Specialized Knowledge\n", "- topic: what\n"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
PATHS = st.sampled_from(("memory/2026-03-01.md", "MEMORY.md", "memory/topics/tea.md", "memory/ideas.md"))


@given(PATHS, TEXTS, TEXTS, TEXTS)
@example("MEMORY.md", "---\n## Alpha\n\n## Alpha\n", "", "---\n")
@example("memory/2026-03-01.md", "## Alpha\n\n```\n## Alpha\n", "", "```\n## Alpha\n")
@example("memory/2026-03-01.md", "# Title\n## Alpha", "", "bet\n\ntext\n")
def test_a_further_parse_is_the_same_as_a_first_one(path: str, start: str, old: str, new: str) -> None:
    before = in_one_go(reparse(path, start + old, "2026-01-01"))
    again = in_one_go(reparse(path, start + new, "2026-01-01", before))
    assert again.note == parse(path, start + new, "2026-01-01")
    shorter = in_one_go(reparse(path, start, "2026-01-01", again))
    assert shorter.note == parse(path, start, "2026-01-01")


@given(TEXTS, st.integers(0, 200), st.integers(0, 20), TEXTS)
def test_an_edit_in_the_middle_is_no_exception(text: str, place: int, length: int, new: str) -> None:
    path = "memory/2026-03-01.md"
    before = in_one_go(reparse(path, text))
    edited = text[:place] + new + text[place + length :]
    assert in_one_go(reparse(path, edited, before=before)).note == parse(path, edited)


@given(PATHS, st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.integers(1, 60))
def test_a_text_that_is_parsed_a_piece_at_a_time_gives_the_same_note(path: str, text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memd.notes.blocks.PIECE", size)
        pieces = parse(path, text, "2026-01-01")
    assert pieces == parse(path, text, "2026-01-01")


def test_what_stands_before_the_change_is_not_made_again() -> None:
    parse_cache, text = ParseCache(), "# Day\n\n## One\n\nfirst\n\n## Two\n\nsecond\n"
    before = parse_cache.parse("memory/2026-03-01.md", text)
    after = parse_cache.parse("memory/2026-03-01.md", text + "\n## Three\n\nthird\n")
    assert after.memories[0] is before.memories[0]
    assert [memory.slug for memory in after.memories] == ["one", "two", "three"]
    assert parse_cache.parse("memory/2026-03-01.md", text + "\n## Three\n\nthird\n") is after


def test_a_date_that_is_taken_from_the_file_is_not_taken_from_before() -> None:
    parse_cache, text = ParseCache(), "## One\n\nfirst\n\n## Two\n\nsecond\n"
    assert {memory.date for memory in parse_cache.parse("memory/ideas.md", text, "2026-01-01").memories} == {
        "2026-01-01"
    }
    assert {memory.date for memory in parse_cache.parse("memory/ideas.md", text, "2026-01-02").memories} == {
        "2026-01-02"
    }


def test_only_a_few_files_are_kept() -> None:
    parse_cache = ParseCache()
    first = parse_cache.parse("memory/0.md", "## One\n")
    for number in range(1, CACHED_FILES + 1):
        parse_cache.parse(f"memory/{number}.md", "## One\n")
    assert parse_cache.parse("memory/0.md", "## One\n") is not first


@given(st.lists(st.sampled_from(("a", "a 2", "a-2", "a 3", "b", "a-2-2")), max_size=12))
def test_no_two_memories_of_a_file_have_one_key(headings: list[str]) -> None:
    note = parse("memory/2026-03-01.md", "".join(f"## {heading}\n\ntext\n\n" for heading in headings))
    assert len({memory.slug for memory in note.memories}) == len(headings)


def test_whatever_is_edited_the_ledger_has_what_the_file_says(tmp_path: Path) -> None:
    path, root, chance = "memory/2026-03-01.md", tmp_path / "agent", random.Random(7)
    (root / "memory").mkdir(parents=True)
    stores, index = opened(tmp_path / "state", root)
    text = "# Day\n\n## Alpha\n\nfirst\n\n## Beta\n\nsecond\n"
    for _ in range(60):
        (root / path).write_text(text)
        sync(stores, index)
        memories = parse(path, text).memories
        rows = stores.ledger.reader.execute(
            "SELECT slug, start_line, end_line, digest FROM memories WHERE file IS NOT NULL ORDER BY start_line"
        )
        wanted = [(one.slug, one.start_line, one.end_line, digest_of_memory(one)) for one in memories]
        assert [tuple(row) for row in rows] == wanted
        rows = stores.ledger.reader.execute(
            "SELECT m.slug, c.start_line, c.digest FROM chunks c JOIN memories m ON m.id = c.memory"
        )
        wanted_chunks = [(one.slug, each.start_line, digest_of_chunk(each)) for one in memories for each in one.chunks]
        assert sorted(map(tuple, rows)) == sorted(wanted_chunks)
        place, length = chance.choice((len(text), chance.randrange(len(text) + 1))), chance.choice((0, 0, 30))
        text = text[:place] + "".join(chance.choices(PIECES, k=2)) + text[place + length :]
    stores.close()
