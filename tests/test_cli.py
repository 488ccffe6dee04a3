"""The commands as a person types them, against a real daemon: what they print, where, and how they exit."""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest

import memd
from memd.cli.app import MODULES, LazyCommands
from tests.conftest import ROOT, Home, write_notes

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "# 2026-03-01\n\n## Mischief\n\nA kestrel \x1b[2J clears \x9b the \u202escreen\u202c and \u200bhides.\n"


@pytest.fixture(scope="module")
def place():
    """A home with a daemon and two workspaces, for the tests that only ask."""
    folder = Path(tempfile.mkdtemp(prefix="memd-"))
    home = Home(folder / "h")
    home.path.mkdir()
    try:
        agent = write_notes(folder / "agent")
        (agent / "memory" / "2026-03-01.md").write_text(HOSTILE)
        write_notes(folder / "other", {"MEMORY.md": "# Other\n\n## Router\n\nThe router here is called lagoon.\n"})
        assert home.run("add", str(agent)).returncode == 0
        assert home.run("add", str(folder / "other"), "--ns", "side").returncode == 0
        assert home.run("sync", "--vectors").returncode == 0
        yield home
    finally:
        home.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def agent(place):
    return place.path.parent / "agent"


def on_terminal(home, *args, cwd=None, typed="", **env):
    """Run `memd` on a terminal of its own: all that it showed, and its exit code."""
    environment = {name: value for name, value in home.env.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | env
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "memd", *args], env=environment, cwd=cwd or home.path,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(slave)
        os.write(master, typed.encode())
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            shown += part
        os.close(master)
    return shown.decode().replace("\r\n", "\n"), process.returncode


def as_json(done):
    assert done.returncode in (0, 1, 4), done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("args", "code", "exit_code"),
    [
        (["get", "no-such-key", "--json"], "not_found", 1),
        (["query", "--since", "2026-03", "--until", "2026-01", "x", "--json"], "bad_params", 2),
        (["query", "x", "--no-such-flag", "--json"], "bad_params", 2),
        (["note", "--json", "x", "-n", "nowhere"], "unknown_workspace", 2),
    ],
)
def test_with_json_an_error_is_json_too(place, args, code, exit_code):
    done = place.run(*args)
    assert (done.returncode, done.stderr) == (exit_code, "")
    assert json.loads(done.stdout)["error"]["data"]["code"] == code


def test_a_list_that_is_empty_says_so(place, tmp_path):
    (tmp_path / "memory").mkdir()
    place.run("add", str(tmp_path), "-n", "empty")
    for command in (
        "list",
        "tags",
        "topic list",
        "gc",
        "gc --hard",
        "files --touching x.py",
        "trash",
        "log",
        "tree",
        "timeline",
    ):
        done = place.run(*command.split(), "-n", "empty")
        assert (done.returncode, done.stdout) == (0, "") and done.stderr.startswith("memd: "), command
    place.run("remove", "empty")


# query


def test_a_query_shows_place_key_and_text(place, agent):
    done = place.run("query", "ErsatzTV", cwd=agent)
    assert (done.returncode, done.stderr) == (0, "")
    first, *text = done.stdout.split("\n\nmemory/")[0].splitlines()
    assert first == "memory/2026-02-15.md:3  2026-02-15#ersatztv"
    assert "  Set up the ErsatzTV skill for Pierce." in text
    assert "\x1b" not in done.stdout


def test_what_is_longer_than_the_terminal_goes_through_the_pager(place, agent, tmp_path):
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nprintf 'paged %s: ' \"$LESS\"\nwc -l\n")
    pager.chmod(0o755)
    size = {"LINES": "5", "COLUMNS": "80"}
    shown, code = on_terminal(place, "list", cwd=agent, PAGER=str(pager), **size)
    assert code == 0 and re.fullmatch(r"paged FRX: +\d+\n", shown)
    for program, lines in ((str(pager), "500"), ("cat", "5"), ("", "5"), ("/no/such/program", "5")):
        shown, code = on_terminal(place, "list", cwd=agent, **size | {"LINES": lines, "PAGER": program})
        assert code == 0 and "paged" not in shown and "Sourdough" in shown
    assert "paged" not in place.run("list", cwd=agent, PAGER=str(pager), **size).stdout


