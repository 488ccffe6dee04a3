"""`memd service install`, `uninstall` and `status`: memd as a service of the current user, and what memd leaves."""

import os
import plistlib
import re
import shutil
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import typer

import memd
from memd.cli import console
from memd.cli.connecting import change
from memd.cli.method_command import Args, command_group, own_command
from memd.config import load, paths
from memd.errors import ConfigError, MemdError, Refused, UsageError, in_shell
from memd.protocol import start
from memd.protocol.safe_text import one_line
from memd.protocol.start import run_program, systemctl

SERVICE, SOCKET = "memd.service", "memd.socket"
WEB_SERVICE, WEB_SOCKET = "memd-web.service", "memd-web.socket"
HUB_SERVICE = "memd-hub.service"
FRONT_DOORS = {"web": WEB_SOCKET, "hub": HUB_SERVICE}
"""The units that are started for the page and for the hub, which need not be there."""
TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
HARDENING_BEGIN = "# Files that it makes are this user's alone."
NAMESPACES_BEGIN = "# From here to the mark below: what needs namespaces."
NAMESPACES_END = "# End of what needs namespaces."
WITHOUT_NAMESPACES = "# What needs namespaces is left out: a trial with them failed when memd was installed here."
COMPLETIONS = (".bash_completions/memd.sh", ".zfunc/_memd", ".config/fish/completions/memd.fish")
LAUNCHD_LABEL = "io.github.memd"
SHOWN = ("ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "Result")

UNCONFINED = (
    "a trial of the confined service failed (no namespaces for users here, or memd lies under /tmp): "
    "it runs without PrivateTmp=, ProtectHome= and the like"
)
NO_LINGER = "without linger the service stops when you log out; to let it go on: memd service install --linger"
app = typer.Typer()
service_app = command_group(app, "service", "memd as a systemd service of this user.")


@own_command(service_app, "service install")
def install(args: Args) -> None:
    """Installs memd as a service: it starts at login, and whenever someone asks."""
    json = args["json"]
    if args["print_only"] and launchd_in_charge():
        console.out(plist().decode())
        return
    if args["print_only"]:
        written = units(args["web"], args["serve"]) | dropins()
        text = "\n".join(f"# {paths.unit_dir() / name}\n{unit}" for name, unit in written.items()).rstrip()
        console.show(written, text, json)
        return
    state = set_up(args["now"], args["linger"], args["web"], args["serve"])
    console.show(state, describe(state), json)
    if not json and not state.get("confined", True):
        console.note(UNCONFINED)
    if not json and state.get("linger") is False:
        console.note(NO_LINGER)


@own_command(service_app, "service uninstall")
def uninstall(args: Args) -> None:
    """Removes the service; with --purge, leaves nothing behind but the notes."""
    found = places() if args["purge"] else []
    if found and not args["yes"]:
        _confirm(found)
    removed = take_down()
    gone = remove_all(found) if args["purge"] else []
    result = {"uninstalled": removed, "removed": [str(place) for place in gone]}
    said = "the service is uninstalled" if removed else "the service was not installed"
    console.show(result, "\n".join([said, *(one_line(f"removed {place}") for place in gone)]), args["json"])


def _confirm(found: list[Path]) -> None:
    if not console.can_ask():
        why = "--purge removes memd's state and settings, and there is no terminal to ask on"
        raise UsageError(why, "if you mean it: --yes")
    console.note(*(f"to be removed: {place}" for place in found))
    if not typer.confirm("Remove all of this? The notes stay.", err=True):
        raise typer.Exit(5)


@own_command(service_app, "service status")
def status(args: Args) -> None:
    """Shows whether the service is installed and how it is."""
    state = current_state()
    console.show(state, describe(state), args["json"])


def describe(state: dict[str, Any]) -> str:
    """The service in a few lines."""
    if not state["installed"]:
        return "the service is not installed; to install it: memd service install"
    if "plist" in state:
        return f"launchd starts memd at login: {state['plist']}"
    lines = [f"{name:<8} {_unit(state[name])}" for name in ("service", "socket", "web", "hub") if state[name]]
    confined = "yes" if state["confined"] else "without namespaces"
    linger = {True: "yes", False: "no, it stops at logout", None: "unknown"}[state["linger"]]
    return "\n".join([*lines, f"unit     {one_line(state['unit'])}", f"confined {confined}", f"linger   {linger}"])


def _unit(shown: dict[str, str]) -> str:
    """`active (running), enabled, pid 42`."""
    parts = [f"{shown.get('ActiveState', 'unknown')} ({shown.get('SubState', '?')})", shown.get("UnitFileState", "")]
    numbers = {"MainPID": "pid {}", "NRestarts": "restarted {} times"}
    parts += [said.format(shown[name]) for name, said in numbers.items() if shown.get(name, "0") != "0"]
    return ", ".join(part for part in parts if part)


# --- where it is ------------------------------------------------------------------------------------------------------


def installed() -> bool:
    return start.unit_file().is_file()


def uses_namespaces() -> bool:
    """Whether the service that is installed has what needs namespaces."""
    return installed() and "\nPrivateUsers=yes" in start.unit_file().read_text(encoding="utf-8")


def dropins() -> dict[str, str]:
    """What the daemon's unit gets from the settings, by the names beside it."""
    every = {"workspaces": workspaces_dropin(_roots()), "network": network_dropin()}
    return {f"{SERVICE}.d/{about}.conf": text for about, text in every.items() if text}


def network_dropin() -> str:
    """A network, where the settings need one; else nothing."""
    return template("network.conf") if load.load().needs_network else ""


def dropin_file(about: str = "workspaces") -> Path:
    return paths.unit_dir() / f"{SERVICE}.d" / f"{about}.conf"


# --- installing -------------------------------------------------------------------------------------------------------


def set_up(now: bool, linger: bool, web: bool, serve: bool) -> dict[str, Any]:
    """Write the units, hand over from a daemon that was started by hand, enable and start them."""
    if launchd_in_charge():
        return _install_with_launchd(now)
    _check_manager()
    _make_own_places()
    namespaces = namespaces_allowed()
    if now:
        start.stop()
    written = units(web, serve, namespaces)
    for name, text in written.items():
        _write(paths.unit_dir() / name, text)
    _write(dropin_file(), workspaces_dropin(_roots()) if namespaces else "")
    _write_network()
    _must("daemon-reload")
    _must("enable", SOCKET, SERVICE)
    if now:
        start.start()
    for unit in FRONT_DOORS.values():
        if unit in written:
            _must("enable", *["--now"] * now, unit)
    if linger and (done := run_program("loginctl", "enable-linger")).returncode:
        console.note(f"linger could not be turned on: {done.stderr.strip()}")
    return current_state()


def _check_manager() -> None:
    if os.environ.get("MEMD_HOME"):
        why = "MEMD_HOME is set, and the service belongs to this user's usual places"
        raise UsageError(why, "unset it first: unset MEMD_HOME; for a trial run: memd start")
    if systemctl("show", "--property=Version").returncode:
        hint = "install from a login session of this user, or go without the service: memd start"
        raise Refused("no systemd user manager answers", hint)


def _make_own_places() -> None:
    """A folder that is missing when the service starts stays closed to it."""
    paths.private_dir(paths.state_dir())
    paths.private_dir(paths.unanswered_dir())
    paths.config_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def namespaces_allowed() -> bool:
    """Try the whole confinement on a process that does nothing, as the service would have it."""
    confined = service_unit().partition(HARDENING_BEGIN)[2].partition("[Install]")[0]
    lines = [*_environment(), *re.findall(r"^[A-Z]\w+=.*$", confined, re.MULTILINE)]
    command = ["systemd-run", "--user", "--wait", "--collect", "--quiet", "--pipe"]
    # The interpreter or the code may lie where the confined service cannot see them, such as under /tmp.
    command += [*(f"--property={line}" for line in lines), *start.command_of(start.DAEMON)[:2]]
    seen = "import sys, memd.daemon.app; sys.exit(memd.__file__ != sys.argv[1])"
    return run_program(*command, "-c", seen, memd.__file__).returncode == 0


def _roots() -> list[Path]:
    return [workspace.root for workspace in load.load().workspaces]


def _write(file: Path, text: str) -> None:
    """Have a file with this text; without any text, have none."""
    if text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    else:
        file.unlink(missing_ok=True)


def _must(*args: str) -> None:
    done = systemctl(*args)
    if done.returncode:
        raise MemdError(f"systemctl --user {' '.join(args)} failed: {done.stderr.strip()}", "see: memd service status")


# --- workspaces -------------------------------------------------------------------------------------------------------


def open_to_service(root: Path) -> None:
    """Before a workspace is added: let the service write there, which takes a restart."""
    if _confined() and root not in (roots := _roots()):
        _write(dropin_file(), workspaces_dropin([*roots, root]))
        _restart(f"so that it may write to {root}")


def open_network() -> bool:
    """After a setting changed: give the service a network if it has to ask a server, and take it away if not.

    That takes a restart; says whether there was one.
    """
    if os.environ.get("MEMD_HOME") or not installed() or not _write_network():
        return False
    return _restart("which has a network only while a server is configured")


def _restart(why: str) -> bool:
    """Have the service follow its changed units, if it runs; says whether it does."""
    systemctl("daemon-reload")
    if systemctl("is-active", SERVICE).returncode:
        return False
    console.note(f"restarting the service, {why}")
    _must("restart", SERVICE)
    return True


def _write_network() -> bool:
    """Have the drop-in that allows a network, or have none, as the settings need it; says whether that is new."""
    file, text = dropin_file("network"), network_dropin()
    before = file.is_file()
    _write(file, text)
    return before != bool(text)


def close_to_service() -> None:
    """After a workspace was removed: the next start of the service does without it."""
    if _confined():
        _write(dropin_file(), workspaces_dropin(_roots()))
        systemctl("daemon-reload")


def _confined() -> bool:
    return not os.environ.get("MEMD_HOME") and uses_namespaces()


# --- removing ---------------------------------------------------------------------------------------------------------


def take_down() -> bool:
    """Stop and disable the units and remove them; False when there were none."""
    if launchd_in_charge():
        return _uninstall_from_launchd()
    if not installed():
        return False
    front_doors = (WEB_SOCKET, WEB_SERVICE, HUB_SERVICE)
    every = (SOCKET, SERVICE, *front_doors)
    systemctl("stop", *front_doors)
    start.stop()
    for unit in every:
        systemctl("disable", unit)
        (paths.unit_dir() / unit).unlink(missing_ok=True)
        shutil.rmtree(paths.unit_dir() / f"{unit}.d", ignore_errors=True)
    systemctl("daemon-reload")
    systemctl("reset-failed", *every)
    return True


def remove_all(found: list[Path]) -> list[Path]:
    """Remove what memd keeps in these places and for the shell; the places that are gone now."""
    start.stop()
    for place in found:
        _remove(place)
    return found + _remove_completion()


def places() -> list[Path]:
    """State, config and socket directory as far as they exist; refused while agents are connected, or when notes lie
    inside."""
    if connected := [path for path in change.traces() if b"memd" in (paths.bytes_of(Path(path)) or b"")]:
        why = f"agents would go on calling memd: it stands in {', '.join(connected)}"
        raise Refused(why, "take it out, for a project in its folder: memd disconnect AGENT")
    config = paths.config_file() if os.environ.get("MEMD_HOME") else paths.config_file().parent
    found = [place for place in (paths.state_dir(), config, paths.run_dir()) if place.exists()]
    try:
        roots = [root.resolve() for root in _roots()]
    except ConfigError as error:
        unknown = f"the config file cannot be read, so memd cannot tell where the notes are:\n  {error.message}"
        raise Refused(unknown, "mend it first: memd config check") from error
    for root, place in product(roots, found):
        if place.resolve() in (root, *root.parents):
            where = f"{root} holds notes and lies inside {place}"
            raise Refused(where, f"move the notes first: mv {in_shell(root)} ~/")
    return found


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    # What MEMD_HOME named was made for memd; it goes when nothing else is in it.
    home = os.environ.get("MEMD_HOME")
    if home and place.parent == paths.state_dir().parent and not any(place.parent.iterdir()):
        place.parent.rmdir()


def _remove_completion() -> list[Path]:
    """The files that `memd --install-completion` wrote; the files that are gone now."""
    if os.environ.get("MEMD_HOME"):
        return []
    gone = [file for file in (Path.home() / name for name in COMPLETIONS) if file.is_file()]
    for file in gone:
        file.unlink()
        _unsource(Path.home() / ".bashrc", file)
    return gone


def _unsource(profile: Path, file: Path) -> None:
    """Take the line that loads `file` out of a shell's profile."""
    if not profile.is_file():
        return
    lines = profile.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True)
    kept = [line for line in lines if line.strip() not in (f"source '{file}'", f"source {file}")]
    if len(kept) != len(lines):
        profile.write_text("".join(kept), encoding="utf-8", errors="surrogateescape")


