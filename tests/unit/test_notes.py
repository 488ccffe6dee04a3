"""Markdown in, memories and chunks out: lines exact, text untouched, borders stable."""

from __future__ import annotations

import os
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from memd.models import Note
from memd.notes.blocks import FLAT_LIST, MAX_CHUNK
from memd.notes.names import slug
from memd.notes.parse import parse
from memd.notes.read import SkippedFile, read_file

DAILY = """# 2026-02-15

## ErsatzTV

Set up the skill. #media

- one
- two
  - nested

### Details

| a | b |
|---|---|
| 1 | 2 |

## Garden

Apples.
"""


def keys(note: Note) -> list[str]:
    return [memory.slug for memory in note.memories]


def test_sections_are_memories_and_their_lines_are_exact():
    note = parse("memory/2026-02-15.md", DAILY)
    assert keys(note) == ["ersatztv", "garden"]
    first, second = note.memories
    assert (first.start_line, first.end_line) == (3, 15)
    assert (second.start_line, second.end_line) == (17, 19)
    assert (note.role, first.kind, first.date) == ("daily", "episodic", "2026-02-15")
    assert first.declared.tags == ("media",)


def test_chunks_do_not_cross_headings_and_know_their_path():
    first = parse("memory/2026-02-15.md", DAILY).memories[0]
    assert [chunk.heading for chunk in first.chunks] == [
        ("2026-02-15", "ErsatzTV"),
        ("2026-02-15", "ErsatzTV", "Details"),
    ]
    assert first.chunks[1].text == "### Details\n\n| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("path", "role", "kind"),
    [
        ("MEMORY.md", "memory", "semantic"),
        ("memory/MEMORY.md", "memory", "semantic"),
        ("memory/2026-02-15.md", "daily", "episodic"),
        ("daily/2026-02-15-late.md", "daily", "episodic"),
        ("memory/topics/bread.md", "topic", "semantic"),
        (".ai-knowledge/bread.mdk", "topic", "semantic"),
        (".muxcode/memory/edit.md", "edit", "semantic"),
    ],
)
def test_what_a_path_says(path: str, role: str, kind: str):
    note = parse(path, "# T\n\n## S\n\ntext\n")
    assert (note.role, note.memories[0].kind) == (role, kind)


def test_a_preamble_is_a_memory_unless_it_is_only_a_title():
    with_words = parse("MEMORY.md", "# Memory\n\nWords first.\n\n## A\n\na\n")
    assert keys(with_words) == ["", "a"]
    assert keys(parse("MEMORY.md", "# Memory\n\n## A\n\na\n")) == ["a"]
    assert keys(parse("MEMORY.md", "# Only a title\n")) == [""]


def test_a_topic_is_one_memory_whatever_headings_it_has():
    front = "---\ntitle: Bread\ntags: [baking, '#food']\nsummary: How to bake\npinned: true\n---\n\n"
    text = front + "## A\n\na\n\n## B\n\nb\n"
    note = parse("memory/topics/bread.md", text)
    assert keys(note) == [""]
    memory = note.memories[0]
    assert memory.declared.tags == ("baking", "food")
    assert memory.declared.pinned
    assert memory.chunks[0].context == "baking food How to bake"
    assert memory.chunks[0].heading == ("Bread", "A")
    assert "title:" not in memory.chunks[0].text


def test_equal_headings_are_told_apart_and_keys_keep_their_script():
    note = parse("MEMORY.md", "## 京都 旅行\n\na\n\n## Todo!\n\nb\n\n## todo\n\nc\n")
    assert keys(note) == ["京都-旅行", "todo", "todo-2"]


def test_a_role_entry_takes_its_date_from_its_timestamp():
    entry = parse("memory/roles/edit.md", "## Fix\n_2026-02-21 14:27_\n\nUse pnpm.\n", "2020-01-01").memories[0]
    assert (entry.date, entry.kind) == ("2026-02-21", "episodic")
    assert parse("notes.md", "## Fix\n\nno stamp\n", "2020-01-01").memories[0].date == "2020-01-01"


def test_a_comment_declares_facts_for_its_section_only():
    note = parse("MEMORY.md", "## A\n<!-- memd: pinned tags=x,y importance=0.8 -->\n\na\n\n## B\n\nb\n")
    first, second = (memory.declared for memory in note.memories)
    assert (first.pinned, first.tags, first.importance) == (True, ("x", "y"), 0.8)
    assert (second.pinned, second.tags, second.importance) == (False, (), None)


