"""Keyed memories: put, patch and removed; their versions, their time to live, their files and their tags."""

from __future__ import annotations

import difflib
import json
import os
import re
import threading
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memd.errors import (
    ContextMismatch,
    MalformedPatch,
    NotFound,
    Refused,
    SecretFound,
    UsageError,
    VersionConflict,
)
from memd.indexer.language.question import parse
from memd.indexer.query import hits, signals
from memd.indexer.store import catalog
from memd.models import Ask
from memd.protocol.client import Client
from tests.conftest import NOTES, PATIENCE, ROOT, Home, write_notes
from tests.written import opened, sync

DEPLOY = "memory/topics/deploy.md"
LONG = (
    "The staging server is rebuilt every night from the main branch, and the database is restored from the last backup "
    "before the migrations run."
)


@pytest.fixture
def memory(home: Home, workspace: Path) -> Client:
    client = home.start()
    client.workspace_add(workspace)
    return client


def keys_found(client: Client, query: str, **how: Any) -> list[str]:
    """By word, unless it is said otherwise: what only comes near depends on which vectors are made already."""
    return [hit["key"] for hit in client.query(query, **{"mode": "text", **how})["hits"]]


# --- put ------------------------------------------------------------------------------------------------------


def test_a_put_is_a_topic_file_that_is_found_at_once(memory: Client, workspace: Path) -> None:
    done = memory.put("deploy", "Run make ship.", tags=["ops", "web"], kind="procedural", pinned=True, importance=0.8)
    assert (workspace / DEPLOY).read_text() == (
        "---\nkind: procedural\ntags:\n- ops\n- web\nimportance: 0.8\npinned: true\n---\n\nRun make ship.\n"
    )
    assert (done["key"], done["paths"], done["version"], done["written"]) == ("deploy", [DEPLOY], 1, True)
    assert "deploy" in keys_found(memory, "make ship", kind="procedural")
    told = memory.get("deploy")
    assert (told["version"], told["supersedes"], told["estimated_tokens"]) == (1, None, 4)
    assert told["declared"]["pinned"] is True and told["tags"] == ["ops", "web"]


def test_an_importance_of_zero_is_shown(memory: Client) -> None:
    memory.put("chatter", "The kettle whistles.", importance=0)
    assert memory.get("chatter")["declared"] == {"importance": 0.0}
    files = memory.call("export", {"ns": "agent"})["files"]
    (exported,) = (one for file in files for one in file["memories"] if one["key"] == "chatter")
    assert exported["declared"] == {"importance": 0.0}


def test_a_second_put_is_the_next_version_and_keeps_what_was_declared(memory: Client, workspace: Path) -> None:
    memory.put("deploy", "Run make ship.", tags=["ops"])
    before = (workspace / DEPLOY).read_text()
    done = memory.put("deploy", "Run make deliver.")
    assert done["version"] == 2
    assert (workspace / DEPLOY).read_text() == before.replace("ship", "deliver")
    told = memory.get("deploy")
    assert (told["version"], told["supersedes"], told["text"]) == (2, 1, "Run make deliver.")
    old = memory.get("deploy", version=1)
    assert (old["text"], old["who"], old["current"], old["supersedes"]) == ("Run make ship.", "python", False, None)
    with pytest.raises(NotFound, match="no version 7 with a text"):
        memory.get("deploy", version=7)


def test_a_put_without_a_text_changes_facts_only(memory: Client, workspace: Path) -> None:
    memory.put("sourdough", tags=["bread"], priority="high")
    assert (workspace / "memory/topics/sourdough.md").read_text() == (
        "---\ntitle: Sourdough\ntags: [bread]\npriority: high\n---\n\nFeed the starter daily.\n"
    )
    assert memory.get("sourdough")["version"] == 1
    memory.put("sourdough", pinned=True)
    memory.put("sourdough", pinned=False)
    assert "pinned" not in (workspace / "memory/topics/sourdough.md").read_text()
    with pytest.raises(UsageError, match="nothing to put"):
        memory.put("sourdough")
    with pytest.raises(NotFound, match="no text was given"):
        memory.put("sourdogh", tags=["bread"])


def test_a_put_on_a_sections_key_edits_that_section_and_nothing_else(memory: Client, workspace: Path) -> None:
    path = "memory/2026-02-15.md"
    done = memory.put("2026-02-15#ersatztv", "It runs on port 8410.", tags=["tv"], importance=0.5)
    assert (workspace / path).read_text() == NOTES[path].replace(
        "\n\nSet up the ErsatzTV skill for Pierce.\nThe API endpoint is http://192.0.2.18:8409.\n",
        "\n<!-- memd: tags=tv importance=0.5 -->\n\nIt runs on port 8410.\n",
    )
    assert done["version"] == 2 and done["paths"] == [path]
    assert memory.get("2026-02-15#ersatztv")["tags"] == ["tv"]
    assert memory.get("2026-02-15#garden")["version"] == 1