# --- state ------------------------------------------------------------------------------------------------------------


def current_state() -> dict[str, Any]:
    """The service as systemd tells of it, or where launchd has it from."""
    if launchd_in_charge():
        return {"installed": plist_file().is_file(), "plist": str(plist_file())}
    return {
        "installed": installed(),
        "unit": str(start.unit_file()),
        "confined": uses_namespaces(),
        "linger": _lingers(),
        "service": _shown(SERVICE),
        "socket": _shown(SOCKET),
        **{name: _shown(unit) if (paths.unit_dir() / unit).is_file() else None for name, unit in FRONT_DOORS.items()},
    }


def _shown(unit: str) -> dict[str, str]:
    shown = systemctl("show", unit, f"--property={','.join(SHOWN)}")
    pairs = (line.partition("=") for line in shown.stdout.splitlines())
    return {name: value for name, _, value in pairs if value}


def _lingers() -> bool | None:
    """Whether the service goes on after logout; None where logind does not tell."""
    shown = run_program("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
    return {"yes": True, "no": False}.get(shown.stdout.strip())


# --- the units as text ------------------------------------------------------------------------------------------------


def template(name: str) -> str:
    """A unit as it comes with memd: inside the installed package, or beside it in a checkout."""
    cli = Path(__file__).resolve().parents[1]
    file = cli / "units" / name
    return (file if file.is_file() else cli.parents[1] / "systemd" / name).read_text(encoding="utf-8")


def units(web: bool = False, serve: bool = False, namespaces: bool = True) -> dict[str, str]:
    """The units for this user, this Python and these places, by their names; sockets need no fitting."""
    named = {SERVICE: service_unit(namespaces), SOCKET: template(SOCKET)}
    # Writes that had no answer are remembered by those who asked for them; the page has its tokens, too.
    if web:
        writable = [paths.run_dir(), paths.unanswered_dir()]
        named[WEB_SERVICE] = _fitted(WEB_SERVICE, start.WEB, writable, namespaces)
        named[WEB_SOCKET] = template(WEB_SOCKET)
    if serve:
        named[HUB_SERVICE] = _fitted(HUB_SERVICE, start.HUB, [paths.unanswered_dir()], namespaces)
    return named


def service_unit(namespaces: bool = True) -> str:
    """memd.service: the daemon writes to its own places, and to the workspaces by a drop-in."""
    own = [paths.state_dir(), paths.config_file().parent, paths.run_dir()]
    return _fitted(SERVICE, start.DAEMON, own, namespaces)


def _fitted(name: str, module: str, writable: list[Path], namespaces: bool) -> str:
    text = template(name)
    if not namespaces:
        before, _, rest = text.partition(NAMESPACES_BEGIN)
        text = before + WITHOUT_NAMESPACES + rest.partition(NAMESPACES_END)[2]
    started = " ".join(quoted(word) for word in start.command_of(module))
    text = _replace(text, "ExecStart", [*_environment(), f"ExecStart={started}"])
    own = " ".join(quoted(f"-{place}") for place in writable)
    return _replace(text, "ReadWritePaths", [f"ReadWritePaths={own}"])


def _environment() -> list[str]:
    """The daemon must find the same code and the same places as the shell that installs it."""
    wanted = {name: os.environ.get(name, "") for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    wanted["PYTHONPATH"] = start.source_dir()
    return [f"Environment={quoted(f'{name}={value}')}" for name, value in wanted.items() if value]


def workspaces_dropin(roots: Iterable[Path]) -> str:
    """The drop-in that opens the workspaces to the service."""
    lines = ["# Written by memd: the workspaces that the service may write to.", "[Service]"]
    for root in roots:
        # One under /tmp would be hidden by PrivateTmp=, so it is put back in its place.
        hidden = any(place in (root, *root.parents) for place in TEMPORARY)
        lines.append(f"{'BindPaths' if hidden else 'ReadWritePaths'}={quoted(f'-{root}')}")
    return "\n".join(lines) + "\n"


def quoted(word: str) -> str:
    """One word of a unit file, whatever characters it has."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if re.search(r"[\s\"'\\;]", word) else word


def _replace(text: str, key: str, lines: list[str]) -> str:
    return re.sub(rf"^{key}=.*$", lambda _: "\n".join(lines), text, flags=re.MULTILINE)


# --- launchd, which is to macOS what systemd is to Linux ------------------------------------------------------------


def launchd_in_charge() -> bool:
    """Whether launchd is what starts services here."""
    return shutil.which("launchctl") is not None and shutil.which("systemctl") is None


def plist_file() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist"


def plist() -> bytes:
    """The daemon is started at login, and again unless it ended well."""
    log = str(paths.state_dir() / "launchd.log")
    return plistlib.dumps({
        "Label": LAUNCHD_LABEL, "ProgramArguments": start.command_of(start.DAEMON), "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False}, "ProcessType": "Background", "StandardOutPath": log,
        "StandardErrorPath": log,
    })  # fmt: skip


def _install_with_launchd(now: bool) -> dict[str, Any]:
    start.stop()
    plist_file().parent.mkdir(parents=True, exist_ok=True)
    plist_file().write_bytes(plist())
    if now:
        done = run_program("launchctl", "bootstrap", f"gui/{os.getuid()}", str(plist_file()))
        if done.returncode:
            raise Refused(f"launchd refused it: {done.stderr.strip()}", f"its file is {plist_file()}")
    return current_state()


def _uninstall_from_launchd() -> bool:
    if not plist_file().is_file():
        return False
    run_program("launchctl", "bootout", f"gui/{os.getuid()}/{LAUNCHD_LABEL}")
    plist_file().unlink()
    start.stop()
    return True