def test_hashtags_are_not_taken_from_code_or_links():
    text = "## A\n\nreal #one and #two/three, not a#b, not &#38;, not # alone\n\n```\n#include <x>\n```\n"
    assert parse("MEMORY.md", text).memories[0].declared.tags == ("one", "two/three")
    text = '## A\n\n- [Install](#install) <a href="#install">there</a>, \\#plain, but (#kept)\n'
    assert parse("MEMORY.md", text).memories[0].declared.tags == ("kept",)


def test_the_heading_of_a_link_is_no_tag():
    text = "## A\n\n[[#Goals|my goals]] ![[#x]] #real [[a#b]] [#also](x)\n"
    assert parse("MEMORY.md", text).memories[0].declared.tags == ("real", "also")


def test_a_room_in_a_chat_is_no_tag():
    text = "## A\n\nuser: take it #general\n- **Assistant**: see #random\n\nThe user: #kept\n"
    assert parse("MEMORY.md", text).memories[0].declared.tags == ("kept",)


def test_the_list_of_topics_is_never_a_hit():
    note = parse("MEMORY.md", "## Specialized Knowledge\n\n- bread: how to bake\n\n## Other\n\nx\n")
    assert [len(memory.chunks) for memory in note.memories] == [0, 1]


@pytest.mark.parametrize(
    "front",
    [
        "a: [1, 2", "a:\n " * 400, "a: &x [*x]", "a: " + "[" * 20_000, "a: 1\na: 2", "a: 1\n\t- bad\n  indent",
        "a: !!python/x y", "importance: 1" + "0" * 400, "# mine\n\na: 1",
    ],
)  # fmt: skip
def test_front_matter_that_cannot_be_read_costs_nothing_but_itself(front: str):
    assert parse("MEMORY.md", f"---\n{front}\n---\n\n## A\n\na\n").memories[0].chunks[0].text == "## A\n\na"


@pytest.mark.parametrize(
    "text", ["- 1", "[x", "\t- bad\n  indent", "\n## One\n\nA slide.\n", "a sentence", "# a: b", "- milk: two"]
)
def test_a_text_between_two_lines_is_no_front_matter(text: str):
    note = parse("MEMORY.md", f"---\n{text}\n---\n\n## A\n\na\n")
    read = "\n".join(chunk.text for memory in note.memories for chunk in memory.chunks)
    assert all(word in read for word in text.split()) and not note.warnings


def test_half_of_a_character_in_front_matter_is_replaced():
    memory = parse("MEMORY.md", '---\ntitle: "half \\ud800"\ntags: ["\\udfff"]\n---\n\na\n').memories[0]
    assert (memory.declared.title, memory.declared.tags) == ("half ?", ("?",))


def test_a_long_paragraph_is_cut_at_sentences_and_a_long_word_anywhere():
    sentences = " ".join(f"Sentence number {n} says something of its own." for n in range(60))
    chunks = parse("MEMORY.md", f"## A\n\n{sentences}\n").memories[0].chunks
    assert all(len(chunk.text) <= MAX_CHUNK for chunk in chunks)
    assert all(chunk.text.endswith(".") for chunk in chunks)
    blob = parse("MEMORY.md", "## A\n\n" + "x" * 5_000 + "\n").memories[0].chunks
    assert sum(chunk.text.count("x") for chunk in blob) == 5_000


def test_code_and_tables_stay_whole_when_they_fit():
    code = "```python\n" + "\n".join(f"line_{n} = {n}" for n in range(30)) + "\n```"
    chunks = parse("MEMORY.md", f"## A\n\n{'word ' * 80}\n\n{code}\n\n{'word ' * 80}\n").memories[0].chunks
    assert any(code in chunk.text for chunk in chunks)


def test_an_edit_moves_only_the_chunks_near_it():
    paragraphs = [
        f"Paragraph {n} tells about thing {n * 7919 % 1000}. " + "filler words " * (n % 13) for n in range(200)
    ]

    def chunks(parts: list[str]) -> set[str]:
        return {chunk.text for chunk in parse("MEMORY.md", "# Long\n\n" + "\n\n".join(parts)).memories[0].chunks}

    before = chunks(paragraphs)
    for place in (3, 77, 150):
        inserted = [*paragraphs[:place], "A new paragraph.", *paragraphs[place:]]
        edited = [*paragraphs[:place], paragraphs[place] + " And more.", *paragraphs[place + 1 :]]
        assert len(chunks(inserted) - before) <= 4
        assert len(chunks(edited) - before) <= 4


