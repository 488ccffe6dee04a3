"""Which notes come up, and in which order: each rule of ranking against a real daemon."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from memd.protocol.client import Client
from tests.conftest import Home, write_notes

Answer = dict[str, Any]
Asker = Callable[..., Answer]
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Client]:
    """One daemon for all tests here: each has a workspace of its own in it."""
    folder = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(folder / "h")
    with home.start() as client:
        yield client
    home.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def memory(daemon: Client, tmp_path: Path) -> Callable[[dict[str, str]], Asker]:
    """Makes a workspace of some notes and answers how to ask it, by words unless told otherwise."""

    def made(notes: dict[str, str]) -> Asker:
        name = f"w{next(numbers)}"
        daemon.workspace_add(str(write_notes(tmp_path / name, notes)), ns=name)
        daemon.sync(ns=name, vectors=True)

        def ask(question: str, mode: str = "text", **more: Any) -> Answer:
            return daemon.query(question, **{"ns": name, "mode": mode, "limit": 50, **more})

        return ask

    return made


def paths(answer: Answer) -> list[str]:
    """Of everything that came up, what only comes near included."""
    return [hit["path"].removeprefix("memory/").removesuffix(".md") for hit in (*answer["hits"], *answer["near"])]


# What a question may be written with

WRITTEN = {
    "memory/2026-02-03.md": "## Release\n\nThe release plan for May is ready. #infra\n",
    "memory/2026-02-04.md": "## Meeting\n\nWe plan a release after the draft, says Ana.\n",
    "memory/roles/build.md": "## Log\n_2026-02-05 10:00_\n\nA plan for the release build.\n",
    "memory/topics/garden.md": "---\ntitle: Garden\ntags: [garden]\n---\n\nThe old plan was to plant plums.\n",
    "MEMORY.md": "## Database\n\nA migration needs a plan; migrating takes an hour.\n",
}
ALL = {"2026-02-03", "2026-02-04", "roles/build", "topics/garden", "MEMORY"}


def test_operators(memory: Callable[..., Asker]):
    ask = memory(WRITTEN)
    for question, expected in (
        ("plan", ALL),
        ('"release plan"', {"2026-02-03"}),
        ('"plan release"', set()),
        ('"RELEASE  plan" draft', {"2026-02-03"}),
        ("plan -draft", ALL - {"2026-02-04"}),
        ("plan -drafts -plums", ALL - {"2026-02-04", "topics/garden"}),
        ('plan -"old plan"', ALL - {"topics/garden"}),
        ('plan -"plan old"', ALL),
        ("migrat*", {"MEMORY"}),
        ("plan tag:infra", {"2026-02-03"}),
        ("plan tags:garden", {"topics/garden"}),
        ("plan role:build", {"roles/build"}),
        ("plan path:memory/topics", {"topics/garden"}),
        ("plan kind:semantic", {"topics/garden", "MEMORY"}),
        ("plan role:daily on:2026-02-04", {"2026-02-04"}),
        ("plan role:daily before:2026-02-04", {"2026-02-03"}),
        ("plan role:daily after:2026-02-04", {"2026-02-04"}),
        ("plan kind:nonsense", ALL),
        ("plan on:neverday", ALL),
    ):
        assert set(paths(ask(question))) == expected, question


def test_operators_hold_for_meaning_too(memory: Callable[..., Asker]):
    ask = memory(WRITTEN)
    assert paths(ask('"release plan"', mode="vector")) == ["2026-02-03"]
    assert "2026-02-04" not in paths(ask("plan -draft", mode="vector"))
    assert paths(ask("plan tag:garden", mode="hybrid")) == ["topics/garden"]


def test_a_question_of_filters_lists_the_newest_first_and_all_of_a_day(memory: Callable[..., Asker]):
    day = "".join(f"## Part {nth}\n\nThing {'abcdefgh'[nth] * 4} happened in place {nth}{nth}.\n\n" for nth in range(6))
    notes = {f"memory/2026-01-{number:02d}.md": day.replace("Thing", f"Thing{number}") for number in (7, 9, 8)}
    answer = memory(notes)("role:daily", limit=15)
    assert paths(answer) == ["2026-01-09"] * 6 + ["2026-01-08"] * 6 + ["2026-01-07"] * 3
    assert [hit["start_line"] for hit in answer["hits"][:6]] == [1, 5, 9, 13, 17, 21]
    assert answer["verdict"] == "found"


def test_what_has_no_day_comes_after_the_newest(memory: Callable[..., Asker]):
    """MEMORY.md was written a moment ago, and never ages."""
    notes = {f"memory/2026-01-0{day}.md": f"## Day\n\nThe lamp number {day} was lit.\n" for day in (7, 9)}
    ask = memory({"MEMORY.md": "## Lamps\n\nThey are green.\n\n## Oil\n\nIt is in the shed.\n", **notes})
    for question in ("latest", "what happened last", "-shelf"):
        answer = ask(question)
        assert paths(answer) == ["2026-01-09", "2026-01-07", "MEMORY", "MEMORY"], question
        assert answer["verdict"] == "found" and answer["hits"][2]["key"] == "MEMORY#lamps"


ODD = [
    '"', "“", "”", "-", "--", "*", "**", "a*", "*a", ":", "::", "tag:", "tag::", "on:", "on:31",
    "before:0001-01-01", "(", ")", "[", "]", "{", "\\", "\\u0000", "\x00", "\x1b[31m", "\x7f", "\u202e",
    "\u200b", "\ufeff", "🎉", "👩\u200d👩\u200d👧", "🇩🇪", "東京", "に", "ไทย", "مرحبا بالعالم", "שלום", "é",
    "e\u0301", "ß", "İ", "ﬁ", "𝔘", "\U0010ffff", "the of and", "NOT", "AND OR", "router", "192.0.2.18:8409",
    "C++", "a.b.c", "get_user_by_id", "x" * 300, "path:[", "path:../..", "path:*", "role:'", 'tag:"',
    'on:"last week"', "after:9999-12-31", "-9", "1e999", "%s", "'; DROP TABLE chunks; --", "\r\n", "\t",
    "last week", "in 9999", "30 February", "~", "~~a~~", "^", "$(id)", "tier:x", "kind:episodic", "-tag:x",
    '-"', '""', '-""', "since:yesterday",
]  # fmt: skip


def test_nothing_that_someone_types_is_an_error(memory: Callable[..., Asker]):
    ask = memory(WRITTEN)
    rng = random.Random(11)
    questions = [*ODD, *("".join(rng.choices([*ODD, " ", " "], k=rng.randint(2, 9))) for _ in range(300))]
    questions += [
        "lorem " * 1_666,
        "z" * 10_000,
        "東" * 10_000,
        '"' * 999,
        "- " * 999,
        "a* " * 999,
        "(" * 5_000,
        "🎉" * 3_000,
    ]
    for nth, question in enumerate(question for question in questions if question.strip()):
        answer = ask(question, mode=("hybrid", "text", "vector")[nth % 3], sync="none", explain=True, marks=True)
        assert answer["verdict"] in ("found", "weak", "none"), question
        assert 0 <= answer["confidence"] <= 1
        assert all(hit["text"] for hit in answer["hits"])
    assert ask("release plan")["degraded"] == []


def test_exclusions_hold_where_there_is_nothing_else(memory: Callable[..., Asker]):
    ask = memory(WRITTEN)
    assert set(paths(ask("-draft"))) == ALL - {"2026-02-04"}
    assert paths(ask('role:daily -"release plan"')) == ["2026-02-04"]


def test_a_question_of_nothing_but_a_time_finds_its_notes(memory: Callable[..., Asker]):
    ask = memory({f"memory/2026-01-{day:02d}.md": f"## Day\n\nSaw bird number {day}.\n" for day in range(1, 20)})
    answer = ask("what did we do on 7 January 2026")
    assert (paths(answer)[0], answer["verdict"]) == ("2026-01-07", "found")
    assert ask("what did we do on 7 January 2020")["verdict"] == "none"


# Words


def test_a_part_of_a_word_is_found_below_the_whole_word(memory: Callable[..., Asker]):
    notes = {
        f"memory/2026-01-{day:02d}.md": f"## Day\n\nWe build wall {day} of house {day * 7}.\n" for day in range(1, 13)
    }
    ask = memory({**notes, "memory/2026-02-01.md": "## Later\n\nThe rebuild took long.\n"})
    found = paths(ask("build"))
    assert len(found) == 13 and found[-1] == "2026-02-01"
    assert paths(ask("rebuild")) == ["2026-02-01"]


def test_a_word_in_a_files_name_finds_the_file(memory: Callable[..., Asker]):
    ask = memory({"memory/topics/sourdough.md": "Feed it daily.\n", "memory/topics/other.md": "Nothing.\n"})
    assert paths(ask("the sourdough")) == ["topics/sourdough"]
    assert "topics/sourdough" in paths(ask("sourdough", mode="hybrid"))


def test_a_mistyped_word_is_looked_for_as_it_was_meant(memory: Callable[..., Asker]):
    ask = memory(WRITTEN)
    answer = ask("migratoin")
    assert (answer["corrected"]["migratoin"][0], paths(answer)) == ("migration", ["MEMORY"])
    assert ask("migration")["corrected"] == {}
    assert ask("xyzzyplugh")["corrected"] == {}


def test_a_heading_counts_for_every_chunk_below_it(memory: Callable[..., Asker]):
    def section(name: str) -> str:
        sentences = (f"{name[0]}step {nth} needs part {nth * 7} and tool {nth * 11} before noon. " for nth in range(40))
        return f"## {name}\n\n" + "".join(
            sentence + ("\n\n" if nth % 5 == 4 else "") for nth, sentence in enumerate(sentences)
        )

    answer = memory({"MEMORY.md": section("Dishwasher") + section("Boiler")})("dishwasher")
    assert {hit["heading"] for hit in answer["hits"]} == {"Dishwasher"}
    assert len(answer["hits"]) >= 4
    assert all("dishwasher" not in hit["text"].lower() for hit in answer["hits"] if hit["start_line"] > 1)


@pytest.mark.parametrize(
    ("question", "labelled", "plain"),
    [
        ("which port", "**Port:** 8409 nas hall", "8409 nas hall port"),
        ("where did Nate move", "Nate: move to Oslo soon", "soon move Nate to Oslo"),
    ],
)
def test_a_label_that_the_question_names_wins(memory: Callable[..., Asker], question: str, labelled: str, plain: str):
    # The line without a label stands first in the order of files, which decides among equals.
    ask = memory({"memory/a.md": f"## A\n\n{plain}\n", "memory/b.md": f"## B\n\n{labelled}\n"})
    hits = ask(question, explain=True)["hits"]
    assert hits[0]["path"] == "memory/b.md"
    assert "label" in hits[0]["explain"] and "label" not in hits[1]["explain"]


def test_the_note_whose_heading_is_the_question_comes_before_a_thin_mention(memory: Callable[..., Asker]):
    long = "\n".join(f"- channel {nth}: cartoons, films and the news of the day" for nth in range(1, 9))
    ask = memory({
        "memory/2025-11-03.md": "## Errands\nErsatzTV, ErsatzTV or Jellyfin? ErsatzTV!\n",
        "memory/2025-12-24.md": "## Alternatives to ErsatzTV\nErsatzTV, ErsatzTV or Emby? ErsatzTV!\n",
        "memory/2026-02-15.md": f"## ErsatzTV\nSet up for Pierce.\n{long}\n",
    })  # fmt: skip
    for question, key in (
        ("ErsatzTV", "2026-02-15#ersatztv"),
        ("the ersatztv", "2026-02-15#ersatztv"),
        ("alternatives to ErsatzTV", "2025-12-24#alternatives-to-ersatztv"),
    ):
        assert ask(question)["hits"][0]["key"] == key, question


# Time


def test_a_date_in_a_question_lifts_its_day_and_hides_no_other(memory: Callable[..., Asker]):
    days = ["2023-04-20", "2023-05-03", "2023-06-10", "2024-05-03"]
    notes = {f"memory/{day}.md": f"## Day\n\nWorked on the shed, {word} wall.\n" for day, word in
             zip(days, ("first", "second", "third", "fourth"), strict=True)}  # fmt: skip
    ask = memory(notes)
    dated = ask("what did we do at the shed on 3 May 2023", explain=True)
    assert paths(dated)[0] == "2023-05-03" and set(paths(dated)) == set(days)
    assert dated["hits"][0]["explain"]["date"]["value"] == 1
    assert paths(ask("what did we do at the shed"))[0] != "2023-05-03"
    assert paths(ask("the shed in June 2023"))[0] == "2023-06-10"


def test_last_week_is_counted_from_today(memory: Callable[..., Asker]):
    today = date.today()
    last = today - timedelta(days=today.weekday() + 4)
    notes = {f"memory/{day}.md": f"## Day\n\nWorked on the shed, {word} wall.\n" for day, word in
             ((today, "first"), (last, "second"), (today - timedelta(days=60), "third"))}  # fmt: skip
    ask = memory(notes)
    found = paths(ask("the shed last week"))
    assert found == [str(last)]
    assert paths(ask("the shed"))[0] == str(today)


def test_a_note_that_says_yesterday_tells_of_the_day_before(memory: Callable[..., Asker]):
    text = "## Evening\n\nToday we painted the shed.\n\n## Morning\n\nYesterday we painted the shed.\n"
    ask = memory({"memory/2023-05-04.md": text})
    assert [hit["heading"] for hit in ask("who painted the shed on 3 May 2023")["hits"]] == ["Morning", "Evening"]
    assert [hit["heading"] for hit in ask("who painted the shed")["hits"]] == ["Evening", "Morning"]


def test_a_question_for_the_newest_lifts_it_above_better_words(memory: Callable[..., Asker]):
    today = date.today()
    old, new = today - timedelta(days=300), today - timedelta(days=2)
    better, newer = "The shed plan is red.", "The shed plan has blue walls, tall doors and more."
    ask = memory({f"memory/{old}.md": f"## Notes\n\n{better}\n", f"memory/{new}.md": f"## Notes\n\n{newer}\n"})
    assert paths(ask("shed plan"))[0] == str(old)
    assert paths(ask("the latest shed plan"))[0] == str(new)
    assert paths(ask("what is our current shed plan"))[0] == str(new)


def test_memory_md_never_ages(memory: Callable[..., Asker], tmp_path: Path, daemon: Client):
    ask = memory(
        {"MEMORY.md": "## Shed\n\nThe shed is red.\n", "memory/2001-02-03.md": "## Day\n\nThe shed was blue.\n"}
    )
    (name,) = ask("shed")["ns"]
    os.utime(tmp_path / name / "MEMORY.md", (1_000_000_000, 1_000_000_000))
    daemon.sync(ns=name)
    recency = {
        hit["path"]: hit["explain"].get("recency", {"value": 0})["value"] for hit in ask("shed", explain=True)["hits"]
    }
    assert recency == {"MEMORY.md": 0.3, "memory/2001-02-03.md": 0}


# What notes declare of themselves


def test_priority_and_importance_decide_between_equals_only(memory: Callable[..., Asker]):
    one, other = "The alpha lamp stands in hall seven.", "The omega lamp stays near door eight."
    for low, high in (("importance: 0.1", "importance: 0.9"), ("priority: low", "priority: critical")):
        notes = {
            "memory/topics/a.md": f"---\n{low}\n---\n\n{one}\n",
            "memory/topics/b.md": f"---\n{high}\n---\n\n{other}\n",
        }
        ask = memory(notes)
        assert paths(ask("lamp")) == ["topics/b", "topics/a"]
        assert paths(ask("alpha lamp")) == ["topics/a", "topics/b"]


# Variety


def test_what_says_the_same_is_one_hit_and_every_place_is_told(memory: Callable[..., Asker], tmp_path: Path):
    body = "## Backup\n\nThe backup\tof the  photo archive ran at night.  \nIt took four hours — „größer“ than ever.\n"
    ask = memory({f"memory/2026-01-{day:02d}.md": "\n" * day + body for day in (1, 2, 3)})
    answer = ask("backup photo", mode="hybrid")
    (hit,) = answer["hits"]
    places = sorted((place["path"], place["start_line"], place["end_line"]) for place in [hit, *hit["also"]])
    assert places == [(f"memory/2026-01-{day:02d}.md", day + 1, day + 4) for day in (1, 2, 3)]
    for path, start, end in places:
        lines = (tmp_path / answer["ns"][0] / path).read_bytes().split(b"\n")
        assert b"\n".join(lines[start - 1 : end]).decode().rstrip() == hit["text"].rstrip()


def test_text_is_what_the_file_says_at_its_lines(memory: Callable[..., Asker], tmp_path: Path):
    note = "# T\n\n## A\n\nOne\ttab,  two spaces.\n\n- item `x`\n\n```\ncode  here\n```\n\n## B\n\nNach größerem.\n"
    answer = memory({"memory/2026-01-05.md": note})("tab code größerem item", mode="hybrid")
    assert len(answer["hits"]) >= 2
    for hit in answer["hits"]:
        lines = note.split("\n")[hit["start_line"] - 1 : hit["end_line"]]
        assert "\n".join(lines) == hit["text"]


def test_one_file_does_not_crowd_out_the_rest(memory: Callable[..., Asker]):
    colours = "amber beige coral denim ebony flax green hazel ivory jade khaki lilac".split()
    crowd = "".join(
        f"## {colour}\n\nThe {colour} lamp costs {nth}{nth} coins.\n\n" for nth, colour in enumerate(colours)
    )
    others = {f"memory/topics/z{nth}.md": f"The zinc{nth} lamp costs 9{nth} coins.\n" for nth in range(3)}
    found = paths(memory({"memory/topics/a.md": "", "memory/2026-01-01.md": crowd, **others})("lamp coins", limit=8))
    assert {f"topics/z{nth}" for nth in range(3)} <= set(found)
    assert found.count("2026-01-01") == 5


# Together


def test_the_same_question_gives_the_same_bytes(memory: Callable[..., Asker]):
    ask = memory(WRITTEN)

    def told() -> str:
        answer = ask("what was the plan for the release", mode="hybrid", explain=True, marks=True)
        return json.dumps({name: value for name, value in answer.items() if name not in ("took_ms", "lag_ms", "clock")})

    assert told() == told() == told()


def test_several_workspaces_are_one_list_and_every_hit_says_where_it_is(memory: Callable[..., Asker]):
    one, two = memory(WRITTEN), memory({**WRITTEN, "memory/2026-02-09.md": "## Extra\n\nRelease plan, release plan.\n"})
    names = [one("plan")["ns"][0], two("plan")["ns"][0]]
    answer = one("release plan", mode="hybrid", ns=names)
    assert answer["ns"] == names
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
    found = [(hit["ns"], hit["path"]) for hit in answer["hits"]]
    # The same path in both is two hits: a path alone would not tell them apart.
    assert {(name, "memory/2026-02-03.md") for name in names} <= set(found)
    assert len(found) == len(set(found)) == 11