def test_what_get_prints_can_be_put_back(home: Home, memory: Client, workspace: Path) -> None:
    before = {path: (workspace / path).read_bytes() for path in NOTES}
    for key in ("2026-02-15#ersatztv", "sourdough", "MEMORY#preferences"):
        text = home.run("get", key, cwd=workspace).stdout
        assert home.run("put", key, "-", input=text, cwd=workspace).returncode == 0
    assert {path: (workspace / path).read_bytes() for path in NOTES} == before


def test_a_memory_whose_heading_and_text_are_put_at_once_is_the_same(memory: Client, workspace: Path) -> None:
    first = memory.history("2026-02-15#garden")["versions"]
    done = memory.put("2026-02-15#garden", "## Orchard\n\nNothing of what it said.")
    assert (done["key"], done["version"]) == ("2026-02-15#orchard", 2)
    told = memory.history("2026-02-15#orchard")["versions"]
    assert [one["version"] for one in told] == [2, 1] and told[1]["at"] == first[0]["at"]
    assert memory.trash()["memories"] == []
    memory.undo()
    assert [one["version"] for one in memory.history("2026-02-15#garden")["versions"]] == [3, 2, 1]
    # An editor may as well have removed one section and written another.
    note = workspace / "memory/2026-02-15.md"
    note.write_text(note.read_text().partition("## Garden")[0] + "## Hedge\n\nSomething else.\n")
    memory.sync()
    assert [one["key"] for one in memory.trash()["memories"]] == ["2026-02-15#garden"]


def test_the_version_of_a_put_is_its_own_where_a_twin_has_its_former_key(memory: Client, workspace: Path) -> None:
    write_notes(workspace, {"memory/dups.md": "# D\n\n## Pear\n\none\n\n## Pear\n\ntwo\n"})
    memory.sync()
    done = memory.put("dups#pear", "## Melon\n\nmelon")
    assert (done["key"], done["version"]) == ("dups#melon", 2)


def test_blanks_at_the_end_of_a_text_do_not_pile_up(home: Home, memory: Client, workspace: Path) -> None:
    for key in ("blanks", "2026-02-15#garden"):
        for _ in range(3):
            memory.put(key, "One line  ")
        path = memory.get(key)["path"]
        assert (workspace / path).read_text().count("One line\n") == 1


def test_a_byte_order_mark_is_no_part_of_a_text(home: Home, memory: Client, workspace: Path) -> None:
    for text in ("\ufeffThe first ocelot.", "\ufeffThe second ocelot."):
        assert "(version " in home.run("put", "marked", "-", input=text, cwd=workspace).stdout
    assert (workspace / "memory/topics/marked.md").read_text() == "The second ocelot.\n"
    assert memory.get("marked")["version"] == 2


def test_bytes_that_are_not_utf8_are_not_lost_by_putting_back_what_get_prints(memory: Client, workspace: Path) -> None:
    note = workspace / "memory/2026-02-15.md"
    data = NOTES["memory/2026-02-15.md"].encode().replace(b"two apple", b"two pomm\xe9")
    note.write_bytes(data)
    memory.sync()
    shown = memory.get("2026-02-15#garden")["text"]
    assert "pomm\ufffd" in shown
    with pytest.raises(Refused, match="they would be lost"):
        memory.put("2026-02-15#garden", shown)
    memory.put("2026-02-15#garden", pinned=True)
    with pytest.raises(Refused, match="they would be lost"):
        memory.restore("2026-02-15#garden", version=2)
    assert b"two pomm\xe9" in note.read_bytes()
    memory.put("2026-02-15#ersatztv", "A word with \ufffd in it.")
    assert b"two pomm\xe9" in note.read_bytes(), "another section is written"
    memory.put("2026-02-15#garden", "Two apple trees.")
    memory.undo()
    assert b"two pomm\xe9" in note.read_bytes()


def test_a_version_that_was_expected_and_is_not_there_is_a_conflict_that_names_it(memory: Client) -> None:
    memory.put("deploy", "one", if_version=0)
    with pytest.raises(VersionConflict, match="is at version 1, not 0"):
        memory.put("deploy", "two", if_version=0)
    assert memory.put("deploy", "two", if_version=1)["version"] == 2
    with pytest.raises(VersionConflict, match="is at version 2, not 1"):
        memory.put("deploy", "three", if_version=1)
    with pytest.raises(VersionConflict, match="does not exist yet, not 3"):
        memory.put("other", "x", if_version=3)
    assert memory.get("deploy")["text"] == "two"


