"""`memd outline` with a real daemon: over the socket and in the shell, off and on, fresh, and linked to the notes."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memd import installation
from memd.config.schema import OutlineSettings
from memd.daemon.watching.code_outlines import CodeOutlines
from memd.errors import NotFound, Refused, UsageError
from memd.indexer.store.own_stores import OwnStores
from memd.models import Workspace
from memd.outline.outline import Outline
from memd.protocol.client import Client
from tests.conftest import PATIENCE, ROOT, Home, write_notes

NOTES = {
    "MEMORY.md": "# Memory\n\n## Store\n\nNever call `Store.save` twice. See src/store.py for the reason.\n",
    "memory/2026-02-15.md": "# 2026-02-15\n\n## Rework\n\nToday save_all was rewritten.\nIt is quick now.\n\n"
    "## Other\n\nWe save money and open the window.\n",
    "memory/topics/layout.md": "---\nfiles: [src/tools.py:modified]\n---\n\nThe tools have moved.\n",
}
CODE = {
    "src/store.py": "from src import tools\n\n\nclass Store:\n    def save(self):\n        tools.check()\n\n\n"
    "def save_all(store: Store):\n    store.save()\n",
    "src/tools.py": "def check(): ...\n\n\ndef save(): ...\n",
}
ON = "[outline]\nenabled = true\n"


@pytest.fixture
def code(home: Home) -> Path:
    return write_notes(home.path.parent / "agent", {**NOTES, **CODE})


@pytest.fixture
def client(home: Home, code: Path) -> Iterator[Client]:
    home.configure(ON)
    with home.start() as caller:
        caller.workspace_add(code)
        yield caller


def mentioned(result: dict) -> dict[str, list[tuple[str, str, int]]]:
    return {
        one["name"]: [(told["key"], told["path"], told["line"]) for told in one["mentioned_in"]]
        for one in result["symbols"]
        if "mentioned_in" in one
    }


def eventually(true: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


# --- off and on -------------------------------------------------------------------------------------------------


def test_it_is_off_until_it_is_turned_on(home: Home, code: Path) -> None:
    with home.start() as caller:
        caller.workspace_add(code)
        for what, asked in {
            "symbol": {"symbol": "Store"},
            "file": {"file": "src/store.py"},
            "project": {},
            "map": {},
        }.items():
            with pytest.raises(Refused, match="the code outline is off") as caught:
                getattr(caller, f"outline_{what}")(**asked)
            assert caught.value.hint == "memd config set outline.enabled true, then: memd restart"
        assert not (home.state / "outline").exists()
    told = home.run("outline", "map", cwd=code)
    assert told.returncode == 5 and "memd restart" in told.stderr


@pytest.mark.parametrize("missing", ["tree_sitter", "tree_sitter_python"])
def test_without_the_extra_it_says_what_to_install(home: Home, code: Path, tmp_path: Path, missing: str) -> None:
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('gone', name={missing!r})\n")
    home.from_nothing = True
    home.configure(ON)
    with home.start(PYTHONPATH=f"{tmp_path}:{ROOT}") as caller:
        caller.workspace_add(code)
        for what, asked in {"symbol": {"symbol": "Store", "language": "python"}, "map": {}}.items():
            with pytest.raises(Refused, match=missing) as caught:
                getattr(caller, f"outline_{what}")(**asked)
            # By its own name or from where it was installed, never as `memd`, which is another project.
            command = installation.extra("outline")
            assert command in caught.value.hint and "memd[outline]" not in shlex.split(command)
        assert caller.query("Store")["hits"], "everything else goes on"


def test_it_can_be_turned_on_while_the_daemon_runs(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "agent", CODE)
    (tmp_path / "state").mkdir()
    stores = OwnStores(tmp_path / "state")
    index = stores.open_index(Workspace("agent", root))
    outlining = CodeOutlines(OutlineSettings(), stores)
    try:
        with pytest.raises(Refused, match="is off"):
            outlining.ask(index, Outline.counts)
        outlining.turn_on()
        assert outlining.ask(index, Outline.counts).result(PATIENCE) == {"python": 2}
    finally:
        outlining.stop()
        stores.close()


# --- answers ----------------------------------------------------------------------------------------------------


def test_a_symbol_is_told_as_text_and_as_values(client: Client) -> None:
    told = client.outline_symbol(symbol="Store.save", language="python", ns="agent")
    assert told["text"].splitlines() == [
        "method src.store.Store.save  src/store.py:5",
        "  def save(self)",
        "  calls function src.tools.check  src/tools.py:1",
        "  called_by function src.store.save_all  src/store.py:9",
        "  mentioned_in MEMORY#store  MEMORY.md:5",
    ]
    values = client.outline_symbol(symbol="Store.save", language="python", format="json", relations=["called_by"])
    (symbol,) = values["symbols"]
    assert "text" not in values and symbol["signature"] == "def save(self)" and symbol["end_line"] == 6
    (relation,) = symbol["relations"]
    assert relation["relation"] == "called_by" and relation["how"] == "type" and relation["line"] == 10
    assert relation["to"]["name"] == "src.store.save_all" and "mentioned_in" not in symbol


def test_a_memory_stands_under_what_it_names(client: Client) -> None:
    told = mentioned(client.outline_project(language="python", format="json"))
    assert told == {
        "src.store": [("MEMORY#store", "MEMORY.md", 5)],
        "src.store.Store.save": [("MEMORY#store", "MEMORY.md", 5)],
        "src.store.save_all": [("2026-02-15#rework", "memory/2026-02-15.md", 5)],
        "src.tools": [("layout", "memory/topics/layout.md", 5)],
    }, "`save` in a sentence is no symbol, and a bare name that two have means neither"


def test_a_memory_that_changes_changes_what_it_stands_under(client: Client, code: Path) -> None:
    write_notes(code, {"MEMORY.md": "# Memory\n\nNothing.\n\n## Tools\n\nUse check() first.\n"})
    client.sync()
    told = mentioned(client.outline_project(language="python", format="json"))
    assert told["src.tools.check"] == [("MEMORY#tools", "MEMORY.md", 7)]
    assert "src.store" not in told and "src.store.Store.save" not in told


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"symbol": "Store", "language": "cobol"}, UsageError, "does not know the language 'cobol'"),
        ({"symbol": "Store", "language": "go"}, NotFound, "there are no go sources"),
        ({"symbol": "Store", "depth": 99}, UsageError, "`depth` must be a whole number from 1 to 8, not 99"),
        ({"symbol": "Store", "depth": 0}, UsageError, "`depth` must be"),
        ({"symbol": "Store", "file": "src/none.py"}, NotFound, "there is no file src/none.py"),
        ({"symbol": "Store", "relations": ["calls_by"]}, UsageError, "there is no relation 'calls_by'"),
        ({"symbol": "Store", "format": "xml"}, UsageError, "`format` must be one of text, json"),
        ({"symbol": "Stroe"}, NotFound, "no symbol is called Stroe"),
        ({"symbol": "  "}, UsageError, "needs `symbol`"),
        ({"symbol": "..."}, UsageError, "is not the name of a symbol"),
    ],
)
def test_what_makes_no_sense_is_said(client: Client, asked: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        client.outline_symbol(**asked)


# --- fresh ------------------------------------------------------------------------------------------------------


def test_an_answer_agrees_with_the_files_as_they_are(client: Client, code: Path) -> None:
    for n in range(5):
        (code / "src" / "tools.py").write_text(f"def check(): turn{n}()\n\n\ndef turn{n}(): ...\n")
        told = client.outline_file(file="src/tools.py", format="json", relations=["calls"])
        assert [one["name"] for one in told["symbols"]] == ["src.tools", "src.tools.check", f"src.tools.turn{n}"]
    (code / "src" / "tools.py").unlink()
    with pytest.raises(NotFound, match=r"there is no file src/tools\.py"):
        client.outline_file(file="src/tools.py")


@pytest.mark.linux  # without inotify they are read when somebody asks
def test_changes_are_read_before_anybody_asks(client: Client, home: Home, code: Path) -> None:
    client.outline_map()
    parsed = home.log.count("outline parsed=")
    (code / "src" / "new.py").write_text("def new(): ...\n")
    eventually(lambda: home.log.count("outline parsed=") > parsed)
    (code / "src" / "deep").mkdir()
    (code / "src" / "deep" / "more.py").write_text("def more(): ...\n")
    eventually(lambda: home.log.count("outline parsed=") > parsed + 1)


def test_a_restart_parses_nothing_again_and_a_removed_workspace_leaves_nothing(home: Home, code: Path) -> None:
    home.configure(ON)
    for file in code.rglob("*.py"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    with home.start() as caller:
        caller.workspace_add(code)
        caller.outline_map()
    home.stop()
    kept = list((home.state / "outline").glob("*.db"))
    assert len(kept) == 1
    before = home.log.count("outline parsed=")
    with home.start() as caller:
        assert "class Store" in caller.outline_map()["text"]
        assert home.log.count("outline parsed=") == before
        caller.workspace_rm(ns="agent")
        eventually(lambda: not list((home.state / "outline").glob("*")))


def test_what_cannot_be_read_is_listed(client: Client, home: Home, code: Path) -> None:
    (code / "src" / "binary.py").write_bytes(b"\0\0")
    told = client.outline_map()
    assert told["skipped"] == [{"path": "src/binary.py", "why": "it is binary"}]
    shown = home.run("outline", "map", cwd=code)
    assert shown.returncode == 0 and "src/binary.py: it is binary" in shown.stderr


def test_notes_without_code_around_them_are_told(home: Home) -> None:
    home.configure(ON)
    notes = write_notes(home.path.parent / "notes")
    with home.start() as caller:
        caller.workspace_add(notes)
        shown = home.run("outline", "map", cwd=notes)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "memd: no symbols were found\n")


def test_a_file_that_cannot_be_read_is_told_to_whoever_asks_for_it(client: Client, home: Home, code: Path) -> None:
    (code / "src" / "binary.py").write_bytes(b"\0\0")
    (code / "src" / "broken.py").write_text("def ok(): ...\nclass (:\n  def\n")
    for name, why in {"binary.py": "it is binary", "broken.py": "line 2 cannot be parsed"}.items():
        shown = home.run("outline", "file", name, cwd=code / "src")
        assert (shown.returncode, shown.stderr) == (0, f"memd: not wholly read: src/{name}: {why}\n")
        assert f"  not wholly read: {why}" in shown.stdout.splitlines()
    good = home.run("outline", "file", "src/tools.py", cwd=code)
    assert good.returncode == 0 and not good.stderr


# --- in the shell -----------------------------------------------------------------------------------------------


def test_the_command_line_shows_it(client: Client, home: Home, code: Path) -> None:
    shown = home.run("outline", "symbol", "Store.save", "-r", "called_by,calls", "--omit-native", cwd=code)
    assert shown.returncode == 0, shown.stderr
    assert "  called_by function src.store.save_all  src/store.py:9" in shown.stdout.splitlines()
    here = home.run("outline", "file", "tools.py", "--json", cwd=code / "src")
    assert [one["name"] for one in json.loads(here.stdout)["symbols"]][1:] == ["src.tools.check", "src.tools.save"]
    chart = home.run("outline", "map", "--budget", "40", "-w", str(code))
    assert chart.stdout.startswith("src/") and "class Store" in chart.stdout
    whole = home.run("outline", "project", "-l", "python", "-n", "agent", "--depth", "1")
    assert "function src.tools.check  src/tools.py:1" in whole.stdout
    for arguments, code_, words in (
        (("symbol", "nothing_like_it"), 1, "no symbol is called"),
        (("symbol", "Store", "--depth", "99"), 2, "99 is not in the range 1<=x<=8"),
        (("symbol", "Store", "--no-such-flag"), 2, "memd outline symbol --help"),
        (("project", "-l", "rust"), 1, "there are no rust sources"),
    ):
        told = home.run("outline", *arguments, cwd=code)
        assert (told.returncode, words in told.stderr) == (code_, True), told.stderr


def test_names_from_sources_are_made_safe_for_a_terminal(client: Client, home: Home, code: Path) -> None:
    (code / "src" / "odd.js").write_text("function plain() {} // x\nconst EVIL = '\x1b[31mred';\n")
    shown = home.run("outline", "file", "src/odd.js", cwd=code)
    assert "EVIL" in shown.stdout and "\x1b" not in shown.stdout
