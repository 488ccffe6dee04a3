"""The index of topics is read whatever it looks like, and edited so that everything around an edit stays as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from memd.errors import UsageError
from memd.notes.parse import parse
from memd.notes.topics import (
    Refinement,
    Topic,
    check_general,
    clean_summary,
    clean_tags,
    general_of,
    new_topic_name,
    read_index,
    read_topic,
    refined,
    with_entry,
    with_entry_before_list,
    with_general,
    without_entry,
)

PLAIN = """# Memory

## Tea

Green.

## General Project Knowledge

Go, with Postgres.

### Layout

One module a folder.

## Specialized Knowledge

- sourdough: Feed it daily.
- deploy: How a release is made.

## Garden

Two apple trees.
"""


def listed(text: str) -> dict[str, str]:
    return {entry.topic: entry.summary for entry in read_index(text).entries}


# --- reading ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heading", ["Specialized Knowledge", "**Specialized Knowledge**", "Specialized Knowledge:"])
def test_an_entry_goes_before_the_list_however_its_heading_is_marked(heading: str) -> None:
    written = with_entry_before_list(f"## Tea\n\nGreen.\n\n## {heading}\n\n- rice: wild\n", "## Soup\n\nHot.\n")
    assert written == f"## Tea\n\nGreen.\n\n## Soup\n\nHot.\n\n## {heading}\n\n- rice: wild\n"
    assert listed(written) == {"rice": "wild"}


def test_an_entry_at_the_end_is_not_taken_in_by_a_block_that_is_left_open() -> None:
    written = with_entry_before_list("## Tea\n\n```\ngreen\n", "## Soup\n\nHot.\n")
    assert written == "## Tea\n\n```\ngreen\n\n```\n\n## Soup\n\nHot.\n"


def test_the_pair_is_found_among_other_sections() -> None:
    assert listed(PLAIN) == {"sourdough": "Feed it daily.", "deploy": "How a release is made."}
    assert general_of(PLAIN) == "Go, with Postgres.\n\n### Layout\n\nOne module a folder."


@pytest.mark.parametrize(
    "levels", [("#", "#"), ("#", "##"), ("##", "#"), ("###", "###"), ("####", "##"), ("##", "######")]
)
def test_the_levels_of_the_headings_do_not_matter(levels: tuple[str, str]) -> None:
    one, other = levels
    text = f"{one} General Project Knowledge\n\nGo.\n\n{other} Specialized Knowledge\n\n- tea: green\n"
    assert (general_of(text), listed(text)) == ("Go.", {"tea": "green"})
    text = f"{other} Specialized Knowledge\n\n- tea: green\n\n{one} General Project Knowledge\n\nGo.\n"
    assert (general_of(text), listed(text)) == ("Go.", {"tea": "green"})


@pytest.mark.parametrize(
    "line",
    [
        "- tea: green",
        "* tea: green",
        "+ tea:green",
        "  - tea: green",
        "- **tea**: green",
        "- **tea:** green",
        "- `tea`: green",
        "- [tea](tea.mdk): green",
        "- [[tea]]: green",
        "- [[tea|Tea]] — green",
        "- tea — green",
        "- tea - green",
        "- tea:\n  green",
        "-  tea  :  green  ",
    ],
)
def test_a_line_is_read_whatever_stands_around_the_name(line: str) -> None:
    assert listed(f"## specialized  KNOWLEDGE:\n\n{line}\n") == {"tea": "green"}


def test_code_and_deeper_bullets_are_no_topics() -> None:
    text = (
        "## Specialized Knowledge\n\n```\n- no: topic\n```\n\n- tea: green\n  - hot: yes\n\n### More\n\n- rice: wild\n"
    )
    assert listed(text) == {"tea": "green - hot: yes", "rice": "wild"}
    assert listed("## Notes\n\n```\n## Specialized Knowledge\n- no: topic\n```\n") == {}


# --- editing ----------------------------------------------------------------------------------------------------


def test_a_new_line_goes_to_the_end_of_the_list() -> None:
    assert with_entry(PLAIN, "rice", "White.") == PLAIN.replace("is made.\n", "is made.\n- rice: White.\n")


def test_a_known_line_gets_another_summary_and_keeps_its_form() -> None:
    text = PLAIN.replace("- deploy: How", "* [deploy](topics/deploy.md): How")
    assert with_entry(text, "deploy", "New.") == text.replace("How a release is made.", "New.")
    assert with_entry(PLAIN, "deploy", "How a release is made.") == PLAIN
    assert with_entry("## Specialized Knowledge\n- tea", "tea", "Green.") == "## Specialized Knowledge\n- tea: Green."


def test_a_line_is_taken_out_with_what_belongs_to_it() -> None:
    text = PLAIN.replace("daily.\n", "daily.\n  Twice in summer.\n")
    assert without_entry(text, "sourdough") == PLAIN.replace("- sourdough: Feed it daily.\n", "")
    assert without_entry(PLAIN, "nothing") == PLAIN


def test_a_topic_that_is_listed_twice_is_listed_once_after() -> None:
    text = PLAIN.replace("is made.\n", "is made.\n- sourdough: Again.\n")
    assert with_entry(text, "sourdough", "New.") == PLAIN.replace("Feed it daily.", "New.")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "## Specialized Knowledge\n\n- tea: green\n"),
        ("# Memory\n", "# Memory\n\n## Specialized Knowledge\n\n- tea: green\n"),
        ("# Memory\n\nx", "# Memory\n\nx\n\n## Specialized Knowledge\n\n- tea: green\n"),
        ("## Specialized Knowledge", "## Specialized Knowledge\n\n- tea: green\n"),
        ("## Specialized Knowledge\n\n## Next\n", "## Specialized Knowledge\n\n- tea: green\n\n## Next\n"),
        (
            "## Specialized Knowledge\nnone yet\n\n## Next\n",
            "## Specialized Knowledge\nnone yet\n\n- tea: green\n\n## Next\n",
        ),
        (
            "# General Project Knowledge\n\nGo.\n\n# Next\n",
            "# General Project Knowledge\n\nGo.\n\n# Specialized Knowledge\n\n- tea: green\n\n# Next\n",
        ),
        ("a\r\n\r\nb\r\n", "a\r\n\r\nb\r\n\r\n## Specialized Knowledge\r\n\r\n- tea: green\r\n"),
    ],
)
def test_the_list_is_made_where_it_belongs(before: str, after: str) -> None:
    assert with_entry(before, "tea", "green") == after


@pytest.mark.parametrize("name", ["C: drive", "*star*", "[x]", "a — b", "tea", "a - b", "日本", "-x", "2 things"])
def test_every_name_is_found_again(name: str) -> None:
    text = with_entry(with_entry(PLAIN, name, "Yes: it is."), "last", "x")
    assert listed(text)[name] == "Yes: it is."
    assert without_entry(without_entry(text, name), "last") == PLAIN


LINE_OF_TEXT = st.sampled_from(
    ["", "## Tea", "# Top", "### Deep", "text", "- bullet: point", "* b", "```", "~~~", "<!-- x", "-->", "a\r",
     "\ufeff", "## Specialized Knowledge", "## General Project Knowledge", "Title\n---", "- tea: green",
     "\x0b", "> quote", "---"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(LINE_OF_TEXT, max_size=25), st.sampled_from(["tea", "C: x", "rice"]))
def test_whatever_the_file_an_edit_adds_one_line_and_taking_it_back_is_exact(lines: list[str], topic: str) -> None:
    text = "\n".join(lines)
    before = listed(text)
    added = with_entry(text, topic, "Summary.")
    assert with_entry(added, topic, "Summary.") == added
    if topic not in before and read_index(added).of(topic):
        assert {**before, topic: "Summary."} == listed(added)
        taken = without_entry(added, topic)
        assert listed(taken) == before
        was, kept = (
            [line.rstrip("\r") for line in one.split("\n") if line.strip() and "Specialized Knowledge" not in line]
            for one in (text, taken)
        )
        # At most a fence or a comment was closed that the file had left open.
        assert kept[: len(was)] == was and kept[len(was) :] in ([], ["```"], ["~~~"], ["-->"])


# --- general knowledge ------------------------------------------------------------------------------------------


def test_general_knowledge_is_replaced_and_nothing_else() -> None:
    text = with_general(PLAIN, "Rust, with SQLite.\n")
    start, end = PLAIN.index("\nGo, with"), PLAIN.index("## Specialized")
    assert text == PLAIN[:start] + "\nRust, with SQLite.\n\n" + PLAIN[end:]
    assert general_of(text) == "Rust, with SQLite."
    assert with_general(text, "Rust, with SQLite.") == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "## General Project Knowledge\n\nGo.\n"),
        ("# Memory\n", "# Memory\n\n## General Project Knowledge\n\nGo.\n"),
        (
            "# x\n\n### Specialized Knowledge\n\n- a: b\n",
            "# x\n\n### General Project Knowledge\n\nGo.\n\n### Specialized Knowledge\n\n- a: b\n",
        ),
        ("## General Project Knowledge", "## General Project Knowledge\n\nGo.\n"),
        ("# General Project Knowledge\r\nold\r\n", "# General Project Knowledge\r\n\r\nGo.\r\n"),
    ],
)
def test_general_knowledge_is_put_where_it_belongs(before: str, after: str) -> None:
    assert with_general(before, "Go.") == after


def test_headings_in_general_knowledge_cannot_end_it() -> None:
    text = with_general(PLAIN, "# One\n\na\n\n## Two\n\nb\n\nThree\n=====\n\n```\n# code\n```\n")
    assert general_of(text) == "### One\n\na\n\n#### Two\n\nb\n\n### Three\n\n```\n# code\n```"
    assert listed(text) == listed(PLAIN)
    assert with_general(text, "Go.") == with_general(PLAIN, "Go.")


@pytest.mark.parametrize("content", ["```\nnot closed", "<!-- not closed", "- a\n\n  ```\n  x"])
def test_what_is_left_open_does_not_swallow_the_list(content: str) -> None:
    assert listed(with_general(PLAIN, content)) == listed(PLAIN)


def test_its_own_heading_is_not_doubled() -> None:
    assert with_general(PLAIN, "# General Project Knowledge\n\nGo.") == with_general(PLAIN, "Go.")


@pytest.mark.parametrize(
    "heading", ["# Specialized Knowledge", "###  specialized knowledge:", "Specialized Knowledge\n=="]
)
def test_general_knowledge_may_not_have_the_list(heading: str) -> None:
    with pytest.raises(UsageError, match="list of topics"):
        check_general(f"Go.\n\n{heading}\n\n- a: b\n")
    check_general("Specialized Knowledge is what topics are for.\n\n```\n# Specialized Knowledge\n```\n")


# --- topic files ------------------------------------------------------------------------------------------------


def test_a_topic_as_markdown() -> None:
    topic = Topic("tea", "Green tea", ("a", "b"), "s", "2026-02-07T14:27", "# Green tea\n\nHot.")
    assert topic.markdown() == "# Green tea\n\n- Tags: a, b\n- Last updated: 2026-02-07 14:27\n\nHot.\n"


def test_a_file_without_facts_is_a_topic_all_the_same() -> None:
    topic = read_topic("tea", "memory/topics/tea.md", "Hot. #drink\n", "2026-02-01")
    assert topic == Topic("tea", "tea", ("drink",), "", "2026-02-01", "Hot. #drink")
    assert read_topic("tea", "memory/topics/tea.md", "---\ntags: x\n---\n", "").tags == ("x",)


def test_refining_keeps_every_other_line_of_the_file() -> None:
    text = "---\r\n# mine\r\ntitle: Tea\r\ntags: [a, B]\r\nodd: 1\r\n---\r\n\r\nHot.\r\n"
    made = refined(text, Refinement(add=("c", "A"), remove=("b",)), "2026-02-07T14:27")
    assert made == text.replace("[a, B]", "[a, c]").replace(
        "odd: 1\r\n", "odd: 1\r\nlast_updated: 2026-02-07T14:27\r\n"
    )
    made = refined(text, Refinement(content="Cold.\nVery."), "2026-02-07T14:27")
    assert made.endswith("---\r\n\r\nCold.\r\nVery.\r\n")


def test_tags_and_summaries_are_tidied() -> None:
    assert clean_tags(["#Home, network", "home", " x "]) == ("Home", "network", "x")
    assert clean_summary(" one\n two ") == "one two"
    with pytest.raises(UsageError):
        clean_summary("x" * 700)


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a/b", "a\\b", "../x", "/etc/passwd", ".hidden", "a\x00b", "a\nb", "x" * 300, "`a`"]
)
def test_names_that_are_no_names(name: str) -> None:
    with pytest.raises(UsageError):
        new_topic_name(name, "MEMORY.md")


def test_the_index_itself_is_no_topic() -> None:
    with pytest.raises(UsageError):
        new_topic_name("Index", ".ai-knowledge/index.mdk")
    assert new_topic_name("index", "MEMORY.md") == "index"


# --- searching --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["MEMORY.md", ".ai-knowledge/index.mdk"])
@pytest.mark.parametrize("level", ["#", "##", "###"])
def test_the_lines_of_the_index_are_never_hits(path: str, level: str) -> None:
    general, special = f"{level} General Project Knowledge\n\nGo.\n", f"{level} Specialized Knowledge\n\n- tea: green\n"
    text = f"# Memory\n\n{general}\n{special}\n# After\n\nx\n"
    chunks = [chunk.text for memory in parse(path, text).memories for chunk in memory.chunks]
    assert any("Go." in chunk for chunk in chunks) and any(chunk.endswith("x") for chunk in chunks)
    assert not any("green" in chunk for chunk in chunks)


def test_an_empty_section_before_the_index_does_not_bring_it_in() -> None:
    text = "# General Project Knowledge\n\n# Specialized Knowledge\n\n- tea: green\n\n# After\n\nx\n"
    chunks = [chunk.text for memory in parse(".ai-knowledge/index.mdk", text).memories for chunk in memory.chunks]
    assert not any("green" in chunk for chunk in chunks)
