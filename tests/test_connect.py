"""Connecting agents: what goes into their files, what stays, and that it all comes out again."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from memd import __version__
from memd.cli.connecting import agents, change, json_file, script_file, toml_file
from memd.cli.connecting.agents import AGENTS, Here, Place
from memd.cli.connecting.json_file import Piece, Unreadable, without
from memd.errors import Refused
from tests.conftest import PATIENCE, ROOT, Home
from tests.test_cli import on_terminal

HANDWRITTEN = {
    "empty": "",
    "blank": "\n\n",
    "object": "{}",
    "spread": "{\n}\n",
    "other server": '{\n  "mcpServers": {\n    "a": {"command": "x", "env": {"KEY": "s3cr3t-neighbour"}}\n  }\n}\n',
    "empty servers": '{\n    "theme": "dark",\n    "mcpServers": {},\n    "servers": {}\n}',
    "one line": '{"a":[1,2,{"b":null}],"mcpServers":{"x":{"command":"y"}},"tools":{"mcpServers":{}}}',
    "tabs": '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}\n',
    "carriage returns": '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "b": {"command": "c"}\r\n  }\r\n}\r\n',
    "byte order mark": '\ufeff{\n  "a": "ä"\n}\n',
    "comments": '// mine\n{\n  "servers": {\n    // first\n    "a": {"command": "x"} // end\n    /* all */\n  },\n}\n',
    "json5": "{\n  gateway: { port: 0x1F90, bind: 'loop\\'back', },\n  mcp: { servers: { /* none */ } },\n}\n",
    "hooks": '{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"command": "say done"}]}\n    ]\n  }\n}\n',
}
CODEX = {
    "absent servers": 'model = "x"\n',
    "no newline": '# mine\n[mcp_servers.a]\ncommand = "x" # remark',
    "carriage returns": 'model = "x"\r\n\r\n[mcp_servers.a]\r\ncommand = "x"\r\n',
    "empty": "",
}


@pytest.fixture
def here(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """A machine with nothing on it."""
    monkeypatch.setenv("MEMD_HOME", str(home.path))
    (tmp_path / "project").mkdir()
    return Here(tmp_path, tmp_path / "project", {}, "linux", ("/opt/bin/memd",))


def places(here: Here) -> list[tuple[str, Place]]:
    return [
        (name, place) for name, agent in AGENTS.items() for scope in agent.scopes for place in agent.places(scope, here)
    ]


def all_files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def connect(place: Place) -> None:
    change.apply(change.connected(place))
    assert change.state(place) == "connected"


def disconnect(place: Place) -> None:
    change.apply(change.disconnected(place), forget=True)
    assert change.state(place) == "none"


# --- in and out -------------------------------------------------------------------------------------------------


def test_where_there_was_nothing_there_is_nothing_again(here):
    before = sorted(here.home.rglob("*"))
    for _, place in places(here):
        connect(place)
        assert place.path.stat().st_mode & 0o777 == 0o644
    assert len(all_files(here.home)) == len(places(here))
    for _, place in reversed(places(here)):
        disconnect(place)
    assert sorted(here.home.rglob("*")) == before


@pytest.mark.parametrize("text", [*HANDWRITTEN.values(), *CODEX.values()], ids=[*HANDWRITTEN, *CODEX])
def test_what_else_is_in_a_file_stays_byte_for_byte(here, text):
    for _, place in places(here):
        own = CODEX if place.format is toml_file else HANDWRITTEN
        if text not in own.values() or place.format is script_file:
            continue
        place.path.parent.mkdir(parents=True, exist_ok=True)
        place.path.write_bytes(text.encode())
        place.path.chmod(0o600)
        done = change.connected(place)
        change.apply(done)
        assert change.state(place) == "connected"
        after = place.path.read_bytes().decode()
        assert without(after, [tuple(span) for span in done.trace.added]) == text
        assert ("\r\n" in text) == bool(re.search(r"memd.*\r\n", after)), "a line of ours ends as the others do"
        assert change.connected(place).kind == "none"
        disconnect(place)
        assert place.path.read_bytes() == text.encode()
        assert place.path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_changed_meanwhile_loses_only_what_is_memds(here):
    for _, place in places(here):
        if place.format is json_file:
            connect(place)
            data = json.loads(place.path.read_text())
            place.path.write_text(json.dumps({**data, "new": {"by": "the agent"}}, indent=4))
            disconnect(place)
            assert json.loads(place.path.read_text()) == {"new": {"by": "the agent"}}
        elif place.format is toml_file:
            connect(place)
            place.path.write_text(f'model = "new"\n\n{place.path.read_text()}\n[other]\na = 1\n')
            disconnect(place)
            assert tomllib.loads(place.path.read_text()) == {"model": "new", "other": {"a": 1}}


@pytest.mark.parametrize("text", HANDWRITTEN.values(), ids=HANDWRITTEN)
def test_without_its_notes_memd_still_takes_out_what_is_its_own(here, home, text):
    for _, place in places(here):
        if place.format is json_file:
            place.path.parent.mkdir(parents=True, exist_ok=True)
            place.path.write_bytes(text.encode())
            connect(place)
            (home.state / "connections.json").unlink()
            disconnect(place)
            after = place.path.read_bytes().decode()
            assert filled(json_file.parse(after).plain) == filled(json_file.parse(text).plain if text.strip() else {})
            comments = re.compile(r"//[^\n]*|/\*.*?\*/")
            assert comments.findall(after) == comments.findall(text)


def filled(value: Any) -> Any:
    """A value without the containers in it that are empty: whose they are nobody remembers."""
    if not isinstance(value, dict | list):
        return value
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    kept = {key: made for key, one in inner if (made := filled(one)) not in ({}, [])}
    return kept if isinstance(value, dict) else list(kept.values())


def test_memds_notes_hold_nothing_of_the_files(here, home):
    place = AGENTS["claude-code"].places("user", here)[0]
    place.path.write_text(HANDWRITTEN["other server"])
    connect(place)
    kept = (home.state / "connections.json").read_text()
    assert str(place.path) in kept and "s3cr3t" not in kept


def test_the_diff_does_not_show_the_neighbours_keys(here):
    place = AGENTS["claude-code"].places("user", here)[0]
    spread = json.dumps({"mcpServers": {"a": {"command": "x", "env": {"KEY": "s3cr3t"}}}}, indent=2)
    place.path.write_text(spread)
    diff = change.connected(place).diff()
    assert '+    "memd": {' in diff and "s3cr3t" not in diff


def test_other_options_replace_the_entry_and_the_way_back_stays_exact(here):
    for name, text in (("cursor", HANDWRITTEN["tabs"]), ("codex", CODEX["no newline"])):
        agent = AGENTS[name]
        path = agent.places("user", here)[0].path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        connect(agent.places("user", here)[0])
        other = Here(here.home, here.project, {}, "linux", ("/opt/bin/memd",), profile="all", ns="notes")
        connect(agent.places("user", other)[0])
        assert '"--profile"' in path.read_text() and path.read_text().count("/opt/bin/memd") == 1
        disconnect(agent.places("user", here)[0])
        assert path.read_bytes() == text.encode()


def test_other_peoples_hooks_stay_also_beside_memds_in_one_group(here):
    place = AGENTS["claude-code"].places("user", here)[1]
    theirs = {"type": "command", "command": "say done"}
    ours = {"type": "command", "command": "memd hook stop"}
    near = {"type": "command", "command": "memdx hook-stop"}
    place.path.parent.mkdir()
    place.path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [theirs, ours, near]}, {"hooks": [ours]}]}}))
    assert change.state(place) == "differs"
    disconnect(place)
    assert json.loads(place.path.read_text()) == {"hooks": {"Stop": [{"hooks": [theirs, near]}]}}


def test_a_link_stays_a_link(here, tmp_path):
    place = AGENTS["cursor"].places("user", here)[0]
    target = tmp_path / "dotfiles.json"
    target.write_text("{}\n")
    place.path.parent.mkdir()
    place.path.symlink_to(target)
    connect(place)
    assert place.path.is_symlink() and "memd" in target.read_text()
    disconnect(place)
    assert place.path.is_symlink() and target.read_text() == "{}\n"


BROKEN = [
    "{",
    "[]",
    "7",
    '{"a": 1 "b": 2}',
    '{"mcpServers": [1]}',
    '{"a": 1} {"b": 2}',
    "{'a: 1}",
    "{" * 500,
    '{"a": tru}',
]


@pytest.mark.parametrize("text", [*(text.encode() for text in BROKEN), b'{"a": "\xff"}'])
def test_a_file_that_cannot_be_read_is_left_alone_or_replaced_with_a_copy_kept(here, text):
    place = AGENTS["cursor"].places("user", here)[0]
    place.path.parent.mkdir()
    place.path.write_bytes(text)
    with pytest.raises(Refused) as refused:
        change.connected(place)
    assert '"mcpServers"' in refused.value.hint and place.path.read_bytes() == text
    done = change.connected(place, force=True)
    change.apply(done)
    assert change.state(place) == "connected" and done.backup.read_bytes() == text


def test_what_force_replaced_comes_back_and_the_copy_goes(here):
    for name, text in (("cursor", b'{"keep": 1, "mcpServers": null}'), ("codex", b"mcp_servers = 1 # \xff")):
        agent = AGENTS[name]
        path = agent.places("user", here)[0].path
        path.parent.mkdir()
        path.write_bytes(text)
        change.apply(change.connected(agent.places("user", here)[0], force=True))
        # Other options in between do not lose it.
        connect(agent.places("user", Here(here.home, here.project, {}, "linux", ("/opt/bin/memd",), ns="notes"))[0])
        change.apply(change.disconnected(agent.places("user", here)[0]), forget=True)
        assert path.read_bytes() == text and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("again", [False, True])
def test_what_came_after_force_stays_and_the_copy_is_named(here, again):
    agent = AGENTS["cursor"]
    place = agent.places("user", here)[0]
    place.path.parent.mkdir()
    place.path.write_text('{"keep": 1, "mcpServers": null}')
    copy = change.connected(place, force=True)
    change.apply(copy)
    servers = json.loads(place.path.read_text())["mcpServers"]
    place.path.write_text(json.dumps({"mcpServers": {**servers, "new": {}}}))
    if again:
        done = change.connected(
            agent.places("user", Here(here.home, here.project, {}, "linux", ("/opt/bin/memd",), ns="notes"))[0]
        )
    else:
        done = change.disconnected(place)
    assert str(copy.backup) in done.note
    change.apply(done, forget=not again)
    disconnect(place)
    assert json.loads(place.path.read_text()) == {"mcpServers": {"new": {}}}
    assert json.loads(copy.backup.read_text())["keep"] == 1


def test_without_its_copy_what_force_replaced_leaves_an_object(here):
    place = AGENTS["cursor"].places("user", here)[0]
    place.path.parent.mkdir()
    place.path.write_text('{"keep": 1, "mcpServers": null}')
    done = change.connected(place, force=True)
    change.apply(done)
    done.backup.unlink()
    disconnect(place)
    assert json.loads(place.path.read_text()) == {}


TAKEN = {
    "cursor": '{"mcpServers":{"memd":{"command":"mine"},"o":{}}}',
    "codex": '[mcp_servers.memd]\ncommand="mine"\n\n[other]\na = 1\n',
}


@pytest.mark.parametrize("name", TAKEN)
def test_another_server_called_memd_is_replaced_only_with_force_and_comes_back(here, name):
    place = AGENTS[name].places("user", here)[0]
    place.path.parent.mkdir()
    place.path.write_text(TAKEN[name])
    assert change.state(place) == "taken"
    with pytest.raises(Refused, match="an entry called memd") as refused:
        change.connected(place)
    assert "--force" in refused.value.hint
    untouched = change.disconnected(place)
    assert untouched.kind == "none" and "stays" in untouched.note
    change.apply(change.connected(place, force=True))
    text = place.path.read_text()
    assert change.state(place) == "connected" and "mine" not in text and ('"o"' in text or "[other]" in text)
    change.apply(change.disconnected(place), forget=True)
    assert place.path.read_text() == TAKEN[name] and list(place.path.parent.iterdir()) == [place.path]


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        ({"command": "/opt/bin/memd", "args": ["mcp", "-n", "x"], "disabled": True}, True),
        ({"command": "python3", "args": ["-m", "memd", "mcp"]}, True),
        ({"type": "local", "command": ["/opt/bin/memd", "mcp"], "enabled": False}, True),
        ({"type": "local", "command": ["other", "mcp"]}, False),
        ({"type": "local", "command": []}, False),
        ({"command": "memd-of-mine", "args": ["mcp"]}, False),
        ({"command": "memd"}, False),
        ({"url": "http://localhost"}, False),
        (None, False),
    ],
)
def test_an_entry_is_memds_when_it_starts_memd(value, ours):
    text = json.dumps({"mcpServers": {"memd": value}})
    assert (json_file.state(text, PIECES) == "taken") is not ours


@pytest.mark.parametrize("text", ["a = ", "mcp_servers = {a = {command = 'x'}}\n", "[[mcp_servers]]\n"])
def test_toml_that_a_table_cannot_be_added_to_is_left_alone(here, text):
    place = AGENTS["codex"].places("user", here)[0]
    place.path.parent.mkdir()
    place.path.write_text(text)
    with pytest.raises(Refused, match="cannot be edited"):
        change.connected(place)
    assert place.path.read_text() == text


# --- any JSON ---------------------------------------------------------------------------------------------------


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["mcpServers", "hooks", "a", "memory"]) | st.text(), VALUES, max_size=4)
PIECES = (
    Piece(("mcpServers",), {"command": "m"}),
    Piece(("hooks", "Stop"), {"hooks": [{"command": "memd hook stop"}]}, in_list=True),
)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, st.sampled_from([None, 1, 2, 4, "\t"]), st.booleans())
def test_any_document_keeps_its_values_and_gets_its_bytes_back(document, indent, ascii_only):
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert json_file.parse(text).plain == document
    try:
        draft = json_file.add(text, PIECES)
    except Unreadable:
        assert not isinstance(document.get("mcpServers", {}), dict) or not isinstance(
            document.get("hooks", {}).get("Stop", []) if isinstance(document.get("hooks", {}), dict) else None, list
        )
        return
    assert without(draft.text, draft.added) == text
    assert json_file.state(draft.text, PIECES) == "connected"
    made = json_file.containers(text, PIECES)
    clean = json_file.remove(draft.text, PIECES, made)
    assert json.loads(clean) == document


def test_json_as_people_keep_it():
    text = "\ufeff// c\n{a: 1, 'b\\'': [.5, +1, 0x10, -Infinity,], /* x */ \"c\": 'd\"e', $f_1: null,}\n"
    plain: Any = json_file.parse(text).plain
    assert plain == {"a": 1, "b'": [0.5, 1, 16, float("-inf")], "c": 'd"e', "$f_1": None}


# --- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
def person(home: Home, tmp_path: Path) -> Home:
    """Someone at the shell with a home directory of their own."""
    home.env |= {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCLAW_CONFIG_PATH"):
        home.env.pop(name, None)
    return home


def test_connect_shows_the_diff_and_what_is_next_and_disconnect_takes_it_out(person, tmp_path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"theme": "dark"}\n')
    before = all_files(tmp_path)
    dry = person.run("connect", "claude-code", "--dry-run")
    assert dry.returncode == 0 and "+++ " in dry.stdout and "would be created" in dry.stderr
    assert all_files(tmp_path) == before
    done = person.run("connect", "claude-code")
    assert done.returncode == 0 and done.stdout == dry.stdout and "next: " in done.stderr
    server = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["memd"]
    assert server["args"][-1] == "mcp" and Path(server["command"]).is_absolute()
    assert server["env"] == {"MEMD_HOME": str(person.path)}
    hooks = json.loads((tmp_path / ".claude" / "settings.json").read_text())
    assert hooks["theme"] == "dark"
    assert set(hooks["hooks"]) == {"SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"}
    again = person.run("connect", "claude-code")
    assert again.stdout == "" and again.stderr.count("nothing to change") == 2
    aside = {event: group[0]["hooks"][0].get("async", False) for event, group in hooks["hooks"].items()}
    assert {event for event, apart in aside.items() if apart} == {"PreCompact", "Stop"}
    told = json.loads(person.run("disconnect", "claude-code", "--json").stdout)
    assert {file["change"] for file in told["files"]} == {"changed", "removed", "none"}
    assert all_files(tmp_path) == before
    person.run("connect", "claude-code")
    *_, last = person.run("disconnect", "claude-code").stderr.splitlines()
    files = f"{tmp_path}/.claude.json and {tmp_path}/.claude/settings.json"
    assert last == f"memd: Claude Code is disconnected: memd is out of {files}"
    assert person.run("disconnect", "claude-code").stderr == "memd: it was not connected\n"


def test_connect_says_what_it_does_not_do_yet_and_asks_on_a_terminal(person, tmp_path):
    person.configure("# mine\n[hooks]\nlimit = 2 # few\n")
    off = "saving from sessions is off; to turn it on: memd connect claude-code --capture"
    assert off in person.run("connect", "claude-code").stderr
    assert "saving from sessions" not in person.run("connect", "cursor").stderr
    shown, code = on_terminal(person, "connect", "codex", "--no-hooks", typed="n\n")
    assert code == 0 and "+[mcp_servers.memd]" in shown and "Write this to" in shown and "nothing was written" in shown
    assert not (tmp_path / ".codex/config.toml").exists()
    shown, code = on_terminal(person, "connect", "codex", "--no-hooks", typed="\n")
    assert code == 0 and shown.count("[mcp_servers.memd]") == 1 and (tmp_path / ".codex/config.toml").exists()
    for answer in ("\n", "later\n"):
        shown, code = on_terminal(person, "connect", "claude-code", typed=answer)
        assert code == 0 and "Turn it on? (yes, no, later)" in shown and off in shown
    assert "capture" not in (person.path / "config.toml").read_text()
    shown, code = on_terminal(person, "connect", "claude-code", typed="no\n")
    assert "capture = false\n" in (person.path / "config.toml").read_text()
    shown, code = on_terminal(person, "connect", "claude-code", typed="\n")
    assert code == 0 and "Turn it on?" not in shown and off in shown
    person.configure("# mine\n[hooks]\nlimit = 2 # few\n")
    shown, code = on_terminal(person, "connect", "claude-code", typed="yes\n")
    assert code == 0 and "is saved in the note of the day" in shown
    assert (person.path / "config.toml").read_text() == "# mine\n[hooks]\nlimit = 2 # few\ncapture = true\n"
    assert "is saved in the note of the day" in person.run("connect", "claude-code").stderr
    assert off in person.run("connect", "claude-code", "--no-capture").stderr


def test_a_hook_as_it_was_written_runs(person, tmp_path):
    person.run("connect", "claude-code")
    told = json.loads((tmp_path / ".claude" / "settings.json").read_text())["hooks"]
    (group,) = told["UserPromptSubmit"]
    (command,) = group["hooks"]
    program = ["env", f"MEMD_HOME={person.path}", *agents.program("user")]
    assert shlex.split(command["command"]) == [*program, "hook", "user-prompt-submit"]
    assert command["timeout"] > 1


def test_the_server_as_it_was_written_answers_an_agent(person, tmp_path, workspace):
    person.start().workspace_add(workspace)
    person.run("connect", "claude-desktop", cwd=workspace)
    file = tmp_path / ".config" / "Claude" / "claude_desktop_config.json"
    server = json.loads(file.read_text())["mcpServers"]["memd"]
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}) + "\n"
    # As little of an environment as desktop applications hand on, and somewhere else.
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **server["env"]}
    with subprocess.Popen(
        [server["command"], *server["args"]], env=env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as agent:
        agent.stdin.write(line)
        agent.stdin.flush()
        answer = json.loads(agent.stdout.readline())
        agent.stdin.close()
        assert agent.wait(PATIENCE) == 0
    assert answer["id"] == 1 and "memd" in json.dumps(answer["result"]["serverInfo"])


def test_the_list_says_what_is_there_and_what_is_connected(person, tmp_path):
    (tmp_path / ".codex").mkdir()
    person.run("connect", "codex", "--profile", "all")
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text("{")
    person.env["PATH"] = "/nonexistent"
    rows = {row["agent"]: row for row in json.loads(person.run("connect", "--list", "--json").stdout)["agents"]}
    assert list(rows) == list(AGENTS)
    assert rows["codex"]["found"] == str(tmp_path / ".codex") and rows["nanobot"]["found"] == ""
    assert rows["codex"]["places"][0] == {
        "scope": "user", "path": str(tmp_path / ".codex" / "config.toml"), "state": "connected"
    }  # fmt: skip
    assert rows["cursor"]["places"][0]["state"] == "unreadable"
    listed = person.run("connect").stdout
    assert re.search(r"codex +found: .*\n +user +connected +.*config\.toml", listed)


def test_a_project_gets_files_that_others_can_use(person, tmp_path):
    project = tmp_path / "repository"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    person.env["XDG_STATE_HOME"] = person.env["XDG_RUNTIME_DIR"] = str(tmp_path / "state")
    for agent in ("claude-code", "codex", "cursor", "vscode", "gemini", "opencode"):
        assert person.run("connect", agent, "--scope", "project", cwd=project / "src").returncode == 0
    assert set(all_files(project)) == {
        ".mcp.json", ".claude/settings.json", ".codex/config.toml", ".codex/hooks.json", ".cursor/mcp.json",
        ".vscode/mcp.json", ".gemini/settings.json", "opencode.json", ".opencode/plugins/memd.js",
    }  # fmt: skip
    assert tomllib.loads((project / ".codex" / "config.toml").read_text()) == {
        "mcp_servers": {"memd": {"command": "memd", "args": ["mcp"]}}
    }
    for personal in (str(tmp_path), person.env["MEMD_HOME"], "MEMD_HOME"):
        assert all(personal.encode() not in data for data in all_files(project).values())
    done = person.run("connect", "claude-desktop", "--scope", "project", cwd=project)
    assert done.returncode == 2 and "no settings for a project" in done.stderr


def test_for_a_user_the_places_of_memd_go_along(person, tmp_path):
    person.env.pop("MEMD_HOME")
    person.env |= {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    person.run("connect", "codex")
    entry = tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())["mcp_servers"]["memd"]
    assert entry["env"] == {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    assert person.run("disconnect", "codex").returncode == 0 and not (tmp_path / ".codex").exists()


def test_an_agent_that_starts_elsewhere_gets_a_workspace_by_name(person, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    person.configure(f'[[workspace]]\npath = "{one}"\nns = "one"\n\n[[workspace]]\npath = "{two}"\nns = "two"\n')
    refused = person.run("connect", "claude-desktop")
    assert refused.returncode == 2 and "one, two" in refused.stderr
    for flags, cwd, ns in ((("-n", "one"), None, "one"), ((), two, "two")):
        assert person.run("connect", "claude-desktop", *flags, cwd=cwd).returncode == 0
        file = tmp_path / ".config" / "Claude" / "claude_desktop_config.json"
        assert json.loads(file.read_text())["mcpServers"]["memd"]["args"][-3:] == ["mcp", "-n", ns]
    assert person.run("connect", "codex", "-n", "three").returncode == 2


def test_mistakes_are_explained(person, tmp_path):
    assert "claude-code" in person.run("connect", "emacs").stderr
    assert person.run("disconnect", "emacs").returncode == 2
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text("{ nope")
    done = person.run("connect", "cursor")
    assert done.returncode == 5 and '"memd": {' in done.stderr
    forced = person.run("connect", "cursor", "--force")
    assert forced.returncode == 0 and "what was there is in" in forced.stderr
    (copy,) = (tmp_path / ".cursor").glob("mcp.json.before-memd-*")
    assert copy.read_text() == "{ nope"
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"memd": {"command": "mine"}}}')
    assert "name is taken" in person.run("connect", "--list").stdout
    assert "--force" in person.run("connect", "cursor").stderr
    left = person.run("disconnect", "cursor", "--scope", "user")
    assert left.returncode == 0 and "stays" in left.stderr


def test_an_agent_whose_transcripts_memd_cannot_read_gets_the_hooks_that_tell(person, tmp_path):
    assert "saving" not in person.run("connect", "codex").stderr
    assert set(json.loads((tmp_path / ".codex/hooks.json").read_text())["hooks"]) == {
        "SessionStart",
        "UserPromptSubmit",
    }
    person.run("connect", "codex", "--no-hooks")
    assert person.run("disconnect", "codex").returncode == 0 and not (tmp_path / ".codex").exists()


def test_a_script_is_memds_alone(here):
    place = AGENTS["opencode"].places("user", here)[1]
    other = Here(here.home, here.project, {}, "linux", ("/opt/bin/memd",), ns="notes")
    connect(place)
    again = AGENTS["opencode"].places("user", other)[1]
    assert change.state(again) == "differs"
    connect(again)
    assert "hook session-start -n notes" in place.path.read_text()
    disconnect(again)
    assert not place.path.parent.exists()
    place.path.parent.mkdir(parents=True)
    place.path.write_text("export const mine = 1\n")
    with pytest.raises(Refused, match="an entry called memd"):
        change.connected(place)
    assert change.disconnected(place).kind == "none"
    change.apply(change.connected(place, force=True))
    assert change.state(place) == "connected"
    change.apply(change.disconnected(place), forget=True)
    assert all_files(place.path.parent) == {"memd.js": b"export const mine = 1\n"}


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run OpenCode's plugin")
def test_opencode_starts_the_server_and_adds_to_a_prompt_what_the_hooks_tell(person, tmp_path, workspace):
    with person.start() as memory:
        memory.workspace_add(str(workspace))
        memory.sync(vectors=True)
    person.run("connect", "opencode")
    server = json.loads((tmp_path / ".config/opencode/opencode.json").read_text())["mcp"]["memd"]
    assert server["type"] == "local" and server["command"][-1] == "mcp" and "MEMD_HOME" in server["environment"]
    script = tmp_path / "memd.mjs"
    shutil.copy(tmp_path / ".config/opencode/plugins/memd.js", script)
    session = f"""
        import {{ memd }} from "{script}"
        const hooks = await memd({{ directory: process.argv[1] }})
        const told = async (text) => {{
            const parts = [{{ id: "prt_1", type: "text", text }}]
            await hooks["chat.message"]({{ sessionID: "s" }}, {{ message: {{ id: "m" }}, parts }})
            return parts.slice(1)
        }}
        console.log(JSON.stringify([await told("Where is the ErsatzTV API endpoint?"), await told("thanks")]))
    """
    slow = {"MEMD_HOOKS__TIMEOUT_MS": "60000", "MEMD_HOOKS__START_MS": "60000", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(["node", "--input-type=module", "-e", session, str(workspace)], env=person.env | slow,
                         capture_output=True, text=True, timeout=PATIENCE, check=True)  # fmt: skip
    (first,), second = json.loads(ran.stdout)
    assert first["id"] > "prt_1" and first["messageID"] == "m" and first["synthetic"]
    assert first["text"].count("<memd-memory>") == 2 and "http://192.0.2.18:8409" in first["text"]
    assert second == []


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node to run OpenCode's plugin")
@pytest.mark.parametrize("answer", ["", "no JSON", '{"hookSpecificOutput": {"additionalCon', "{}", "null"])
def test_an_answer_that_is_none_does_not_end_opencode(tmp_path, answer):
    commands = {"SessionStart": f"printf %s {shlex.quote(answer)}", "UserPromptSubmit": "exit 3"}
    source = (ROOT / "memd/cli/connecting/opencode_plugin.js").read_text()
    script = tmp_path / "memd.mjs"
    script.write_text(source.replace(script_file.COMMANDS, json.dumps(commands)))
    session = f"""
        import {{ memd }} from "{script}"
        const parts = [{{ id: "prt_1", type: "text", text: "hello" }}]
        const hooks = await memd({{ directory: "/" }})
        await hooks["chat.message"]({{ sessionID: "s" }}, {{ message: {{ id: "m" }}, parts }})
        console.log(parts.length)
    """
    ran = subprocess.run(["node", "--input-type=module", "-e", session], capture_output=True, text=True,
                         timeout=PATIENCE, check=False)  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")


def test_nanobots_other_spelling_is_kept(here):
    path = here.home / ".nanobot" / "config.json"
    path.parent.mkdir()
    path.write_text('{"tools": {"mcp_servers": {}}}')
    connect(AGENTS["nanobot"].places("user", here)[0])
    assert "memd" in json.loads(path.read_text())["tools"]["mcp_servers"]


# --- the plugin and the page for shells ---------------------------------------------------------------------------


def test_the_plugin_says_what_connect_writes():
    plain = Here(Path("/"), Path("/"), {}, "linux", ("memd",))
    plugin = ROOT / "plugin"
    assert (plugin / "hooks" / "hooks.json").read_text() == json_file.add("", agents.hooks(plain, saves=True)).text
    server = (Piece(("mcpServers",), agents.server(plain, typed="stdio")),)
    assert (plugin / ".mcp.json").read_text() == json_file.add("", server).text
    manifest = json.loads((plugin / ".claude-plugin" / "plugin.json").read_text())
    assert manifest["name"] == "memd" and manifest["version"] == __version__
    (listed,) = json.loads((plugin / ".claude-plugin" / "marketplace.json").read_text())["plugins"]
    assert (plugin / listed["source"]).resolve() == plugin and listed["name"] == manifest["name"]


def test_the_skill_has_a_name_and_says_when_it_is_meant():
    text = (ROOT / "plugin" / "skills" / "memory" / "SKILL.md").read_text()
    head = re.match(r"---\nname: (?P<name>[a-z-]+)\ndescription: (?P<what>.+)\n---\n", text)
    assert head and head["name"] == "memory" and 100 < len(head["what"]) < 1_024
    assert all(tool in text for tool in ("memory_search", "memory_get", "memory_save", "memory_context"))


def test_the_page_for_shells_names_commands_and_flags_that_exist():
    import typer.main

    from memd.cli.app import app

    known = typer.main.get_command(app).commands
    text = (ROOT / "examples" / "AGENTS.md").read_text()
    called = re.findall(r"\bmemd ([a-z]+)((?:[^`\n])*)", text.partition("-->")[2])
    used = [(name, rest) for name, rest in called if name != "keeps"]
    assert len(used) > 8
    for name, rest in used:
        assert name in known, name
        flags = {flag for param in known[name].params for flag in param.opts}
        assert set(re.findall(r"(?<= )--?[a-zA-Z-]+", re.sub(r'"[^"]*"', "", rest.partition("#")[0]))) <= flags, name


def test_a_part_of_an_agents_name_is_answered_with_the_names_it_may_mean(person):
    told = person.run("connect", "claude")
    assert told.returncode == 2 and "did you mean `claude-code` or `claude-desktop`?" in told.stderr