def test_a_diff_is_coloured_on_a_terminal_only(place, agent):
    place.run("put", "colours", "One line.", cwd=agent)
    place.run("put", "colours", "Another line.", cwd=agent)
    shown, _ = on_terminal(place, "diff", "colours", cwd=agent)
    assert "\x1b[31m-One line.\x1b[0m" in shown and "\x1b[32m+Another line.\x1b[0m" in shown
    assert "\x1b" not in place.run("diff", "colours", cwd=agent).stdout
    for _ in range(2):
        place.run("undo", cwd=agent)


def test_on_a_terminal_the_place_is_a_link_and_matches_stand_out(place, agent):
    shown, code = on_terminal(place, "query", "ErsatzTV", cwd=agent)
    assert code == 0
    host = os.uname().nodename
    assert f"\x1b]8;;file://{host}{agent.resolve()}/memory/2026-02-15.md\x1b\\" in shown
    assert re.search(r"the \x1b\[1;33mErsatzTV\x1b\[0m skill", shown)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours_are_left_out_where_they_are_not_wanted(place, agent, env):
    shown, _ = on_terminal(place, "query", "ErsatzTV", cwd=agent, **env)
    assert "ErsatzTV" in shown and "\x1b" not in shown


def test_colours_can_be_forced_and_forbidden(place, agent):
    assert "\x1b[1;33m" in place.run("query", "ErsatzTV", "--color=always", cwd=agent).stdout
    assert "\x1b" not in on_terminal(place, "query", "ErsatzTV", "--color", "never", cwd=agent)[0]


def test_notes_cannot_drive_the_terminal(place, agent):
    for shown in (
        on_terminal(place, "query", "kestrel", cwd=agent)[0],
        on_terminal(place, "get", "2026-03-01#mischief", cwd=agent)[0],
        place.run("query", "kestrel", cwd=agent).stdout,
    ):
        assert "kestrel" in COLOUR.sub("", shown)
        assert not any(char in shown for char in "\x9b\u202e\u202c\u200b")
        assert "\x1b[2J" not in shown
    assert "\u202e" in as_json(place.run("query", "kestrel", "--json", cwd=agent))["hits"][0]["text"]


def test_several_words_need_no_quotes_and_flags_may_stand_anywhere(place, agent):
    done = place.run("query", "apple", "--limit", "1", "trees", cwd=agent)
    assert done.stdout.startswith("memory/2026-02-15.md:") and "apple trees" in done.stdout
    assert len(as_json(place.run("query", "-l", "2", "the", "--json", cwd=agent))["hits"]) == 2


