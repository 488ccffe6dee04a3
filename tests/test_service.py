"""memd as a systemd service: the units say what they should, and a real user manager runs them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memd.cli.commands import service
from tests.conftest import PATIENCE, ROOT
from tests.faults.agreement import SOAK

HERE = Path(__file__).parent
needs_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


@pytest.fixture
def usual(home, tmp_path):
    """The environment of an ordinary home: no MEMD_HOME, everything where XDG puts it."""
    environment = {name: value for name, value in home.env.items() if not name.startswith(("MEMD_HOME", "XDG_"))}
    (tmp_path / "run").mkdir(mode=0o700)
    return environment | {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run"), "PYTHONPATH": str(ROOT)}


def memd(environment, *args):
    return subprocess.run([sys.executable, "-m", "memd", *args], env=environment, capture_output=True, text=True)


def directives(text):
    return [line for line in text.splitlines() if re.match(r"[A-Z]\w+=", line)]


# The units as text


def test_every_directive_is_explained():
    """A comment stands above each line, or above the group of lines it belongs to."""
    for name in (service.SERVICE, service.SOCKET, service.WEB_SERVICE, service.WEB_SOCKET, service.HUB_SERVICE):
        explained = False
        for line in (ROOT / "systemd" / name).read_text().splitlines():
            if line.startswith("#"):
                explained = True
            elif not line or line.startswith("["):
                explained = False
            elif not line.startswith(("Description=", "Type=", "WantedBy=")):
                assert explained or line.startswith(("NotifyAccess=", "ExecStart=")), line


def test_print_shows_the_units_and_writes_nothing(usual):
    done = memd(usual, "service", "install", "--print")
    assert done.returncode == 0, done.stderr
    assert f"# {usual['HOME']}/.config/systemd/user/memd.service" in done.stdout
    assert f"ExecStart={service.quoted(sys.executable)} -P -m memd.daemon" in done.stdout
    state = f"-{usual['HOME']}/.local/state/memd -{usual['HOME']}/.config/memd -{usual['XDG_RUNTIME_DIR']}/memd"
    assert f"ReadWritePaths={state}" in done.stdout
    assert "ListenStream=%t/memd/memd.sock" in done.stdout
    assert not Path(usual["HOME"], ".config").exists()


def test_without_namespaces_what_needs_them_is_left_out(usual):
    done = subprocess.run(
        [sys.executable, "-c", "from memd.cli.commands import service; print(service.service_unit(namespaces=False))"],
        env=usual, capture_output=True, text=True, check=True,
    )  # fmt: skip
    left = {line.partition("=")[0] for line in directives(done.stdout)}
    assert not left & {"PrivateUsers", "PrivateTmp", "ProtectSystem", "ProtectHome", "ReadWritePaths", "PrivateDevices"}
    assert left >= {"NoNewPrivileges", "RestrictAddressFamilies", "SystemCallFilter", "UMask", "WatchdogSec"}


def test_odd_paths_are_quoted():
    assert service.quoted("/plain/path") == "/plain/path"
    assert service.quoted('/with space/100%/$HOME/"q"') == '"/with space/100%%/$$HOME/\\"q\\""'
    written = service.workspaces_dropin([Path("/home/me/my notes"), Path("/tmp/trial")])
    assert directives(written) == ['ReadWritePaths="-/home/me/my notes"', "BindPaths=-/tmp/trial"]


@pytest.fixture
def written(usual, tmp_path):
    """The units as they would be installed, in a directory."""
    folder = tmp_path / "units"
    folder.mkdir()
    units = json.loads(memd(usual, "service", "install", "--print", "--web", "--serve", "--json").stdout)
    for name, text in units.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@needs_analyze
def test_systemd_has_nothing_to_say_about_the_units(usual, written):
    """It exits 0 even for keys that it does not know, so what it prints is what counts."""
    command = ["systemd-analyze", "--user", "verify", *map(str, sorted(written.glob("*.s*t*")))]
    done = subprocess.run(command, env=usual, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@needs_analyze
@pytest.mark.parametrize("unit", [service.SERVICE, service.HUB_SERVICE])
def test_the_service_is_confined(written, unit):
    """At most 2.0 of 10, as systemd counts; what stays open stands in the unit with its reason."""
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(written / unit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-500:]
    text = (written / unit).read_text()
    open_on_purpose = re.findall(r"^✗ (?:SystemCallFilter=~)?(@?\w+=?)", done.stdout, re.MULTILINE)
    unexplained = {name for name in open_on_purpose if name not in text}
    assert len(open_on_purpose) > 5 and not unexplained, "say in the unit why"


# The commands where no manager answers


def test_without_a_manager_it_says_so(usual):
    done = memd(usual, "service", "install")
    assert done.returncode == 5 and "no systemd user manager answers" in done.stderr and "memd start" in done.stderr
    assert "not installed" in memd(usual, "service", "status").stdout
    assert not Path(usual["HOME"], ".config").exists()


def test_a_trial_home_has_no_service(home):
    done = home.run("service", "install")
    assert done.returncode == 2 and "unset MEMD_HOME" in done.stderr


# A real user manager


def why_no_manager():
    if os.getuid() != 0:
        return "only root can make the namespaces in which a user manager runs"
    if not Path("/lib/systemd/systemd").exists() or not shutil.which("systemctl"):
        return "systemd is not installed"
    if not shutil.which("unshare"):
        return "unshare is not installed"
    tried = under_manager("true")
    return "" if tried.returncode == 0 else f"no user manager could be started: {tried.stderr.strip()[-300:]}"


def under_manager(script, timeout=PATIENCE):
    """Run a shell script with `systemctl --user` at work; `memd` is the command under test."""
    python = sys.executable.replace(f"{ROOT}/", "/mnt/checkout/", 1)
    prelude = (
        f"set -eu; cd ~; export PYTHONPATH=/mnt/checkout; memd() {{ '{python}' -m memd \"$@\"; }}\n"
        "export MEMD_TEST_EMBEDDER=tests.hash_embedder:HashEmbedder NO_COLOR=1\n"
        "systemctl --user set-environment MEMD_TEST_EMBEDDER=$MEMD_TEST_EMBEDDER\n"
        "pid() { systemctl --user show -P MainPID memd.service; }\n"
        "trap 'journalctl -D /run/log/journal -o cat --identifier=python --lines=30 >&2' ERR\n"
    )
    return subprocess.run(
        [HERE / "user_systemd.sh", "bash", "-c", prelude + script],
        env={**os.environ, "CHECKOUT": str(ROOT)}, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip


@pytest.fixture(scope="module")
def manager():
    reason = why_no_manager()
    if reason:
        pytest.skip(reason)
    return under_manager


INSTALLED = """
mkdir -p notes/memory; echo '# The heron stands in the pond.' > notes/memory/2026-02-15.md
memd service install
memd add notes >/dev/null 2>&1
"""


def test_install_takes_over_and_answers_through_the_socket(manager):
    """A daemon that was started by hand makes room; the confined service reads, indexes and writes its config."""
    done = manager("""
        memd start
        mkdir -p notes/memory; echo '# The heron stands in the pond.' > notes/memory/2026-02-15.md
        memd service install; memd service status --json
        test "$(pid)" != 0
        memd add notes; cat ~/.config/systemd/user/memd.service.d/workspaces.conf
        memd query heron; memd status
        memd sync --vectors; memd note -n notes "The heron has flown."
        reading() { memd status --json | grep -o '"readers":\\[[0-9]'; }
        for _ in $(seq 200); do memd query "heron in the pond" >/dev/null; reading && break; done
        memd sync --vectors; memd query --mode vector the heron flew away
        test "$(readlink /proc/$(pid)/ns/net)" != "$(readlink /proc/self/ns/net)"
        grep -q "^CapEff:.*0000000000000000" /proc/$(pid)/status; grep -q "^Seccomp:.*2" /proc/$(pid)/status
        systemctl --user is-active memd.service memd.socket
    """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"confined":true' in done.stdout and "ReadWritePaths=-/mnt/home/notes" in done.stdout
    assert "memory/2026-02-15.md:1" in done.stdout
    # A reader process answers, with the vectors that it shares with the daemon, and what the service wrote is found.
    assert '"readers":[' in done.stdout and "The heron has flown." in done.stdout
    assert "without linger" in done.stderr or '"linger":null' in done.stdout


def test_socket_activation_restart_and_crash(manager):
    """Whatever happens to the daemon, the next question is answered; the socket stays where it is."""
    done = manager(
        INSTALLED
        + """
        systemctl --user stop memd.service; test "$(pid)" = 0; test -S $XDG_RUNTIME_DIR/memd/memd.sock
        memd query --no-start heron; test "$(pid)" != 0; echo ACTIVATED
        before="$(pid) $(stat -c %i $XDG_RUNTIME_DIR/memd/memd.sock)"; memd restart
        test "$(pid)" != ${before% *}; test $(stat -c %i $XDG_RUNTIME_DIR/memd/memd.sock) = ${before#* }
        memd query --no-start heron; echo RESTARTED
        before=$(pid); kill -9 $before; memd query --no-start heron; test "$(pid)" != $before; echo CRASHED
        stat -c '%a' $XDG_RUNTIME_DIR/memd $XDG_RUNTIME_DIR/memd/memd.sock
    """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(mark in done.stdout for mark in ("ACTIVATED", "RESTARTED", "CRASHED")) and "700\n600" in done.stdout


HOLD = """
import ctypes, os, sys
attach, any_thread, main = 16, 0x40000000, int(sys.argv[1])
if ctypes.CDLL(None, use_errno=True).ptrace(attach, main, None, None):
    sys.exit(f"HELD NOT: {os.strerror(ctypes.get_errno())}")
os.waitpid(main, any_thread)
print("HELD", flush=True)
while os.WIFSTOPPED(os.waitpid(main, any_thread)[1]):
    pass
"""
"""Stops the main thread of a process, on which its loop runs, and no other."""


def test_a_daemon_that_hangs_is_restarted_by_the_watchdog(manager):
    """First all of it, then its loop alone, while its other threads go on."""
    done = manager(
        f"hold() {{ '{sys.executable}' -c '{HOLD}' $1; }}\n"
        # Until the tracer has it, or the watchdog was quicker.
        "held() { while grep -qs '^State:.[^t]' /proc/$1/status; do sleep 0.02; done; }\n"
        + INSTALLED
        + """
        printf '[Unit]\\nStartLimitBurst=50\\n[Service]\\nWatchdogSec=2\\nTimeoutAbortSec=1\\n' > quick.conf
        mv quick.conf ~/.config/systemd/user/memd.service.d/
        systemctl --user daemon-reload; systemctl --user restart memd.service
        before=$(pid); kill -STOP $before; memd query --no-start heron; test "$(pid)" != $before
        before=$(pid); hold $before & held $before
        memd query --no-start heron; test "$(pid)" != $before; echo "LOOP RESTARTED"
    """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The heron stands" in done.stdout
    assert "HELD\n" in done.stdout and "LOOP RESTARTED" in done.stdout


def test_where_the_confined_trial_fails_the_service_goes_without(manager):
    """Here because memd lies under /tmp, which a service with PrivateTmp= does not see."""
    done = manager("""
        copy=$(mktemp -d /tmp/memd-copy-XXXX); trap "rm -rf $copy" EXIT
        cp -r /mnt/checkout/memd /mnt/checkout/systemd $copy; export PYTHONPATH=$copy
        mkdir $copy/tests; cp /mnt/checkout/tests/__init__.py /mnt/checkout/tests/hash_embedder.py $copy/tests
        memd service install; memd service status --json
        mkdir notes; echo '# The heron stands.' > notes/MEMORY.md; memd add notes; memd query heron; memd stop
    """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"confined":false' in done.stdout and "runs without PrivateTmp=" in done.stderr
    assert "MEMORY.md:1" in done.stdout


def test_stop_is_quick_and_a_query_starts_it_again(manager):
    done = manager(
        INSTALLED
        + """
        memd sync --vectors
        began=$(date +%s%N); systemctl --user stop memd.service; took=$(( ($(date +%s%N) - began) / 1000000 ))
        echo "STOPPED $took"; systemctl --user show -P Result memd.service
        memd start; memd stop; systemctl --user is-active memd.socket memd.service || true
        memd query heron; systemctl --user is-active memd.service; memd restart
    """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"STOPPED (\d+)", done.stdout)[1]) < 5000 and "success" in done.stdout
    assert "inactive\ninactive" in done.stdout and "The heron stands" in done.stdout


MANY = """
import pathlib
folder = pathlib.Path("many/memory")
folder.mkdir(parents=True)
text = "\\n\\n".join(f"## Part {n}\\n\\n" + f"many words{n} about the harrier. " * 8 for n in range(15))
for nth in range(250):
    (folder / f"note-{nth}.md").write_text(f"# Note {nth}\\n\\n{text}\\n")
"""
FILES = """
import pathlib, sqlite3
ledger = sqlite3.connect(pathlib.Path.home() / ".local/state/memd/state.db")
print(*ledger.execute("SELECT COUNT(*) FROM files").fetchone())
"""


def test_a_stop_in_the_middle_of_an_import_is_quick_and_the_next_start_goes_on(manager):
    done = manager(
        f"files() {{ '{sys.executable}' -c '{FILES}'; }}\n"
        + INSTALLED
        + f"'{sys.executable}' -c '{MANY}'\n"
        + """
        memd add --no-wait many >/dev/null 2>&1; until [ $(files) -gt 1 ]; do sleep 0.02; done
        began=$(date +%s%N); systemctl --user stop memd.service; took=$(( ($(date +%s%N) - began) / 1000000 ))
        echo "STOPPED $took WITH $(files)"; systemctl --user show -P Result memd.service
        memd sync >/dev/null; echo "THEN $(files)"
        journalctl -D /run/log/journal -o cat --identifier=python | grep -c Traceback || true
    """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stopped = re.search(r"STOPPED (\d+) WITH (\d+)\nsuccess\nTHEN 251\n0\n", done.stdout)
    assert stopped, done.stdout + done.stderr
    assert int(stopped[1]) < 5000 and 1 < int(stopped[2]) < 251


@pytest.mark.skipif(not SOAK, reason="only in a soak")
def test_ten_thousand_equal_sections_cost_no_restart(manager):
    """The watchdog hears of it all the while, questions are answered, and it stops as at rest."""
    done = manager(
        INSTALLED
        + r"""
        printf '## Heartbeat\n\nHEARTBEAT_OK\n\n%.0s' $(seq 10000) > notes/memory/2026-02-16.md
        for _ in $(seq 30); do memd query --mode text heron >/dev/null; memd note "a word" -w notes >/dev/null; done
        memd sync --vectors; memd query --mode text heron; sleep 45
        echo "RESTARTS $(systemctl --user show -P NRestarts memd.service)"; memd status --json
        systemctl --user stop memd.service; systemctl --user show -P Result memd.service
    """,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RESTARTS 0" in done.stdout and "The heron stands" in done.stdout
    assert done.stdout.strip().endswith("success")
    assert '"degraded":[]' in done.stdout


def test_a_service_that_cannot_start_says_why_and_is_left_alone(manager):
    done = manager(
        INSTALLED
        + """
        memd stop; printf '[watch]\\nmode = "sometimes"\\n' >> ~/.config/memd/config.toml
        memd query heron || echo "EXIT $?"
        systemctl --user show -P NRestarts memd.service
    """
    )
    assert "EXIT 3" in done.stdout and "systemd could not start memd" in done.stderr and "memd doctor" in done.stderr
    assert done.stdout.splitlines()[-1] == "0"


ENTER = """
import sys, urllib.parse, urllib.request
address, token = sys.argv[1].split("/enter#")
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
form = urllib.parse.urlencode({"token": token}).encode()
entered = urllib.request.Request(address + "/enter", form, {"Origin": address})
print("THE PAGE SHOWS", "The heron stands" in opener.open(entered).read().decode())
"""


def test_the_page_runs_when_it_is_looked_at_and_uninstall_leaves_nothing_but_the_notes(manager):
    done = manager(
        INSTALLED
        + f"enter() {{ '{sys.executable}' -c '{ENTER}' $1; }}\n"
        + """
        memd service install --web --serve; memd service status
        export MEMD_TOKEN=$(memd token add anna --ns notes --read)
        until memd --remote http://localhost:8428 query heron; do sleep 0.2; done
        hub=$(systemctl --user show -P MainPID memd-hub.service); grep -q "^Seccomp:.*2" /proc/$hub/status
        test "$(systemctl --user show -P MainPID memd-web.service)" = 0
        enter $(memd web --no-open); page=$(systemctl --user show -P MainPID memd-web.service)
        grep -q "^Seccomp:.*2" /proc/$page/status; test "$page" != 0
        memd --install-completion bash >/dev/null; test -f ~/.bash_completions/memd.sh
        memd service uninstall --purge --yes
        echo LEFT; systemctl --user list-unit-files 'memd*' --no-legend || true
        find ~ -type f; find ~ $XDG_RUNTIME_DIR -name '*memd*'; grep memd ~/.bashrc || true
    """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "THE PAGE SHOWS True" in done.stdout and "web      active (listening), enabled" in done.stdout
    assert "hub      active (running), enabled" in done.stdout and "memory/2026-02-15.md" in done.stdout
    left = done.stdout.partition("LEFT\n")[2].split()
    assert sorted(left) == ["/mnt/home/.bashrc", "/mnt/home/notes/memory/2026-02-15.md"]
