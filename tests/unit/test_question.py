"""How a question is taken apart, and that nothing that someone types is an error."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import date

import pytest
from hypothesis import given, strategies as st

from memd.indexer.language.question import ParsedQuestion, narrow, parse, phrase
from memd.indexer.language.words import words
from memd.models import Filters

NOW = date(2026, 2, 18)
"""A Wednesday."""


@dataclass(frozen=True)
class Expected:
    """A question taken apart, in plain texts."""

    text: str = ""
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)


def assert_parsed(question: ParsedQuestion, expected: Expected) -> None:
    assert question.text == expected.text
    assert tuple(word._replace(language="", is_name=False) for word in question.words) == tuple(words(expected.text))
    assert question.phrases == tuple(map(phrase, expected.phrases))
    assert question.without == tuple(map(phrase, expected.without))
    assert question.prefixes == tuple(tuple(words(prefix)) for prefix in expected.prefixes)
    assert question.filters == expected.filters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Expected()),
        ("what did  we decide", Expected(text="what did we decide")),
        ('"release plan" of May', Expected(text="release plan of May", phrases=("release plan",))),
        ('see ("Release  plan")?', Expected(text="see (Release plan)?", phrases=("Release plan",))),
        ("“release plan”", Expected(text="release plan", phrases=("release plan",))),
        ("deploy -draft", Expected(text="deploy", without=("draft",))),
        ("-draft, deploy", Expected(text="deploy", without=("draft",))),
        ('-"old plan" new', Expected(text="new", without=("old plan",))),
        ("-éclair tea", Expected(text="tea", without=("éclair",))),
        ("-猫 犬", Expected(text="犬", without=("猫",))),
        ("migrat* plan", Expected(text="plan", prefixes=("migrat",))),
        ("who is Jo*?", Expected(text="who is ?", prefixes=("Jo",))),
        ("get_user* 2026-0*", Expected(prefixes=("get_user", "2026-0"))),
        ("-draft, ,", Expected(without=("draft",))),
    ],
)
def test_words_phrases_exclusions_and_prefixes(text: str, expected: Expected):
    assert_parsed(parse(text, NOW), expected)


@pytest.mark.parametrize(
    ("text", "left", "filters"),
    [
        ("tag:infra disk", "disk", Filters(tags=("infra",))),
        ("disk tags:infra,#home tag:x", "disk", Filters(tags=("infra", "home", "x"))),
        ('tag:"two words"', "", Filters(tags=("two words",))),
        ("tag:a tag:a", "", Filters(tags=("a",))),
        ("what role:build said", "what said", Filters(role="build")),
        ('path:"a b/c.md" x', "x", Filters(path="a b/c.md")),
        ("path:memory/*.md", "", Filters(path="memory/*.md")),
        ("path:./memory//topics/", "", Filters(path="memory/topics")),
        ("Kind:Episodic x", "x", Filters(kind="episodic")),
        ("tier:ltm x", "x", Filters(tier="ltm")),
        ("is it tag:infra, or role:build?", "is it or", Filters(tags=("infra",), role="build")),
        ("kind:semantic kind:episodic", "", Filters(kind="episodic")),
        ("on:2026-02-03 x", "x", Filters(since="2026-02-03", until="2026-02-03")),
        ("on:2026-02", "", Filters(since="2026-02-01", until="2026-02-28")),
        ("on:2024-02", "", Filters(since="2024-02-01", until="2024-02-29")),
        ("on:2025", "", Filters(since="2025-01-01", until="2025-12-31")),
        ("on:today", "", Filters(since="2026-02-18", until="2026-02-18")),
        ("on:yesterday", "", Filters(since="2026-02-17", until="2026-02-17")),
        ('on:"last week"', "", Filters(since="2026-02-09", until="2026-02-15")),
        ("on:june", "", Filters(since="2025-06-01", until="2025-06-30")),
        ("after:2026-02-03", "", Filters(since="2026-02-03")),
        ("since:2026-02", "", Filters(since="2026-02-01")),
        ("before:2026-02-03", "", Filters(until="2026-02-02")),
        ("before:2026", "", Filters(until="2025-12-31")),
        ("until:2026-02", "", Filters(until="2026-02-28")),
        ('after:"3 days ago"', "", Filters(since="2026-02-15")),
        ("after:2026-01-01 since:2026-02-01", "", Filters(since="2026-02-01")),
        ("on:2026-02 before:2026-02-10", "", Filters(since="2026-02-01", until="2026-02-09")),
    ],
)
def test_filters(text: str, left: str, filters: Filters):
    assert_parsed(parse(text, NOW), Expected(left, filters=filters))


def test_before_and_after_one_day_part_the_notes_without_a_gap():
    before, after = (parse(f"{name}:2026-02-03", NOW).filters for name in ("before", "after"))
    assert date.fromisoformat(after.since).toordinal() - date.fromisoformat(before.until).toordinal() == 1


def test_everything_at_once():
    text = 'why did "the disk" fill -swap log* tag:infra after:yesterday path:daily'
    expected = Expected(
        text="why did the disk fill",
        phrases=("the disk",),
        without=("swap",),
        prefixes=("log",),
        filters=Filters(tags=("infra",), path="daily", since="2026-02-17"),
    )
    assert_parsed(parse(text, NOW), expected)


def test_a_question_knows_its_times_and_what_else_it_asks():
    question = parse("what did we plant last week", NOW)
    assert [span.text for span in question.times.spans] == ["last week"]
    assert [word.exact[0] for word in question.undated] == ["what", "did", "we", "plant"]
    assert not question.only_time and parse("what did we do last week", NOW).only_time
    for lately in (
        "what happened last",
        "What happened last?",
        "what was the last thing we did",
        "what did I do recently",
    ):
        assert parse(lately, NOW).only_time, lately
    for lately in (
        "was war zuletzt",
        "Was haben wir zuletzt gemacht?",
        "最近发生了什么？",
        "上次做了什么",
        "最後に何があった？",
        "was habe ich gestern gemacht",
        "woran hast du gestern gearbeitet",
        "qu'ai-je fait hier",
        "qu'as-tu fait hier ?",
        "qu'est-ce que j'ai fait hier",
        "sur quoi ai-je travaillé hier",
        "cosa ho fatto ieri",
        "in che cosa hai lavorato ieri",
        "o que eu fiz ontem",
        "no que eu trabalhei ontem",
        "qué he hecho ayer",
        "en qué trabajé ayer",
        "что я делала вчера",
        "над чем я работал вчера",
        "wat heb ik gisteren gedaan",
        "waar heb ik gisteren aan gewerkt",
    ):
        assert parse(lately, NOW).only_time, lately
    for more in ("the last invoice", "what did we plant last", "最后的路由器", "how long did it last"):
        assert not parse(more, NOW).only_time, more
    assert parse("yesterday pla*", NOW).only_time is parse("plant", NOW).only_time is False
    plain = parse("plant", NOW, Filters(tags=("garden",), since="2026-01"))
    assert (plain.undated, plain.filters) == (plain.words, Filters(tags=("garden",), since="2026-01"))
    assert plain.has_words and parse("pla*", NOW).has_words
    assert not parse("tag:garden -rose", NOW).has_words


@pytest.mark.parametrize(
    "text",
    [
        '"unbalanced quote', 'a 5" pipe and a 3" pipe', '""', 'tag:"" x', 'path:"un', "“half", "-", "- x", "foo -- bar",
        "a-b", "--flag x", "tar -x", "-5", "-_x", "*", "**bold**", "x*", "foo*bar", "*.md", "foo**", "tag:", "tag: x",
        "tags:,", "kind:bogus", "tier:bogus", "foo:bar", "http://x", "https://example.org/a?b=c", "C:\\x", "12:30",
        "std::vector", "path::Path", "before:lunch", "on:click", "on:03/05/2023", "on:2026-02-31", "key:value:more",
        "C++ & C#", "🙂", "a | b", "(a OR b)", "NOT x",
    ],
)  # fmt: skip
def test_what_is_not_well_formed_is_plain_words(text: str):
    assert_parsed(parse(text, NOW), Expected(text=text))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Filters(), Filters(), Filters()),
        (Filters(tags=("a",)), Filters(tags=("b", "a")), Filters(tags=("a", "b"))),
        (Filters(since="2026-02"), Filters(since="2026-02-03"), Filters(since="2026-02-03")),
        (Filters(until="2026-02"), Filters(until="2026-02-03"), Filters(until="2026-02-03")),
        (Filters(until="2026-02-03"), Filters(), Filters(until="2026-02-03")),
        (Filters(until="2025"), Filters(until="2026-02"), Filters(until="2025")),
        (Filters(role="a", path="p"), Filters(role="b", tier="ltm"), Filters(role="b", path="p", tier="ltm")),
    ],
)
def test_two_filters_narrow_each_other(one: Filters, other: Filters, both: Filters):
    assert narrow(one, other) == both


OPERATORS = (
    '- -- " “ ” * : , ( ) tag: tags:a,b -word -"a" word* kind:bogus on:may before: after:0001 path:" -tag:x é 猫 #'
)
PIECES = st.sampled_from([*OPERATORS.split(), " "])


@given(st.lists(PIECES, max_size=12).map("".join) | st.lists(PIECES, max_size=12).map(" ".join) | st.text())
def test_any_text_is_a_question(text: str):
    asked = parse(text, NOW)
    assert asked.text == " ".join(asked.text.split())
    assert all(any(char.isalnum() for char in phrase.text) for phrase in asked.phrases + asked.without)
    assert all(asked.prefixes)


@given(st.text(st.characters(exclude_characters='-*:"“”', exclude_categories=["Cs"])))
def test_no_word_is_lost_from_a_text_without_operators(text: str):
    asked = parse(text, NOW)
    assert_parsed(asked, Expected(asked.text))
    assert re.findall(r"\w+", asked.text) == re.findall(r"\w+", unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("When did Caroline go to Oslo?", ["caroline", "oslo"]),
        ("what is Maren's car called", ["maren"]),
        ("Caroline went to the lake. There she swam.", []),
        ("TV on Saturday in May", []),
        ("Caroline Went To Oslo", []),
        ("was sagte Anna über das Dach", []),
        ("когда Мария ездила в Осло", ["мария", "осло"]),
    ],
)
def test_names_are_words_with_a_capital_inside_a_sentence(text: str, names: list[str]):
    assert [word.exact[0] for word in parse(text, NOW).words if word.is_name] == names