def test_of_many_who_expect_one_version_only_one_writes(home: Home, memory: Client, workspace: Path) -> None:
    memory.put("counter", "0")
    writers, rounds = 4, 10
    done: list[int] = []

    def count() -> None:
        with Client(str(home.socket)) as client:
            while len(done) < rounds:
                told = client.get("counter", ns="agent")
                try:
                    client.put("counter", str(int(told["text"]) + 1), if_version=told["version"], ns="agent")
                    done.append(1)
                except VersionConflict:
                    continue

    threads = [threading.Thread(target=count) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.get("counter")["text"] == str(len(done))


def test_an_editors_change_that_the_daemon_has_not_seen_is_a_conflict_too(memory: Client, workspace: Path) -> None:
    memory.put("deploy", "one")
    (workspace / DEPLOY).write_text("two\n")
    with pytest.raises(VersionConflict):
        memory.put("deploy", "three", if_version=1)
    assert (workspace / DEPLOY).read_text() == "two\n"


def test_a_request_that_is_sent_twice_is_one_deed(memory: Client, workspace: Path) -> None:
    first = memory.put("deploy", "one", if_version=0, request_id="r-1")
    again = memory.put("deploy", "one", if_version=0, request_id="r-1")
    assert again["repeated"] and again["action"] == first["action"]
    gone = memory.rm("deploy", request_id="r-2")
    assert memory.rm("deploy", request_id="r-2")["action"] == gone["action"]


def test_a_request_id_is_of_one_method_and_one_workspace(memory: Client, workspace: Path, tmp_path: Path) -> None:
    memory.workspace_add(str(write_notes(tmp_path / "other")), ns="other")
    first = memory.put("deploy", "one", request_id="r", ns="agent")
    other = memory.put("deploy", "two", request_id="r", ns="other")
    assert (other["repeated"], other["ns"]) == (False, "other")
    assert (tmp_path / "other" / DEPLOY).read_text() == "two\n"
    assert not memory.note("Walrus.", request_id="r", ns="agent")["repeated"]
    assert not memory.rm("deploy", request_id="r", ns="other")["repeated"]
    assert memory.undo(request_id="r", ns="agent")["undid"]["what"] == "note"
    again = memory.put("deploy", "one", request_id="r", ns="agent")
    assert again["repeated"] and again["action"] == first["action"]


@pytest.mark.parametrize(
    "key", ["../x", "a/b", "a\\b", ".hidden", ".", "x\ny", "2026-02-20", "notes.md", "a.conflict-1"]
)
def test_a_key_that_is_no_name_of_a_file_is_refused(memory: Client, workspace: Path, key: str) -> None:
    before = sorted(workspace.rglob("*"))
    with pytest.raises((UsageError, Refused)):
        memory.put(key, "text")
    assert sorted(workspace.rglob("*")) == before


def test_unknown_keys_suggest_near_ones(memory: Client) -> None:
    with pytest.raises(NotFound) as caught:
        memory.put("2026-02-15#ersatz", "x")
    assert "`2026-02-15#ersatztv`" in caught.value.hint
    with pytest.raises(UsageError, match="several memories") as several:
        memory.put("2026-02-15", "x")
    assert "2026-02-15#" in several.value.hint
    for call in (lambda: memory.rm("sourdogh"), lambda: memory.patch("sourdogh", "@@ -1 +1 @@\n-a\n+b\n")):
        with pytest.raises(NotFound) as near:
            call()
        assert "`sourdough`" in near.value.hint


def test_a_file_without_a_memory_takes_the_text(memory: Client, workspace: Path) -> None:
    (workspace / "memory/empty.md").write_text("")
    (workspace / "memory/titled.md").write_text("---\ntags:\n- ops\n---\n")
    (workspace / "memory/2026-02-20.md").write_text("")
    memory.sync()
    for key, before in (("empty", ""), ("titled", "---\ntags:\n- ops\n---\n\n")):
        assert memory.put(key, "The ibis waits.")["paths"] == [f"memory/{key}.md"]
        assert (workspace / f"memory/{key}.md").read_text() == f"{before}The ibis waits.\n"
        assert memory.get(key)["version"] == 1
    with pytest.raises(UsageError, match="cannot be the key of a new memory"):
        memory.put("2026-02-20", "x")


def test_the_index_of_topics_is_not_for_put(memory: Client, workspace: Path) -> None:
    with (workspace / "MEMORY.md").open("a") as file:
        file.write("\n## Specialized Knowledge\n\n- sourdough: bread\n")
    memory.sync()
    with pytest.raises(Refused, match="index of the topics"):
        memory.put("MEMORY#specialized-knowledge", "x")
    with pytest.raises(Refused):
        memory.rm("MEMORY#specialized-knowledge")


def test_a_secret_needs_a_word(memory: Client, workspace: Path) -> None:
    secret = "the token is ghp_" + "a1B2" * 9
    with pytest.raises(SecretFound):
        memory.put("deploy", secret)
    assert not (workspace / DEPLOY).exists()
    memory.put("deploy", secret, allow_secret=True)
    with pytest.raises(SecretFound):
        memory.patch("sourdough", f"@@ -1 +1,2 @@\n Feed the starter daily.\n+{secret}\n")


@pytest.mark.parametrize(
    "wrong",
    [{"ttl": "soon"}, {"ttl": "0m"}, {"importance": 2}, {"kind": "odd"}, {"priority": "urgent"}, {"files": ["a.py"]},
     {"files": ["a.py:touched"]}, {"tags": ["a,b"]}, {"text": "  "}, {"text": "a\x01b"}],
)  # fmt: skip
def test_what_is_declared_wrongly_is_refused(memory: Client, workspace: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        memory.call("put", {"key": "deploy", "text": "x", "ns": "agent", **wrong})
    assert not (workspace / DEPLOY).exists()


def test_a_workspace_with_knowledge_files_keeps_using_them(home: Home, workspace: Path) -> None:
    (workspace / ".ai-knowledge").mkdir()
    (workspace / ".ai-knowledge" / "index.mdk").write_text("# Specialized Knowledge\n\n- a: b\n")
    client = home.start()
    client.workspace_add(workspace)
    assert client.put("deploy", "x")["paths"] == [".ai-knowledge/deploy.mdk"]
    with pytest.raises((Refused, UsageError)):
        client.put("index", "x")


PAGE = (ROOT / "docs" / "writing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```markdown (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_the_page_shows_what_is_written(memory: Client, workspace: Path) -> None:
    put = memory.put("deploy", "Run make ship on the main branch.", kind="procedural", tags=["ops", "web"],
                     files=["Makefile:read"])  # fmt: skip
    memory.put("visit", "The zeppelin lands on Tuesday.", ttl="30d", now="2026-02-07T14:27")
    memory.put("2026-02-15#ersatztv", "It runs on port 8410.", tags=["tv"], importance=0.8, pinned=True,
               files=["src/tv.py:modified"])  # fmt: skip
    memory.rm("2026-02-15#garden")
    assert f"Put deploy in {put['paths'][0]} (version 1)\n" in PAGE
    for path in (DEPLOY, "memory/topics/visit.md", "memory/2026-02-15.md"):
        assert (workspace / path).read_text() == FILES[path], path


# --- what is there already ------------------------------------------------------------------------------------


def test_a_put_that_nearly_repeats_a_memory_says_so(memory: Client, workspace: Path) -> None:
    memory.put("staging", LONG)
    again = memory.put("servers", LONG.replace("every night", "nightly"))
    assert [one["key"] for one in again["similar"]] == ["staging"] and again["written"]
    assert 0.6 <= again["similar"][0]["overlap"] < 1
    assert (workspace / "memory/topics/servers.md").exists()
    assert memory.put("cats", "A grey cat has lived with them since spring.")["similar"] == []


def test_a_put_that_nearly_repeats_a_memory_can_be_left_or_go_to_it(memory: Client, workspace: Path) -> None:
    memory.put("staging", LONG, tags=["ops"])
    left = memory.put("servers", LONG, on_similar="skip")
    assert (left["written"], left["action"], left["similar"][0]["key"]) == (False, None, "staging")
    went = memory.put("servers", f"{LONG} It takes an hour.", on_similar="update")
    assert (went["key"], went["version"], went["similar"][0]["key"]) == ("staging", 2, "staging")
    assert not (workspace / "memory/topics/servers.md").exists()
    assert memory.get("staging")["tags"] == ["ops"]
    # An edit of the memory itself is no repetition of it.
    assert memory.put("staging", f"{LONG} It takes two hours.", on_similar="skip")["similar"] == []


# --- patch ----------------------------------------------------------------------------------------------------


def test_a_patch_changes_its_lines_and_is_a_version(home: Home, memory: Client, workspace: Path) -> None:
    path = workspace / "memory/2026-02-15.md"
    old = memory.get("2026-02-15#ersatztv")["text"]
    new = old.replace("8409", "8410")
    diff = "".join(f"{line}\n" for line in difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm=""))
    done = home.run("patch", "2026-02-15#ersatztv", "--if-version", "1", input=diff, cwd=workspace)
    assert (done.returncode, done.stdout) == (0, "Patched 2026-02-15#ersatztv (version 2)\n"), done.stderr
    assert path.read_text() == NOTES["memory/2026-02-15.md"].replace("8409", "8410")
    with pytest.raises(ContextMismatch):
        memory.patch("2026-02-15#ersatztv", diff)
    with pytest.raises(MalformedPatch):
        memory.patch("2026-02-15#ersatztv", "8410 → 8411")
    with pytest.raises(VersionConflict):
        memory.patch("2026-02-15#ersatztv", diff, if_version=1)
    with pytest.raises(UsageError, match="leave nothing"):
        memory.patch("sourdough", "@@ -1 +0,0 @@\n-Feed the starter daily.\n")
    assert path.read_text() == NOTES["memory/2026-02-15.md"].replace("8409", "8410")


def test_the_exit_codes_of_patch(home: Home, memory: Client, workspace: Path) -> None:
    def code(diff: str, *more: str) -> int:
        return home.run("patch", "sourdough", *more, input=diff, cwd=workspace).returncode

    assert code("nonsense") == 2
    assert code("@@ -1 +1 @@\n-x\n+y\n") == 5
    assert code("@@ -1 +1 @@\n-Feed the starter daily.\n+y\n", "--if-version", "9") == 5
    assert code("@@ -1 +1 @@\n-Feed the starter daily.\n+Feed it.\n") == 0


# --- rm -------------------------------------------------------------------------------------------------------


def test_a_removed_topic_is_gone_from_the_files_and_stays_in_the_history(memory: Client, workspace: Path) -> None:
    memory.rm("sourdough")
    assert not (workspace / "memory/topics/sourdough.md").exists()
    assert "sourdough" not in keys_found(memory, "starter")
    assert memory.get("sourdough", version=1)["text"] == "Feed the starter daily."
    with pytest.raises(NotFound):
        memory.get("sourdough")


def test_a_removed_section_leaves_the_others_byte_for_byte(memory: Client, workspace: Path) -> None:
    memory.rm("2026-02-15#ersatztv")
    notes = NOTES["memory/2026-02-15.md"]
    assert (workspace / "memory/2026-02-15.md").read_text() == "# 2026-02-15\n\n" + notes[notes.index("## Garden") :]
    assert memory.get("2026-02-15#garden")["version"] == 1


def test_a_removal_can_be_undone_to_the_byte(memory: Client, workspace: Path) -> None:
    for key in ("sourdough", "2026-02-15#ersatztv", "2026-02-15#garden"):
        done = memory.rm(key)
        memory.call("undo", {"action": done["action"], "ns": "agent"})
        assert {path: (workspace / path).read_text() for path in NOTES} == NOTES
        assert memory.get(key)["text"]


def test_hard_leaves_nothing_behind(home: Home, memory: Client, workspace: Path) -> None:
    word = "xylophonist"
    memory.put("quiet", f"The {word} lives next door.")
    memory.put("quiet", f"The {word} moved away.")
    refused = home.run("rm", "quiet", "--hard", cwd=workspace)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    assert memory.get("quiet")["version"] == 2
    done = home.run("rm", "quiet", "--hard", "--yes", "--json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["purged"]["versions"] >= 2
    with pytest.raises(NotFound):
        memory.get("quiet", version=1)
    assert not keys_found(memory, word) and "quiet" not in keys_found(memory, word, mode="hybrid")
    memory.shutdown()
    assert home.daemon is not None
    home.daemon.wait(PATIENCE)
    holding = [
        file for file in home.state.rglob("*") if file.is_file() and word.encode() in file.read_bytes()
        and not file.name.endswith(".log")
    ]  # fmt: skip
    # The first backup by itself may have been made meanwhile; then it is named.
    assert sorted(map(str, holding)) == sorted(one["what"] for one in told["kept"])


def test_hard_also_reaches_what_was_removed_before(memory: Client) -> None:
    memory.rm("sourdough")
    assert memory.rm("sourdough", hard=True)["purged"]["versions"] >= 1
    with pytest.raises(NotFound):
        memory.rm("sourdough", hard=True)


# --- ttl ------------------------------------------------------------------------------------------------------


def ago(**span: float) -> str:
    return (datetime.now() - timedelta(**span)).strftime("%Y-%m-%dT%H:%M")


def test_a_ttl_that_has_run_out_takes_a_memory_out_of_answers_and_lists_it(
    home: Home, memory: Client, workspace: Path
) -> None:
    now = ago(hours=1)
    memory.put("visit", "The zeppelin lands on Tuesday.", ttl="2h", now=now)
    assert keys_found(memory, "zeppelin") == ["visit"]
    assert memory.gc()["expired"] == []
    assert memory.get("visit")["expires"]
    text = (workspace / "memory/topics/visit.md").read_text()
    memory.put("visit", "The zeppelin lands on Tuesday.", ttl="30m", now=now)
    for how in ({"mode": "hybrid"}, {"mode": "text"}, {"mode": "exact"}, {"mode": "vector"}, {"tags": []}):
        assert "visit" not in keys_found(memory, "zeppelin", **how)
    assert memory.bus("zeppelin")["entries"] == []
    assert [one["key"] for one in memory.gc()["expired"]] == ["visit"]
    listed = home.run("gc", cwd=workspace)
    assert listed.returncode == 0 and listed.stdout.startswith("visit  memory/topics/visit.md:")
    why = memory.why_not("memory/topics/visit.md", 6, "zeppelin")
    assert why["reasons"] == ["its ttl has run out: memd gc lists it"]
    # Only where nothing else is found, and it would have been.
    for question, verdict, expired in (
        ("when does the zeppelin land", "none", 1), ("Zeppelin Tuesday router", "weak", 1),
        ("zeppelin router sourdough garden", "weak", 0), ("router", "found", 0), ("xylophone", "none", 0),
    ):  # fmt: skip
        answer = memory.query(question, mode="text")
        assert (answer["verdict"], answer["expired"]) == (verdict, expired), question
    for letters, expired in (("zeppelin lands", 1), ("e", 0), ("xylophone", 0)):
        assert memory.query(letters, mode="exact")["expired"] == expired, letters
    assert memory.query("zeppelin lands", mode="exact", role="daily")["expired"] == 0, "it would not pass the filter"
    told = home.run("query", "--mode", "text", "zeppelin", cwd=workspace)
    assert told.returncode == 1 and "what expired or was deleted would answer: memd gc lists it" in told.stderr
    # Its text stays, and a new put brings it back.
    assert (workspace / "memory/topics/visit.md").read_text() == text.replace("2h", "30m")
    memory.put("visit", ttl="none")
    assert keys_found(memory, "zeppelin") == ["visit"]


def test_a_memory_is_an_answer_for_at_least_the_ttl_that_was_asked_for(memory: Client) -> None:
    asked = datetime.now().astimezone()
    memory.put("visit", "The zeppelin lands on Tuesday.", ttl="1m")
    assert asked + timedelta(minutes=1) <= datetime.fromisoformat(memory.get("visit")["expires"])


def test_a_ttl_that_someone_wrote_into_a_note_counts_from_its_day(memory: Client, workspace: Path) -> None:
    today = f"{datetime.now():%Y-%m-%d}"
    for day in ("2020-01-01", today):
        text = f"## Lost\n<!-- memd: ttl=30d -->\n\nkohlrabi of {day}\n\n## Kept\n\nturnips of {day}\n"
        (workspace / "memory" / f"{day}.md").write_text(text)
    memory.sync()
    assert keys_found(memory, "kohlrabi", mode="text") == [f"{today}#lost"]
    assert sorted(keys_found(memory, "turnips", mode="text")) == ["2020-01-01#kept", f"{today}#kept"]
    assert [one["key"] for one in memory.gc()["expired"]] == ["2020-01-01#lost"]


def test_gc_hard_forgets_what_has_run_out_after_asking(home: Home, memory: Client, workspace: Path) -> None:
    memory.put("visit", "The zeppelin lands on Tuesday.", ttl="30m", now=ago(hours=1))
    assert home.run("gc", "--hard", cwd=workspace).returncode == 2
    assert memory.gc()["expired"]
    done = home.run("gc", "--hard", "--yes", cwd=workspace)
    assert done.returncode == 0 and done.stdout.startswith("Forgot visit for good"), done.stderr
    assert memory.gc()["expired"] == []
    assert not (workspace / "memory/topics/visit.md").exists()
    with pytest.raises(NotFound):
        memory.get("visit", version=1)


# --- files ----------------------------------------------------------------------------------------------------


def test_memories_know_their_files_and_files_their_memories(home: Home, memory: Client, workspace: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "src" / "ship.py").touch()
    memory.put("deploy", "How it is shipped.", files=["src/ship.py:modified"])
    assert "files:\n- src/ship.py:modified\n" in (workspace / DEPLOY).read_text()
    done = home.run("files", "2026-02-15#garden", "--add", "ship.py", "--rel", "read", cwd=workspace / "src")
    assert (done.returncode, done.stdout) == (0, "read  src/ship.py\n"), done.stderr
    assert "<!-- memd: files=src/ship.py:read -->" in (workspace / "memory/2026-02-15.md").read_text()
    for place in ("src/ship.py", "src", str(workspace / "src" / "ship.py")):
        told = memory.files(touching=place)["memories"]
        assert {(one["key"], one["rel"]) for one in told} == {("deploy", "modified"), ("2026-02-15#garden", "read")}
    assert memory.files(touching="src/other.py")["memories"] == []
    assert "deploy" in keys_found(memory, "ship.py")
    home.run("put", "deploy", "--file", "ship.py:deleted", "--file", "/etc/hosts:read", cwd=workspace / "src")
    assert memory.files("deploy")["files"] == [
        {"file": "src/ship.py", "rel": "deleted"}, {"file": "/etc/hosts", "rel": "read"},
    ]  # fmt: skip
    assert home.run("files", cwd=workspace).returncode == 2


# --- tags -----------------------------------------------------------------------------------------------------


def test_tags_are_counted(home: Home, memory: Client, workspace: Path) -> None:
    memory.put("cakes", "Butter first.", tags=["Baking"])
    assert memory.tag_list()["tags"] == [
        {"tag": "baking", "memories": 2}, {"tag": "bread", "memories": 1}, {"tag": "style", "memories": 1},
    ]  # fmt: skip
    assert home.run("tags", cwd=workspace).stdout == "    2  baking\n    1  bread\n    1  style\n"


def test_a_tag_is_renamed_everywhere_as_one_action(home: Home, memory: Client, workspace: Path) -> None:
    memory.put("2026-02-15#garden", tags=["baking"])
    with (workspace / "memory/2026-02-16.md").open("a") as file:
        file.write("\n## Kitchen\n\nMore #baking, `#baking` in code.\n")
    memory.sync()
    files = [workspace / path for path in NOTES]
    before = {file: file.read_bytes() for file in files}
    shown = home.run("tags", "rename", "baking", "oven", "--dry-run", cwd=workspace)
    assert shown.returncode == 0
    for line in ("-tags: [baking, bread]", "+tags: [oven, bread]", "+<!-- memd: tags=oven -->",
                 "+More #oven, `#baking` in code."):  # fmt: skip
        assert f"{line}\n" in shown.stdout
    assert {file: file.read_bytes() for file in files} == before
    done = memory.tag_rename("#Baking", "oven")
    assert sorted(done["paths"]) == ["memory/2026-02-15.md", "memory/2026-02-16.md", "memory/topics/sourdough.md"]
    counted = {one["tag"]: one["memories"] for one in memory.tag_list()["tags"]}
    assert counted == {"oven": 3, "bread": 1, "style": 1}
    undone = memory.call("undo", {"action": done["action"], "ns": "agent"})
    assert len(undone["paths"]) == 3
    assert {file: file.read_bytes() for file in files} == before


@pytest.mark.parametrize("tag", ["Übung", "Дача", "Éclair", "İstanbul", "garten"])
def test_a_tag_is_found_by_every_filter_in_any_case_and_script(memory: Client, workspace: Path, tag: str) -> None:
    (workspace / "memory/piano.md").write_text(f"---\ntags: [{tag}, work]\n---\nPiano practice.\n")
    memory.sync()
    for asked in (tag, f"#{tag}", tag.replace("Ü", "ü").replace("Д", "д").replace("É", "é").upper()[:1] + tag[1:]):
        assert [hit["path"] for hit in memory.query(f"tag:{asked}")["hits"]] == ["memory/piano.md"], asked
        assert [hit["path"] for hit in memory.query("piano", tags=[asked])["hits"]] == ["memory/piano.md"]
        assert [one["path"] for one in memory.list(tags=[asked])["memories"]] == ["memory/piano.md"]


def test_a_tag_is_taken_away(memory: Client, workspace: Path) -> None:
    memory.tag_rm("style")
    assert (workspace / "MEMORY.md").read_text() == NOTES["MEMORY.md"].replace(" #style", "")
    memory.tag_rm("baking")
    assert "tags: [bread]" in (workspace / "memory/topics/sourdough.md").read_text()
    with pytest.raises(NotFound) as caught:
        memory.tag_rm("bred")
    assert "bread" in caught.value.hint
    with pytest.raises(UsageError):
        memory.tag_rename("bread", "two words")


# --- the command line -----------------------------------------------------------------------------------------


def test_the_commands_say_what_they_did(home: Home, memory: Client, workspace: Path) -> None:
    put = home.run("put", "deploy", "Run", "make", "ship.", "--tags", "ops,web", "--pin", "--ttl", "30d", cwd=workspace)
    assert (put.returncode, put.stdout) == (0, f"Put deploy in {DEPLOY} (version 1)\n"), put.stderr
    text = (workspace / DEPLOY).read_text()
    assert text.startswith("---\ntags:\n- ops\n- web\n") and "ttl: 30d\n" in text and "last_updated: " in text
    conflict = home.run("put", "deploy", "x", "--if-version", "4", cwd=workspace)
    assert conflict.returncode == 5 and "is at version 1, not 4" in conflict.stderr
    again = home.run("put", "delivery", "Run make ship.", "--on-similar", "skip", cwd=workspace)
    assert (again.returncode, again.stdout) == (0, "Nothing was written\n") and "`deploy`" in again.stderr
    told = json.loads(home.run("get", "deploy", "--json", cwd=workspace).stdout)
    assert told["version"] == 1 and told["declared"]["ttl"] == "30d"
    assert home.run("get", "deploy", "--version", "1", cwd=workspace).stdout == "Run make ship.\n"
    gone = home.run("rm", "deploy", cwd=workspace)
    assert gone.returncode == 0 and not (workspace / DEPLOY).exists()
    assert home.run("rm", "deploy", cwd=workspace).returncode == 1


def test_who_wrote_it_is_known(home: Home, memory: Client, workspace: Path) -> None:
    home.run("put", "deploy", "one", cwd=workspace)
    assert memory.get("deploy", version=1)["who"] == "cli"
    (workspace / DEPLOY).write_text("two\n")
    memory.sync()
    assert memory.get("deploy", version=2)["who"] == "editor"


def test_ns_is_another_name_for_workspaces(home: Home, memory: Client, workspace: Path) -> None:
    memory.sync(vectors=True)
    assert home.run("ns", "list").stdout == home.run("workspaces").stdout != ""
    assert home.run("ns", "rm", "agent").returncode == 0
    assert memory.workspace_list()["workspaces"] == [] and (workspace / "MEMORY.md").exists()


def test_a_write_outside_of_workspaces_needs_a_name(home: Home, memory: Client, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "memory").mkdir(parents=True)
    memory.workspace_add(other)
    assert home.run("put", "deploy", "x", cwd=tmp_path).returncode == 2
    assert home.run("put", "deploy", "x", "-n", "other", cwd=tmp_path).returncode == 0
    assert (other / DEPLOY).exists()


def test_a_file_that_cannot_be_written_is_left_and_said(memory: Client, workspace: Path) -> None:
    os.link(workspace / "memory/topics/sourdough.md", workspace / "other-name")
    with pytest.raises(Refused, match="hard links"):
        memory.put("sourdough", "x")
    with (workspace / "MEMORY.md").open("a") as file:
        file.write("\nCakes. #baking\n")
    memory.sync()
    before = (workspace / "MEMORY.md").read_bytes()
    with pytest.raises(Refused, match="hard links"):
        memory.tag_rename("baking", "oven")
    # What was changed before it failed is taken back: all files or none.
    assert (workspace / "MEMORY.md").read_bytes() == before
    assert (workspace / "other-name").read_text() == NOTES["memory/topics/sourdough.md"]


def test_a_chunk_that_goes_while_a_question_is_answered_is_no_hit(tmp_path: Path) -> None:
    stores, index = opened(tmp_path / "state", write_notes(tmp_path / "agent"))
    sync(stores, index)
    columns, question = index.columns, parse("tea", date(2026, 2, 16))
    every: list[int] = columns.ranked.chunk.tolist()
    with stores.ledger.write() as connection:
        catalog.drop(connection, "chunks", every[:1])
    found = signals.weigh(index, columns, columns.shown(every), question, None, None, 8)
    shown = hits.answer(stores, Ask("tea", ("agent",), 50), found, 1.0)
    assert sorted(hit.id for hit in (*shown.hits, *shown.near)) == sorted(every[1:])


def test_a_file_whose_name_has_a_number_sign_is_reached_by_its_keys(
    memory: Client, workspace: Path, home: Home
) -> None:
    (workspace / "memory/a#b.md").write_text("## Kiwi\n\ngreen kiwi\n")
    (workspace / "memory/c#d.md").write_text("brown kiwi\n")
    memory.sync()
    keys = [row["key"] for row in memory.list(path="memory/*#*")["memories"]]
    assert sorted(keys) == ["a#b#kiwi", "c#d"]
    for key, place in (("a#b#kiwi", "memory/a#b.md"), ("c#d", "memory/c#d.md:1")):
        assert "kiwi" in memory.get(key)["text"] and "kiwi" in home.run("get", place).stdout
        memory.put(key, f"the kiwi of {key}")
        assert memory.get(key, as_of=datetime.now().astimezone().isoformat())["text"].endswith(f"the kiwi of {key}")
        assert len(memory.history(key)["versions"]) == 2
        memory.rm(key)
        memory.restore(key)
        assert memory.get(key)["text"].endswith(f"the kiwi of {key}")
    (workspace / "memory/a#b.md").unlink()
    memory.sync()
    assert home.run("restore", "memory/a#b.md").returncode == 0
    assert (workspace / "memory/a#b.md").read_text().endswith("the kiwi of a#b#kiwi\n")


def test_the_path_of_a_file_of_several_memories_is_not_its_first_one(memory: Client, workspace: Path) -> None:
    text = "# Z\n\nbefore\n\n## One\n\nfirst\n"
    (workspace / "memory/z.md").write_text(text)
    memory.sync()
    assert memory.get(path="memory/z.md")["text"] == text
    for write in (lambda: memory.put("memory/z.md", text), lambda: memory.rm("memory/z.md")):
        with pytest.raises(UsageError, match="is a file of several memories") as refused:
            write()
        assert refused.value.hint == "the text before its sections is `z`"
    memory.put("z", "# Z\n\nafter")
    assert (workspace / "memory/z.md").read_text() == text.replace("before", "after")
