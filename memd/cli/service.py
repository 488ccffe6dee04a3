"""memd as a systemd service of the current user: puts it in, takes it out, tells how it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import memd
from memd.cli import leftovers, say, units
from memd.config import load, paths
from memd.errors import MemdError, Refused, UsageError
from memd.protocol import start
from memd.protocol.start import systemctl

SHOWN = ("ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "Result")


def installed() -> bool:
    return start.unit_file().is_file()


def dropin_file() -> Path:
    return paths.unit_dir() / f"{units.SERVICE}.d" / "workspaces.conf"


# Installing


def install(now: bool, linger: bool) -> dict[str, Any]:
    """Write the units, hand over from a daemon that was started by hand, enable and start them."""
    _check_manager()
    _make_own_places()
    namespaces = namespaces_allowed()
    if now:
        start.stop()
    _write(start.unit_file(), units.service(namespaces))
    _write(paths.unit_dir() / units.SOCKET, units.socket())
    if namespaces:
        _write(dropin_file(), units.workspaces(_roots()))
    else:
        dropin_file().unlink(missing_ok=True)
    _must("daemon-reload")
    _must("enable", units.SOCKET, units.SERVICE)
    if now:
        start.start()
    if linger:
        _enable_linger()
    return state()


def _check_manager() -> None:
    if os.environ.get("MEMD_HOME"):
        raise UsageError(
            "MEMD_HOME is set, and the service belongs to this user's usual places",
            "unset it first: unset MEMD_HOME; for a trial run: memd start",
        )
    if systemctl("show", "--property=Version").returncode:
        raise Refused(
            "no systemd user manager answers",
            "install from a login session of this user, or go without the service: memd start",
        )


def _make_own_places() -> None:
    """What is not there when the service starts stays closed to it."""
    paths.private_dir(paths.state_dir())
    paths.config_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def namespaces_allowed() -> bool:
    """Try the whole confinement on a process that does nothing, as the service would have it."""
    lines = [f"--property={line}" for line in units.trial(units.service())]
    # The interpreter or the code may lie where the confined service cannot see them, such as under /tmp.
    interpreter = start.daemon_command()[:2]
    seen = "import sys, memd.daemon.app; sys.exit(memd.__file__ != sys.argv[1])"
    tried = _run(
        "systemd-run",
        "--user",
        "--wait",
        "--collect",
        "--quiet",
        "--pipe",
        *lines,
        *interpreter,
        "-c",
        seen,
        memd.__file__,
    )
    return tried.returncode == 0


def _roots() -> list[Path]:
    return [workspace.root for workspace in load.load().workspaces]


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _must(*args: str) -> None:
    done = systemctl(*args)
    if done.returncode:
        raise MemdError(f"systemctl --user {' '.join(args)} failed: {done.stderr.strip()}", "see: memd service status")


def _enable_linger() -> None:
    done = _run("loginctl", "enable-linger")
    if done.returncode:
        say.note(f"linger could not be turned on: {done.stderr.strip()}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may not be installed."""
    try:
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")


# Workspaces


def open_to_service(root: Path) -> None:
    """Before a workspace is added: let the service write there, which takes a restart."""
    if not _confined():
        return
    roots = _roots()
    if root not in roots:
        _rewrite_dropin([*roots, root])
        if systemctl("is-active", units.SERVICE).returncode == 0:
            say.note(f"restarting the service, so that it may write to {root}")
            _must("restart", units.SERVICE)


def close_to_service() -> None:
    """After a workspace was removed: the next start of the service does without it."""
    if _confined():
        _rewrite_dropin(_roots())


def _confined() -> bool:
    if os.environ.get("MEMD_HOME") or not installed():
        return False
    return units.uses_namespaces(start.unit_file().read_text(encoding="utf-8"))


def _rewrite_dropin(roots: list[Path]) -> None:
    _write(dropin_file(), units.workspaces(roots))
    systemctl("daemon-reload")


# Taking it out


def uninstall() -> bool:
    """Stop and disable the units and remove them; False when there were none."""
    if not installed():
        return False
    start.stop()
    systemctl("disable", units.SOCKET, units.SERVICE)
    for unit in (units.SOCKET, units.SERVICE):
        (paths.unit_dir() / unit).unlink(missing_ok=True)
        shutil.rmtree(paths.unit_dir() / f"{unit}.d", ignore_errors=True)
    systemctl("daemon-reload")
    systemctl("reset-failed", units.SOCKET, units.SERVICE)
    return True


def purge() -> list[Path]:
    """Remove what memd keeps; the places that are gone now."""
    start.stop()
    gone = leftovers.places()
    for place in gone:
        leftovers.remove(place)
    return gone + leftovers.remove_completion()


# How it is


def state() -> dict[str, Any]:
    """What systemd says of the units."""
    there = installed()
    unit = start.unit_file().read_text(encoding="utf-8") if there else ""
    return {
        "installed": there,
        "unit": str(start.unit_file()),
        "confined": units.uses_namespaces(unit),
        "linger": linger(),
        "service": _shown(units.SERVICE),
        "socket": _shown(units.SOCKET),
    }


def _shown(unit: str) -> dict[str, str]:
    told = systemctl("show", unit, f"--property={','.join(SHOWN)}")
    pairs = (line.partition("=") for line in told.stdout.splitlines())
    return {name: value for name, _, value in pairs if value}


def linger() -> bool | None:
    """Whether the service goes on after logout; None where logind does not say."""
    told = _run("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
    return {"yes": True, "no": False}.get(told.stdout.strip())