def test_a_list_without_a_telling_heading_has_shorter_chunks():
    items = "".join(f"- {word} is what this line of the day is about, and no other one is.\n" for word in "abcdefghij")

    def longest(above: str, below: str = "") -> int:
        (memory,) = parse("memory/2026-02-14.md", f"{above}\n{items}{below}").memories
        assert "".join(chunk.text for chunk in memory.chunks).count("- ") == 10 + below.count("- ")
        return max(len(chunk.text) for chunk in memory.chunks)

    flat = ("# 2026-02-14\n", "## Notes\n", "# 2026-02-14\n\n## 14:27\n", "")
    assert all(max(map(len, items.splitlines())) < longest(above) <= FLAT_LIST for above in flat)
    for sentences in (20, 40):
        one = longest("# 2026-02-14\n", "- " + "A sentence of a long item. " * sentences)
        assert one > FLAT_LIST, "the sentences of one item belong together"
    assert longest("## The garden\n") > FLAT_LIST
    assert longest("# 2026-02-14\n", "\nThat was the day.\n") > FLAT_LIST, "a text about its list"


def test_crlf_and_lone_carriage_returns_keep_lines_right():
    note = parse("MEMORY.md", "## A\r\n\r\none\r\ntwo\r\n\r\n## B\r\n\r\nb\rb\r\n")
    assert [(memory.start_line, memory.end_line) for memory in note.memories] == [(1, 4), (6, 8)]
    assert note.memories[0].chunks[0].text == "## A\r\n\r\none\r\ntwo"


TEXTS = st.text(
    st.one_of(st.sampled_from(list("#-*>`|~_[]()!0123 \n\n\n\tabc.京")), st.characters(exclude_categories=["Cs"])),
    max_size=400,
)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_every_chunk_is_what_the_file_says_at_its_lines(text: str):
    lines = text.split("\n")
    for memory in parse("memory/2026-02-15.md", text).memories:
        assert memory.text in text
        for chunk in memory.chunks:
            assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
            assert memory.start_line <= chunk.start_line <= chunk.end_line <= memory.end_line
            assert len(chunk.text) <= MAX_CHUNK + 200 or not chunk.text.strip()


def test_a_link_definition_is_found_where_it_stands():
    note = parse("MEMORY.md", "## A\n\nSee [x].\n\n[x]: http://192.0.2.1/end\n\n## B\n\n[y]: http://192.0.2.2/only\n")
    assert [memory.chunks[-1].text.splitlines()[-1] for memory in note.memories] == [
        "[x]: http://192.0.2.1/end",
        "[y]: http://192.0.2.2/only",
    ]
    assert [(memory.start_line, memory.end_line) for memory in note.memories] == [(1, 5), (7, 9)]


def test_headings_before_the_first_section_are_kept_but_for_the_title():
    (first, second) = parse("MEMORY.md", "# Title\n\n### Early\n\n## A\n\na\n").memories
    assert (first.text, second.slug) == ("# Title\n\n### Early", "a")
    assert [memory.slug for memory in parse("MEMORY.md", "# Title\n\n## A\n\na\n").memories] == ["a"]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_word_is_lost_between_chunks(text: str):
    """What stands in a file stands in a chunk, but for the title and front matter."""
    note = parse("MEMORY.md", "## A\n\n" + text.replace("---", "-"))
    held = "".join(chunk.text for memory in note.memories for chunk in memory.chunks)
    for word in text.replace("---", "-").split():
        if word.isalnum() and len(word) > 2:
            assert word in held


@pytest.mark.parametrize(
    "unit", ["- ", "> ", "#", "*", "[", "|", "a|", "x\n", "- x\n", "`", "<!--", "## A\n", "1. x\n\n", "    x\n"]
)
def test_hostile_markdown_is_cut_in_linear_time(unit: str):
    """Four times the size takes about four times as many calls, not sixteen: counted, not timed."""

    def calls(text: str) -> int:
        count = 0

        def seen(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(seen)
        try:
            parse("MEMORY.md", text)
        finally:
            sys.setprofile(None)
        return count

    small, large = calls(unit * 1_000 + "x"), calls(unit * 4_000 + "x")
    assert large < 6 * small + 1_000


def test_a_fifo_in_place_of_a_file_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "a.md")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_file, tmp_path / "a.md", 1_000)
        done, _ = wait([reading], 20)
        if not done:
            os.close(os.open(tmp_path / "a.md", os.O_WRONLY | os.O_NONBLOCK))
        assert done, "nobody writes to it, so it would wait for ever"
        with pytest.raises(SkippedFile):
            reading.result()


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Größe der Öfen", "grösse-der-öfen"),
        (unicodedata.normalize("NFD", "Größe der Öfen"), "grösse-der-öfen"),
        ("हिन्दी भाषा", "हिन्दी-भाषा"),
        ("สวัสดีครับ ที่นี่", "สวัสดีครับ-ที่นี่"),
        ("A ❤️ day, 1️⃣ of two!", "a-day-1-of-two"),
    ],
)
def test_the_marks_of_letters_stay_in_a_key(heading: str, expected: str) -> None:
    assert slug(heading) == expected
