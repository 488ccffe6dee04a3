"""Starting, stopping, upgrading, adding and removing: the commands that change what runs and what is kept."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import memd
from memd.cli.commands import server
from memd.errors import MemdError, UsageError
from memd.protocol.client import Client
from tests.conftest import PATIENCE, ROOT, Home, write_notes
from tests.test_cli import as_json, on_terminal
from tests.test_past import holders


def ended(pid: int) -> bool:
    """Whether a process runs no longer; one that nobody has waited for yet may still have its entry."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"Z"]
    except FileNotFoundError:
        return True


def pid_of(home):
    return json.loads((home.state / "memd.lock").read_text())["pid"]


def of_version(folder, version):
    """A copy of memd that says it has another version."""
    shutil.copytree(ROOT / "memd", folder / "memd", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "memd" / "version.py"
    file.write_text(file.read_text().replace(f'"{memd.__version__}"', f'"{version}"'))
    return str(folder)


@pytest.fixture
def running(home):
    """A daemon that ran before the command, for tests that are not about its start."""
    home.start()


# start and stop


@pytest.mark.usefixtures("running")
def test_what_is_added_without_a_name_is_the_working_directory(home, workspace):
    done = home.run("add", "--json", cwd=workspace)
    assert done.returncode == 0 and json.loads(done.stdout)["workspace"]["root"] == str(workspace.resolve()), (
        done.stderr
    )


def test_a_query_starts_the_daemon(home, workspace):
    first = home.run("query", "ErsatzTV")
    assert first.returncode == 2 and "memd add ." in first.stderr, "nothing was ever added, so it says how to begin"
    assert home.run("add", ".", cwd=workspace).returncode == 0
    assert home.run("stop").returncode == 0
    done = home.run("query", "ErsatzTV", "--mode", "text", cwd=workspace)
    assert (done.returncode, done.stderr) == (0, "")
    assert "memory/2026-02-15.md:3" in done.stdout


@pytest.mark.parametrize("command", ["query x", "get x", "sync", "workspaces", "add .", "remove x", "rebuild"])
def test_no_start_means_no_start(home, workspace, command):
    done = home.run(*command.split(), "--no-start", cwd=workspace)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "memd: no daemon is running\n  start it: memd start\n"
    assert not home.state.exists()


def test_status_does_not_start_a_daemon(home):
    done = home.run("status")
    assert done.returncode == 3 and "memd start" in done.stderr
    assert not home.state.exists()


def test_start_restart_and_stop(home):
    started = home.run("start")
    assert started.returncode == 0 and "is running" in started.stdout
    pid = pid_of(home)
    assert "runs already" in home.run("start").stdout and pid_of(home) == pid
    assert as_json(home.run("start", "--json"))["pid"] == pid
    assert home.run("restart").returncode == 0 and pid_of(home) != pid
    stopped = as_json(home.run("stop", "--json"))
    assert stopped["stopped"] and ended(stopped["pid"])
    again = home.run("stop")
    assert (again.returncode, again.stdout) == (0, "memd was not running\n")


def test_a_restart_loses_no_question(home, workspace):
    """Neither of a client that stays nor of one that comes for a single question; only `restart` starts a daemon."""
    home.from_nothing = True
    home.run("add", str(workspace))
    over, faults, asked = threading.Event(), [], [0, 0, 0]

    def ask(nth, kept):
        while not over.is_set():
            try:
                if not (kept or Client(home.socket)).query("ErsatzTV", mode="text")["hits"]:
                    faults.append("no hits")
            except MemdError as error:
                faults.append(repr(error))
            asked[nth] += 1

    def write():
        with Client(home.socket) as client:
            while not over.is_set():
                try:
                    client.note(f"restless {asked[2]} end", title=f"Restless {asked[2]}")
                except MemdError as error:
                    faults.append(repr(error))
                asked[2] += 1

    callers = [
        threading.Thread(target=ask, args=(0, Client(home.socket))),
        threading.Thread(target=ask, args=(1, None)),
    ]
    callers.append(threading.Thread(target=write))
    for caller in callers:
        caller.start()
    try:
        for _ in range(2):
            pid, before = pid_of(home), [*asked]
            assert "is running" in home.run("restart").stdout and pid_of(home) != pid and ended(pid)
            deadline = time.monotonic() + PATIENCE
            while any(now == then for now, then in zip(asked, before, strict=True)) and time.monotonic() < deadline:
                time.sleep(0.05)
    finally:
        over.set()
        for caller in callers:
            caller.join()
    assert faults == [] and min(asked) > 3
    written = "".join(file.read_text() for file in (workspace / "memory").glob("*.md"))
    assert [written.count(f"restless {nth} end") for nth in range(asked[2])] == [1] * asked[2]
    assert sorted(file.name for file in home.socket.parent.iterdir()) == ["memd.sock"]


def test_a_restart_that_cannot_start_says_why_and_lets_nobody_wait(home, tmp_path):
    home.run("start")
    broken = of_version(tmp_path, "99.0.0")
    (tmp_path / "memd" / "daemon" / "__main__.py").write_text("raise SystemExit('memd: the disk is on fire')\n")
    done = home.run("restart", PYTHONPATH=broken)
    assert done.returncode == 3 and "the disk is on fire" in done.stderr
    done = home.run("status")
    assert (done.returncode, done.stderr) == (3, "memd: no daemon is running\n  start it: memd start\n")
    assert home.run("start").returncode == 0


def test_ten_at_once_start_one_daemon(home):
    callers = [start_memd(home, "workspaces", "--json") for _ in range(10)]
    for caller in callers:
        out, told = caller.communicate(timeout=PATIENCE)
        assert caller.returncode == 0, told
        assert json.loads(out)["workspaces"] == []
    deadline = time.monotonic() + PATIENCE
    while len(daemons_of(home)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)  # The others are about to find the lock taken.
    assert daemons_of(home) == [pid_of(home)]


def start_memd(home, *args):
    command = [sys.executable, "-m", "memd", *args]
    return subprocess.Popen(command, env=home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def daemons_of(home):
    marker = f"MEMD_HOME={home.path}\0".encode()
    running = [process for process in Path("/proc").glob("[0-9]*") if marker in _read(process / "environ")]
    return [int(process.name) for process in running if b"memd.daemon" in _read(process / "cmdline")]


def _read(file):
    try:
        return file.read_bytes() + b"\0"
    except OSError:
        return b""


def test_the_daemon_stands_on_its_own(home):
    """It outlives the command, keeps no terminal, no directory, and hears nothing meant for the one who called."""
    home.run("start", NOTIFY_SOCKET="/nowhere", WATCHDOG_USEC="1000", LISTEN_FDS="1", INVOCATION_ID="abc")
    process = Path(f"/proc/{pid_of(home)}")
    assert os.readlink(process / "cwd") == "/"
    assert os.getsid(pid_of(home)) == pid_of(home)
    assert os.readlink(process / "fd" / "0") == os.readlink(process / "fd" / "1") == "/dev/null"
    environ = process.joinpath("environ").read_bytes()
    assert not re.search(rb"NOTIFY_SOCKET|WATCHDOG_USEC|LISTEN_FDS|INVOCATION_ID", environ)


def test_a_directory_of_modules_cannot_pose_as_memd(home, workspace):
    (workspace / "json.py").write_text("raise SystemExit('hijacked')")
    (workspace / "memd.py").write_text("raise SystemExit('hijacked')")
    launch = "import sys; sys.path.remove(''); from memd.cli import main; sys.exit(main(['start']))"
    done = subprocess.run(
        [sys.executable, "-c", launch], env=sourced(home), cwd=workspace, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def sourced(home):
    """The environment of the home, in which any interpreter finds memd."""
    return {**home.env, "PYTHONPATH": str(ROOT)}


def test_why_it_could_not_start_is_told(home):
    home.configure('[watch]\nsettle = 3\nmode = "sometimes"\n')
    done = home.run("query", "x")
    assert done.returncode == 3
    assert "the daemon could not start: 2 problems in the configuration" in done.stderr
    assert "config.toml:2" in done.stderr and "config.toml:3" in done.stderr and "memd config check" in done.stderr


def test_a_directory_that_others_can_write_to_is_refused(home):
    (home.path / "run").mkdir()
    (home.path / "run").chmod(0o777)
    done = home.run("query", "x")
    assert done.returncode == 3 and "chmod 700" in done.stderr
    sick = home.run("doctor")
    assert sick.returncode == 6 and "chmod 700" in sick.stdout


def test_a_daemon_that_hangs_is_named_and_replaced(home):
    home.run("start")
    pid = pid_of(home)
    os.kill(pid, signal.SIGSTOP)
    probe = "from memd import Client; Client(timeout=0.5).status()"
    done = subprocess.run([sys.executable, "-c", probe], env=sourced(home), capture_output=True, text=True)
    assert "NoDaemon: the daemon did not answer within 0.5 seconds" in done.stderr
    restart = start_memd(home, "restart")
    time.sleep(6)
    os.kill(pid, signal.SIGCONT)
    assert "is running" in restart.communicate(timeout=PATIENCE)[0] and pid_of(home) != pid


def test_foreground_daemon_stops_on_interrupt(home):
    process = start_memd(home, "daemon", "--json")
    home.wait()
    assert home.run("daemon").returncode == 5
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert all(json.loads(line)["message"] for line in told.splitlines())


# upgrade


def test_after_an_upgrade_the_old_daemon_is_replaced(home, workspace, tmp_path):
    old = of_version(tmp_path, "0.0.9")
    assert home.run("add", str(workspace), PYTHONPATH=old).returncode == 0
    pid = pid_of(home)
    done = home.run("query", "ErsatzTV", "--mode", "text", cwd=workspace, PYTHONPATH=str(ROOT))
    assert done.returncode == 0 and "ErsatzTV" in done.stdout
    assert done.stderr == f"memd: the daemon was still memd 0.0.9; restarting it as {memd.__version__}\n"
    assert pid_of(home) != pid
    assert home.run("query", "ErsatzTV", "--mode", "text", cwd=workspace, PYTHONPATH=str(ROOT)).stderr == ""


def test_a_newer_daemon_is_left_alone_and_said(home, workspace, tmp_path):
    new = of_version(tmp_path, "99.0.0")
    assert home.run("add", str(workspace), PYTHONPATH=new).returncode == 0
    pid = pid_of(home)
    done = home.run("query", "ErsatzTV", cwd=workspace, PYTHONPATH=str(ROOT))
    assert done.returncode == 0 and "the daemon is memd 99.0.0" in done.stderr and "memd restart" in done.stderr
    assert pid_of(home) == pid


def test_status_says_that_the_daemon_is_older_than_what_is_installed(home, tmp_path):
    home.run("start", PYTHONPATH=of_version(tmp_path, "0.0.9"))
    pid = pid_of(home)
    done = home.run("status", PYTHONPATH=str(ROOT))
    assert done.returncode == 0 and done.stdout.startswith("memd 0.0.9 has been running")
    assert done.stderr == f"memd: the daemon is memd 0.0.9 and this is {memd.__version__}; to change it: memd restart\n"
    assert pid_of(home) == pid


# add and remove


def versions(client, ns):
    return [one["version"] for one in client.history("MEMORY#apple", ns=ns)["versions"]]


def test_a_history_belongs_to_its_directory_whatever_that_is_called(home):
    one, two = (write_notes(home.path / name, {"MEMORY.md": f"## Apple\n\nOf {name}.\n"}) for name in ("one", "two"))
    with home.start(MEMD_EMBEDDING__PROVIDER="none") as client:
        for place, text in ((one, "crimson"), (two, "lime")):
            client.workspace_add(str(place), ns="w")
            client.put("MEMORY#apple", text, ns="w")
            assert home.run("remove", "w").returncode == 0
        refused = home.run("remove", "w", "--hard", "--yes")
        assert refused.returncode == 2 and f"name one: {one}, {two}" in refused.stderr
        assert home.run("remove", str(two), "--hard", "--yes").returncode == 0
        client.workspace_add(str(one), ns="a")
        client.workspace_add(str(two), ns="w")
        assert (versions(client, "a"), versions(client, "w")) == ([2, 1], [1])
        assert client.stats(ns="w")["versions"] == 1
        client.workspace_rm(ns="a")
        assert client.stats(ns="w")["versions"] == 1
        client.workspace_add(str(one), ns="a")
    config = home.path / "config.toml"
    # They change places, then names; then one moves.
    for change in (lambda text: text.replace(f"{one}", "X").replace(f"{two}", f"{one}").replace("X", f"{two}"),
                   lambda text: text.replace('"a"', '"b"').replace('"w"', '"a"').replace('"b"', '"w"')):  # fmt: skip
        home.stop()
        config.write_text(change(config.read_text()))
        with home.start(MEMD_EMBEDDING__PROVIDER="none") as client:
            names = {entry["root"]: entry["ns"] for entry in client.workspace_list()["workspaces"]}
            assert (versions(client, names[str(one)]), versions(client, names[str(two)])) == ([2, 1], [1])
    home.stop()
    one.rename(home.path / "moved")
    config.write_text(config.read_text().replace(f'"{one}"', f'"{home.path}/moved"'))
    with home.start(MEMD_EMBEDDING__PROVIDER="none") as client:
        names = {Path(entry["root"]).name: entry["ns"] for entry in client.workspace_list()["workspaces"]}
        assert (versions(client, names["moved"]), versions(client, names["two"])) == ([2, 1], [1])
        assert client.workspace_list()["unwatched"] == []


@pytest.mark.usefixtures("running")
def test_add_says_how_many_files_and_remove_keeps_them(home, workspace):
    done = home.run("add", ".", cwd=workspace)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"agent is watched now \(.*\): 4 files, \d+ chunks searchable\n", done.stdout)
    assert "was a workspace already" in home.run("add", str(workspace)).stdout
    assert home.run("remove", "nobody").returncode == 2
    before = {file: file.read_bytes() for file in workspace.rglob("*.md")}
    assert "is no longer watched" in home.run("remove", str(workspace)).stdout
    assert {file: file.read_bytes() for file in workspace.rglob("*.md")} == before
    listed = home.run("workspaces")
    assert listed.stdout == "no workspaces yet; begin with: memd add .\n"
    assert listed.stderr == f"memd: no longer watched, its history is kept: agent ({workspace})\n"


def test_the_history_of_a_workspace_outlives_its_entry_in_the_config(home, workspace):
    config = home.path / "config.toml"
    with home.start(MEMD_EMBEDDING__PROVIDER="none") as client:
        client.workspace_add(str(workspace))
        client.put("lost", "The only copy of the ocelot.")
        client.rm("lost")
        client.curate("MEMORY#preferences", "pin")
        history = client.history("MEMORY#preferences")["versions"]
    whole = config.read_text()
    for text in ("", whole, whole.replace('ns = "agent"', 'ns = "kitchen"'), whole):
        home.stop()
        config.write_text(text)
        with home.start(MEMD_EMBEDDING__PROVIDER="none") as client:
            listed = client.workspace_list()
            assert listed["unwatched"] == ([] if text else [{"ns": "agent", "root": str(workspace)}])
            if text:
                assert [row["key"] for row in client.trash()["memories"]] == ["lost"]
                assert client.history("MEMORY#preferences")["versions"] == history
                assert client.query("ErsatzTV", mode="text")["verdict"] == "found"
                assert client.get("MEMORY#preferences")["declared"]["pinned"]
    assert home.run("remove", "agent").stderr.endswith("to forget it: memd remove agent --hard\n")
    (workspace / "memory" / "2026-02-15.md").write_text("## Garden\n\nOnly this.\n")
    home.run("add", str(workspace))
    with home.wait() as client:
        assert {row["key"] for row in client.trash()["memories"]} == {"lost", "2026-02-15#ersatztv"}
        assert client.history("MEMORY#preferences")["versions"] == history
    home.run("remove", "agent")
    assert home.run("remove", "agent", "--hard").returncode == 2
    assert holders(home.state, "ocelot"), "the next line would see it"
    assert home.run("remove", "agent", "--hard", "--yes").returncode == 0
    assert holders(home.state, "ocelot") == []
    home.run("add", str(workspace))
    with home.wait() as client:
        assert client.trash()["memories"] == [] and len(client.history("MEMORY#preferences")["versions"]) == 1


@pytest.mark.usefixtures("running")
def test_add_of_a_directory_without_memory_says_what_it_looked_for(home):
    empty = home.path / "not  much"
    empty.mkdir()
    done = home.run("add", str(empty))
    assert (
        done.returncode == 0
        and done.stdout.startswith("not-much is watched now")
        and "no file matches yet" in done.stdout
    )
    assert "MEMORY.md, memory/**/*.md" in done.stdout and "--glob" not in done.stdout
    (empty / "docs").mkdir()
    (empty / "docs" / "pond.md").write_text("# Pond\n")
    done = home.run("add", str(empty))
    again = f"memd remove not-much && memd add '{empty}' --glob '**/*.md'"
    assert f"1 other Markdown file can be read instead: {again}" in done.stdout
    home.run("remove", "not-much")
    shown, code = on_terminal(home, "add", str(empty), typed="y\n")
    assert code == 0 and "Read them all?" in shown and "1 file, 1 chunk searchable" in shown


@pytest.mark.usefixtures("running")
def test_add_counts_its_own_workspace_and_says_what_it_left_out(home):
    for name in ("one", "two"):
        place = write_notes(home.path / name, {"MEMORY.md": "## Pond\nNewts.\n", "docs/a.md": "# A\n", "b.md": "# B\n"})
        write_notes(place / "node_modules", {"c.md": "# C\n"})
        (place / "docs" / "link.md").symlink_to(place / "MEMORY.md")
        done = home.run("add", str(place), MEMD_EMBEDDING__PROVIDER="none")
        text = f"{name} is watched now ({place}): 1 file, 1 chunk searchable\n"
        assert done.stdout.startswith(text) and "2 vectors still to be made" not in done.stdout
        assert f"  2 other Markdown files left out; to read all of them: memd remove {name} && memd add" in done.stdout
        assert "left out, as memd never reads them: node_modules" in done.stderr
    done = home.run("remove", "two")
    write_notes(home.path / "two", {"memory/picture.md": b"\0" * 999})
    done = home.run("add", str(home.path / "two"))
    assert "  1 file left out: memd status says why\n  2 other Markdown files left out; to read" in done.stdout
    done = home.run("remove", "two")
    (home.path / "two/memory/picture.md").unlink()
    done = home.run("add", str(home.path / "two"), "--glob", "**/*.md")
    assert "3 files, 3 chunks searchable" in done.stdout and "other Markdown" not in done.stdout


@pytest.mark.usefixtures("running")
def test_add_takes_globs_a_name_and_json(home):
    vault = home.path / "vault"
    vault.mkdir()
    (vault / "pond.md").write_text("# Pond\n\nThe pond has newts.\n")
    told = as_json(home.run("add", "vault", "--ns", "garden", "--glob", "**/*.md", "--json"))
    assert (told["workspace"]["ns"], told["files"], told["added"]) == ("garden", 1, True)
    assert home.run("add", "vault", "--ns", "other").returncode == 5
    assert "pond.md:1" in home.run("query", "-n", "garden", "newts").stdout


@pytest.mark.usefixtures("running")
def test_a_bar_is_drawn_on_a_terminal_only(home):
    many = home.path / "many" / "memory"
    many.mkdir(parents=True)
    for nth in range(2400):
        (many / f"{nth}.md").write_text(f"# Note {nth}\n")
    shown, code = on_terminal(home, "add", str(many.parent))
    assert code == 0 and re.search(r"\r\x1b\[Kindexing +\[[#.]{30}\]  \d+/\d+", shown)
    assert "2,400 files" in shown.splitlines()[-2] + shown.splitlines()[-1]
    quiet = home.run("rebuild", "-n", "many")
    assert quiet.returncode == 0 and quiet.stderr == ""


# doctor, logs, config without a daemon


def test_doctor_does_not_call_all_well_what_it_warns_of(home, workspace):
    (workspace / "memory" / "latin.md").write_bytes(b"caf\xe9\n")
    home.start().workspace_add(str(workspace))
    told = home.run("doctor")
    assert told.returncode == 0 and "warning agent: notes: memory/latin.md: line 1 is not UTF-8" in told.stdout
    assert told.stdout.endswith("\nnothing is broken, but see the warnings\n")


@pytest.mark.parametrize("running", [True, False])
def test_doctor_names_a_config_that_the_next_start_refuses(home, workspace, running):
    if running:
        home.start().workspace_add(str(workspace))
    with (home.path / "config.toml").open("a") as config:
        config.write("[watch\n")
    told = home.run("doctor")
    assert told.returncode == 6 and "BROKEN  config: 1 problem in the configuration" in told.stdout
    assert told.stdout.endswith("\nmemd cannot repair what is broken above\n"), "--fix would not help"
    if running:
        shown = home.run("status").stdout
        assert "degraded  config: the next start would refuse it\n          → memd config check\n" in shown
    home.configure("")
    assert home.run("doctor").returncode == 0
    assert not running or "degraded  nothing; all is well\n" in home.run("status").stdout


def test_doctor_works_without_a_daemon_and_mends(home, workspace):
    home.run("add", str(workspace))
    home.run("sync", "--vectors")
    home.run("stop")
    assert home.run("doctor").stdout.endswith("all is well\n")
    for segment in home.state.rglob("*.toc"):
        segment.write_bytes(b"nonsense")
    sick = home.run("doctor")
    assert sick.returncode == 6 and "BROKEN" in sick.stdout and "memd doctor --fix" in sick.stdout
    mended = home.run("doctor", "--fix", "--json")
    assert mended.returncode == 0 and json.loads(mended.stdout)["ok"]
    assert home.run("query", "ErsatzTV", cwd=workspace).returncode == 0


def test_logs_reach_back_into_rotated_files(tmp_path):
    log = tmp_path / "memd.log"
    for number, name in enumerate(["memd.log.10", "memd.log.2", "memd.log.1", "memd.log"]):
        (tmp_path / name).write_text(f"{number}a\n{number}b\n")
    assert server.last_lines(log, 3) == ["2b", "3a", "3b"]
    assert server.last_lines(log, 100) == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]
    assert server.last_lines(tmp_path / "none.log", 5) == []


def test_logs_follow_through_a_rotation(home):
    home.state.mkdir(mode=0o700)
    log = home.state / "memd.log"
    log.write_text("one\n")
    process = start_memd(home, "logs", "-f")
    assert process.stdout.readline() == "one\n"
    time.sleep(0.5)
    with log.open("a") as out:
        out.write("two\n")
    assert process.stdout.readline() == "two\n"
    log.rename(home.state / "memd.log.1")
    log.write_text("three\n")
    assert process.stdout.readline() == "three\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130


def test_config_init_show_and_check(home):
    assert "defaults hold" in home.run("config", "check").stdout
    assert home.run("config", "init").returncode == 0
    assert home.run("config", "init").returncode == 5
    home.configure("[watch]\nsettle_ms = 121\n")
    assert as_json(home.run("config", "init", "--force", "--json"))["config"].endswith("config.toml")
    assert "settle_ms = 121" in (home.path / "config.toml.before").read_text()
    home.configure("[watch]\nsettle_ms = 120\n")
    shown = home.run("config", "show", MEMD_LOG__LEVEL="debug").stdout
    assert re.search(rf"^settle_ms = 120 +# {home.path}/config.toml$", shown, re.MULTILINE)
    assert re.search(r'^level = "debug" +# \$MEMD_LOG__LEVEL$', shown, re.MULTILINE)
    assert re.search(r"^limit = 8 +# default$", shown, re.MULTILINE)
    told = as_json(home.run("config", "show", "--json"))["settings"]["watch"]["settle_ms"]
    assert told["value"] == 120 and told["source"].endswith("config.toml")
    home.configure("[watch]\nsettle_ms = -1\n[serch]\nlimit = 3\n")
    wrong = home.run("config", "check")
    assert wrong.returncode == 2 and wrong.stderr.count("config.toml:") == 2 and "did you mean `search`" in wrong.stderr
    told = home.run("config", "check", "--json")
    assert told.returncode == 2 and len(json.loads(told.stdout)["problems"]) == 2


# purge


def test_purge_leaves_nothing_but_the_notes(home, workspace):
    home.run("add", str(workspace))
    pid = pid_of(home)
    refused = home.run("service", "uninstall", "--purge")
    assert refused.returncode == 2 and "--yes" in refused.stderr
    done = home.run("service", "uninstall", "--purge", "--yes", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert not home.path.exists() and ended(pid)
    assert len(list(workspace.rglob("*.md"))) == 4


@pytest.mark.parametrize("how", ["disconnected", "taken out by hand"])
def test_purge_waits_until_the_agents_are_disconnected(home, workspace, how):
    """Else they would go on calling a memd that is no longer there."""
    home.env["HOME"] = str(home.path.parent)
    assert home.run("connect", "codex", "--yes", cwd=workspace).returncode == 0
    refused = home.run("service", "uninstall", "--purge", "--yes", cwd=workspace)
    assert refused.returncode == 5 and ".codex/config.toml" in refused.stderr
    if how == "disconnected":
        assert home.run("disconnect", "codex", cwd=workspace).returncode == 0
    else:
        (home.path.parent / ".codex/config.toml").write_text('model = "o4"\n')
        (home.path.parent / ".codex/hooks.json").write_text("{}\n")
    assert home.run("service", "uninstall", "--purge", "--yes", cwd=workspace).returncode == 0
    assert workspace.exists() and not home.state.exists()


def test_purge_refuses_when_notes_lie_among_the_state(home):
    inside = home.state / "notes"
    inside.mkdir(parents=True, mode=0o700)
    home.state.chmod(0o700)
    (inside / "MEMORY.md").write_text("# Dear\n")
    home.run("add", str(inside))
    done = home.run("service", "uninstall", "--purge", "--yes")
    assert done.returncode == 5 and "holds notes" in done.stderr
    assert (inside / "MEMORY.md").exists()


def test_without_a_model_text_search_goes_on_and_says_so(home, workspace):
    broken = {"MEMD_TEST_EMBEDDER": "", "MEMD_EMBEDDING__MODEL": "/nowhere"}
    assert home.run("add", str(workspace), **broken).returncode == 0
    home.run("sync", "--vectors")
    done = home.run("query", "ErsatzTV", cwd=workspace)
    assert done.returncode == 0 and "memory/2026-02-15.md:3" in done.stdout
    assert "memd: degraded: vectors; how to repair it: memd status" in done.stderr
    nothing = home.run("query", "zeppelinquux", cwd=workspace)
    assert (nothing.returncode, nothing.stdout) == (4, "") and "degraded: vectors" in nothing.stderr
    assert "degraded  vectors: " in home.run("status").stdout


@pytest.mark.usefixtures("running")
def test_uninstalling_no_service_leaves_the_daemon_alone(home, workspace):
    home.run("add", str(workspace))
    done = home.run("service", "uninstall")
    assert "was not installed" in done.stdout
    assert home.run("status").returncode == 0


@pytest.mark.usefixtures("running")
def test_adding_a_directory_that_is_not_there_says_so(home):
    (home.path / "notes").mkdir()
    refused = home.run("add", str(home.path / "notse"))
    assert refused.returncode == 2 and "did you mean `notes`?" in refused.stderr and "--force" in refused.stderr
    assert "no workspaces" in home.run("workspaces").stdout
    done = home.run("add", str(home.path / "nope"), "--force")
    assert done.returncode == 0 and "does not exist yet" in done.stdout


@pytest.mark.usefixtures("running")
def test_an_obsidian_vault_is_read_whole_with_its_links_tags_and_aliases(home):
    vault = write_notes(
        home.path / "vault",
        {
            ".obsidian/app.json": "{}", ".obsidian/plugins/x/README.md": "# Plugin\n\nNo note.\n",
            ".trash/old.md": "# Old\n", "assets/pond.png": "", "Animals/Newt.md": "See [[Molch|it]] #water/still\n",
            "Pond.md": "---\naliases: [Molch]\ntags: [garden]\n---\n\nThe pond has newts. ![[pond.png]]\n",
        },
    )  # fmt: skip
    before = {file: file.read_bytes() for file in vault.rglob("*") if file.is_file()}
    done = home.run("add", str(vault))
    assert "2 files" in done.stdout and "Obsidian vault" in done.stderr
    assert "Newt" in home.run("related", "Pond", cwd=vault).stdout
    assert re.findall(r"\d  (\S+)", home.run("tags", cwd=vault).stdout) == ["garden", "water/still"]
    assert {file: file.read_bytes() for file in vault.rglob("*") if file.is_file()} == before
    home.run("remove", "vault")
    assert "no file matches yet" in home.run("add", str(vault), "--preset", "agent").stdout


@pytest.mark.usefixtures("running")
def test_a_restart_with_wrong_settings_leaves_the_daemon_running(home, workspace):
    home.run("add", str(workspace))
    with (home.path / "config.toml").open("a") as config:
        config.write("[serch]\nlimit = 3\n")
    done = home.run("restart")
    assert done.returncode == 2 and "did you mean `search`" in done.stderr
    assert home.run("query", "--no-start", "ErsatzTV").returncode == 0


def test_a_directory_that_has_everything_in_it_is_no_workspace(home, workspace):
    home.env["HOME"] = str(home.path.parent / "me")
    Path(home.env["HOME"]).mkdir()
    for place in ("/", "/home", "/root", home.env["HOME"], str(home.path), str(home.path.parent)):
        done = home.run("add", place, "--ns", "all", "--force")
        assert done.returncode == 2 and "add the directory that holds your notes" in done.stderr, place
    assert home.run("add", str(workspace), "--no-wait").returncode == 0
    with pytest.raises(UsageError, match="memd's state"):
        Client(home.socket).workspace_add(str(home.path), ns="all", wait=False)


def test_a_removed_workspace_is_closed_to_tokens_and_comes_back_as_it_was(home: Home, tmp_path: Path) -> None:
    root = write_notes(tmp_path / "my vault & co", {"a.md": "Alpha.\n"})
    home.run("add", str(root), "--glob", "**/*.md", "--ns", "vault")
    home.run("token", "add", "anna", "--ns", "vault", "--read")
    removed = home.run("remove", "vault")
    assert "the token anna no longer opens it" in removed.stderr
    assert "anna" not in home.run("token", "list").stdout
    again = re.search(r"kept for: memd (.*?); to forget", removed.stderr)
    assert again and again[1] == f"add '{root}' --glob '**/*.md'"
    home.run(*shlex.split(again[1]))
    with home.wait() as client:
        assert [row["path"] for row in client.list()["memories"]] == ["a.md"]


def test_a_workspace_is_not_half_removed_where_the_tokens_cannot_be_read(memory: Client, home: Home) -> None:
    home.run("token", "add", "anna", "--ns", "agent", "--read")
    (home.state / "hub" / "tokens.json").chmod(0o666)
    assert home.run("remove", "agent").returncode != 0
    assert "agent" in (home.path / "config.toml").read_text()
    (home.state / "hub" / "tokens.json").chmod(0o600)
    assert home.run("remove", "agent").returncode == 0


@pytest.mark.parametrize("since", ["2026-02-15T00:00", "99T99", "2026-13-45T00:00", "2026-02-30"])
@pytest.mark.parametrize("command", ["log", "list", "timeline", "query ErsatzTV"])
def test_a_date_with_a_time_or_none_at_all_is_refused(memory: Client, home: Home, command: str, since: str) -> None:
    refused = home.run(*command.split(), "--since", since)
    assert refused.returncode == 2 and f"must be a date such as 2026-02-15 or 2026-02, not '{since}'" in refused.stderr
