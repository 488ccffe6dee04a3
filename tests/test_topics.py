"""The knowledge store: topics are files, the index lists them, and both change together or not at all."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from memd.errors import AlreadyExists, Conflict, MemdError, NotFound, Refused, SecretFound, UsageError
from memd.indexer.views import topics
from memd.protocol.client import Client
from tests.conftest import ROOT, Home, write_notes
from tests.faults.agreement import rounds, serve, shown
from tests.lab import Lab

NOW, LATER = "2026-02-07T14:27", "2026-02-08T09:00"
PAGE = ROOT / "docs" / "writing.md"
TEA = {"summary": "How Pierce likes it.", "content": "Green, at 70 degrees.\n", "tags": ["drink", "Home"], "now": NOW}
TEA_FILE = """---
title: tea
tags:
- drink
- Home
summary: How Pierce likes it.
last_updated: 2026-02-07T14:27
---

Green, at 70 degrees.
"""
LIST = "\n## Specialized Knowledge\n\n- tea: How Pierce likes it.\n"


@pytest.fixture
def memory(home: Home, workspace: Path) -> Client:
    client = serve(home, workspace, '[embedding]\nprovider = "none"\n')
    client.sync()
    return client


def text(workspace: Path, path: str) -> str:
    return (workspace / path).read_bytes().decode()


def everything(workspace: Path) -> dict[str, bytes]:
    return {str(file.relative_to(workspace)): file.read_bytes() for file in workspace.rglob("*") if file.is_file()}


# --- memorize ---------------------------------------------------------------------------------------------------


def test_a_new_topic_is_a_file_and_a_line_of_the_index(memory: Client, workspace: Path) -> None:
    before = text(workspace, "MEMORY.md")
    done = memory.topic_memorize("tea", **TEA)
    assert (done["topic"], done["path"], done["key"]) == ("tea", "memory/topics/tea.md", "tea")
    assert done["paths"] == ["memory/topics/tea.md", "MEMORY.md"]
    assert text(workspace, "memory/topics/tea.md") == TEA_FILE
    assert text(workspace, "MEMORY.md") == before + LIST
    assert "70 degrees" in shown(memory, "degrees")
    assert memory.get("tea")["tags"] == ["drink", "Home"]
    assert "tea: How" not in shown(memory, "Pierce likes")


def test_a_topic_that_exists_is_left_as_it_is(memory: Client, workspace: Path) -> None:
    memory.topic_memorize("tea", **TEA)
    before = everything(workspace)
    for name in ("tea", " tea ", "sourdough"):
        with pytest.raises(AlreadyExists) as caught:
            memory.topic_memorize(name, **{**TEA, "content": "Black."})
        assert "refine" in caught.value.hint
    assert everything(workspace) == before


def test_a_repeated_request_is_one_deed(memory: Client, workspace: Path) -> None:
    first = memory.topic_memorize("tea", request_id="r1", **TEA)
    again = memory.topic_memorize("tea", request_id="r1", **TEA)
    assert again["repeated"] and again["action"] == first["action"]
    gone = memory.topic_forget("tea", request_id="r2")
    assert memory.topic_forget("tea", request_id="r2")["repeated"] and gone["deleted"]


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b", "a\\b", "..", ".", ".hidden", "/etc/cron.d/x", "a\nb", "x" * 250, "#x", "a.conflict-1", "~x"],
)
def test_a_name_that_leads_elsewhere_is_refused(memory: Client, workspace: Path, name: str) -> None:
    before, around = everything(workspace), sorted(os.listdir(workspace.parent))
    with pytest.raises(MemdError):
        memory.topic_memorize(name, **TEA)
    for operation in ("refine", "forget", "recall"):
        with pytest.raises((UsageError, NotFound)):
            getattr(memory, f"topic_{operation}")(name, **({"summary": "x"} if operation == "refine" else {}))
    assert everything(workspace) == before and sorted(os.listdir(workspace.parent)) == around


def test_a_folder_that_leads_out_of_the_workspace_is_not_written_to(memory: Client, workspace: Path) -> None:
    elsewhere = workspace.parent / "elsewhere"
    elsewhere.mkdir()
    (workspace / "memory" / "topics" / "sourdough.md").unlink()
    (workspace / "memory" / "topics").rmdir()
    (workspace / "memory" / "topics").symlink_to(elsewhere)
    memory.sync()
    with pytest.raises(Refused):
        memory.topic_memorize("tea", **TEA)
    assert not list(elsewhere.iterdir())
    assert "Specialized" not in text(workspace, "MEMORY.md")


def test_an_index_that_cannot_be_written_leaves_no_topic_behind(memory: Client, workspace: Path) -> None:
    os.link(workspace / "MEMORY.md", workspace / "second-name")
    before = everything(workspace)
    with pytest.raises(Refused, match="hard links"):
        memory.topic_memorize("tea", **TEA)
    assert everything(workspace) == before


@pytest.mark.parametrize("where", ["content", "summary", "title"])
def test_a_secret_needs_a_word(memory: Client, workspace: Path, where: str) -> None:
    secret = "the token is gh" + "p_" + "a1B2" * 9
    with pytest.raises(SecretFound) as caught:
        memory.topic_memorize("tea", **{**TEA, where: secret})
    assert "a1B2" not in str(caught.value)
    assert not (workspace / "memory/topics/tea.md").exists()
    memory.topic_memorize("tea", allow_secret=True, **{**TEA, where: secret})
    with pytest.raises(SecretFound):
        memory.topic_refine("tea", **{where: secret})
    with pytest.raises(SecretFound):
        memory.topic_set_general(content=secret)


def test_a_place_that_is_not_indexed_is_refused(home: Home, workspace: Path) -> None:
    root = write_notes(home.path.parent / "vault", {"notes/a.md": "# A\n\nx\n"})
    client = home.start()
    client.workspace_add(root, globs=["notes/*.md"])
    with pytest.raises(Refused, match="notes/"):
        client.topic_memorize("tea", **TEA)
    assert list(everything(root)) == ["notes/a.md"]


@pytest.mark.parametrize("wrong", [{"summary": " "}, {"content": ""}, {"summary": "x" * 700}, {"now": "noon"}])
def test_what_is_missing_is_said(memory: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        memory.topic_memorize("tea", **{**TEA, **wrong})


# --- refine -----------------------------------------------------------------------------------------------------


def test_refining_changes_what_was_named_and_the_time(memory: Client, workspace: Path) -> None:
    memory.topic_memorize("tea", **TEA)
    memory.topic_refine("tea", add_tags=["hot"], remove_tags=["HOME"], now=LATER)
    assert text(workspace, "memory/topics/tea.md") == TEA_FILE.replace("- Home", "- hot").replace(NOW, LATER)
    assert text(workspace, "MEMORY.md").endswith(LIST)
    memory.topic_refine("tea", summary="Green.\nAlways.", content="Green.", title="Tea", now=LATER)
    recalled = memory.topic_recall("tea")
    assert (recalled["title"], recalled["summary"], recalled["content"]) == ("Tea", "Green. Always.", "Green.")
    assert text(workspace, "MEMORY.md").endswith("\n- tea: Green. Always.\n")


def test_refining_nothing_or_something_unknown_is_told(memory: Client, workspace: Path) -> None:
    before = everything(workspace)
    with pytest.raises(UsageError, match="nothing to refine"):
        memory.topic_refine("sourdough")
    with pytest.raises(NotFound) as caught:
        memory.topic_refine("sourdouh", summary="x")
    assert "`sourdough`" in caught.value.hint
    assert everything(workspace) == before


def test_a_file_with_other_line_ends_and_facts_keeps_them(memory: Client, workspace: Path) -> None:
    file = workspace / "memory/topics/odd.md"
    file.write_bytes(b"\xef\xbb\xbf---\r\n# mine\r\nodd: {a: 1}\r\n---\r\n\r\nbad \xff byte\r\n")
    memory.sync()
    memory.topic_refine("odd", add_tags=["x"], now=NOW)
    assert file.read_bytes() == (
        b"\xef\xbb\xbf---\r\n# mine\r\nodd: {a: 1}\r\ntags:\r\n- x\r\nlast_updated: 2026-02-07T14:27\r\n---\r\n\r\n"
        b"bad \xff byte\r\n"
    )


def test_front_matter_that_cannot_be_read_is_left_alone(memory: Client, workspace: Path) -> None:
    file = workspace / "memory/topics/odd.md"
    file.write_text("---\ntitle: [\n---\n\nx\n")
    memory.sync()
    before = everything(workspace)
    with pytest.raises(Refused, match="front matter"):
        memory.topic_refine("odd", summary="x")
    assert everything(workspace) == before


# --- forget -----------------------------------------------------------------------------------------------------


def test_forgetting_takes_the_file_and_the_line_and_can_be_undone_as_one(memory: Client, workspace: Path) -> None:
    memory.topic_memorize("tea", **TEA)
    before = everything(workspace)
    done = memory.topic_forget("tea")
    assert done["deleted"] and not done["kept"]
    assert not (workspace / "memory/topics/tea.md").exists()
    assert "tea" not in text(workspace, "MEMORY.md")
    assert shown(memory, "degrees") == ""
    memory.undo(done["action"])
    assert everything(workspace) == before
    assert "70 degrees" in shown(memory, "degrees")


def test_a_topic_whose_file_is_gone_is_not_listed_although_the_ledger_has_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    index = lab.add({"memory/topics/tea.md": "Green.\n", "memory/a/topics/b.md": "y\n"})
    assert list(topics.paths(index)) == ["b", "tea"] and index.files.keys() >= {"memory/topics/tea.md"}
    (index.workspace.root / "memory/topics/tea.md").unlink()
    (index.workspace.root / "memory/a/topics/b.md").unlink()
    assert topics.paths(index) == {} and index.files.keys() >= {"memory/topics/tea.md"}
    lab.close()


def test_each_operation_is_undone_to_the_byte(memory: Client, workspace: Path) -> None:
    states = [everything(workspace)]
    actions = []
    for operation, topic, given in (
        ("memorize", "tea", TEA),
        ("refine", "tea", {"content": "Black.", "summary": "Black now.", "add_tags": ["x"], "now": LATER}),
        ("set_general", None, {"content": "# Go\n\nwith Postgres"}),
        ("refine", "sourdough", {"summary": "Bread.", "now": LATER}),
        ("forget", "tea", {}),
    ):
        actions.append(getattr(memory, f"topic_{operation}")(topic, **given)["action"])
        states.append(everything(workspace))
    for action, before in zip(reversed(actions), reversed(states[:-1]), strict=True):
        memory.undo(action)
        assert everything(workspace) == before


def test_a_file_that_cannot_be_deleted_is_no_longer_listed(memory: Client, workspace: Path) -> None:
    memory.topic_memorize("tea", **TEA)
    os.link(workspace / "memory/topics/tea.md", workspace / "second-name")
    done = memory.topic_forget("tea")
    assert not done["deleted"] and "hard links" in done["kept"] and done["paths"] == ["MEMORY.md"]
    assert (workspace / "memory/topics/tea.md").exists()
    assert "- tea" not in text(workspace, "MEMORY.md")


def test_forgetting_what_is_not_there_changes_nothing(memory: Client, workspace: Path) -> None:
    before = everything(workspace)
    with pytest.raises(NotFound) as caught:
        memory.topic_forget("sourdoug")
    assert "`sourdough`" in caught.value.hint
    assert everything(workspace) == before


# --- index and files that differ --------------------------------------------------------------------------------


def test_a_file_that_is_not_listed_is_a_topic_and_is_listed_by_the_next_change(memory: Client, workspace: Path) -> None:
    found = memory.topic_list()
    assert found["topics"] == [
        {"ns": "agent", "topic": "sourdough", "path": "memory/topics/sourdough.md", "summary": "", "listed": False}
    ]
    memory.topic_refine("sourdough", add_tags=["rye"], now=NOW)
    assert text(workspace, "MEMORY.md").endswith("\n- sourdough: Sourdough\n")
    assert memory.topic_list()["topics"][0]["listed"]


def test_a_line_without_a_file_is_told_and_mended(memory: Client, workspace: Path) -> None:
    memory.topic_memorize("tea", **TEA)
    (workspace / "memory/topics/tea.md").unlink()
    memory.sync()
    found = memory.topic_list()
    assert found["text"] == "sourdough"
    assert found["missing"] == [{"ns": "agent", "topic": "tea", "summary": "How Pierce likes it."}]
    for operation in ("recall", "refine"):
        with pytest.raises(NotFound, match="has no file") as caught:
            getattr(memory, f"topic_{operation}")("tea", **({"title": "x"} if operation == "refine" else {}))
        assert "memd topic forget tea" in caught.value.hint
    memory.topic_memorize("tea", **{**TEA, "summary": "Anew."})
    assert text(workspace, "MEMORY.md").count("- tea:") == 1 and "- tea: Anew." in text(workspace, "MEMORY.md")
    (workspace / "memory/topics/tea.md").unlink()
    assert not memory.topic_forget("tea")["deleted"]
    assert "- tea" not in text(workspace, "MEMORY.md")


def test_topics_of_other_folders_are_topics_too(memory: Client, workspace: Path) -> None:
    write_notes(workspace, {"memory/office/topics/deploy.md": "Blue and green.\n"})
    memory.sync()
    assert memory.topic_list()["text"] == "deploy, sourdough"
    memory.topic_refine("deploy", add_tags=["ops"], now=NOW)
    assert "- ops" in text(workspace, "memory/office/topics/deploy.md")
    assert "deploy" in memory.topic_search(tags=["OPS"])["text"]


# --- recall, search, list ---------------------------------------------------------------------------------------


def test_a_topic_is_recalled_as_markdown(memory: Client) -> None:
    memory.topic_memorize("tea", **TEA)
    found = memory.topic_recall("tea")
    assert found["markdown"] == (
        "# tea\n\n- Tags: drink, Home\n- Last updated: 2026-02-07 14:27\n\nGreen, at 70 degrees.\n"
    )
    assert (found["content"], found["last_updated"]) == ("Green, at 70 degrees.", NOW)


def test_a_topic_is_recalled_as_its_file_is_now(memory: Client, workspace: Path) -> None:
    (workspace / "memory/topics/sourdough.md").write_text("Feed it at noon. #rye\n")
    found = memory.topic_recall("sourdough")
    assert found["content"] == "Feed it at noon. #rye" and found["tags"] == ["rye"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["last_updated"])
    assert memory.topic_search(tags=["RYE"])["text"] == "sourdough"
    assert memory.topic_search(tags=["baking"])["text"] == "No topics found"


def test_search_is_by_tags_in_any_case_and_any_script(memory: Client) -> None:
    memory.topic_memorize("tea", **{**TEA, "tags": ["drink", "Überall"]})
    memory.topic_memorize("coffee", **{**TEA, "tags": ["DRINK"]})
    assert memory.topic_search(tags=["Drink", "überall"])["text"] == "tea, coffee"
    assert memory.topic_search(tags=["drink", "ÜBERALL"], match="all")["text"] == "tea"
    assert memory.topic_search(tags=["#drink"])["text"] == "coffee, tea"
    nothing = memory.topic_search(tags=["none"])
    assert (nothing["topics"], nothing["text"]) == ([], "No topics found")
    memory.sync()
    assert memory.topic_search(tags=["drink"], match="all")["text"] == "coffee, tea"


def test_topics_of_several_workspaces(memory: Client, home: Home) -> None:
    other = write_notes(
        home.path.parent / "other", {"memory/topics/sourdough.md": "x\n", "memory/topics/rye.md": "y\n"}
    )
    memory.workspace_add(other)
    assert memory.topic_list()["text"] == "sourdough, rye"
    assert memory.topic_recall("rye")["ns"] == "other"
    with pytest.raises(UsageError, match="agent, other"):
        memory.topic_recall("sourdough")
    assert memory.topic_recall("sourdough", ns="other")["content"] == "x"
    for operation, given in (("memorize", TEA), ("general", {}), ("set_general", {"content": "x"})):
        with pytest.raises(UsageError, match="which workspace"):
            getattr(memory, f"topic_{operation}")(**({"topic": "tea"} if operation == "memorize" else {}), **given)


# --- general knowledge ------------------------------------------------------------------------------------------


def test_general_knowledge_is_recalled_and_replaced(memory: Client, workspace: Path) -> None:
    assert memory.topic_general()["content"] == ""
    before = text(workspace, "MEMORY.md")
    done = memory.topic_set_general(content="Go, with Postgres.")
    assert done["key"] == "MEMORY#general-project-knowledge"
    assert text(workspace, "MEMORY.md") == before + "\n## General Project Knowledge\n\nGo, with Postgres.\n"
    memory.topic_memorize("tea", **TEA)
    memory.topic_set_general(content="Rust.")
    found = memory.topic_general()
    assert (found["content"], found["path"]) == ("Rust.", "MEMORY.md")
    assert found["topics"] == [{"topic": "tea", "summary": "How Pierce likes it."}]
    assert text(workspace, "MEMORY.md") == before + "\n## General Project Knowledge\n\nRust.\n" + LIST
    assert memory.get("MEMORY#general-project-knowledge")["text"] == "## General Project Knowledge\n\nRust."


def test_general_knowledge_with_the_list_is_refused(memory: Client, workspace: Path) -> None:
    before = everything(workspace)
    with pytest.raises(UsageError, match="Specialized Knowledge"):
        memory.topic_set_general(content="Go.\n\n## Specialized Knowledge\n\n- a: b\n")
    assert everything(workspace) == before


# --- .ai-knowledge ----------------------------------------------------------------------------------------------


def test_an_empty_knowledge_folder_is_where_topics_go(home: Home) -> None:
    root = write_notes(home.path.parent / "repo", {"MEMORY.md": "# Memory\n"})
    (root / ".ai-knowledge").mkdir()
    client = serve(home, root, '[embedding]\nprovider = "none"\n')
    client.sync()
    assert client.topic_memorize("tea", **TEA)["path"] == ".ai-knowledge/tea.mdk"
    assert "- tea: How Pierce likes it.\n" in text(root, ".ai-knowledge/index.mdk")
    assert text(root, "MEMORY.md") == "# Memory\n"


def test_a_knowledge_folder_goes_on_as_it_was(home: Home) -> None:
    index = "# Knowledge\n\n# General Project Knowledge\n\nGo.\n\n# Specialized Knowledge\n\n- deploy: How.\n"
    deploy = "---\ntitle: Deploy\ntags: [ops]\nlast_updated: 2025-11-05\n---\n\nBlue, green.\n"
    root = write_notes(
        home.path.parent / "repo", {".ai-knowledge/index.mdk": index, ".ai-knowledge/deploy.mdk": deploy}
    )
    client = serve(home, root, '[embedding]\nprovider = "none"\n')
    client.sync()
    assert client.topic_list()["text"] == "deploy"
    assert client.topic_recall("deploy")["markdown"].startswith("# Deploy\n\n- Tags: ops\n- Last updated: 2025-11-05\n")
    assert (client.topic_general()["content"], client.topic_general()["index"]) == ("Go.", index)
    client.topic_memorize("tea", **TEA)
    assert text(root, ".ai-knowledge/tea.mdk") == TEA_FILE
    assert text(root, ".ai-knowledge/index.mdk") == index + "- tea: How Pierce likes it.\n"
    client.topic_set_general(content="Rust.")
    client.topic_forget("deploy")
    rust = index.replace("Go.", "Rust.").replace("- deploy: How.", "- tea: How Pierce likes it.")
    assert text(root, ".ai-knowledge/index.mdk") == rust
    assert sorted(everything(root)) == [".ai-knowledge/index.mdk", ".ai-knowledge/tea.mdk"]
    assert "Pierce likes" not in shown(client, "Pierce likes it", path=".ai-knowledge/index.mdk")
    assert "Rust" in shown(client, "rust")
    for operation in ("memorize", "forget", "recall", "refine"):
        with pytest.raises((UsageError, NotFound)):
            getattr(client, f"topic_{operation}")(
                "index",
                **(TEA if operation == "memorize" else {"title": "x"} if operation == "refine" else {}),
            )


# --- many at once -----------------------------------------------------------------------------------------------


def test_many_writers_lose_no_topic_and_no_line(memory: Client, home: Home, workspace: Path) -> None:
    """Clients memorize at once while an editor appends to the same index."""
    each = rounds(5, 60)
    failed: list[BaseException] = []

    def patiently(client: Client, name: str) -> None:
        """An editor that writes without a pause may win five times; then memd says so and writes nothing."""
        while True:
            try:
                client.topic_memorize(name, **TEA)
            except Conflict:
                continue
            return

    def write(nth: int) -> None:
        try:
            with Client(str(home.socket)) as client:
                for number in range(each):
                    patiently(client, f"t{nth}-{number}")
        except MemdError as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(nth,)) for nth in range(4)]
    for writer in writers:
        writer.start()
    appended = 4 * each
    for nth in range(appended):
        with (workspace / "MEMORY.md").open("a") as file:
            file.write(f"- e{nth}: by an editor\n")
        writers[nth % 4].join(0.02)
    for writer in writers:
        writer.join()
    assert not failed
    listed = re.findall(r"^- (\S+):", text(workspace, "MEMORY.md"), re.MULTILINE)
    expected = {f"t{nth}-{number}" for nth in range(4) for number in range(each)}
    assert expected | {f"e{nth}" for nth in range(appended)} <= set(listed) and len(listed) == len(set(listed))
    assert expected <= {entry["topic"] for entry in memory.topic_list()["topics"]}


# --- at the shell -----------------------------------------------------------------------------------------------


def test_all_of_it_at_the_shell(memory: Client, home: Home, workspace: Path) -> None:
    def run(*words: str, given: str | None = None) -> tuple[int, str, str]:
        done = home.run("topic", *words, cwd=workspace, input=given)
        return done.returncode, done.stdout, done.stderr

    made = run("memorize", "tea", "-", "--summary", "How.", "--tags", "drink,Home", "--title", "Tea", given="Green.\n")
    assert made == (0, "Memorized tea (memory/topics/tea.md)\n", "")
    assert run("memorize", "tea", "x", "-s", "x")[0] == 5
    assert run("list") == (0, "sourdough, tea\n", "")
    assert run("search", "HOME") == (0, "tea\n", "")
    assert run("search", "drink,nothing", "--match", "all") == (1, "No topics found\n", "")
    code, out, _ = run("recall", "tea")
    assert code == 0 and re.fullmatch(r"# Tea\n\n- Tags: drink, Home\n- Last updated: [\d: -]+\n\nGreen\.\n", out)
    assert run("refine", "tea", "--add-tags", "hot", "--remove-tags", "home", "Hot.")[:2] == (
        0, "Refined tea (memory/topics/tea.md)\n"
    )  # fmt: skip
    assert json.loads(run("recall", "tea", "--json")[1])["tags"] == ["drink", "hot"]
    assert run("general")[0] == 1
    assert run("general", "--set", "-", given="Go.\n")[:2] == (0, "Memorized as general knowledge (MEMORY.md)\n")
    assert run("general") == (0, "Go.\n", "")
    assert run("general", "--set", "# Specialized Knowledge")[0] == 2
    assert run("forget", "tea") == (0, "Forgot tea\n", "")
    assert run("recall", "tea")[0] == 1
    assert run("memorize", "../x", "x", "-s", "x")[0] == 2
    done = [(entry["who"], entry["what"]) for entry in memory.log(ns="agent")["entries"]]
    assert ("cli", "topic.memorize") in done and ("cli", "topic.forget") in done


def test_what_a_topic_says_cannot_take_over_the_terminal(memory: Client, home: Home, workspace: Path) -> None:
    write_notes(workspace, {"memory/topics/bad.md": "\x1b]0;owned\x07 red \x1b[31m\u202e\n"})
    for words in (("recall", "bad"), ("list",)):
        out = home.run("topic", *words, cwd=workspace).stdout
        assert "bad" in out or "owned" in out
        assert "\x1b" not in out and "\u202e" not in out


# --- secrets in what is there already ---------------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, False], ids=["with a daemon", "without"])
def test_the_doctor_lists_the_lines_and_never_the_value(home: Home, workspace: Path, running: bool) -> None:
    value = "hunt" + "er2x9q"
    write_notes(workspace, {"memory/2026-02-17.md": f"# Day\n\nfine\npassword: {value}\n"})
    home.configure(f'[embedding]\nprovider = "none"\n[[workspace]]\npath = "{workspace}"\nns = "agent"\n')
    if running:
        home.start().sync()
    told = home.run("doctor", "--secrets", "--json")
    assert told.returncode == 0, told.stderr
    result = json.loads(told.stdout)
    assert result["secrets"] == [
        {"ns": "agent", "path": "memory/2026-02-17.md", "line": 4, "kind": "a password or token"}
    ]
    shown = home.run("doctor", "--secrets").stdout
    assert "memory/2026-02-17.md:4 a password or token" in shown
    assert value not in told.stdout + shown
    assert "secrets" not in json.loads(home.run("doctor", "--json").stdout)


# --- the page about it ------------------------------------------------------------------------------------------


def test_the_page_shows_what_topics_look_like(home: Home) -> None:
    files = dict(re.findall(r"^```markdown (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    root = write_notes(home.path.parent / "repo", {".ai-knowledge/index.mdk": ""})
    client = serve(home, root, '[embedding]\nprovider = "none"\n')
    client.sync()
    client.topic_set_general(content="Go, with Postgres.")
    client.topic_memorize("deploy", summary="How a release is made.", tags=["ops", "release"], now=NOW,
                 title="Deployment", content="Tag it, then wait for the build.")  # fmt: skip
    for path in (".ai-knowledge/index.mdk", ".ai-knowledge/deploy.mdk"):
        assert text(root, path) == files[path], path
