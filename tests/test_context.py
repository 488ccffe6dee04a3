"""`memd context` and `memd consolidate` on real notes: what is packed, beside what, and that it does not waver."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memd import errors
from memd.config.schema import EmbeddingSettings
from memd.indexer.context.assemble import ContextTask, assemble
from memd.indexer.indexing import ingest
from memd.indexer.model.embedder import load_embedder
from memd.indexer.store.vector_table import embedded_text
from memd.models import Ask, Workspace
from memd.protocol.client import Client
from tests.conftest import PATIENCE, Home, write_notes
from tests.lab import TODAY, Lab

FILLER = "The gauge of the river rises by a hand after two days of rain in the hills."

NOTES = {
    "MEMORY.md": "# Memory\n\n## Rules\n<!-- memd: pinned importance=0.9 -->\n\nNever restart larder at noon.\n\n"
    "## People\n\nMaren is a nurse and works in shifts.\n",
    "memory/2026-02-15.md": "# 2026-02-15\n\n## Television server\n\nErsatzTV runs on larder, port 8409.\n"
    "The television channel seven is called Retro Kids.\n\n## Garden\n\nPlanted two apple trees.\n",
    "memory/2026-03-01.md": "# 2026-03-01\n\n## Television moved\n\nErsatzTV television runs on attic now.\n",
    "memory/topics/apples.md": "---\ntitle: Apples\ntags: [garden]\n---\n\nPrune the apple trees in February.\n",
    "memory/topics/port.md": "---\nlinks: ['contradicts:2026-02-15#television-server']\n---\n\n8410 is what it uses.\n",
}


def ready(home: Home, root: Path, notes: dict[str, str]) -> Client:
    write_notes(root, notes)
    client = home.start()
    client.workspace_add(str(root))
    client.sync(vectors=True)
    return client


@pytest.fixture
def root(home: Home) -> Path:
    return home.path.parent / "agent"


@pytest.fixture
def agent(home: Home, root: Path) -> Iterator[Client]:
    with ready(home, root, NOTES) as client:
        yield client


def keys(told: dict[str, Any], *phases: str) -> list[str]:
    return [one["key"] for one in told["memories"] if not phases or one["phase"] in phases]


def tier(home: Home, key: str, tier: str, **more: object) -> None:
    """Observe a memory to be somewhere else, as rules would; the daemon is not running."""
    slug = key.partition("#")[2]
    with sqlite3.connect(home.state / "state.db") as connection:
        sets = ", ".join(f"{name} = ?" for name in ("tier", *more))
        changed = connection.execute(
            f"UPDATE memories SET {sets} WHERE slug = ? AND file IN (SELECT id FROM files WHERE stem = ?)",
            (tier, *more.values(), slug, key.partition("#")[0]),
        ).rowcount
    connection.close()
    assert changed == 1


# --- what it says -------------------------------------------------------------------------------------------


def test_what_fits_comes_first_then_what_is_pinned_and_nothing_else(agent: Client) -> None:
    told = agent.context("ErsatzTV television channel")
    assert keys(told)[-1] == "MEMORY#rules" and told["memories"][-1]["phase"] == "pinned"
    assert "MEMORY#rules · pinned" in told["text"] and told["text"].count("pinned") == 1
    assert {"2026-02-15#television-server", "2026-03-01#television-moved"} <= set(keys(told, "search"))
    assert not {"MEMORY#people", "apples", "2026-02-15#garden"} & set(keys(told))
    assert told["explain"]["pinned"] == {"found": 1, "packed": 1}
    assert told["verdict"] == "found" and not told["compaction_suggested"]


def test_the_text_names_the_source_the_day_and_the_key_of_each_and_has_no_scores(agent: Client) -> None:
    told = agent.context("prune the apple trees in February")
    text = told["text"]
    assert "### Apples\nmemory/topics/apples.md:6 · " in text and "· apples\n\nPrune the apple trees" in text
    assert "### Garden\nmemory/2026-02-15.md:8-10 · 2026-02-15 · 2026-02-15#garden\n\nPlanted two" in text
    assert "<!-- memd" not in text and "score" not in text and told["clock"] not in text
    assert told["tokens"] <= told["budget"] == 2000 and not told["tokens_estimated"]
    assert told["tokens"] == sum(one["tokens"] for one in told["memories"])


def test_a_contradiction_stands_beside_what_it_contradicts_even_if_it_does_not_fit_the_task(agent: Client) -> None:
    told = agent.context("ErsatzTV television channel")
    order = keys(told)
    at = order.index("2026-02-15#television-server")
    beside = told["memories"][at + 1]
    assert (beside["key"], beside["phase"], beside["contradicts"]) == ("port", "contradiction", order[at])
    assert "· port · contradicts 2026-02-15#television-server\n\n8410" in told["text"]
    assert told["explain"]["edges"]["contradictions"] == 1


def test_the_other_side_of_a_contradiction_is_shown_too(agent: Client) -> None:
    told = agent.context("8410 is what it uses")
    assert keys(told, "search", "contradiction")[:2] == ["port", "2026-02-15#television-server"]


def test_the_same_task_gives_the_same_bytes_again_and_after_a_restart(home: Home, agent: Client, root: Path) -> None:
    first = home.run("context", "ErsatzTV television channel", cwd=root)
    assert first.returncode == 0 and first.stdout
    agent.useful("2026-02-15#television-server")
    second = home.run("context", "ErsatzTV television channel", cwd=root)
    home.stop()
    home.start().close()
    third = home.run("context", "ErsatzTV television channel", cwd=root)
    assert first.stdout == second.stdout == third.stdout


def test_a_task_that_nothing_is_known_of_says_so_and_prints_nothing(home: Home, root: Path) -> None:
    ready(home, root, {"memory/2026-02-15.md": NOTES["memory/2026-02-15.md"]}).close()
    done = home.run("context", "xqzwv", cwd=root)
    assert (done.returncode, done.stdout) == (1, "") and "nothing is known" in done.stderr
    told = home.run("context", "xqzwv", "--json", cwd=root)
    assert told.returncode == 1 and json.loads(told.stdout)["memories"] == []


def test_what_was_written_a_moment_ago_is_in_it(agent: Client, root: Path) -> None:
    (root / "memory" / "2026-03-02.md").write_text("## Kettle\n\nThe quicksilver kettle is broken.\n")
    agent.sync()
    assert "The quicksilver kettle is broken." in agent.context("quicksilver kettle")["text"]


def test_filters_hold_for_what_is_searched(agent: Client) -> None:
    assert keys(agent.context("apple trees", tags=["garden"]), "search") == ["apples"]
    assert keys(agent.context("apple trees", kind="episodic"), "search") == ["2026-02-15#garden"]


def test_min_score_and_min_spread_leave_out_all_but_the_pinned(agent: Client) -> None:
    low = agent.context("apple trees", min_score=1.0)
    assert keys(low) == ["MEMORY#rules"] and low["explain"]["filters"]["min_score"] >= 2
    flat = agent.context("apple trees", min_spread=1.0)
    assert keys(flat) == ["MEMORY#rules"] and flat["explain"]["filters"]["min_spread"] >= 2
    only = agent.context("quicksilver Prune", min_spread=1.0, tags=["garden"])
    assert "apples" in keys(only), "of one memory there is no spread"


def test_bad_parameters_are_told(agent: Client) -> None:
    for how in ({"budget": 49}, {"min_score": 2}, {"kind": "best"}, {"budgets": 3}):
        with pytest.raises(errors.UsageError, match=next(iter(how))):
            agent.context("apples", **how)
    with pytest.raises(errors.UsageError, match="needs `query`"):
        agent.context(" ")


def test_what_two_memories_say_in_the_same_words_is_said_once(home: Home, root: Path) -> None:
    text = "The quicksilver kettle is broken.\n"
    notes = {f"memory/2026-03-0{day}.md": f"## Kettle {day}\n\n{text}" for day in (1, 2)}
    with ready(home, root, notes) as client:
        told = client.context("quicksilver kettle")
        assert told["text"].count(text) == 1 and told["explain"]["filters"]["same"] == 1


def test_a_budget_that_nothing_fits_into_is_told_as_such(home: Home, root: Path) -> None:
    ready(home, root, {"memory/2026-03-01.md": "## Kettle\n\n" + "It is a quicksilver kettle. " * 60}).close()
    for budget, said in (("50", 0), ("51", 0)):
        assert home.run("context", "quicksilver kettle", "--budget", budget, cwd=root).returncode == said
    (root / "memory/deep").mkdir()
    name = "-".join("kettle" for _ in range(30))
    (root / "memory/deep" / f"{name}.md").write_text("quicksilver\n")
    (root / "memory/2026-03-01.md").unlink()
    home.run("sync", cwd=root)
    done = home.run("context", "quicksilver", "--budget", "50", cwd=root)
    assert done.returncode == 1 and "nothing fits into 50 tokens" in done.stderr and done.stdout == ""


def test_of_several_workspaces_each_memory_says_whose_it_is(home: Home, agent: Client) -> None:
    other = write_notes(home.path.parent / "vault", {"memory/2026-04-01.md": "## Kettle\n\nErsatzTV boils.\n"})
    agent.workspace_add(str(other))
    agent.sync(vectors=True)
    told = agent.context("ErsatzTV")
    assert {one["ns"] for one in told["memories"]} == {"agent", "vault"}
    assert "\nvault:memory/2026-04-01.md:1-3 · 2026-04-01 · 2026-04-01#kettle\n" in told["text"]
    assert {one["ns"] for one in agent.context("ErsatzTV", ns="vault")["memories"]} == {"vault"}


# --- tiers --------------------------------------------------------------------------------------------------


def test_a_dormant_memory_is_left_out_unless_it_answers_best(agent: Client) -> None:
    assert "2026-02-15#garden" in keys(agent.context("prune the apple trees in February"))
    agent.curate("2026-02-15#garden", "archive")
    told = agent.context("prune the apple trees in February")
    assert "apples" in keys(told) and "2026-02-15#garden" not in keys(told)
    assert told["explain"]["search"]["resting"] == 1
    best = agent.context("planted two apple trees garden")
    assert "2026-02-15#garden" in keys(best, "search"), "fading never hides the only answer"


def test_what_was_used_more_and_matters_more_comes_first(home: Home, root: Path) -> None:
    same = "## {}\n\nThe sluice gate opens with the brass key.\n"
    notes = {f"memory/topics/{name}.md": same.format(name) for name in ("alpha", "beta", "gamma")}
    ready(home, root, notes).close()
    home.stop()
    tier(home, "beta", "ltm", accesses=50)
    tier(home, "gamma", "ltm", importance=1.0)
    with home.start() as client:
        client.sync(vectors=True)
        order = keys(client.context("brass key of the sluice gate"))
        assert sorted(order) == ["alpha", "beta", "gamma"] and order[-1] == "alpha"


# --- budget -------------------------------------------------------------------------------------------------


def long(subject: str, lines: int = 80) -> str:
    return "\n".join(f"{FILLER} Line {nth}." for nth in range(lines)) + f"\nThe {subject} stands behind the mill.\n"


@pytest.fixture
def crowded(home: Home, root: Path) -> Iterator[Client]:
    notes = {f"memory/topics/t{nth}.md": f"# Topic {nth}\n\n{long(f'turbine {nth}')}" for nth in range(8)}
    with ready(home, root, notes) as client:
        yield client


def test_a_long_memory_is_cut_to_its_best_lines_and_the_budget_holds(crowded: Client) -> None:
    told = crowded.context("where does the turbine stand", budget=1500)
    assert told["tokens"] <= 1500 and all(one["tokens"] <= 400 for one in told["memories"])
    assert len(told["memories"]) >= 3 and all(one["excerpt"] for one in told["memories"])
    assert told["text"].count("stands behind the mill") == len(told["memories"]) and "…" in told["text"]
    assert told["explain"]["packing"]["excerpted"] == len(told["memories"])
    assert told["explain"]["packing"]["dropped"] > 0


def test_pinned_memories_that_overflow_their_quarter_ask_for_a_summary(home: Home, root: Path) -> None:
    notes = {f"memory/topics/p{nth}.md": f"---\npinned: true\n---\n\n{long(f'turbine {nth}', 6)}" for nth in range(4)}
    with ready(home, root, notes) as client:
        told = client.context("turbine", budget=600)
        assert told["compaction_suggested"] and "pinned" in told["explain"]["compaction"]
        assert sum(one["tokens"] for one in told["memories"] if one["phase"] == "pinned") <= 150
        roomy = client.context("turbine", budget=5000)
        assert not roomy["compaction_suggested"] and roomy["explain"]["pinned"] == {"found": 4, "packed": 4}


def test_tokens_are_those_of_the_model(home: Home, root: Path, tmp_path: Path) -> None:
    write_notes(root, NOTES)
    home.env.pop("MEMD_TEST_EMBEDDER")
    model = load_embedder(EmbeddingSettings(), tmp_path)
    assert model is not None
    with home.start() as client:
        client.workspace_add(str(root))
        client.sync(vectors=True)
        told = client.context("ErsatzTV television channel", budget=120)
        counted = model.count_tokens(told["text"]) - model.count_tokens("")
        assert counted <= told["tokens"] <= counted + 2 and counted <= 120 and not told["tokens_estimated"]


def test_without_a_model_tokens_are_estimated_and_it_says_so(home: Home, root: Path) -> None:
    write_notes(root, NOTES)
    with home.start(MEMD_EMBEDDING__PROVIDER="none") as client:
        client.workspace_add(str(root))
        told = client.context("ErsatzTV television channel")
        assert told["tokens_estimated"] and "2026-02-15#television-server" in keys(told)


# --- summaries ----------------------------------------------------------------------------------------------


SOURCES = ["2026-02-15#television-server", "2026-03-01#television-moved"]


def test_a_summary_stands_for_what_it_contains_and_undo_takes_it_back(agent: Client, root: Path) -> None:
    before = keys(agent.context("ErsatzTV television channel"))
    made = agent.consolidate("tv", "The telly sits on attic these days.", SOURCES)
    assert made["paths"] == ["memory/topics/tv.md"] and made["version"] == 1 and made["sources"] == SOURCES
    text = (root / "memory/topics/tv.md").read_text()
    assert text == (
        "---\nlinks:\n- contains:2026-02-15#television-server\n- contains:2026-03-01#television-moved\n---\n\n"
        "The telly sits on attic these days.\n"
    )
    agent.sync(vectors=True)
    told = agent.context("ErsatzTV television channel")
    assert "tv" in keys(told, "edge") and not set(SOURCES) & set(keys(told, "search"))
    assert told["explain"]["edges"]["suppressed"] == 2 and told["explain"]["edges"]["parents"] == 1
    assert agent.query("ErsatzTV")["hits"][0]["key"] in SOURCES, "the sources are found as before"
    agent.undo(made["action"])
    agent.sync(vectors=True)
    assert not (root / "memory/topics/tv.md").exists()
    assert keys(agent.context("ErsatzTV television channel")) == before


def test_expand_lists_summaries_and_what_they_contain(home: Home, agent: Client, root: Path) -> None:
    assert agent.expand()["summaries"] == []
    agent.consolidate("tv", "The telly sits on attic.", SOURCES)
    agent.sync()
    (one,) = agent.expand()["summaries"]
    assert (one["key"], one["children"]) == ("tv", 2)
    children = agent.expand("tv")["children"]
    assert [child["key"] for child in children] == SOURCES
    assert "port 8409" in children[0]["text"]
    shown = home.run("expand", "tv", cwd=root)
    assert shown.returncode == 0 and "port 8409" in shown.stdout and SOURCES[1] in shown.stdout
    assert home.run("expand", cwd=root).stdout == "tv  memory/topics/tv.md:7  contains 2\n"
    assert home.run("expand", "nowhere", cwd=root).returncode == 1


def test_writing_a_summary_again_replaces_its_sources_and_keeps_its_other_links(agent: Client, root: Path) -> None:
    write_notes(root, {"memory/topics/tv.md": "---\nlinks: [apples, 'contains:apples']\n---\n\nold\n"})
    agent.sync()
    made = agent.consolidate("tv", "new", SOURCES)
    text = (root / "memory/topics/tv.md").read_text()
    assert made["version"] == 2 and "contains:apples" not in text and "apples" in text and "new" in text
    assert all(f"contains:{source}" in text for source in SOURCES)


def test_a_repeated_request_consolidates_once(agent: Client) -> None:
    first = agent.consolidate("tv", "one", SOURCES, request_id="r1")
    again = agent.consolidate("tv", "one", SOURCES, request_id="r1")
    assert again["repeated"] and again["action"] == first["action"]


@pytest.mark.parametrize(
    ("key", "sources", "why"),
    [
        ("tv", ["nowhere", SOURCES[0]], "no memory has the key `nowhere`"),
        ("tv", [SOURCES[0]], "at least two"),
        ("tv", [SOURCES[0], SOURCES[0]], "at least two"),
        ("tv", [], "at least two"),
        ("apples", ["apples", SOURCES[0]], "cannot contain itself"),
    ],
)
def test_a_summary_of_nothing_is_refused_and_changes_nothing(
    agent: Client, root: Path, key: str, sources: list[str], why: str
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.md")}
    with pytest.raises(errors.MemdError, match=why):
        agent.consolidate(key, "text", sources)
    assert {path: path.read_bytes() for path in root.rglob("*.md")} == before


def test_summaries_do_not_contain_each_other(agent: Client) -> None:
    agent.consolidate("tv", "The telly.", SOURCES)
    agent.sync()
    agent.consolidate("house", "All of it.", ["tv", "apples"])
    agent.sync()
    with pytest.raises(errors.UsageError, match="`house` contains `tv`"):
        agent.consolidate("tv", "The telly.", ["house", SOURCES[0]])


def test_three_alike_ask_for_a_summary_until_there_is_one(home: Home, root: Path) -> None:
    names = ("sluice", "weir", "lock")
    notes = {
        f"memory/topics/{name}.md": f"---\nlinks: [{', '.join(other for other in names if other != name)}]\n---\n\n"
        f"The {name} gate opens with the brass key.\n"
        for name in names
    }
    with ready(home, root, notes) as client:
        told = client.context("which gate opens with the brass key")
        assert told["compaction_suggested"] and "lock, sluice, weir" in told["explain"]["compaction"]
        client.consolidate("gates", "Every gate opens with the brass key.", names)
        client.sync(vectors=True)
        assert not client.context("which gate opens with the brass key")["compaction_suggested"]


# --- the command --------------------------------------------------------------------------------------------


def test_explain_shows_every_stage_beside_the_text(home: Home, agent: Client, root: Path) -> None:
    plain = home.run("context", "ErsatzTV", "television", cwd=root)
    done = home.run("context", "ErsatzTV", "television", "--explain", "--budget", "900", cwd=root)
    assert done.returncode == 0 and done.stdout == plain.stdout and plain.stderr == ""
    for stage in ("pinned: 1 found", "search:", "edges:", "filters:", "packing:", "of 900"):
        assert stage in done.stderr
    assert home.run("context", "x", "--budget", "3", cwd=root).returncode == 2
    assert home.run("context", " ", cwd=root).returncode == 2


def test_consolidate_reads_standard_input(home: Home, agent: Client, root: Path) -> None:
    done = home.run("consolidate", "tv", "-", "--sources", ",".join(SOURCES), cwd=root, input="From a pipe.\n")
    assert done.returncode == 0 and "sums up 2026-02-15#television-server" in done.stdout
    assert "From a pipe." in (root / "memory/topics/tv.md").read_text()


def test_it_counts_as_an_access_unless_it_says_not_to(
    home: Home, agent: Client, wait_until: Callable[[Callable[[], bool]], None]
) -> None:
    def seen() -> set[str]:
        with sqlite3.connect(f"file:{home.state / 'state.db'}?mode=ro", uri=True) as connection:
            rows = connection.execute("SELECT client FROM accesses").fetchall()
        connection.close()
        return {row[0] for row in rows}

    agent.context("ErsatzTV", observe=False, who="probe")
    agent.context("ErsatzTV", who="mcp:one")
    wait_until(lambda: "mcp:one" in seen())
    assert "probe" not in seen()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    import time

    def wait(done: Callable[[], bool], seconds: float = PATIENCE) -> None:
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until
            time.sleep(0.05)

    return wait


def test_a_memory_that_is_no_summary_is_not_written_over(agent: Client, root: Path) -> None:
    before = agent.get("apples")["text"]
    with pytest.raises(errors.Refused, match="is no summary"):
        agent.consolidate("apples", "over", sources=["port", "2026-03-01#television-moved"])
    assert agent.get("apples")["text"] == before


# --- while vectors are being made -------------------------------------------------------------------------------


def test_some_vectors_never_give_less_than_none(tmp_path: Path) -> None:
    """On the real model: few vectors say that nothing is near, though the words say what is."""
    model = load_embedder(EmbeddingSettings(), tmp_path / "model")
    assert model is not None
    lab, examples = Lab(tmp_path, model), Path(__file__).parent.parent / "examples/workspace"
    lab.stores.open_index(Workspace("agent", tmp_path / "agent"))
    lab.save({str(file.relative_to(examples)): file.read_text() for file in sorted(examples.rglob("*.md"))})
    assert lab.stores.model is not None
    rows = lab.unembedded(lab.stores.model)
    random.Random(2).shuffle(rows)
    tasks = ["restart the media server after an update", "which router do we use", "set up the backup of the server"]

    def told(task: str) -> set[str]:
        found = assemble(lab.stores, ContextTask(Ask(task, ("agent",), today=TODAY), 20_000)).result
        assert found["verdict"] == "found"
        return {memory["key"] for memory in found["memories"]}

    without = {task: told(task) for task in tasks}
    for part in (rows[:20], rows[20:40], rows[40:60]):
        texts = [embedded_text(json.loads(row["heading"]), row["context"], row["text"]) for row in part]
        ingest.save_vectors(lab.stores, lab.stores.model, part, model.embed(texts))
        for task in tasks:
            assert told(task) >= without[task] != set(), (task, len(part))
    lab.close()
