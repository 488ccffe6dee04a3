"""What agents keep by themselves: found where it stands, live, and each the memory of its project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memd.errors import Refused
from memd.protocol.client import Client
from tests.conftest import Home, write_notes
from tests.faults.agreement import eventually
from tests.test_hooks import context, hook

KEY = "## Deploy\n\nThe deploy key lives in vault seven.\n"
ASKED = "where does the deploy key live"


def claude_folder(home: Path, project: Path) -> Path:
    """The folder that Claude Code has for a project."""
    return home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(project)) / "memory"


@pytest.fixture
def person(home: Home, tmp_path: Path) -> Home:
    home.env |= {"HOME": str(tmp_path)}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCLAW_STATE_DIR"):
        home.env.pop(name, None)
    return home


def test_what_claude_code_keeps_is_the_memory_of_its_project_and_live(person, tmp_path):
    project, other = tmp_path / "my.app_x", tmp_path / "other"
    for place in (project / "src", other):
        place.mkdir(parents=True)
    folder = write_notes(claude_folder(tmp_path, project), {"MEMORY.md": KEY})
    write_notes(claude_folder(tmp_path, tmp_path / "gone"), {"MEMORY.md": "## Gone\n\nIt was removed.\n"})
    claude_folder(tmp_path, other).mkdir(parents=True)
    done = person.run("add", "--claude-memory")
    assert done.returncode == 0 and f"claude:my.app_x is watched now ({folder})" in done.stdout
    assert done.stdout.count("is watched now") == 1 and "not clear which directory" in done.stderr
    assert f'project = "{project}"' in (person.path / "config.toml").read_text()
    assert "nothing new is kept there" in person.run("add", "--claude-memory").stdout
    assert "vault seven" in person.run("query", ASKED, cwd=project / "src").stdout
    (folder / "people.md").write_text("## Ada\n\nThe zebrafish of Ada is called Emil.\n")
    eventually(lambda: "Emil" in person.run("query", "zebrafish", cwd=project).stdout)
    assert "vault seven" in context(hook(person, "user-prompt-submit", {"cwd": str(project), "prompt": ASKED}))
    for place in (other, tmp_path):
        assert not context(hook(person, "user-prompt-submit", {"cwd": str(place), "prompt": ASKED}))


def test_where_the_project_is_a_workspace_too_both_answer_and_its_own_is_written_to(person, tmp_path):
    project = write_notes(tmp_path / "app", {"MEMORY.md": "## Colour\n\nThe colour of the app is teal.\n"})
    folder = write_notes(claude_folder(tmp_path, project), {"MEMORY.md": KEY})
    person.run("add", str(project))
    person.run("add", "--claude-memory")
    assert "vault seven" in person.run("query", ASKED, cwd=project).stdout
    assert "vault seven" in context(hook(person, "user-prompt-submit", {"cwd": str(project), "prompt": ASKED}))
    assert "is teal" in person.run("get", "MEMORY.md", cwd=project).stdout
    write_notes(folder, {"MEMORY.md": KEY + "\n## Colour\n\nClaude says teal.\n"})
    person.run("sync")
    assert "The colour of the app is teal." in person.run("get", "MEMORY#colour", cwd=project).stdout
    assert "Claude says teal." in person.run("get", "claude:app:MEMORY#colour", cwd=project).stdout
    assert person.run("note", "The parrot is green.", cwd=project).returncode == 0
    assert [file.name for file in folder.iterdir()] == ["MEMORY.md"] and (project / "memory").is_dir()


def test_a_project_inside_a_workspace_is_answered_by_both_and_its_hook_tells_no_other_projects(person, tmp_path):
    code = write_notes(tmp_path / "code", {"MEMORY.md": "## Colour\n\nThe colour of all apps is teal.\n"})
    project = write_notes(code / "app", {"main.py": "pass\n"})
    write_notes(claude_folder(tmp_path, project), {"MEMORY.md": KEY})
    person.run("add", str(code))
    person.run("add", "--claude-memory")
    assert "vault seven" in person.run("query", ASKED, cwd=project).stdout
    assert "is teal" in person.run("query", "colour of all apps", cwd=project).stdout
    assert person.run("note", "The parrot is green.", cwd=project).returncode == 0 and (code / "memory").is_dir()
    assert "vault" not in str(hook(person, "user-prompt-submit", {"cwd": str(code / "other"), "prompt": ASKED}))


def test_a_name_that_two_directories_could_have_is_bound_to_none(person, tmp_path):
    for place in ("my/app", "my-app"):
        (tmp_path / place).mkdir(parents=True)
    write_notes(claude_folder(tmp_path, tmp_path / "my-app"), {"MEMORY.md": KEY})
    done = person.run("add", "--claude-memory")
    assert "not clear which directory" in done.stderr and "nothing new" in done.stdout


ABOUT_ONE = ["--glob=*.md", "--ns=mine", "--exclude=x/", "--project=app", "--preset=obsidian", "--follow", "app"]


@pytest.mark.parametrize("given", ABOUT_ONE)
def test_what_is_said_of_one_directory_is_refused_beside_what_agents_keep(person, tmp_path, given):
    (tmp_path / "app").mkdir()
    write_notes(claude_folder(tmp_path, tmp_path / "app"), {"MEMORY.md": KEY})
    done = person.run("add", "--claude-memory", given, cwd=tmp_path)
    assert done.returncode == 2 and "leave the other options out" in done.stderr
    assert "claude:app is watched now" in person.run("add", "--claude-memory", cwd=tmp_path).stdout


def test_what_other_agents_keep_is_found_too(person, tmp_path):
    project = tmp_path / "app"
    project.mkdir()
    write_notes(tmp_path / ".codex/memories", {"MEMORY.md": KEY, "raw_memories.md": KEY, "skills/x.md": KEY})
    write_notes(tmp_path / ".gemini", {"GEMINI.md": "## Gemini Added Memories\n- Ada likes tea.\n"})
    write_notes(tmp_path / ".gemini/tmp/app", {"memory/MEMORY.md": KEY, ".project_root": str(project)})
    write_notes(tmp_path / ".openclaw/workspace", {"MEMORY.md": KEY, "AGENTS.md": "## Rules\n\nBe kind.\n"})
    done = person.run("add", "--codex-memory", "--gemini-memory", "--openclaw-memory")
    names = re.findall(r"^(\S+) is watched now .*: (\d+) file", done.stdout, re.MULTILINE)
    assert sorted(names) == [
        ("codex:memories", "1"),
        ("gemini:app", "1"),
        ("gemini:gemini", "1"),
        ("openclaw:workspace", "1"),
    ]
    assert "vault seven" in person.run("query", ASKED, cwd=project).stdout
    found = person.run("query", ASKED, cwd=tmp_path / ".openclaw/workspace").stdout
    assert "vault seven" in found


def test_two_projects_of_one_name_are_told_apart(person, tmp_path):
    for place in ("one/app", "two/app"):
        (tmp_path / place).mkdir(parents=True)
        write_notes(claude_folder(tmp_path, tmp_path / place), {"MEMORY.md": KEY})
    done = person.run("add", "--claude-memory")
    assert "claude:app is" in done.stdout and "claude:two-app is" in done.stdout


def test_a_folder_of_a_workspace_that_is_a_project_still_holds_files_of_the_workspace(home, memory, tmp_path):
    code = write_notes(tmp_path / "code", {"MEMORY.md": KEY, "app/incoming.md": "## Bird\n\nThe parrot is blue.\n"})
    kept = write_notes(tmp_path / "kept", {"MEMORY.md": KEY})
    memory.workspace_add(str(code), globs=["**/*.md"])
    memory.workspace_add(str(kept), project=str(code / "app"))
    with Client(str(home.socket)) as bound:
        bound.hello(bind="code")
        assert bound.ingest([str(code / "app/incoming.md")])["ns"] == ["code"]
        with pytest.raises(Refused, match="another workspace"):
            bound.ingest([str(kept / "MEMORY.md")])
