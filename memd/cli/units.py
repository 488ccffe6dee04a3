"""The systemd units as text: found, fitted to this user, cut down where namespaces are not allowed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from memd.config import paths
from memd.protocol import start

SERVICE, SOCKET = "memd.service", "memd.socket"
TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
HARDENING_BEGIN = "# Files that it makes are this user's alone."
NAMESPACES_BEGIN = "# From here to the mark below: what needs namespaces."
NAMESPACES_END = "# End of what needs namespaces."
WITHOUT_NAMESPACES = "# What needs namespaces is left out: a trial with them failed when memd was installed here."


def template(name: str) -> str:
    """A unit as it comes with memd: inside the installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parent
    installed = here / "units" / name
    file = installed if installed.is_file() else here.parents[1] / "systemd" / name
    return file.read_text(encoding="utf-8")


def socket() -> str:
    """memd.socket needs no fitting: systemd knows where the runtime directory is."""
    return template(SOCKET)


def service(namespaces: bool = True) -> str:
    """memd.service for this user, this Python and these places."""
    text = template(SERVICE)
    if not namespaces:
        before, _, rest = text.partition(NAMESPACES_BEGIN)
        text = before + WITHOUT_NAMESPACES + rest.partition(NAMESPACES_END)[2]
    command = " ".join(quoted(word) for word in start.daemon_command())
    text = _replace(text, "ExecStart", [*_environment(), f"ExecStart={command}"])
    own = " ".join(quoted(f"-{place}") for place in own_places())
    return _replace(text, "ReadWritePaths", [f"ReadWritePaths={own}"])


def own_places() -> list[Path]:
    """What the daemon writes to beside the workspaces."""
    return [paths.state_dir(), paths.config_file().parent, paths.run_dir()]


def _environment() -> list[str]:
    """The daemon must find the same code and the same places as the shell that installs it."""
    wanted = {name: os.environ.get(name, "") for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    wanted["PYTHONPATH"] = start.source_dir()
    return [f"Environment={quoted(f'{name}={value}')}" for name, value in wanted.items() if value]


def workspaces(roots: Iterable[Path]) -> str:
    """The drop-in that opens the workspaces to the service."""
    lines = ["# Written by memd: the workspaces that the service may write to.", "[Service]"]
    for root in roots:
        # One under /tmp would be hidden by PrivateTmp=, so it is put back in its place.
        hidden = any(place in (root, *root.parents) for place in TEMPORARY)
        lines.append(f"{'BindPaths' if hidden else 'ReadWritePaths'}={quoted(f'-{root}')}")
    return "\n".join(lines) + "\n"


def uses_namespaces(unit: str) -> bool:
    return "\nPrivateUsers=yes" in unit


def trial(unit: str) -> list[str]:
    """The lines of a unit under which a trial shows whether the daemon could run: code and confinement."""
    confined = unit.partition(HARDENING_BEGIN)[2].partition("[Install]")[0]
    return _environment() + re.findall(r"^[A-Z]\w+=.*$", confined, re.MULTILINE)


def quoted(word: str) -> str:
    """One word of a unit file, whatever characters it has."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if re.search(r"[\s\"'\\;]", word) else word


def _replace(text: str, key: str, lines: list[str]) -> str:
    return re.sub(rf"^{key}=.*$", lambda _: "\n".join(lines), text, flags=re.MULTILINE)
