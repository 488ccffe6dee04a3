"""Leaving files out: by `.memdignore`, by `exclude` in the config, by `.gitignore`; at once, their history is kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from memd.config.ignore_rules import Exclusions
from memd.errors import AlreadyExists, ConfigError, NotFound, Refused, UsageError
from memd.indexer.indexing.scan import scan
from memd.models import Workspace
from memd.protocol.client import Client
from tests.conftest import Home, write_notes
from tests.faults.agreement import eventually

DRAFTS = {
    "memory/drafts/plan.md": "## Plan\n\nThe walrus plan is secret.\n",
    "memory/drafts/keep.md": "## Kept\n\nThe narwhal is public.\n",
    "memory/2026-02-17.md": "## Kite\n\nThe kite is blue.\n",
}


def paths(client: Client, query: str) -> list[str]:
    return [hit["path"] for hit in client.query(query, mode="text", sync="full")["hits"]]


def skipped(client: Client) -> dict[str, str]:
    (status,) = client.status()["workspaces"]
    return {one["path"]: one["why"] for one in status["skipped"]}


def test_a_changed_memdignore_is_noticed_and_what_it_excludes_keeps_its_history(
    memory: Client, workspace: Path
) -> None:
    write_notes(workspace, DRAFTS)
    memory.sync()
    key = memory.query("walrus", mode="text")["hits"][0]["key"]
    before = memory.history(key)["versions"]
    (workspace / ".memdignore").write_text("# not for agents\nmemory/drafts/*\n!keep.md\n")
    # No scan is asked for: the watcher says so.
    eventually(lambda: memory.query("walrus", mode="text", sync="none")["hits"] == [])
    assert paths(memory, "narwhal") == ["memory/drafts/keep.md"]
    assert skipped(memory) == {"memory/drafts/plan.md": "excluded by .memdignore: memory/drafts/*"}
    assert (workspace / "memory/drafts/plan.md").exists()
    assert [one for one in memory.log()["entries"] if one["what"] == "file-removed"] == [], "it is not lost"
    assert memory.trash()["memories"] == []
    # An event of an excluded file brings nothing back.
    (workspace / "memory/drafts/plan.md").write_text("## Plan\n\nThe walrus plan is still secret.\n")
    assert paths(memory, "walrus") == [] and memory.grep("walrus")["blocks"] == []
    write_notes(workspace, DRAFTS)
    assert memory.history(key)["versions"][-1]["at"] == before[-1]["at"], "its history is kept"
    (workspace / ".memdignore").unlink()
    eventually(lambda: memory.query("walrus", mode="text", sync="none")["hits"] != [])
    after = memory.history(key)["versions"]
    assert after[-1]["at"] == before[-1]["at"] and len(after) > len(before), "it is the same memory again"


def test_folders_that_come_in_again_are_watched(memory: Client, workspace: Path) -> None:
    (workspace / ".memdignore").write_text("memory/drafts/\n")
    write_notes(workspace, DRAFTS)
    memory.sync()
    assert skipped(memory) == {"memory/drafts/": "excluded by .memdignore: memory/drafts/"}
    os.replace(workspace / ".memdignore", workspace / "aside")
    eventually(lambda: memory.query("walrus", mode="text", sync="none")["hits"] != [])
    (workspace / "memory/drafts/new.md").write_text("## New\n\nThe lynx came.\n")
    eventually(lambda: memory.query("lynx", mode="text", sync="none")["hits"] != [])


def test_many_files_excluded_at_once_are_not_held(memory: Client, workspace: Path) -> None:
    write_notes(workspace, {f"memory/bulk/{nth}.md": f"## Bulk {nth}\n\nbulk of gravel\n" for nth in range(40)})
    memory.sync()
    (workspace / ".memdignore").write_text("bulk/\n")
    done = memory.sync()
    assert not done["held"] and paths(memory, "gravel") == []


def test_the_config_excludes_what_no_file_admits_and_reload_holds_at_once(home: Home, workspace: Path) -> None:
    write_notes(workspace, DRAFTS)
    (workspace / ".memdignore").write_text("!memory/drafts/plan.md\n")
    with home.start() as client:
        client.workspace_add(str(workspace), exclude=["memory/drafts/"])
        assert paths(client, "walrus") == paths(client, "narwhal") == []
        assert 'exclude = ["memory/drafts/"]' in (home.path / "config.toml").read_text()
        assert not client.workspace_add(str(workspace))["added"], "adding it again says nothing new"
        with pytest.raises(AlreadyExists) as caught:
            client.workspace_add(str(workspace), exclude=["*.md"])
        assert "memd reload" in caught.value.hint
        with pytest.raises(UsageError, match="must be a list of patterns"):
            client.workspace_add(str(workspace), exclude=["!"])
        config = (home.path / "config.toml").read_text()
        home.configure(config.replace('["memory/drafts/"]', '["2026-02-17.md"]'))
        told = client.reload()
        assert (told["changed"], told["restart"]) == (["workspace agent"], [])
        eventually(lambda: client.query("walrus", mode="text", sync="none")["hits"] != [])
        assert paths(client, "kite") == []
        home.configure(config.replace('["memory/drafts/"]', '["!"]'))
        with pytest.raises(ConfigError, match="`exclude` must be a list of patterns"):
            client.reload()
        assert paths(client, "walrus")


def test_a_write_to_an_excluded_file_is_refused_with_the_rule(memory: Client, workspace: Path) -> None:
    (workspace / ".memdignore").write_text("memory/2026-02-18.md\n")
    with pytest.raises(Refused, match=r"excluded by \.memdignore: memory/2026-02-18\.md"):
        memory.note("A text.", title="Lost", now="2026-02-18T10:00")


def test_gitignore_holds_where_it_is_wanted_as_git_itself_has_it(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "repo", {f"{name}.md": "## A\n\ntext\n" for name in (
        "a", "build/x", "build/keep", "sub/a", "sub/b", "sub/deep/c", "sub/deep/d", "x y", "sub/#h")})  # fmt: skip
    rules = {".gitignore": "build/\n!build/keep.md\nb.md\n*\\ y.md\n", "sub/.gitignore": "/deep/c.md\n!b.md\n\\#h.md\n"}
    write_notes(root, rules)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    listed = ["git", "ls-files", "--others", "--exclude-standard", "*.md"]
    told = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
    assert set(scan(Workspace("repo", root, ("**/*.md",))).files) > set(told.splitlines())
    respecting = Workspace("repo", root, ("**/*.md",), gitignore=True)
    assert set(scan(respecting).files) == set(told.splitlines()) != set()
    # The same of a path that an event names.
    exclusions = Exclusions(respecting)
    named = {str(file.relative_to(root)) for file in root.rglob("*.md")}
    assert {path for path in named if not exclusions.why_in_all(path)} == set(told.splitlines())
    # What git ignores a `.memdignore` admits.
    (root / "sub" / ".memdignore").write_text("!c.md\n")
    assert "sub/deep/c.md" in scan(respecting).files


def test_rules_that_cannot_be_read_are_told_and_the_others_hold(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent", DRAFTS)
    workspace = Workspace("agent", root)
    (root / ".memdignore").write_bytes(b"\xef\xbb\xbfdrafts/\r\n!\r\n[z-a]\r\n")
    found = scan(workspace)
    assert list(found.files) == ["memory/2026-02-17.md"]
    assert found.skipped[".memdignore"] == "no rule, so it is passed over: !, [z-a]"
    (root / ".memdignore").unlink()
    os.mkfifo(root / ".memdignore")
    found = scan(workspace)
    assert len(found.files) == 3 and "not a regular file" in found.skipped[".memdignore"]


def test_the_doctor_says_of_a_file_why_it_is_memory_or_is_not(served: Home, memory: Client, workspace: Path) -> None:
    odd = {"memory/odd.md": "---\nimportance: 80\n---\n\n## Odd\n\ntext\n"}
    write_notes(workspace, DRAFTS | odd | {"src/notes.md": "text", "memory/.hidden.md": "text"})
    (workspace / "memory/blob.md").write_bytes(bytes(range(256)) * 100)
    (workspace / ".memdignore").write_text("drafts/\n")
    memory.sync()

    def told(path: str, cwd: Path = workspace) -> str:
        done = served.run("doctor", path, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[0]

    reasons = {
        "MEMORY.md": "ok      agent: MEMORY.md: taken in by the glob MEMORY.md",
        "memory/drafts/plan.md": "warning agent: memory/drafts/plan.md: left out: excluded by .memdignore: drafts/",
        "src/notes.md": "warning agent: src/notes.md: left out: it matches none of the globs of agent: MEMORY.md",
        "memory/.hidden.md": "warning agent: memory/.hidden.md: left out: it is hidden",
        "memory/blob.md": "warning agent: memory/blob.md: left out: it is binary",
        "memory/none.md": "warning agent: memory/none.md: left out: there is no such file",
        "memory/odd.md": "warning agent: memory/odd.md: taken in by the glob memory/**/*.md; `importance` must be",
    }
    for path, reason in reasons.items():
        assert told(path).startswith(reason)
    assert "it is in no workspace" in told("/etc/hostname")
    assert served.run("status").stdout.count("left out  agent: memory/drafts/ (excluded by .memdignore: drafts/)") == 1
    memory.close()
    served.stop()
    for path, reason in reasons.items():
        assert told(path).startswith(reason), "the same without a daemon"


def test_add_excludes_from_the_command_line(home: Home, workspace: Path) -> None:
    write_notes(workspace, DRAFTS)
    done = home.run("add", str(workspace), "--exclude", "drafts/", "--exclude", "2026-02-17.md")
    assert done.returncode == 0, done.stderr
    assert "4 files" in done.stdout
    shown = home.run("config", "show").stdout
    assert 'exclude = ["drafts/", "2026-02-17.md"]' in shown and "gitignore = false" in shown


@pytest.mark.parametrize("path", ["memory/a\0b/c.md", f"memory/{'x' * 300}/c.md"])
def test_a_path_that_no_file_can_have_is_not_found(memory: Client, path: str) -> None:
    with pytest.raises(NotFound):
        memory.get(path=path)