def test_words_that_look_like_flags_go_after_two_dashes(place, agent):
    done = place.run("query", "--", "--ersatztv", cwd=agent)
    assert done.returncode == 0 and "ErsatzTV" in done.stdout
    refused = place.run("query", "--ersatztv", cwd=agent)
    assert refused.returncode == 2 and "go after --" in refused.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ["--mode", "text"], ["--mode=exact"], ["-m", "vector"], ["--kind", "episodic"], ["--role=daily"],
        ["--path", "memory/"], ["--since=2026-02-01", "--until", "2026-02-28"], ["--sync", "full"], ["--explain"],
        ["-n", "agent"], ["--ns=agent"], ["-nagent"], ["-w", "."], ["--no-start"], ["-l5"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_flag_of_query(place, agent, flags):
    """By the fast way or, for spellings that it does not know, by Typer: the same answer."""
    done = place.run("query", *flags, "ErsatzTV", cwd=agent)
    assert done.returncode == 0, done.stderr
    assert "memory/2026-02-15.md:3" in done.stdout


def test_tags_narrow_the_answer(place, agent):
    hits = as_json(place.run("query", "starter", "--tags", "baking,bread", "--json", cwd=agent))["hits"]
    assert {hit["path"] for hit in hits} == {"memory/topics/sourdough.md"}


def test_search_is_query(place, agent):
    assert place.run("search", "ErsatzTV", cwd=agent).stdout == place.run("query", "ErsatzTV", cwd=agent).stdout


def test_json_is_the_wire_result(place, agent):
    told = as_json(place.run("query", "ErsatzTV", "--json", cwd=agent))
    assert told["ns"] == ["agent"] and told["verdict"] == "found" and told["degraded"] == []
    assert {"clock", "lag_ms", "pending", "took_ms"} <= told.keys()


def test_outside_every_workspace_all_are_asked_and_named(place):
    done = place.run("query", "router")
    assert re.search(r"^agent  MEMORY\.md:\d+  ", done.stdout, re.MULTILINE)
    assert re.search(r"^side  MEMORY\.md:\d+  ", done.stdout, re.MULTILINE)


def test_nothing_found_is_said_and_exits_1(place, agent):
    done = place.run("query", "zeppelinquux", "--mode", "text", cwd=agent)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("memd: nothing found for “zeppelinquux” in agent")
    told = place.run("query", "zeppelinquux", "--mode", "text", "--json", cwd=agent)
    assert told.returncode == 1 and json.loads(told.stdout)["verdict"] == "none"


def test_a_directory_that_is_in_no_workspace_is_refused(place):
    done = place.run("query", "-w", "/usr", "x")
    assert done.returncode == 2 and "memd add /usr" in done.stderr
    assert place.run("query", "-n", "nobody", "x").returncode == 2


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["query"], "Missing argument"),
        (["query", ""], "the query is empty"),
        (["query", "--limit", "-1", "x"], "range"),
        (["query", "--limit", "201", "x"], "range"),
        (["query", "--format", "xml", "x"], "memory-search"),
        (["list", "--sort", "size"], "newest"),
        (["query", "--limit", "many", "x"], "many"),
        (["query", "--mode", "magic", "x"], "hybrid"),
        (["query", "--since", "someday", "x"], "2026-02-15"),
        (["query", "x", "--ns"], "--ns"),
        (["get"], "Missing argument"),
        (["quer", "x"], "Did you mean 'query'"),
        (["config"], "memd config needs one of: init, show, set, check\n"),
        (["rule"], "memd rule needs one of: list, set, rm, test\n"),
        (["config", "set", "nosuch.thing", "3"], "nothing was changed"),
        (["config", "set", "search.limit", "many"], "nothing was changed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_exit_2_with_what_to_do(place, args, told):
    done = place.run(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("memd: ") and told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["query", "get", "status", "workspaces", "logs"])
def test_a_closed_pipe_is_quiet(place, agent, command):
    args = {"query": ["query", "the"], "get": ["get", "MEMORY.md"]}.get(command, [command])
    with subprocess.Popen(
        [sys.executable, "-m", "memd", *args], env=place.env, cwd=agent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("words", [["query", "the"], ["list", "--json"], ["get", "no-such-key", "--json"]])
def test_a_full_disk_behind_the_output_is_told(place, agent, words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memd", *words],
            env=place.env,
            cwd=agent,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 6 and b"No space left" in done.stderr and b"Traceback" not in done.stderr


# get, workspaces, status


def test_get_gives_a_memory_as_it_stands(place, agent):
    expected = "## ErsatzTV\n\nSet up the ErsatzTV skill for Pierce.\nThe API endpoint is http://192.0.2.18:8409.\n"
    assert place.run("get", "2026-02-15#ersatztv", cwd=agent).stdout.strip() == expected.strip()
    assert place.run("get", "memory/2026-02-15.md:3", "--lines", "3", cwd=agent).stdout == (
        "## ErsatzTV\n\nSet up the ErsatzTV skill for Pierce.\n"
    )
    whole = place.run("get", "memory/2026-02-15.md", cwd=agent).stdout
    assert whole == (agent / "memory" / "2026-02-15.md").read_text()
    assert as_json(place.run("get", "2026-02-15#garden", "--json", cwd=agent))["start_line"] == 8


def test_get_of_what_is_not_there_exits_1(place, agent):
    for what in ("2026-02-15#ersatz", "memory/1999-01-01.md"):
        done = place.run("get", what, cwd=agent)
        assert done.returncode == 1 and done.stderr.startswith("memd: ") and done.stdout == ""


def test_workspaces_are_listed(place):
    done = place.run("workspaces")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["workspace", "agent", "side"]
    assert [entry["ns"] for entry in as_json(place.run("workspaces", "--json"))["workspaces"]] == ["agent", "side"]


def test_status_is_a_screen(place):
    done = place.run("status")
    assert done.returncode == 0
    for expected in (
        f"memd {memd.__version__} has been running for ",
        "pid ",
        "agent",
        "side",
        "pending",
        "model",
        "(memd jobs)",
        "config ",
        "socket ",
    ):
        assert expected in done.stdout, done.stdout
    told = as_json(place.run("status", "--json"))
    assert told["pid"] and len(told["workspaces"]) == 2


def test_sync_and_rebuild_say_what_they_did(place, agent):
    done = place.run("sync", cwd=agent)
    assert done.returncode == 0 and re.match(r"5 files, 0 changed, 0 removed \(", done.stdout)
    assert as_json(place.run("sync", "--json"))["files"] == 6
    done = place.run("rebuild", "-n", "agent")
    assert done.returncode == 0 and done.stdout.startswith("built again: 5 files, ")
    assert "\r" not in done.stderr


def test_doctor_finds_all_well(place):
    done = place.run("doctor")
    assert done.returncode == 0 and done.stdout.endswith("all is well\n")
    assert as_json(place.run("doctor", "--json"))["ok"] is True


def test_logs_come_with_and_without_json(place):
    done = place.run("logs", "-n", "3")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3
    told = as_json(place.run("logs", "--json", "-n", "2"))
    assert told["log"].endswith("memd.log") and len(told["lines"]) == 2
    assert "ErsatzTV" not in place.run("logs", "-n", "1000").stdout


# help


COMMANDS = [
    "query", "search", "grep", "get", "list", "sync", "status", "add", "remove", "workspaces", "start", "stop",
    "restart", "reload", "daemon",
    "logs", "doctor", "rebuild", "help", "show", "ls", "conflicts",
    "config init", "config show", "config check", "service install", "service uninstall",
    "service status", "connect", "disconnect", "hook", "mcp",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_takes_json(home, command):
    done = home.run(*command.split(), "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "--json" in done.stdout and f"Usage: memd {command}" in done.stdout


def listed(text: str) -> list[str]:
    return re.findall(r"^  ([a-z][a-z-]+) ", text, re.MULTILINE)


def test_help_begins_with_a_dozen_commands_and_has_all_in_groups(home):
    first = home.run("--help").stdout
    assert home.run().stdout == home.run("help").stdout == first
    assert len(listed(first)) == 12 and max(map(len, first.splitlines())) <= 80 and "memd help --all" in first
    every = home.run("help", "--all").stdout
    visible = {name for name in LazyCommands() if LazyCommands().info(name).hidden is not True}
    assert sorted(listed(every)) == sorted(visible), "each command once, and none of the other names"
    assert {"ns", "show", "ls", "search", "conflicts"}.isdisjoint(visible)
    assert [name for group in as_json(home.run("help", "--json"))["groups"].values() for name in group] == listed(every)
    assert re.fullmatch(r"memd \d+\.\d+\.\d+\S*\n", home.run("--version").stdout)


def test_help_of_a_command_is_its_own_and_mistakes_are_told(home):
    assert home.run("help", "query").stdout == home.run("query", "--help").stdout
    assert home.run("help", "edge", "add").stdout == home.run("edge", "add", "--help").stdout
    assert home.run("help", "hook", "stop").stdout == home.run("hook", "--help").stdout
    wrong = home.run("help", "quer")
    assert wrong.returncode == 2 and "did you mean `query`?" in wrong.stderr


def test_show_and_ls_do_what_one_expects(place, agent):
    assert (
        place.run("show", "2026-02-15#ersatztv", cwd=agent).stdout
        == place.run("get", "2026-02-15#ersatztv", cwd=agent).stdout
    )
    assert place.run("ls", cwd=agent).stdout == place.run("list", cwd=agent).stdout != ""


def test_every_registered_command_is_in_the_table_of_modules():
    for module, names in MODULES.items():
        commands = import_module(f"memd.cli.commands.{module}").app
        known = [one.name or one.callback.__name__ for one in commands.registered_commands]
        assert sorted(known + [one.name for one in commands.registered_groups]) == sorted(names.split())


def test_the_shell_can_complete(home):
    shown = home.run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.returncode == 0 and "_MEMD_COMPLETE" in shown.stdout
    done = home.run(COMP_WORDS="memd qu", COMP_CWORD="1", _MEMD_COMPLETE="complete_bash")
    assert done.stdout.split() == ["query"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("memd que", ["query"]),
        ("memd query x --form", ["--format"]),
        ("memd query x -n a", ["agent"]),
        ("memd get 2026-02-15#e", ["2026-02-15#ersatztv"]),
        ("memd connect claude-", ["claude-code", "claude-desktop"]),
        ("memd jobs run ref", ["reflect"]),
        ("memd tags rename ba", []),
        ("memd list --tags ba", ["baking"]),
    ],
)
def test_bash_completes_commands_flags_workspaces_keys_agents_and_jobs(place, agent, line, offered):
    # In a shell of its own, with the script that the package installs; `memd` is found beside Python.
    words = line.split(" ")
    script = f"""
        source {shlex.quote(f"{ROOT}/share/completions/memd.bash")}
        memd() {{ {shlex.quote(sys.executable)} -m memd "$@"; }}
        COMP_WORDS=({" ".join(repr(word) for word in words)}) COMP_CWORD={len(words) - 1}
        _memd memd
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], env=place.env, cwd=agent, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (offered, "")


OTHER_SHELLS = {
    "fish": "source {script}; complete -C '{line}' | string split -f1 \\t",
    # Outside of its line editor zsh has the same arrays; what would be offered is printed.
    "zsh": "compdef() {{ }}; compadd() {{ print -l $found }}; _files() {{ }}; source {script};"
    " words=({line}) CURRENT=$#words; _memd",
}


@pytest.mark.parametrize("shell", OTHER_SHELLS)
def test_other_shells_complete_as_bash_does(place, agent, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    (tmp_path / "memd").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m memd "$@"\n')
    (tmp_path / "memd").chmod(0o755)
    script = ROOT / "share/completions" / {"fish": "memd.fish", "zsh": "_memd"}[shell]
    env = {**place.env, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for line, offered in (("memd que", ["query"]), ("memd get 2026-02-15#e", ["2026-02-15#ersatztv"]),
                          ("memd query x -n a", ["agent"]), ("memd jobs run ref", ["reflect"])):  # fmt: skip
        command = [shell, "-c", OTHER_SHELLS[shell].format(script=shlex.quote(str(script)), line=line)]
        done = subprocess.run(command, env=env, cwd=agent, capture_output=True, text=True)
        assert (done.stdout.split(), done.stderr) == (offered, ""), line


def test_without_a_daemon_completion_offers_nothing_and_starts_none(home):
    done = home.run(COMP_WORDS="memd get x", COMP_CWORD="2", _MEMD_COMPLETE="complete_bash")
    assert (done.stdout.strip(), done.stderr) == ("", "") and not home.socket.exists()
