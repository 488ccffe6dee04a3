"""Edges over the socket and on the command line, on real files: made, followed, taken away and brought back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memd.errors import NotFound, Refused, UsageError
from memd.protocol.client import Client
from tests.conftest import Home, write_notes

NOTES = {
    "MEMORY.md": "# Memory\n\n## Home network\n\nThe router is called fjord. See [[2026-02-15#ErsatzTV]].\n\n"
    "## Preferences\n\nPierce likes short answers.\n",
    "memory/2026-02-15.md": "# 2026-02-15\n\n## ErsatzTV\n\nSet up the ErsatzTV skill.\n\n"
    "## Garden\n\nPlanted trees. #green\n",
    "memory/topics/sourdough.md": "---\ntitle: Sourdough\n---\n\nFeed the starter daily. #green\n",
    "memory/topics/bread.md": "The crust was too dark at 250 degrees.\n",
}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def workspace(home: Home) -> Path:
    """Without a model, so that there are no edges but those that are meant here; likeness has its own tests."""
    home.configure('[embedding]\nprovider = "none"\n')
    return write_notes(home.path.parent / "agent", NOTES)


def edges(client: Client, key: str | None = None, **which: Any) -> set[tuple[str, str, str]]:
    return {(one["from"], one["rel"], one["to"]) for one in client.edge_list(key, **which)["edges"]}


WRITTEN = ("2026-02-15#ersatztv", "relates_to", "MEMORY#home-network")
TAGGED = ("2026-02-15#garden", "relates_to", "sourdough")


def either(edge: tuple[str, str, str]) -> set[tuple[str, str, str]]:
    return {edge, edge[::-1]}


def has(client: Client, edge: tuple[str, str, str]) -> bool:
    return bool(either(edge) & edges(client))


# --- what the files say -----------------------------------------------------------------------------------------


def test_links_and_tags_in_the_files_are_edges(memory: Client) -> None:
    assert has(memory, WRITTEN) and has(memory, TAGGED) and len(edges(memory)) == 2
    assert len(edges(memory, "sourdough")) == 1 and edges(memory, "sourdough", min_weight=0.4) == set()
    assert not edges(memory, rel="refines")


@pytest.mark.parametrize("name", ["C# tips", "issue #7"])
def test_a_file_with_a_sharp_in_its_name_can_be_linked(memory: Client, workspace: Path, name: str) -> None:
    (workspace / f"memory/{name}.md").write_text("Use spans.\n\n## Setup\n\nInstall it.\n")
    memory.sync()
    for key in (name, f"{name}#setup"):
        memory.edge_add("sourdough", "depends_on", key)
        assert ("sourdough", "depends_on", key) in edges(memory, "sourdough")
        memory.edge_rm("sourdough", "depends_on", key)
        assert ("sourdough", "depends_on", key) not in edges(memory, "sourdough")


def test_a_section_is_linked_before_a_file_with_a_sharp_in_its_name(memory: Client, workspace: Path) -> None:
    (workspace / "memory/issue.md").write_text("## 7\n\nThe seventh.\n")
    (workspace / "memory/issue #7.md").write_text("Another one.\n")
    (workspace / "memory/link.md").write_text("See [[issue#7]].\n")
    memory.sync()
    assert edges(memory, "link") in ({one} for one in either(("link", "relates_to", "issue#7")))


def test_edges_follow_an_edit_a_rename_a_deletion_and_a_return(memory: Client, workspace: Path) -> None:
    day, long_term = workspace / "memory/2026-02-15.md", workspace / "MEMORY.md"
    day.write_text(day.read_text().replace("Set up the", "Took down the"))
    memory.sync()
    assert has(memory, WRITTEN), "another version is the same memory"
    day.rename(workspace / "memory/2026-02-16.md")
    memory.sync()
    moved = ("2026-02-16#ersatztv", "relates_to", "MEMORY#home-network")
    assert has(memory, moved), "the text still says the old name"
    text = long_term.read_text()
    long_term.unlink()
    memory.sync()
    assert not has(memory, moved)
    long_term.write_text(text)
    memory.sync()
    assert has(memory, moved)
    long_term.write_text(text.replace("See [[2026-02-15#ErsatzTV]].", ""))
    memory.sync()
    assert not has(memory, moved)


def test_edges_survive_a_restart_and_a_kill(home: Home, memory: Client) -> None:
    memory.edge_add("bread", "refines", "sourdough", ns="agent")
    before = memory.edge_list()["edges"]
    home.kill()
    with home.start() as client:
        client.sync(vectors=True)
        assert client.edge_list()["edges"] == before


# --- declared ---------------------------------------------------------------------------------------------------


def test_adding_declares_it_in_the_file_and_undo_takes_it_back(memory: Client, workspace: Path) -> None:
    file = workspace / "memory/topics/bread.md"
    before = file.read_bytes()
    added = memory.edge_add("bread", "refines", "sourdough", weight=0.6, ns="agent")
    assert added["edge"] == {
        "from": "bread", "rel": "refines", "to": "sourdough", "weight": 0.6, "origin": "declared", "accesses": 0,
        "titles": ["bread", "Sourdough"],
    }  # fmt: skip
    assert "refines(0.6):sourdough" in file.read_text() and file.read_text().endswith(before.decode())
    again = memory.edge_add("bread", "refines", "sourdough", ns="agent")
    assert again["edge"]["weight"] == 0.8 and file.read_text().count("sourdough") == 1, "one edge, another weight"
    memory.undo()
    memory.undo()
    assert file.read_bytes() == before
    memory.sync()
    assert not edges(memory, rel="refines")


def test_what_a_link_cannot_name_alone_is_refused_and_nothing_is_written(memory: Client, workspace: Path) -> None:
    """In links upper case makes no difference: an edge to one of two would be none."""
    memory.put("Bread", "Another loaf.", ns="agent")
    before = (workspace / "memory/topics/sourdough.md").read_bytes()
    with pytest.raises(Refused, match="a link cannot name `Bread` alone"):
        memory.edge_add("sourdough", "refines", "Bread", ns="agent")
    with pytest.raises(Refused, match="a link cannot name `bread` alone"):
        memory.consolidate("loaves", "Two loaves.", ["sourdough", "bread"], ns="agent")
    assert (workspace / "memory/topics/sourdough.md").read_bytes() == before
    assert not (workspace / "memory/topics/loaves.md").exists()
    memory.rm("Bread", ns="agent")
    memory.edge_add("sourdough", "refines", "bread", ns="agent")
    assert has(memory, ("sourdough", "refines", "bread"))


def test_a_declared_edge_leaves_a_memory_its_day(memory: Client, workspace: Path) -> None:
    """A note without a date is of the day on which its file was last written: not by memd, about its edges."""
    file = workspace / "memory/topics/bread.md"
    os.utime(file, (written := 1_700_000_000, written))
    for change in (
        lambda: memory.edge_add("bread", "refines", "sourdough", ns="agent"),
        lambda: memory.curate("bread", "pin", ns="agent"),
        memory.undo,
        memory.undo,
    ):
        before = file.stat().st_mtime
        change()
        memory.sync()
        (hit,) = (hit for hit in memory.query("crust dark")["hits"] if hit["key"] == "bread")
        assert hit["date"] == "2023-11-14" and file.stat().st_mtime != before, "other programs see a change"


def test_a_section_declares_in_the_comment_under_its_heading(memory: Client, workspace: Path) -> None:
    memory.edge_add("2026-02-15#garden", "depends_on", "MEMORY#home-network", ns="agent")
    memory.edge_add("2026-02-15#garden", "relates_to", "bread", ns="agent")
    text = (workspace / "memory/2026-02-15.md").read_text()
    assert "## Garden\n<!-- memd: links=depends_on:MEMORY#home-network,bread -->\n" in text
    assert ("2026-02-15#garden", "depends_on", "MEMORY#home-network") in edges(memory)
    assert has(memory, ("2026-02-15#garden", "relates_to", "bread"))


def test_declared_edges_outlive_the_ledger(home: Home, memory: Client) -> None:
    memory.edge_add("bread", "refines", "sourdough", weight=0.6, ns="agent")
    assert home.stop() == 0
    for file in home.state.glob("state.db*"):
        file.unlink()
    assert home.run("doctor", "--fix").returncode == 0
    with home.start() as client:
        client.sync()
        (found,) = client.edge_list(rel="refines")["edges"]
        assert (found["from"], found["to"], found["weight"]) == ("bread", "sourdough", 0.6)


def test_one_request_is_one_edge(memory: Client, workspace: Path) -> None:
    for _ in range(2):
        memory.edge_add("bread", "refines", "sourdough", ns="agent", request_id="r1")
    log = [entry for entry in memory.log()["entries"] if entry["what"] == "edge.add"]
    assert len(log) == 1 and log[0]["undoable"]
    for _ in range(2):
        memory.edge_rm("bread", "refines", "sourdough", ns="agent", request_id="r2")
    assert "sourdough" not in (workspace / "memory/topics/bread.md").read_text()


@pytest.mark.parametrize(
    ("one", "rel", "other", "weight", "error"),
    [
        ("bread", "refines", "nothing", None, NotFound),
        ("nothing", "refines", "bread", None, NotFound),
        ("bread", "refines", "bread", None, UsageError),
        ("bread", "likes", "sourdough", None, UsageError),
        ("bread", "refines", "sourdough", 7, UsageError),
        ("bread", "refines", "sourdough", -0.1, UsageError),
        ("", "refines", "sourdough", None, UsageError),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    memory: Client, workspace: Path, one: str, rel: str, other: str, weight: float | None, error: type[Exception]
) -> None:
    before, files = memory.edge_list()["edges"], {path: (workspace / path).read_bytes() for path in NOTES}
    with pytest.raises(error):
        memory.edge_add(one, rel, other, weight=weight, ns="agent")
    with pytest.raises(NotFound, match="there is no edge"):
        memory.edge_rm("bread", "refines", "sourdough", ns="agent")
    assert memory.edge_list()["edges"] == before
    assert {path: (workspace / path).read_bytes() for path in NOTES} == files


# --- taking away ------------------------------------------------------------------------------------------------


def test_a_declared_edge_goes_from_the_file(memory: Client, workspace: Path) -> None:
    file = workspace / "memory/topics/bread.md"
    before = file.read_bytes()
    memory.edge_add("bread", "relates_to", "sourdough", ns="agent")
    assert has(memory, ("bread", "relates_to", "sourdough"))
    gone = memory.edge_rm("sourdough", "relates_to", "bread", ns="agent")
    assert gone["paths"] == ["memory/topics/bread.md"] and len(gone["removed"]) == 1, "either end can be named first"
    assert not either(("bread", "relates_to", "sourdough")) & edges(memory) and file.read_bytes() == before
    memory.undo()
    memory.sync()
    assert has(memory, ("bread", "relates_to", "sourdough"))


def test_an_observed_edge_that_was_removed_stays_removed_until_it_is_undone(memory: Client, workspace: Path) -> None:
    memory.edge_rm(*TAGGED, ns="agent")
    memory.edge_rm(*WRITTEN, ns="agent")
    assert edges(memory) == set()
    file = workspace / "memory/topics/sourdough.md"
    file.write_text(file.read_text() + "\nAnd stir it. #green\n")
    long_term = workspace / "MEMORY.md"
    long_term.write_text(long_term.read_text().replace("The router", "Our router"))
    memory.sync(vectors=True)
    memory.rebuild()
    assert edges(memory) == set()
    removals = [entry for entry in memory.log()["entries"] if entry["what"] == "edge.rm"]
    assert len(removals) == 2 and all(entry["undoable"] for entry in removals)
    memory.undo()
    assert has(memory, WRITTEN) and not has(memory, TAGGED)
    memory.undo()
    assert has(memory, TAGGED)


def test_a_link_of_the_whole_file_is_not_one_sections_to_remove(memory: Client, workspace: Path) -> None:
    text = "---\nlinks: ['refines:bread']\n---\n\n# Plan\n\n## One\n\nFirst.\n\n## Two\n\nSecond.\n"
    (workspace / "memory/plan.md").write_text(text)
    memory.sync()
    assert {("plan#one", "refines", "bread"), ("plan#two", "refines", "bread")} <= edges(memory)
    with pytest.raises(Refused, match="front matter"):
        memory.edge_rm("plan#one", "refines", "bread", ns="agent")
    assert (workspace / "memory/plan.md").read_text() == text


# --- asking -----------------------------------------------------------------------------------------------------


@pytest.fixture
def chain(memory: Client) -> Client:
    memory.edge_add("bread", "refines", "sourdough", weight=0.6, ns="agent")
    memory.edge_add("2026-02-15#garden", "depends_on", "bread", weight=0.5, ns="agent")
    memory.edge_add("MEMORY#preferences", "implies", "2026-02-15#garden", weight=0.5, ns="agent")
    return memory


def test_related_tells_the_way(chain: Client) -> None:
    near = chain.related("bread")["memories"]
    assert [(one["key"], one["weight"]) for one in near] == [("sourdough", 0.6), ("2026-02-15#garden", 0.5)]
    far = chain.related("bread", depth=2)["memories"]
    assert [(one["key"], one["weight"]) for one in far[2:]] == [("MEMORY#preferences", 0.25)]
    assert [(step["from"], step["rel"], step["to"]) for step in far[2]["way"]] == [
        ("2026-02-15#garden", "depends_on", "bread"),
        ("MEMORY#preferences", "implies", "2026-02-15#garden"),
    ]
    assert len(chain.related("bread", depth=2, limit=1)["memories"]) == 1
    with pytest.raises(NotFound):
        chain.related("nothing")
    with pytest.raises(UsageError):
        chain.related("bread", depth=4)


def test_candidates_are_pairs_without_a_type(chain: Client) -> None:
    pairs = {
        frozenset((one["from"]["key"], one["to"]["key"])) for one in chain.edge_candidates(limit=100)["candidates"]
    }
    assert frozenset(WRITTEN[::2]) in pairs and frozenset(("bread", "sourdough")) not in pairs
    (told,) = [one for one in chain.edge_candidates(limit=100)["candidates"]
               if {one["from"]["key"], one["to"]["key"]} == set(WRITTEN[::2])]  # fmt: skip
    assert "The router is called fjord" in told["from"]["text"] + told["to"]["text"]
    chain.edge_add(WRITTEN[0], "caused_by", WRITTEN[2], ns="agent")
    assert frozenset(WRITTEN[::2]) not in {
        frozenset((one["from"]["key"], one["to"]["key"])) for one in chain.edge_candidates(limit=100)["candidates"]
    }


def test_clusters_want_a_summary_until_one_contains_them(memory: Client) -> None:
    for one, other in (("bread", "sourdough"), ("sourdough", "2026-02-15#garden")):
        memory.edge_add(one, "relates_to", other, weight=0.97, ns="agent")
    (group,) = memory.clusters(min_weight=0.96)["clusters"]
    keys = {one["key"] for one in group["memories"]}
    assert keys == {"bread", "sourdough", "2026-02-15#garden"} and group["wants_summary"] and group["summary"] is None
    for child in ("bread", "sourdough"):
        memory.edge_add("MEMORY#preferences", "contains", child, ns="agent")
    (group,) = memory.clusters(min_weight=0.96)["clusters"]
    assert group["summary"] == "MEMORY#preferences" and not group["wants_summary"]
    assert memory.clusters(min=4, min_weight=0.96)["clusters"] == []


# --- the command line -------------------------------------------------------------------------------------------


def test_the_commands(memory: Client, home: Home, workspace: Path) -> None:
    def run(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        return home.run(*arguments, cwd=workspace, **how)

    added = run("edge", "add", "bread", "refines", "sourdough", "--weight", "0.7")
    assert added.stdout == "0.70  bread refines sourdough  in memory/topics/bread.md\n", added.stderr
    assert "0.70  bread refines sourdough  (declared)" in run("edge", "list", "bread").stdout
    found = json.loads(run("edge", "list", "--rel", "refines", "--json").stdout)["edges"]
    assert [(one["from"], one["ns"]) for one in found] == [("bread", "agent")]
    assert "0.70  → refines sourdough" in run("related", "bread").stdout
    assert "0.70  ← refines bread" in run("related", "sourdough").stdout
    assert run("edge", "add", "bread", "refines", "sourdough", "--weight", "7").returncode == 2
    assert run("edge", "add", "bread", "likes", "sourdough").returncode == 2
    assert run("edge", "add", "bread", "refines", "nothing").returncode == 1
    assert run("edge", "rm", "bread", "implies", "sourdough").returncode == 1
    assert run("edge", "rm", "bread", "refines", "sourdough").returncode == 0
    assert run("link", "bread", "MEMORY#preferences").returncode == 0
    assert "bread" in run("edge", "list", "MEMORY#preferences", "--min-weight", "0.5").stdout
    assert run("link", "bread", "MEMORY#preferences", "--rm").returncode == 0
    assert run("edge", "list").returncode == run("clusters").returncode == 0
    pairs = run("edge-candidates", "--limit", "50").stdout
    assert "2026-02-15#ersatztv" in pairs and "Set up the ErsatzTV skill." in pairs


def test_nothing_related_is_nothing_found(home: Home) -> None:
    root = write_notes(home.path.parent / "alone", {"memory/topics/only.md": "One.\n"})
    with home.start() as client:
        client.workspace_add(str(root))
    assert home.run("related", "only", cwd=root).returncode == 1


INFER = """
import json, sys
asked = json.load(sys.stdin)
pair = next(one for one in asked["candidates"] if "garden" in one["from"]["key"] + one["to"]["key"])
assert "relations" in asked and pair["from"]["text"]
print(json.dumps({edges}))
"""


def infer(home: Home, workspace: Path, edges_: str, *more: str) -> subprocess.CompletedProcess[str]:
    script = home.path / "infer.py"
    script.write_text(INFER.replace("{edges}", edges_))
    return home.run("infer-edges", "--with", f"python3 {script}", "--limit", "100", *more, cwd=workspace)


GOOD = '[{"from": pair["from"]["key"], "rel": "caused_by", "to": pair["to"]["key"], "weight": 0.4}]'


def test_a_command_of_the_users_own_says_how(memory: Client, home: Home, workspace: Path) -> None:
    dry = infer(home, workspace, GOOD, "--dry-run")
    assert dry.returncode == 0 and "caused_by" in dry.stdout, dry.stderr
    assert not edges(memory, rel="caused_by")
    done = infer(home, workspace, GOOD, "--json")
    assert done.returncode == 0, done.stderr
    assert [one["weight"] for one in json.loads(done.stdout)["edges"]] == [0.4]
    assert len(edges(memory, rel="caused_by")) == 1


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (f'{GOOD} + [{{"from": "x", "rel": "refines", "to": pair["to"]["key"]}}]', 2, "are not one of the pairs"),
        ('[{"from": pair["from"]["key"], "rel": "likes", "to": pair["to"]["key"]}]', 2, "`rel` must be one of"),
        ('[{"from": pair["from"]["key"], "rel": "refines", "to": pair["to"]["key"], "weight": 7}]', 2, "from 0 to 1"),
        ('[{"from": pair["from"]["key"], "rel": "refines", "to": pair["from"]["key"]}]', 2, "are not one of the pairs"),
        (
            '[{"from": pair["from"]["key"], "rel": "refines", "to": next(end["key"] for one in asked["candidates"]'
            ' for end in (one["from"], one["to"]) if not any({end["key"], pair["from"]["key"]} =='
            ' {each["from"]["key"], each["to"]["key"]} for each in asked["candidates"]))}]',
            2,
            "are not one of the pairs",
        ),
        ("'x' * 2_000_000", 2, "more than 1,048,576 bytes"),
        ('[{"from": pair["from"]["key"]}]', 2, "must be an object"),
        ('{"edges": []}', 2, "a JSON list"),
        ("sys.exit(3)", 6, "failed with code 3"),
    ],
)
def test_an_answer_that_is_not_good_in_all_parts_adds_nothing(
    memory: Client, home: Home, workspace: Path, answer: str, code: int, said: str
) -> None:
    before = memory.edge_list()["edges"]
    done = infer(home, workspace, answer)
    assert (done.returncode, said in done.stderr, "nothing was added" in done.stderr) == (code, True, True), done.stderr
    assert memory.edge_list()["edges"] == before


# --- likeness, with the real model ----------------------------------------------------------------------------


@pytest.fixture
def real(home: Home) -> Iterator[Client]:
    root = write_notes(home.path.parent / "agent", {
        "memory/topics/backup.md": "The nightly backup of the photo archive runs at two and keeps thirty days.\n",
        "memory/topics/basil.md": "Basil grows best next to tomatoes, in a sunny window.\n",
    })  # fmt: skip
    home.env.pop("MEMD_TEST_EMBEDDER")
    with home.start() as client:
        client.workspace_add(str(root))
        client.sync(vectors=True)
        yield client


def test_put_links_what_says_nearly_the_same_at_once(real: Client) -> None:
    assert real.edge_list()["edges"] == []
    text = "Every night at two the photos are backed up; copies of the last thirty days are kept."
    real.put("photos", text, ns="agent")
    real.sync(vectors=True)
    (found,) = real.edge_list()["edges"]
    assert {found["from"], found["to"]} == {"backup", "photos"} and found["origin"] == "similar"
    assert 0.8 <= found["weight"] <= 0.95
    real.put("photos", "Anna's passport is in the drawer of the desk.", ns="agent")
    real.sync(vectors=True)
    assert real.edge_list()["edges"] == []


def test_a_memory_with_many_edges_keeps_its_date(memory: Client, workspace: Path) -> None:
    names = [f"a-topic-with-quite-a-long-name-{nth}" for nth in range(8)]
    write_notes(workspace, {f"memory/topics/{name}.md": f"About {name}.\n" for name in names})
    write_notes(workspace, {"MEMORY.md": "# Memory\n\n## Router\n\n_2026-02-07 14:27_\n\nIt is called fjord.\n"})
    memory.sync()
    for name in names:
        memory.edge_add("MEMORY#router", "relates_to", name, ns="agent")
    (row,) = [row for row in memory.list(ns="agent")["memories"] if row["key"] == "MEMORY#router"]
    assert row["date"] == "2026-02-07" and len(edges(memory, "MEMORY#router")) == 8
