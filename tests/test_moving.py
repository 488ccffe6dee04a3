"""Memories that move: export and import, what other tools keep, and backups of the ledger."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from memd.errors import MemdError, NoDaemon, NotFound, SecretFound, StoreBroken, UnknownWorkspace, UsageError
from memd.indexer.maintenance import backups
from memd.indexer.store.ledger import Ledger
from memd.indexer.transfer.export import SCHEMA, page
from memd.notes.merging import merge_incoming, read_incoming, split, without_known
from memd.protocol.client import Client
from tests.conftest import PATIENCE, ROOT, Home, write_notes
from tests.hash_embedder import HashEmbedder
from tests.lab import MAX_BYTES, Lab
from tests.test_docs import blocks

# --- joining an incoming file with a file ----------------------------------------------------------------------------


def joined(text: str, found: str, overwrite: bool = False, path: str = "memory/a.md") -> tuple[str, Any]:
    result = merge_incoming(read_incoming(path, text.encode()), found.encode(), overwrite)
    return (result.data or b"").decode(), result


LINES = st.lists(st.sampled_from(["# T", "## A", "## B", "text", "", "- item", "```", "---", "a: b", "\t", "é\r"]))


@settings(max_examples=400, deadline=None)
@given(LINES, LINES, st.booleans(), st.sampled_from(["memory/a.md", "memory/topics/a.md"]))
@example(["---", "## A"], ["## A", "---"], True, "memory/a.md")
def test_joining_twice_changes_nothing_more(one: list[str], other: list[str], overwrite: bool, path: str) -> None:
    incoming, found = read_incoming(path, "\n".join(one).encode()), "\n".join(other).encode()
    first = merge_incoming(incoming, found, overwrite)
    again = merge_incoming(incoming, first.data, overwrite)
    assert again.data == first.data and not again.added
    if not overwrite:
        assert (first.data or b"").startswith(found), "what was there stays"


@given(LINES)
def test_a_file_and_its_pieces_are_the_same_text(lines: list[str]) -> None:
    text = "\n".join(lines)
    head, pieces = split("memory/a.md", text)
    assert head + "".join(memory.text + after for memory, after in pieces) == text
    data = text.encode()
    assert read_incoming("memory/a.md", data).data == data


def test_bytes_that_are_not_plain_text_are_kept() -> None:
    for data in (
        b"\xef\xbb\xbf## A\n\nx\n",
        b"## A\r\n\r\nx\r\n",
        b"## A\n\n\xff\xfe bad\n",
        "## A\n\nx".encode("utf-16"),
    ):
        assert read_incoming("memory/a.md", data).data == data


def test_what_is_new_is_added_and_what_differs_stays() -> None:
    text, result = joined("## A\n\none\n\n## B\n\ntwo\n", "# T\n\n## A\n\nother\n")
    assert text == "# T\n\n## A\n\nother\n\n## B\n\ntwo\n"
    assert [item.slug for item in result.added] == ["b"] and [item.slug for item, _ in result.rejected] == ["a"]
    again, result = joined("## A\n\none\n\n## B\n\ntwo\n", text)
    assert again == text and result.same == 1 and not result.added


def test_overwriting_changes_the_memory_and_nothing_around_it() -> None:
    text, result = joined("## A\n\none\n", "# T  \n\n## A\n\nother\n\n\n## B\n\nb\n", overwrite=True)
    assert text == "# T  \n\n## A\n\none\n\n\n## B\n\nb\n"
    assert [item.slug for item in result.replaced] == ["a"] and not result.rejected


def test_line_ends_of_the_file_are_kept() -> None:
    text, _ = joined("## B\n\ntwo\nlines\n", "## A\r\n\r\none\r\n")
    assert text == "## A\r\n\r\none\r\n\r\n## B\r\n\r\ntwo\r\nlines\r\n"
    assert joined("## B\n\ntwo\nlines\n", text)[1].same == 1


def test_a_section_that_would_be_swallowed_is_not_written() -> None:
    open_fence = "## A\n\n```\ncode\n"
    text, result = joined("## B\n\ntwo\n", open_fence)
    assert text == open_fence and result.rejected and not result.added


# --- export and import ------------------------------------------------------------------------------------------


@pytest.fixture
def client(home: Home, workspace: Path) -> Client:
    memory = home.start()
    memory.workspace_add(workspace)
    return memory


@pytest.fixture
def plain(home: Home, workspace: Path) -> Client:
    """Without a model, so that no edges come but those that are meant."""
    home.configure('[embedding]\nprovider = "none"\n')
    memory = home.start()
    memory.workspace_add(workspace)
    return memory


def fresh(home: Home, memory: Client, name: str = "fresh") -> Path:
    root = home.path.parent / name
    root.mkdir()
    memory.workspace_add(root)
    return root


def lived_in(memory: Client, root: Path) -> None:
    """A workspace with a past: edits, something deleted, odd bytes, a nested folder, an undated note of long ago."""
    daily = root / "memory/2026-02-15.md"
    for text in ("It has four channels.", "It has five channels."):
        daily.write_text(daily.read_text() + f"\n{text}\n")
        memory.sync()
    notes = (root / "MEMORY.md").read_text()
    (root / "MEMORY.md").write_text(notes.split("## Preferences")[0])
    (root / "memory/windows.md").write_bytes(b"\xef\xbb\xbf# W\r\n\r\n## One\r\n\r\nfirst\r\n\r\n## Two\r\n\r\nsecond")
    (root / "memory/deep/er").mkdir(parents=True)
    (root / "memory/deep/er/title.md").write_text("# Only a title\n")
    old = root / "memory/undated.md"
    old.write_text("Nobody wrote the day down.\n")
    os.utime(old, (1_600_000_000, 1_600_000_000))
    memory.sync()


def exported(memory: Client, ns: str, limit: int = 5_000) -> dict[str, Any]:
    """All pages of an export as one."""
    files: list[dict[str, Any]] = []
    gone: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    after = ""
    while True:
        page = memory.export(ns=ns, after=after, limit=limit)
        counted = sum(len(file["memories"]) for file in page["files"]) + len(page["gone"]) + len(page["edges"])
        assert counted <= limit
        for file in page["files"]:
            del file["ns"]
            if file.pop("from"):
                files[-1]["memories"] += file["memories"]
            else:
                files.append(file)
        gone += [{name: value for name, value in entry.items() if name != "ns"} for entry in page["gone"]]
        edges += [{name: value for name, value in entry.items() if name != "ns"} for entry in page["edges"]]
        after = page["next"]
        if not after:
            return {"files": files, "gone": gone, "edges": edges}


def used(home: Home) -> None:
    """What months of use would leave behind: counts, moves, links, and one link that someone took away."""
    at = "2026-03-01T10:00:00.000+00:00"
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute(
            "UPDATE memories SET accesses = id + 2, days = 2, accessed = ?1, useful = 1, importance = 0.25,"
            " tier = 'dormant', moved = ?1,"
            " moved_by = 'rule:stale', moved_why = 'nobody asked', home = 'stm' WHERE slug <> 'ersatztv'",
            (at,),
        )
        ledger.execute("DELETE FROM edges")
        links = [("ersatztv", "garden", "relates_to", "similar", 0), ("garden", "ersatztv", "contains", "tag", 2),
                 ("ersatztv", "one", "refines", "written", 1), ("one", "two", "refines", "written", 0),
                 ("backup", "two", "merged_into", "rule", 0)]  # fmt: skip
        ledger.executemany(
            "INSERT INTO edges (workspace, one, other, rel, base, weight, origin, made, accesses, accessed, removed)"
            " SELECT m.workspace, m.id, n.id, ?3, 0.5, 0.25, ?4, ?6, 2, ?6, ?5 FROM memories m, memories n"
            " WHERE m.slug = ?1 AND n.slug = ?2 AND m.file IS NOT NULL AND n.file IS NOT NULL",
            [(*link, at) for link in links],
        )


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    return {str(file.relative_to(root)): (file.read_bytes(), file.stat().st_mtime_ns)
            for file in sorted(root.rglob("*")) if file.is_file()}  # fmt: skip


def actions(home: Home) -> int:
    with sqlite3.connect(home.state / "state.db") as ledger:
        return int(ledger.execute("SELECT COUNT(*) FROM actions").fetchone()[0])


def test_a_round_trip_gives_the_same_memories_lives_and_edges(home: Home, workspace: Path, plain: Client) -> None:
    lived_in(plain, workspace)
    used(home)
    plain.curate("2026-02-16#backup", "delete", ns="agent")
    file = home.path / "agent.json"
    assert home.run("export", "-n", "agent", "--out", str(file)).returncode == 0
    there = fresh(home, plain)
    done = home.run("import", str(file), "-n", "fresh")
    assert done.returncode == 0, done.stderr
    before, after = exported(plain, "agent"), exported(plain, "fresh")
    assert after == before
    assert {path: data for path, (data, _) in tree(there).items()} == {
        path: data for path, (data, _) in tree(workspace).items()
    }
    tv = next(memory for entry in after["files"] for memory in entry["memories"] if memory["slug"] == "garden")
    assert [version["number"] for version in tv["versions"]] == [1, 2, 3]
    assert "four channels" in tv["versions"][1]["text"] and "text" not in tv["versions"][2]
    assert [entry["slug"] for entry in after["gone"]] == ["preferences"]
    assert tv["life"]["importance"] == 0.25 and tv["life"]["moved_why"] == "nobody asked" and tv["life"]["days"] == 2
    assert [(edge["from"], edge["type"], edge["origin"], edge["removed"]) for edge in after["edges"]] == [
        ("2026-02-15#ersatztv", "relates_to", "similar", ""),
        ("2026-02-15#garden", "contains", "tag", "faded"),
        ("2026-02-15#ersatztv", "refines", "written", "taken"),
        ("2026-02-16#backup", "merged_into", "rule", ""),
    ]
    assert "2026-02-16#backup" not in {memory["key"] for memory in plain.list(ns="fresh")["memories"]}
    assert exported(plain, "fresh", limit=1) == after, "page by page"
    assert plain.query("router fjord", ns="fresh")["hits"][0]["path"] == "MEMORY.md"


def test_importing_twice_changes_nothing(home: Home, workspace: Path, plain: Client) -> None:
    lived_in(plain, workspace)
    file = home.path / "agent.json"
    home.run("export", "-n", "agent", "--out", str(file))
    there = fresh(home, plain)
    plain.import_(file, ns="fresh")
    before, done, lives = tree(there), actions(home), exported(plain, "fresh")
    again = plain.import_(file, ns="fresh")
    assert (again["added"], again["files"], again["gone"], again["actions"]) == (0, 0, 0, [])
    assert again["same"] == sum(len(entry["memories"]) for entry in lives["files"])
    assert tree(there) == before and actions(home) == done and exported(plain, "fresh") == lives
    assert "nothing changed" in home.run("import", str(file), "-n", "fresh").stdout


def test_the_life_is_given_back_also_when_the_daemon_was_killed_before_it(
    home: Home, workspace: Path, plain: Client
) -> None:
    memory = plain
    lived_in(memory, workspace)
    file = home.path / "agent.json"
    home.run("export", "-n", "agent", "--out", str(file))
    wanted = exported(memory, "agent")
    there = fresh(home, memory)
    home.stop()
    memory = home.start(MEMD_FAILPOINT="after-ledger")
    with pytest.raises(NoDaemon):
        memory.import_(file, ns="fresh")
    assert (there / "MEMORY.md").exists(), "it was killed too early to show anything"
    home.daemon.wait()  # type: ignore[union-attr]
    memory = home.start()
    memory.import_(file, ns="fresh")
    assert exported(memory, "fresh") == wanted


def test_a_dry_run_writes_nothing_and_says_what_would_be(home: Home, workspace: Path, client: Client) -> None:
    file = home.path / "agent.json"
    home.run("export", "-n", "agent", "--out", str(file))
    there = fresh(home, client)
    done = actions(home)
    told = client.import_(file, ns="fresh", dry_run=True)
    assert told["dry_run"] and told["added"] == 6 and "MEMORY.md" in told["paths"]
    assert not tree(there) and actions(home) == done
    shown = home.run("import", str(file), "-n", "fresh", "--dry-run").stdout
    assert "6 memories would be added" in shown and "MEMORY.md" in shown


def test_a_memory_with_another_text_is_kept_listed_and_overwritten_when_asked(
    home: Home, workspace: Path, client: Client
) -> None:
    file = home.path / "agent.json"
    home.run("export", "-n", "agent", "--out", str(file))
    there = fresh(home, client)
    mine = "# Mine\n\n## Home network\n\nThe router is at 192.0.2.1.\n"
    (there / "MEMORY.md").write_text(mine)
    done = home.run("import", str(file), "-n", "fresh")
    assert done.returncode == 0 and "MEMORY.md#home-network" in done.stderr and "--overwrite" in done.stderr
    text = (there / "MEMORY.md").read_text()
    assert text.startswith(mine) and "## Preferences" in text and "fjord" not in text
    told = client.import_(file, ns="fresh", overwrite=True)
    assert told["replaced"] == 1 and not told["kept"]
    text = (there / "MEMORY.md").read_text()
    assert "fjord" in text and "192.0.2.1" not in text and text.startswith("# Mine\n\n## Home network\n")
    network = next(m for f in exported(client, "fresh")["files"] for m in f["memories"] if m["slug"] == "home-network")
    assert [version["number"] for version in network["versions"]] == [1, 2]
    assert "192.0.2.1" in network["versions"][0]["text"], "what was overwritten is in the history"


def export_of(*files: dict[str, Any], ns: str = "agent", schema: int = 1) -> str:
    return json.dumps(
        {"memd_export": schema, "workspaces": [{"ns": ns, "files": list(files), "gone": []}], "edges": []}
    )


def file_of(path: str, text: str) -> dict[str, Any]:
    return {"path": path, "head": "", "memories": [{"slug": "", "text": text, "after": "\n"}]}


def test_paths_that_lead_elsewhere_are_left_out(home: Home, client: Client) -> None:
    there = fresh(home, client)
    evil = ["../out.md", "/tmp/out.md", "memory/../../out.md", "notes/out.md", "memory/.hidden.md", "memory//a.md", ""]
    evil += ["memory/two\nlines.md", "memory/\u202egnp.md", "memory/half\ud800.md", "memory/\x1b[2J.md"]
    evil += ["memory/" + "deep/" * 200 + "a.md", "memory/" + "long" * 80 + ".md", "memory/out/a.md"]
    (there / "memory").mkdir()
    (there / "memory" / "out").symlink_to(home.path.parent)
    file = home.path / "evil.json"
    file.write_text(export_of(*(file_of(path, "x") for path in evil), file_of("memory/good.md", "good")))
    told = client.import_(file, ns="fresh")
    assert [problem["path"] for problem in told["problems"]] == evil
    assert list(tree(there)) == ["memory/good.md"]
    assert not any((home.path.parent / name).exists() for name in ("out.md", "a.md"))


def test_secrets_are_refused_by_place_and_never_repeated(home: Home, client: Client) -> None:
    there = fresh(home, client)
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    file = home.path / "secret.json"
    file.write_text(export_of(file_of("memory/keys.md", f"one\ntwo\nthe token {secret}")))
    done = home.run("import", str(file), "-n", "fresh")
    assert done.returncode == 5 and "memory/keys.md:3" in done.stderr and secret not in done.stderr + done.stdout
    assert not tree(there)
    told = client.import_(file, ns="fresh", dry_run=True)
    assert [found["place"] for found in told["secrets"]] == ["memory/keys.md:3"]
    assert home.run("import", str(file), "-n", "fresh", "--allow-secret").returncode == 0
    assert secret in (there / "memory/keys.md").read_text()


def test_what_is_no_export_is_refused(home: Home, client: Client) -> None:
    file = home.path / "x.json"
    for text, error in (
        ("{", UsageError), ("[]", UsageError), ("{}", UsageError), (export_of(schema=2), UsageError),
        ('{"memd_export": 1, "workspaces": [{"ns": "agent", "files": 3}]}', UsageError),
        (export_of(file_of("memory/a.md", "x"), ns="nobody"), None),
    ):  # fmt: skip
        file.write_text(text)
        if error:
            with pytest.raises(error):
                client.import_(file, ns="agent")
        else:
            assert client.import_(file, ns="agent")["added"] == 1
    with pytest.raises(NotFound):
        client.import_(home.path / "nowhere.json", ns="agent")
    fresh(home, client)
    with pytest.raises(UnknownWorkspace, match="nobody"):
        client.import_(file)


def test_two_workspaces_go_to_those_of_the_same_name(home: Home, workspace: Path, client: Client) -> None:
    other = write_notes(home.path.parent / "other", {"MEMORY.md": "## Colour\n\nblue\n"})
    client.workspace_add(other)
    file = home.path / "all.json"
    done = home.run("export", "--out", str(file), "--json", cwd=home.path)
    assert json.loads(done.stdout)["ns"] == ["agent", "other"]
    (other / "MEMORY.md").unlink()
    (workspace / "MEMORY.md").unlink()
    client.sync()
    told = client.import_(file)
    assert told["ns"] == ["agent", "other"] and told["added"] == 3
    assert "blue" in (other / "MEMORY.md").read_text() and "fjord" in (workspace / "MEMORY.md").read_text()


def test_pages_of_any_size_are_the_same_export(client: Client, workspace: Path) -> None:
    lived_in(client, workspace)
    client.sync(vectors=True)
    client.job_run("link")
    whole = exported(client, "agent")
    assert len(whole["edges"]) > 1
    assert exported(client, "agent", limit=1) == whole == exported(client, "agent", limit=2)
    with pytest.raises(UsageError):
        client.export(ns="agent", after="nonsense")


def test_an_export_names_what_cannot_be_read_and_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path, HashEmbedder())
    index = lab.add({f"memory/{name}.md": f"## {name}\n\nAbout {name}.\n" for name in ("elm", "fir", "oak", "yew")})
    for name in ("elm", "oak"):
        (index.workspace.root / f"memory/{name}.md").unlink()
    for limit in (1, 2, 500):
        parts, after = {"files": [], "unread": []}, ""
        while True:
            told = page(lab.stores, [index], after, limit, MAX_BYTES)
            for part, entries in parts.items():
                entries += [entry["path"] for entry in told[part]]
            if not (after := told["next"]):
                break
        assert parts == {
            "files": ["memory/fir.md", "memory/yew.md"],
            "unread": ["memory/elm.md", "memory/oak.md"],
        }, limit


def test_a_page_stays_below_a_mebibyte(client: Client, workspace: Path) -> None:
    for nth in range(12):
        text = "".join(f"## S{part}\n\n{'word ' * 2_000}\n\n" for part in range(15))
        (workspace / f"memory/big-{nth}.md").write_text(text)
    client.sync()
    after, pages = "", 0
    while True:
        page = client.export(ns="agent", after=after)
        assert len(json.dumps(page)) < 512 * 1024
        pages, after = pages + 1, page["next"]
        if not after:
            break
    assert pages > 3


def test_export_goes_to_standard_output_and_is_private_in_a_file(home: Home, workspace: Path, client: Client) -> None:
    done = home.run("export", cwd=workspace)
    told = json.loads(done.stdout)
    assert told["memd_export"] == 1 and [entry["ns"] for entry in told["workspaces"]] == ["agent"]
    assert {file["path"] for file in told["workspaces"][0]["files"]} == set(tree(workspace))
    home.run("export", "--out", str(home.path / "x.json"), cwd=workspace)
    assert (home.path / "x.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((home.path / "x.json").read_text())["workspaces"] == told["workspaces"]
    for place in (home.path, home.path / "nowhere/x.json"):
        assert home.run("export", "--out", str(place), cwd=workspace).stderr.startswith(f"memd: {place}: ")


def test_an_export_and_a_backup_do_not_write_through_links(home: Home, workspace: Path, client: Client) -> None:
    victim = home.path / "victim"
    victim.write_text("mine")
    for link in (".x.json.part", "x.json"):
        (home.path / link).symlink_to(victim)
    assert home.run("export", "--out", str(home.path / "x.json"), cwd=workspace).returncode == 0
    assert victim.read_text() == "mine" and json.loads((home.path / "x.json").read_text())["memd_export"] == 1
    now = datetime(2026, 2, 15, 3, 15, tzinfo=UTC)
    for link in (".state-20260215T031500.db.part", "state-20260215T031500.db"):
        (home.path / link).symlink_to(victim)
    ledger = Ledger(home.path / "other.db")
    made = backups.make(ledger, home.path, now)
    ledger.close()
    backups.check(made)
    assert victim.read_text() == "mine" and not made.is_symlink()


def test_the_documented_export_is_one(home: Home, plain: Client) -> None:
    (example,) = blocks((ROOT / "docs" / "export.md").read_text(), "json")
    told = json.loads(example)
    assert told["memd_export"] == SCHEMA
    file = home.path / "documented.json"
    file.write_text(example)
    fresh(home, plain)
    plain.import_(file, ns="fresh")
    (workspace,) = told["workspaces"]
    edges = [{name: value for name, value in edge.items() if name != "ns"} for edge in told["edges"]]
    assert exported(plain, "fresh") == {"files": workspace["files"], "gone": [], "edges": edges}


def test_what_makes_no_sense_in_a_life_is_left_out(home: Home, plain: Client) -> None:
    (example,) = blocks((ROOT / "docs" / "export.md").read_text(), "json")
    told = json.loads(example)
    one, other = told["workspaces"][0]["files"][0]["memories"]
    one["life"] |= {
        "tier": "attic",
        "first_seen": "long ago",
        "accesses": -1,
        "days": True,
        "importance": 7,
        "moved": 3,
    }
    del other["life"]["accesses"]
    (edge,) = told["edges"]
    wrong = [{"type": "loves"}, {"weight": 7, "base": None}, {"origin": "declared"}, {"to": "nowhere"}]
    told["edges"] += [{**edge, **odd} for odd in [*wrong, {"to": edge["from"]}, {"type": "refines"}]] + [{}]
    file = home.path / "odd.json"
    file.write_text(json.dumps(told))
    fresh(home, plain)
    plain.import_(file, ns="fresh")
    got = exported(plain, "fresh")
    life = got["files"][0]["memories"][0]["life"]
    assert (life["tier"], life["accesses"], life["days"], life["importance"], life["moved"]) == ("stm", 0, 0, 0.5, None)
    assert got["files"][0]["memories"][1]["life"]["tier"] == "dormant"
    assert [edge["type"] for edge in got["edges"]] == ["relates_to", "refines"]
    assert plain.job_run("scan")["job"]["ok"] and plain.stats(ns="fresh")["memories"]["total"] == 2


def test_what_a_rule_decided_of_two_texts_is_not_taken_over_for_another_text(home: Home, plain: Client) -> None:
    (example,) = blocks((ROOT / "docs" / "export.md").read_text(), "json")
    told = json.loads(example)
    (edge,) = told["edges"]
    told["edges"] = [{**edge, "type": "refines", "origin": "rule"}, edge]
    file = home.path / "ruled.json"
    file.write_text(json.dumps(told))
    there = fresh(home, plain)
    plain.import_(file, ns="fresh")
    assert [edge["type"] for edge in exported(plain, "fresh")["edges"]] == ["refines", "relates_to"]
    (path,) = (entry["path"] for entry in told["workspaces"][0]["files"])
    other = fresh(home, plain, "other")
    (other / path).parent.mkdir(parents=True, exist_ok=True)
    (other / path).write_text((there / path).read_text().replace("## Television\n", "## Television\n\nSold.\n"))
    plain.import_(file, ns="other")
    assert [edge["type"] for edge in exported(plain, "other")["edges"]] == ["relates_to"]


def test_an_edge_that_was_used_here_stays_as_it_is(home: Home, plain: Client) -> None:
    (example,) = blocks((ROOT / "docs" / "export.md").read_text(), "json")
    file = home.path / "documented.json"
    file.write_text(example)
    fresh(home, plain)
    plain.import_(file, ns="fresh")
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE edges SET weight = 0.9, accesses = 9")
    plain.import_(file, ns="fresh")
    assert [(edge["weight"], edge["accesses"]) for edge in exported(plain, "fresh")["edges"]] == [(0.9, 9)]


# --- ingest -----------------------------------------------------------------------------------------------------


ELSEWHERE = {
    "vault/MEMORY.md": "# Index\n\n## Editor\n\nVim, always.\n",
    "vault/2026-02-15.md": "# 2026-02-15\n\n## Dentist\n\nAppointment at nine.\n",
    "vault/2026-02-20.md": "# 2026-02-20\n\nA day without_known sections.\n",
    "vault/projects/boat.md": "# Boat\n\n## Hull\n\nPaint it red.\n\n## Sail\n\nMend the seam.\n",
    "vault/topics/cheese.md": "---\ntags: [food]\n---\n\nKeep it dry.\n",
    "vault/.obsidian/plugin.md": "not a memory\n",
    "vault/node_modules/readme.md": "not a memory either\n",
    "kb/.ai-knowledge/index.mdk": "# Project\n\n## General Project Knowledge\n\nWe build with make.\n\n"
    "## Specialized Knowledge\n\n- storage: How things are stored.\n",
    "kb/.ai-knowledge/storage.mdk": "---\ntags: [db]\n---\n\nEverything is in SQLite.\n",
    "bus/.muxcode/memory/shared.md": "\n## Build\n_2026-02-21 14:27_\n\nuse pnpm\n",
    ".claude/CLAUDE.md": "# How to work\n\nRun the tests first.\n",
    ".claude/projects/-home-me-app/memory/MEMORY.md": "- [style](style.md)\n",
    ".claude/projects/-home-me-app/memory/style.md": "---\nname: answer style\ndescription: How to answer\n"
    "metadata:\n  type: feedback\n---\n\nNo summary at the end.\n",
    ".claude/settings.md": "machinery\n",
    ".codex/AGENTS.md": "# Agents\n\nUse tabs.\n",
    ".codex/memories/MEMORY.md": "# Task Group: api\n\n## Task 1\n\nRetry on 429.\n",
    ".codex/memories/raw_memories.md": "evidence\n",
    ".codex/memories/rollout_summaries/2026-03-01-fix.md": "The fix was in the parser.\n",
    "ghost.jsonl": '{"key": "user/tz", "content": "Lives in Oslo.", "kind": "semantic", "tags": ["user"],'
    ' "created": "2026-01-05T10:00:00Z"}\n{"key": "deploy", "content": "Push, then tag.\\n\\n## Steps\\n\\nfirst",'
    ' "kind": "procedural", "importance": 0.8}\n\n{"key": "empty"}\n',
}
PLACES = ("vault", "kb", "bus", ".claude", ".codex", "ghost.jsonl")


@pytest.fixture
def elsewhere(home: Home) -> Path:
    return write_notes(home.path.parent / "elsewhere", ELSEWHERE)


def ingested(home: Home, elsewhere: Path, *flags: str) -> Any:
    done = home.run("ingest", *(str(elsewhere / place) for place in PLACES), "-n", "agent", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_other_tools_memories_find_their_places(home: Home, workspace: Path, client: Client, elsewhere: Path) -> None:
    before = {path: data for path, (data, _) in tree(workspace).items()}
    told = ingested(home, elsewhere)
    after = {path: data.decode() for path, (data, _) in tree(workspace).items()}
    new = sorted(after.keys() - before.keys())
    assert new == [
        "memory/2026-02-20.md",
        "memory/ingested/claude/CLAUDE.md",
        "memory/ingested/claude/home-me-app/memory/home-me-app-memory.md",
        "memory/ingested/claude/home-me-app/memory/style.md",
        "memory/ingested/codex/AGENTS.md",
        "memory/ingested/codex/memories/codex-memory.md",
        "memory/ingested/codex/memories/rollout_summaries/2026-03-01-fix.md",
        "memory/ingested/kb/kb-general.md",
        "memory/ingested/vault/projects/boat.md",
        "memory/ingested/vault/vault-memory.md",
        "memory/roles/shared.md",
        "memory/topics/cheese.md",
        "memory/topics/deploy.md",
        "memory/topics/storage.md",
        "memory/topics/user-tz.md",
    ]
    assert told["files"] == len(new) + 1 and not told["kept"]
    changed = [path for path in before if after[path].encode() != before[path]]
    assert changed == ["memory/2026-02-15.md"] and after[changed[0]].encode().startswith(before[changed[0]])
    assert "## Dentist\n\nAppointment at nine.\n" in after[changed[0]]
    assert [problem["path"] for problem in told["problems"]] == [f"{elsewhere}/ghost.jsonl:4"]
    assert client.get("2026-02-15#ersatztv", ns="agent"), "the keys of what was there are as they were"
    assert client.get("MEMORY#home-network", ns="agent")


def test_a_link_that_leads_out_of_what_is_ingested_is_left_out(home: Home, workspace: Path, client: Client) -> None:
    """As the scan does it. What a person names may be a link itself."""
    outside = write_notes(home.path.parent / "private", {"a.md": "never told\n", "memory/b.md": "never told\n"})
    vault = write_notes(home.path.parent / "vault", {"real.md": "# Real\n\nof the vault\n", "deep/x.md": "# X\n"})
    links = {
        "file.md": outside / "a.md", "folder": outside, "deep/up": "..", "deep/above.md": "../../private/a.md",
        "nothing.md": outside / "gone.md", "circle.md": vault / "circle.md", ".claude": outside, "same.md": "real.md",
    }  # fmt: skip
    for name, target in links.items():
        (vault / name).symlink_to(target)
    (vault / ".muxcode").mkdir()
    (vault / ".muxcode" / "memory").symlink_to(outside)
    (home.path.parent / "named").symlink_to(vault)
    told = client.ingest([str(home.path.parent / "named")], ns="agent")
    left_out = {
        Path(problem["path"]).relative_to(home.path.parent / "named").as_posix() for problem in told["problems"]
    }
    assert left_out == {
        "file.md", "folder", "deep/up", "deep/above.md", "nothing.md", "circle.md", ".claude/memory/b.md",
        ".muxcode/memory/a.md", ".muxcode/memory/memory/b.md",
    }  # fmt: skip
    notes = "".join(file.read_text() for file in workspace.rglob("*.md"))
    assert "of the vault" in notes and "never told" not in notes


def test_names_that_cannot_be_shown_are_made_plain(home: Home, workspace: Path, client: Client) -> None:
    vault = home.path.parent / "vault"
    vault.mkdir()
    for nth, name in enumerate((b"two\nlines.md", "\u202egnp.md".encode(), b"latin-\xe9.md")):
        Path(os.fsdecode(os.fsencode(vault) + b"/" + name)).write_text(f"# Odd\n\nnumber {nth}\n")
    (vault / "keys.jsonl").write_text('{"key": "half \\ud800", "content": "number 3"}\n')
    told = client.ingest([str(vault)], ns="agent")
    assert sorted(told["paths"]) == [
        "memory/ingested/vault/gnp.md",
        "memory/ingested/vault/latin.md",
        "memory/ingested/vault/two-lines.md",
        "memory/topics/half.md",
    ]


def test_what_is_in_utf_16_is_taken_in_as_utf_8_and_can_be_taken_back(
    home: Home, workspace: Path, client: Client
) -> None:
    vault = write_notes(home.path.parent / "vault", {"plain.md": "## Plain\n\nIn UTF-8.\n"})
    (vault / "wide.md").write_text("## Wide\n\nGrüße aus Zürich.\n", encoding="utf-16")
    client.ingest([vault], ns="agent")
    assert "Grüße" in (workspace / "memory/ingested/vault/wide.md").read_text(encoding="utf-8")
    client.undo(ns="agent")
    assert not list((workspace / "memory/ingested").rglob("*.md"))


def test_every_line_of_records_is_taken_in_or_told(home: Home, workspace: Path, client: Client) -> None:
    vault = home.path.parent / "vault"
    vault.mkdir()
    lines = ('{"key": "one", "content": "number 1", "timestamp": 1767607200}', "[1, 2]", '"three"', "null",
             '{"key": "four", "content": "number 4", "type": "insight", "tags": ["a"], "importance": 7}')  # fmt: skip
    (vault / "keys.jsonl").write_text("\n".join(lines))
    (vault / "list.jsonl").write_text('{"key": "two", "content": "number 2", "timestamp": 1767607200123}')
    told = client.ingest([vault], ns="agent")
    assert [(Path(one["path"]).name, one["why"]) for one in told["problems"]] == [
        ("keys.jsonl:2", "it is no JSON object"),
        ("keys.jsonl:3", "it is no JSON object"),
        ("keys.jsonl:5", "its importance, 7, is not from 0 to 1"),
    ]
    assert client.get("four", ns="agent")["tags"] == ["a", "insight"]
    for key in ("one", "two"):
        assert "created: '2026-01-05T10:00:00+00:00'" in (workspace / f"memory/topics/{key}.md").read_text()


def test_what_since_or_project_leaves_out_is_not_called_unreadable(home: Home, workspace: Path, client: Client) -> None:
    chats = [{"title": "Boats", "create_time": 1767607200.0, "current_node": "b", "mapping": {
        "a": {"id": "a", "parent": None, "message": {"author": {"role": "user"}, "create_time": 1767607200.0,
              "content": {"content_type": "text", "parts": ["Which boat is red?"]}}},
        "b": {"id": "b", "parent": "a", "message": {"author": {"role": "assistant"}, "create_time": 1767607201.0,
              "content": {"content_type": "text", "parts": ["The one with the sail."]}}}}}]  # fmt: skip
    vault = home.path.parent / "vault"
    vault.mkdir()
    (vault / "conversations.json").write_text(json.dumps(chats))
    with pytest.raises(NotFound) as refused:
        client.ingest([vault], ns="agent", since="2026-04")
    assert "--since" in refused.value.hint
    assert client.ingest([vault], ns="agent")["files"] == 1


def test_facts_come_along(home: Home, workspace: Path, client: Client, elsewhere: Path) -> None:
    ingested(home, elsewhere)
    style = client.get("style", ns="agent")
    assert style["declared"]["title"] == "answer style" and style["declared"]["summary"] == "How to answer"
    assert style["tags"] == ["feedback"]
    assert client.get("storage", ns="agent")["declared"]["summary"] == "How things are stored."
    zone = client.get("user-tz", ns="agent")
    assert (zone["kind"], zone["tags"], zone["date"]) == ("semantic", ["user"], "2026-01-05")
    deploy = client.get("deploy", ns="agent")
    assert deploy["kind"] == "procedural" and deploy["declared"]["importance"] == 0.8
    assert "## Steps" in deploy["text"], "a topic is one memory"
    assert client.query("paint the hull", ns="agent", mode="text")["hits"][0]["key"] == "boat#hull"


def test_ingesting_twice_changes_nothing(home: Home, workspace: Path, client: Client, elsewhere: Path) -> None:
    first = ingested(home, elsewhere)
    before, done = tree(workspace), actions(home)
    again = ingested(home, elsewhere)
    assert (again["added"], again["replaced"], again["files"], again["actions"]) == (0, 0, 0, [])
    assert again["same"] == first["added"] + first["same"] and not again["kept"]
    assert tree(workspace) == before and actions(home) == done
    moved = elsewhere.rename(elsewhere.with_name("moved"))
    (moved / "vault").rename(moved / "attic")
    told = client.ingest([moved / "attic"], ns="agent")
    assert told["added"] == 0 and tree(workspace) == before, "what counts is the text, not where it was"


def test_what_grows_elsewhere_is_added_and_what_differs_is_kept(
    home: Home, workspace: Path, client: Client, elsewhere: Path
) -> None:
    ingested(home, elsewhere)
    boat = elsewhere / "vault/projects/boat.md"
    boat.write_text(boat.read_text().replace("red", "blue") + "\n## Anchor\n\nTwelve kilos.\n")
    told = client.ingest([elsewhere / "vault"], ns="agent")
    assert told["added"] == 1 and [kept["key"] for kept in told["kept"]] == [
        "memory/ingested/vault/projects/boat.md#hull"
    ]
    text = (workspace / "memory/ingested/vault/projects/boat.md").read_text()
    assert "red" in text and "blue" not in text and text.endswith("## Anchor\n\nTwelve kilos.\n")
    assert client.ingest([elsewhere / "vault"], ns="agent", overwrite=True)["replaced"] == 1
    assert "blue" in (workspace / "memory/ingested/vault/projects/boat.md").read_text()


def test_a_day_without_sections_joins_a_note_that_is_there(home: Home, workspace: Path, client: Client) -> None:
    notes = write_notes(home.path.parent / "diary", {"2026-02-15.md": "# 2026-02-15\n\nIt rained all day.\n"})
    assert client.ingest([notes], ns="agent")["added"] == 1
    text = (workspace / "memory/2026-02-15.md").read_text()
    assert text.endswith("\n\n## From diary\n\nIt rained all day.\n")
    assert client.ingest([notes], ns="agent")["added"] == 0
    assert (workspace / "memory/2026-02-15.md").read_text() == text


def test_the_workspace_itself_has_nothing_new(home: Home, workspace: Path, client: Client) -> None:
    before = tree(workspace)
    told = client.ingest([workspace], ns="agent")
    assert told["added"] == 0 and told["same"] == 6 and tree(workspace) == before


def test_ingest_says_what_it_would_do_and_where_secrets_are(home: Home, workspace: Path, client: Client) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    notes = write_notes(home.path.parent / "ops", {"aws.md": f"# Keys\n\n## Prod\n\nkey {secret}\n"})
    before = tree(workspace)
    dry = client.ingest([notes], ns="agent", dry_run=True)
    assert dry["added"] == 1 and dry["secrets"] == [{"place": f"{notes}/aws.md:5", "kind": "an AWS key"}]
    done = home.run("ingest", str(notes), "-n", "agent")
    assert done.returncode == 5 and f"{notes}/aws.md:5" in done.stderr and secret not in done.stderr
    with pytest.raises(SecretFound):
        client.ingest([notes], ns="agent")
    assert tree(workspace) == before
    assert client.ingest([notes], ns="agent", allow_secret=True)["added"] == 1


def test_ingest_can_be_undone_and_asked_for_twice(home: Home, workspace: Path, client: Client, elsewhere: Path) -> None:
    before = {path: data for path, (data, _) in tree(workspace).items()}
    first = client.ingest([elsewhere / "vault"], ns="agent", request_id="once")
    again = client.ingest([elsewhere / "vault"], ns="agent", request_id="once")
    assert not again["actions"]
    for action in reversed(first["actions"]):
        client.call("undo", {"action": action, "ns": "agent"})
    assert {path: data for path, (data, _) in tree(workspace).items()} == before


def test_the_documented_record_becomes_the_documented_file(home: Home, workspace: Path, client: Client) -> None:
    page = (ROOT / "docs" / "writing.md").read_text()
    (record,) = [body for body in blocks(page, "json") if "timezone" in body]
    lines = home.path / "records.jsonl"
    lines.write_text(record)
    path = "memory/topics/user-timezone.md"
    assert client.ingest([lines], ns="agent")["paths"] == [path]
    assert [(workspace / path).read_text()] == blocks(page, f"markdown {path}")


def test_a_line_that_is_no_record_is_named_and_the_others_are_taken(home: Home, client: Client) -> None:
    folder = home.path / "exported"
    folder.mkdir()
    records = folder / "log.jsonl"
    records.write_text('{"key": "one", "content": "first"}\n\nnot json\n{"key": "two", "content": "second"}\n')
    (folder / "note.md").write_text("# Note\n\nplain\n")
    told = client.ingest([folder], ns="agent")
    assert [Path(path).name for path in sorted(told["paths"])] == ["note.md", "one.md", "two.md"]
    assert [problem["path"] for problem in told["problems"]] == [f"{records}:3"]


# --- backups ----------------------------------------------------------------------------------------------------


def first_seen(state: Path) -> dict[str, str]:
    with sqlite3.connect(state / "state.db") as ledger:
        return dict(ledger.execute("SELECT slug, first_seen FROM memories WHERE file IS NOT NULL").fetchall())


def test_a_backup_is_a_ledger_of_its_own(home: Home, client: Client, tmp_path: Path) -> None:
    done = home.run("backup", str(tmp_path / "safe"), "--json")
    told = json.loads(done.stdout)
    file = Path(told["backup"])
    assert file.parent == tmp_path / "safe" and told["bytes"] == file.stat().st_size
    assert [found.name for found in file.parent.iterdir()] == [file.name], "no caches, nothing half made"
    with sqlite3.connect(file) as copy, sqlite3.connect(home.state / "state.db") as ledger:
        ids = [db.execute("SELECT value FROM meta WHERE key = 'id'").fetchone() for db in (copy, ledger)]
        assert ids[0] != ids[1]
        assert copy.execute("SELECT COUNT(*) FROM memories").fetchone() == (6,)
    assert Path(client.backup()["backup"]).parent == home.state / "backups"


def test_a_backup_is_put_back_while_a_daemon_runs(home: Home, workspace: Path) -> None:
    assert home.run("add", str(workspace)).returncode == 0
    known = first_seen(home.state)
    file = json.loads(home.run("backup", "--json").stdout)["backup"]
    # What memd observed is lost; the notes are not.
    assert home.run("remove", "agent", "--hard", "--yes").returncode == 0
    assert home.run("add", str(workspace)).returncode == 0
    (workspace / "memory/later.md").write_text("## Later\n\nwritten after the backup\n")
    assert home.run("sync").returncode == 0
    assert first_seen(home.state)["garden"] > known["garden"]
    done = home.run("restore-backup", file, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["restarted"] and Path(told["aside"]).is_file()
    for _ in range(2):
        assert home.run("sync", "--vectors").returncode == 0
        assert {slug: first_seen(home.state)[slug] for slug in known} == known
        assert "later.md" in home.run("query", "written after the backup").stdout
        assert json.loads(home.run("doctor", "--json").stdout)["ok"]
        assert home.run("restore-backup", file).returncode == 0


def test_a_backup_is_put_back_without_a_daemon(home: Home, workspace: Path, client: Client) -> None:
    known = first_seen(home.state)
    file = client.backup()["backup"]
    home.kill()
    (home.state / "state.db").write_bytes(b"not a database")
    done = home.run("restore-backup", file, "--json")
    assert done.returncode == 0, done.stderr
    assert not json.loads(done.stdout)["restarted"] and home.run("status").returncode == 3
    assert home.start().query("fjord", ns="agent")["hits"]
    assert first_seen(home.state) == known


def test_what_is_no_backup_is_refused_before_anything_is_stopped(home: Home, client: Client, tmp_path: Path) -> None:
    pid = client.status()["pid"]
    (tmp_path / "text.db").write_text("not a database")
    torn = tmp_path / "torn.db"
    shutil.copy(client.backup()["backup"], torn)
    with torn.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    newer = tmp_path / "newer.db"
    shutil.copy(client.backup()["backup"], newer)
    with sqlite3.connect(newer) as copy:
        copy.execute("PRAGMA user_version = 999")
    for bad in (tmp_path / "text.db", torn, newer):
        done = home.run("restore-backup", str(bad))
        assert done.returncode == 6 and str(bad) in done.stderr
    assert home.run("restore-backup", str(tmp_path / "nowhere.db")).returncode == 1
    assert client.status()["pid"] == pid


def test_seven_nights_are_kept_and_what_a_person_made_stays(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    begin = datetime(2026, 2, 1, 3, 0, tzinfo=UTC)
    mine = backups.make(ledger, tmp_path / "backups", begin)
    for night in range(10):
        told = backups.nightly(ledger, tmp_path, begin + timedelta(days=night))
    assert "7 kept" in told
    kept = sorted(file.name for file in (tmp_path / "backups").iterdir())
    assert kept == sorted([mine.name, *(f"state-night-202602{day:02}T030000.db" for day in range(4, 11))])
    ledger.close()


def test_a_backup_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state.db")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MemdError):
        backups.make(ledger, tmp_path / "file", datetime.now(UTC))
    with pytest.raises(StoreBroken):
        backups.check(tmp_path / "file")
    ledger.close()


def test_a_parcel_without_its_known_memories_is_smaller() -> None:
    incoming = read_incoming("memory/a.md", b"# T\n\n## A\n\none\n\n## B\n\ntwo\n")
    left = without_known(incoming, {incoming.items[0].digest})
    assert left.data == b"# T\n\n## B\n\ntwo\n"
