"""Titles tell what a memory is about, and are the same wherever it is shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from memd.notes.names import is_telling
from memd.notes.parse import parse
from memd.protocol.client import Client
from tests.agents import agent, played, text_of
from tests.conftest import Home, write_notes
from tests.faults.agreement import serve
from tests.test_hooks import context, hook
from tests.web_page import page_of

SESSION = "# Session: 2026-02-{day} 10:12:33 UTC\n\n- **Source**: telegram\n\n## Conversation Summary\n\n{said}\n"
SESSIONS = {
    "memory/2026-02-27-haircut-booking.md": SESSION.format(day=27, said="user: the barber has a slot on Friday"),
    "memory/2026-02-28-bike-repair.md": SESSION.format(day=28, said="user: the chain of the bicycle is torn"),
}
HAIRCUT = "haircut booking › Conversation Summary"


def titles(path: str, text: str) -> list[str]:
    return [memory.heading for memory in parse(path, text).memories]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (*next(iter(SESSIONS.items())), ["haircut booking", HAIRCUT]),
        ("memory/2026-02-27-1012.md", SESSION.format(day=27, said="x"), ["Session: 2026-02-27 10:12:33 UTC",
                                                                        "Conversation Summary"]),
        ("memory/a.md", "---\ntitle: Trip to Rome\n---\n# Travel\n\n## Next steps\n\nx\n\n## Hotel\n\ny\n",
         ["Trip to Rome › Next steps", "Hotel"]),
        ("memory/x.md", "# Backup\n\nx\n\n## Lessons\n\ny\n", ["Backup", "Backup › Lessons"]),
        ("memory/2026-02-15.md", "# 2026-02-15\n\nx\n\n## Summary\n\ny\n", ["2026-02-15", "Summary"]),
        ("MEMORY.md", "# Memory\n\nx\n\n## Notes\n\ny\n\n## Garden\n\nz\n", ["Memory", "Notes", "Garden"]),
        ("memory/2026-02-15.md", "only a text\n", ["2026-02-15"]),
        ("memory/garden_plan.md", "only a text\n", ["garden plan"]),
        ("memory/2026-02-27-理发预约.md", "## 会话摘要\n\nx\n", ["理发预约 › 会话摘要"]),
        ("memory/2026-02-27-散髪.md", "## 会話の要約\n\nx\n", ["散髪 › 会話の要約"]),
        ("memory/2026-02-27-zahnarzt.md", "## Zusammenfassung\n\nx\n\n## Nächste Schritte\n\ny\n",
         ["zahnarzt › Zusammenfassung", "zahnarzt › Nächste Schritte"]),
    ],
)  # fmt: skip
def test_a_title_is_the_most_telling_of_front_matter_heading_and_name(
    path: str, text: str, expected: list[str]
) -> None:
    assert titles(path, text) == expected


def test_a_question_finds_the_title_of_the_front_matter_also_under_another_heading(home: Home, tmp_path: Path) -> None:
    text = "---\ntitle: Quarterly zebra plan\n---\n# Project Okapi\n\n## Budget\n\nNine hundred.\n"
    client = serve(home, write_notes(tmp_path / "agent", {"memory/okapi.md": text}))
    assert [hit["key"] for hit in client.query("zebra plan", mode="text")["hits"]] == ["okapi#budget"]


def test_generic_words_dates_and_times_tell_nothing_and_a_single_other_word_does() -> None:
    generic = ("Summary", "## Notes", "Next", "Lessons learned", "What we learned", "2026-02-14", "14:27", "", "Résumé")
    days = (
        "2026-01-06(火)",
        "2026年1月6日 火曜日",
        "1月6日 周二",
        "2026년 1월 6일 화요일",
        "mardi 6 janvier 2026",
        "Di, 6.1.2026",
    )
    telling = ("Summary of the trip to Rome", "ErsatzTV", "14:27 Router", "Notes on bread", "Will", "庭のまとめ")
    assert [title for title in (*generic, *days) if is_telling(title)] == []
    assert [title for title in telling if not is_telling(title)] == []


def test_the_key_and_the_links_of_a_section_stay_as_they_are(memory: Client, workspace: Path) -> None:
    write_notes(workspace, {"memory/tools.md": "# Hammer\n\n## Status\n\nlost\n",
                            "memory/house.md": "## Roof\n\nsee [[Status]] and [[Hammer]]\n"})  # fmt: skip
    memory.sync()
    assert memory.get("tools#status")["heading"] == "Hammer › Status"
    edges = memory.edge_list("house#roof")["edges"]
    assert "tools#status" in {edge["to"] for edge in edges}


def test_the_past_finds_a_section_whose_title_has_the_files_before_it(memory: Client, workspace: Path) -> None:
    write_notes(workspace, SESSIONS)
    memory.sync()
    key = "2026-02-27-haircut-booking#conversation-summary"
    moment = memory.history(key)["versions"][0]["at"]
    (workspace / "memory/2026-02-27-haircut-booking.md").write_text("# Session\n\n## Barber\n\nuser: the barber has a slot on Friday\n")  # fmt: skip # noqa: E501
    memory.sync()
    assert memory.get(key, as_of=moment)["heading"] == HAIRCUT


def test_the_title_is_the_same_in_every_view(home: Home, workspace: Path, memory: Client) -> None:
    write_notes(workspace, SESSIONS)
    memory.sync(vectors=True)
    key = "2026-02-27-haircut-booking#conversation-summary"
    listed = {row["key"]: row["title"] for row in memory.list()["memories"]}
    assert listed[key] == memory.get(key)["heading"] == HAIRCUT
    (hit, *_) = memory.query("barber slot Friday", mode="text")["hits"]
    assert (hit["key"], hit["title"], hit["heading"]) == (key, HAIRCUT, HAIRCUT)
    assert memory.query("haircut", mode="text")["hits"][0]["title"].startswith("haircut booking"), "found by its name"
    days = {day["date"]: day["headings"] for day in memory.timeline()["days"]}
    assert HAIRCUT in [one["heading"] for one in days["2026-02-27"]]
    assert f"### {HAIRCUT}\n" in memory.context("when does the barber have a slot")["text"]
    assert HAIRCUT in home.run("list").stdout and HAIRCUT in home.run("timeline").stdout
    card = context(hook(home, "session-start", {"cwd": str(workspace)}))
    assert HAIRCUT in card and "bike repair › Conversation Summary" in card
    told = context(hook(home, "user-prompt-submit", {"cwd": str(workspace), "prompt": "does the barber have a slot?"}))
    assert HAIRCUT in told
    with page_of(home) as page:
        visitor = page.visitor()
        assert HAIRCUT in visitor.get("/?q=barber").text and HAIRCUT in visitor.get("/timeline").text
        shown = visitor.get(f"/memory?ns=agent&key={quote(key)}").text
    assert f"<h1>{HAIRCUT}</h1>" in shown and "<h2>Conversation Summary</h2>" not in shown

    async def scene() -> None:
        async with agent(home, "--profile", "search", cwd=workspace) as client:
            assert HAIRCUT in text_of(await client.call_tool("memory_context", {"task": "the barber's slot"}))

    played(scene)


# --- a day and its preamble -----------------------------------------------------------------------------------

DAY = "# 2026-02-14\n\nRain all day.\n\n## Kite\n\nThe kite is blue.\n\n## Boat\n\nThe boat leaks.\n"


def test_a_day_is_the_whole_day_and_with_a_hash_its_preamble(home: Home, workspace: Path, memory: Client) -> None:
    write_notes(workspace, {"memory/2026-02-14.md": DAY, "memory/2026-02-13.md": "Only a text.\n"})
    memory.sync()
    assert memory.get("2026-02-14")["text"] == DAY
    preamble = memory.get("2026-02-14#")
    assert preamble["text"].strip() == "# 2026-02-14\n\nRain all day."
    assert (preamble["key"], preamble["sections_follow"]) == ("2026-02-14", 2)
    assert memory.get("2026-02-14#kite")["sections_follow"] == 0
    only = memory.get("2026-02-13")
    assert (only["text"].strip(), only["key"], only["sections_follow"]) == ("Only a text.", "2026-02-13", 0)
    assert home.run("get", "2026-02-14").stdout.strip() == DAY.strip()
    shown = home.run("get", "2026-02-14#")
    assert "kite" not in shown.stdout and "2 sections follow: memd get memory/2026-02-14.md" in shown.stderr
    assert not home.run("get", "2026-02-14").stderr
    memory.put("2026-02-14", "Sun at last.")
    assert memory.get("2026-02-14#")["text"].strip().endswith("Sun at last."), "a write means the preamble"
    assert "The boat leaks." in memory.get("2026-02-14")["text"]
    with page_of(home) as page:
        shown = page.visitor().get("/memory?ns=agent&key=2026-02-14")
    assert shown.status == 200 and "Sun at last." in shown.text and "The boat leaks." not in shown.text

    async def scene() -> None:
        async with agent(home, "--profile", "all", cwd=workspace) as client:
            for tool, asked in (("memory_get", {"key": "2026-02-14"}), ("ghost_get", {"key": "2026-02-14"})):
                assert "The boat leaks." in text_of(await client.call_tool(tool, asked))
            told = text_of(await client.call_tool("memory_get", {"key": "2026-02-14#"}))
            assert "The boat leaks." not in told and "2 sections follow" in told

    played(scene)


def test_a_pinned_preamble_brings_no_whole_day_into_a_session(home: Home, workspace: Path, memory: Client) -> None:
    pinned = DAY.replace("\n\nRain", "\n<!-- memd: pinned -->\n\nRain")
    write_notes(workspace, {"memory/2026-02-14.md": pinned})
    memory.sync()
    card = context(hook(home, "session-start", {"cwd": str(workspace)}))
    assert "> Rain all day." in card and "The boat leaks." not in card
