"""A team's notes are a layer below one's own: in every answer, never in the way, and changed by review only."""

from __future__ import annotations

from pathlib import Path

import pytest

from memd.errors import AlreadyExists, Refused, SecretFound
from memd.protocol.client import Client
from tests.conftest import Home, write_notes
from tests.test_several_machines import commit_all, git

TEAM_NOTES = {
    "team/deploy.md": "# Deploy\n\nThe plover ships on Fridays, with the green button.\n",
    "team/oncall.md": "# On call\n\nThe sandpiper rota is in the wiki.\n",
    "memory/2026-02-17.md": "# 2026-02-17\n\n## Deploy\n\nThe plover never ships on Fridays. Ask Otto.\n",
}
DEPLOY = "2026-02-17#deploy"


@pytest.fixture
def shared(workspace: Path, memory: Client) -> Path:
    """A repository with notes of a team and one's own."""
    write_notes(workspace, TEAM_NOTES)
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "config", "user.name", "me")
    git(workspace, "config", "user.email", "me@example.org")
    commit_all(workspace)
    memory.sync()
    return workspace


def test_hits_say_their_layer_and_ones_own_comes_first(home: Home, shared: Path, memory: Client) -> None:
    hits = memory.query("plover ships Fridays green button", mode="text")["hits"]
    assert [(hit["path"], hit["layer"]) for hit in hits[:2]] == [
        ("memory/2026-02-17.md", "own"),
        ("team/deploy.md", "team"),
    ]
    shown = home.run("query", "sandpiper", "-n", "agent").stdout.splitlines()[0]
    assert "team/oncall.md:1  oncall" in shown and shown.endswith("team")
    # Where both say the same, one's own is the hit.
    text = TEAM_NOTES["team/oncall.md"].replace("# On call", "## On call")
    (shared / "memory/2026-02-18.md").write_text(f"# 2026-02-18\n\n{text}")
    memory.sync()
    (hit,) = memory.query("sandpiper rota", mode="text")["hits"]
    assert (hit["path"], hit["layer"], hit["also"][0]["path"]) == ("memory/2026-02-18.md", "own", "team/oncall.md")


def test_the_teams_notes_change_by_review_and_ones_own_version_wins(shared: Path, memory: Client) -> None:
    for key in ("team/oncall.md", "oncall"):
        assert "sandpiper" in memory.get(key)["text"]
    with pytest.raises(Refused, match="it changes by review"):
        memory.put("team/oncall.md", "Mine now.")
    (shared / "team/ops.md").write_text("# Ops\n\n## Oncall\n\nThe heron is on call.\n")
    memory.sync()
    with pytest.raises(Refused, match=r"team/ops.md is the team's: it changes by review") as told:
        memory.put("ops#oncall", "Mine.")
    assert "write your own" in told.value.hint
    memory.put("oncall", "My own rota.")
    memory.sync()
    assert memory.get("oncall")["path"] == "memory/topics/oncall.md"
    assert (shared / "team/oncall.md").read_text() == TEAM_NOTES["team/oncall.md"]


def test_a_proposal_is_a_commit_on_a_branch_and_disturbs_nothing(home: Home, shared: Path, memory: Client) -> None:
    (shared / "MEMORY.md").write_text("# Being edited\n")
    git(shared, "add", "MEMORY.md")
    before = (
        git(shared, "status", "--porcelain"),
        git(shared, "rev-parse", "HEAD"),
        (shared / "team/deploy.md").read_text(),
    )
    shown = home.run("propose", DEPLOY, "-n", "agent")
    assert "team/deploy.md changed on the branch memd/deploy" in shown.stdout, shown.stderr
    assert (
        git(shared, "status", "--porcelain"),
        git(shared, "rev-parse", "HEAD"),
        (shared / "team/deploy.md").read_text(),
    ) == before
    assert git(shared, "show", "memd/deploy:team/deploy.md").startswith("# Deploy\n\nThe plover never ships")
    assert git(shared, "diff", "--name-only", "main", "memd/deploy") == "team/deploy.md"
    with pytest.raises(AlreadyExists, match="a branch memd/deploy already"):
        memory.propose(DEPLOY)
    assert memory.propose(DEPLOY, branch="again", message="Ship later")["changed"]
    git(shared, "merge", "-q", "memd/deploy")
    with pytest.raises(AlreadyExists, match="says the same already"):
        memory.propose(DEPLOY, branch="third")
    with pytest.raises(Refused, match="the team's already"):
        memory.propose("team/deploy.md")


def test_secrets_do_not_reach_the_team(shared: Path, memory: Client) -> None:
    token = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    (shared / "memory/2026-02-18.md").write_text(f"# 2026-02-18\n\n## Login\n\nUse {token} there.\n")
    memory.sync()
    with pytest.raises(SecretFound):
        memory.propose("2026-02-18#login")
    assert "memd/login" not in git(shared, "branch")


def test_a_folder_of_that_name_is_no_layer_where_the_globs_do_not_name_it(
    home: Home, shared: Path, memory: Client
) -> None:
    memory.workspace_rm(ns="agent")
    memory.workspace_add(str(shared), ns="vault", globs=["**/*.md"])
    assert memory.query("sandpiper", mode="text")["hits"][0]["layer"] == "own"
    memory.put("oncall", "Mine now.")
    assert "Mine now." in (shared / "team/oncall.md").read_text()
