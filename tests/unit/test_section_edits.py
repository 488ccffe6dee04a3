"""Editing one memory in its file: its text, its metadata, its tags; and its ttl."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings, strategies as st

from memd.errors import Refused, UsageError
from memd.models import Memory
from memd.notes import metadata, sections
from memd.notes.metadata import expiry, read_comment, read_front_matter, ttl_span
from memd.notes.parse import parse
from memd.notes.sections import new_entry, with_tag_renamed

DAILY = "memory/2026-02-15.md"
TOPIC = "memory/topics/deploy.md"
NOTES = "# 2026-02-15\n\n## One\n<!-- memd: tags=a -->\n_2026-02-15 10:00_\n\nfirst #b\n\n## Two\n\nsecond\n"


def test_a_section_gets_a_new_text_under_its_heading_and_the_rest_stays() -> None:
    made = sections.put(DAILY, "one", NOTES, "new\n\n# big\n\n```\n## code\n```", {})
    assert made == NOTES.replace("first #b", "new\n\n### big\n\n```\n## code\n```")
    assert [memory.slug for memory in parse(DAILY, made).memories] == ["one", "two"]


def test_a_text_that_brings_its_heading_replaces_the_section() -> None:
    made = sections.put(DAILY, "two", NOTES, "## Deux\n\nsecond", {})
    assert made == NOTES.replace("## Two", "## Deux")


def test_a_text_that_leaves_a_fence_open_does_not_swallow_what_follows() -> None:
    made = sections.put(DAILY, "one", NOTES, "see:\n\n```sh\nls", {})
    assert "```sh\nls\n```\n\n## Two" in made
    assert [memory.slug for memory in parse(DAILY, made).memories] == ["one", "two"]
    assert new_entry("10:00", "<!-- open").endswith("<!-- open\n-->\n")


def test_facts_of_a_section_stand_in_its_comment() -> None:
    made = sections.put(DAILY, "one", NOTES, None, {"pinned": True, "tags": ["x", "y"], "ttl": "30d"})
    assert made == NOTES.replace("tags=a", "tags=x,y pinned ttl=30d")
    assert sections.put(DAILY, "one", made, None, {"pinned": None, "tags": None, "ttl": None}) == NOTES.replace(
        "<!-- memd: tags=a -->\n", ""
    )
    two = sections.put(DAILY, "two", NOTES, None, {"importance": 0.8})
    assert two == NOTES.replace("## Two\n", "## Two\n<!-- memd: importance=0.8 -->\n")


def test_facts_of_the_only_section_are_not_those_of_later_ones() -> None:
    alone = "---\nmood: good\ntags: [a]\n---\n# Day\n\n## Parcel\n\nCode 4711.\n"
    made = sections.put(DAILY, "parcel", alone, None, {"ttl": "1h", "tags": ["b"], "pinned": True})
    assert made == alone.replace("[a]", "[b]").replace("Parcel\n", "Parcel\n<!-- memd: ttl=1h pinned -->\n")
    later = parse(DAILY, made + "\n## Salary\n\nTalk with Otto.\n").memories[-1].declared
    assert (later.ttl, later.pinned, later.tags) == ("", False, ("b",)), "the file had tags for all of its sections"
    told = sections.metadata_of(DAILY, "parcel", made)
    assert (told.ttl, told.pinned, told.tags) == ("1h", True, ("b",))
    assert sections.put(DAILY, "parcel", made, None, {"ttl": "", "tags": [], "pinned": False}).count("memd:") == 0


@pytest.mark.parametrize("title", ["", "# Day\n"])
def test_facts_of_a_text_without_sections_are_not_those_of_later_sections(title: str) -> None:
    alone = f"---\nmood: good\n---\n{title}Code 4711.\n"
    made = sections.put(DAILY, "", alone, None, {"ttl": "1h", "pinned": True})
    assert made == alone.replace(title + "Code", f"{title}<!-- memd: ttl=1h pinned -->\nCode")
    first, later = parse(DAILY, made + "\n## Salary\n\nTalk with Otto.\n").memories
    assert (first.declared.ttl, later.declared.ttl, later.declared.pinned) == ("1h", "", False)
    again = sections.put(DAILY, "", made, "Code 4712.", {})
    assert again == made.replace("-->\nCode 4711", "-->\n\nCode 4712"), "a new text keeps the facts of the old one"
    assert sections.metadata_of(TOPIC, "", "---\nfiles: [a.py]\n---\n").files == ("a.py",), "without a text yet"


def test_a_section_that_is_put_back_as_it_was_read_is_the_same() -> None:
    for heading in ("## Garden", "##\tGarden", "Garden\n------", "## A = b ="):
        whole = f"# Notes\n\n{heading}\n\nApple trees.\n"
        (memory,) = parse(DAILY, whole).memories
        assert sections.put(DAILY, memory.slug, whole, memory.text, {}) == whole


def test_facts_of_a_topic_stand_in_its_front_matter_and_every_other_line_stays() -> None:
    text = "---\r\n# mine\r\ntags:   [a,  b] # why\r\nodd: {x: 1}\r\nkind: semantic\r\n---\r\n\r\nbody\r\n"
    made = sections.put(TOPIC, "", text, "new\nlines", {"tags": ["c"], "pinned": True, "kind": None})
    assert made == ("---\r\n# mine\r\ntags: [c] # why\r\nodd: {x: 1}\r\npinned: true\r\n---\r\n\r\nnew\r\nlines\r\n")
    listed = "---\ntags:\n    - a   # first\n    - b\ntitle: T\n---\nbody\n"
    assert metadata.with_front_matter(listed, {"title": "U"}) == listed.replace("title: T", "title: U")
    assert metadata.with_front_matter(listed, {"tags": ["z"]}) == "---\ntags:\n- z\ntitle: T\n---\nbody\n"


def test_front_matter_that_cannot_be_read_is_not_touched() -> None:
    with pytest.raises(Refused, match="not YAML"):
        metadata.with_front_matter("---\na: [\n---\n\nbody\n", {"pinned": True})
    with pytest.raises(Refused):
        metadata.with_front_matter("---\n{a: 1}\n---\n\nbody\n", {"pinned": True})


def test_a_new_topic_is_front_matter_and_text() -> None:
    assert sections.put(TOPIC, "", None, "body", {"tags": ["a"], "pinned": False}) == "---\ntags:\n- a\n---\n\nbody\n"
    assert sections.put(TOPIC, "", None, "body\n", {}) == "body\n"
    assert sections.put(TOPIC, "", "---\ntitle: T\n---\n", "body", {}) == "---\ntitle: T\n---\n\nbody\n"


def test_bytes_that_are_no_text_and_a_byte_order_mark_stay() -> None:
    data = b"\xef\xbb\xbf## One\n\nbad \xff byte\n\n## Two\n\nsecond\n"
    edit = sections.in_bytes(lambda text: sections.put("memory/x.md", "two", text, "new", {}))
    assert edit(data) == data.replace(b"second", b"new")


def test_without_a_memory_the_others_stay_as_they_are() -> None:
    crlf = NOTES.replace("\n", "\r\n")
    for notes, end in ((NOTES, "\n"), (crlf, "\r\n")):
        two = notes[notes.index("## Two") :]
        assert sections.without_section(DAILY, "one", notes) == f"# 2026-02-15{end}{end}" + two
        assert sections.without_section(DAILY, "two", notes) == notes[: notes.index(f"{end}## Two")]
    assert sections.without_section(TOPIC, "", "text\n") is None
    assert sections.without_section("memory/x.md", "", "text\n") is None


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.sampled_from(["one", "two"]))
def test_whatever_is_put_into_a_section_the_others_stay(new: str, slug: str) -> None:
    if not new.strip():
        return
    try:
        made = sections.put(DAILY, slug, NOTES, new, {})
    except UsageError:
        return
    other = {"one": "two", "two": "one"}[slug]
    kept = {memory.slug: memory.text for memory in parse(DAILY, NOTES).memories}
    found = {memory.slug: memory.text for memory in parse(DAILY, made).memories}
    assert found[other] == kept[other]
    if not new.lstrip("\n").startswith("## "):
        assert set(found) == set(kept)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["title", "priority", "ttl"]), st.text(max_size=20), min_size=1))
def test_facts_are_read_back_as_they_were_written(facts: dict[str, str]) -> None:
    plain = {name: " ".join(value.split()) for name, value in facts.items()}
    try:
        topic = sections.put(TOPIC, "", None, "body", plain)
        section = sections.put(DAILY, "two", NOTES, None, plain)
    except (UsageError, Refused):
        return
    about = read_front_matter(topic)[0]
    memory = sections.memory_in(DAILY, section, "two")
    assert memory is not None
    for name, value in plain.items():
        if all(char.isprintable() for char in value):
            assert getattr(about, name) == value
            assert getattr(read_comment(memory.text), name) == value


# --- tags -----------------------------------------------------------------------------------------------------


TAGGED = (
    "---\ntags: [Old, other]  # mine\n---\n\n## One\n<!-- memd: tags=x,old pinned -->\n\n"
    "The #old way, `#old` code. #OLD\n\n```\n#old\n```\n\n#oldest #old/er\n"
)


def test_a_tag_is_renamed_wherever_it_is_one_and_nowhere_else() -> None:
    made = with_tag_renamed("memory/x.md", TAGGED, "old", "new")
    assert made == (
        "---\ntags: [new, other]  # mine\n---\n\n## One\n<!-- memd: tags=x,new pinned -->\n\n"
        "The #new way, `#old` code. #new\n\n```\n#old\n```\n\n#oldest #old/er\n"
    )
    assert with_tag_renamed("memory/x.md", made, "old", "new") == made
    assert "old" not in parse("memory/x.md", made).memories[0].declared.tags


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tags:\n  - old   # why\n  - 1.10\n  - true\n", "tags:\n  - new   # why\n  - 1.10\n  - true\n"),
        ("tags: [a,\n  Old, older]  # old\n", "tags: [a,\n  new, older]  # old\n"),
        ("tags: old, b\ntitle: old\n", "tags: new, b\ntitle: old\n"),
        ("tags:\n- '#old'\n", "tags:\n- '#new'\n"),
        ("tags: [old, new, x]\n", "tags: [new, x]\n"),
    ],
)
def test_a_tag_of_the_front_matter_is_renamed_where_it_stands(before: str, after: str) -> None:
    text = "---\n{}---\n[[#old]] [[#old|x]] ![[#old]] #old\n"
    made = with_tag_renamed("memory/x.md", text.format(before), "old", "new")
    assert made == text.format(after).replace(" #old", " #new")


def test_a_tag_that_goes_leaves_its_word_in_a_sentence() -> None:
    made = with_tag_renamed("memory/x.md", TAGGED, "old", None)
    assert "tags: [other]  # mine" in made and "tags=x pinned" in made
    assert "The old way, `#old` code.\n" in made
    assert with_tag_renamed("memory/x.md", "#a #old #b\nx #old\n", "old", None) == "#a #b\nx\n"
    assert with_tag_renamed("memory/x.md", "---\ntags: [old]\n---\nx\n", "old", None) == "---\n---\nx\n"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["#old", "#Old", "old", "`#old`", "#older", "x", "\n", "\n\n", "## h", "# 1", "```\n"]))
)
def test_after_a_rename_no_memory_has_the_old_tag(words: list[str]) -> None:
    text = " ".join(words)
    for new in ("new", None):
        made = with_tag_renamed("memory/x.md", text, "old", new)
        tags = [tag.casefold() for memory in parse("memory/x.md", made).memories for tag in memory.declared.tags]
        assert "old" not in tags
        had = any(
            tag.casefold() == "old" for memory in parse("memory/x.md", text).memories for tag in memory.declared.tags
        )
        assert ("new" in tags) == (had and new is not None)


# --- ttl ------------------------------------------------------------------------------------------------------


def test_a_ttl_is_a_number_and_a_unit() -> None:
    assert [ttl_span(ttl).total_seconds() for ttl in ("90m", "12h", "30d", "2w", "1y")] == [  # type: ignore[union-attr]
        5400, 43_200, 2_592_000, 1_209_600, 31_536_000,
    ]  # fmt: skip
    assert [ttl_span(ttl) for ttl in ("", "d", "30", "-1d", "1.5d", "soon")] == [None] * 6


def test_a_ttl_counts_from_what_the_note_says() -> None:
    def utc(*when: int) -> str:
        return datetime(*when).astimezone(tz=UTC).isoformat(timespec="milliseconds")  # type: ignore[arg-type]

    (one,) = parse("memory/x.md", "---\nttl: 1d\n---\n\ntext\n", "2026-02-15").memories
    seen = "2026-02-20T10:00:00.000+00:00"
    assert expiry(one, "x", seen) == "2026-02-21T10:00:00.000+00:00"
    assert expiry(one, "daily", seen) == utc(2026, 2, 17)
    updated = replace(one, declared=replace(one.declared, last_updated="2026-02-18T14:27"))
    assert expiry(updated, "daily", seen) == utc(2026, 2, 19, 14, 28), "a minute counts to its end"
    stamped = replace(one, text="## T\n_2026-02-01 08:00_\n\nx")
    assert expiry(stamped, "shared", seen) == utc(2026, 2, 2, 8, 1)
    assert expiry(Memory("", "", 1, 1, "x", "semantic", ""), "x", seen) is None
    long = replace(one, declared=replace(one.declared, ttl="999999y"))
    assert expiry(long, "x", seen) is None
    never = replace(one, declared=replace(one.declared, last_updated="9999-12-31"))
    assert expiry(never, "x", seen) == "2026-02-21T10:00:00.000+00:00", "a day without a next one counts as none"
