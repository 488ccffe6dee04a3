"""memd as an agent of launchd, which is to macOS what systemd is to Linux."""

import os
import plistlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

from memd.config import paths
from memd.errors import Refused
from memd.protocol import start

LABEL = "io.github.memd"


def in_charge() -> bool:
    """Whether launchd is what starts services here."""
    return shutil.which("launchctl") is not None and shutil.which("systemctl") is None


def plist_file() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def plist() -> bytes:
    """The daemon is started at login, and again unless it ended well."""
    log = str(paths.state_dir() / "launchd.log")
    return plistlib.dumps({
        "Label": LABEL, "ProgramArguments": start.daemon_command(), "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False}, "ProcessType": "Background", "StandardOutPath": log,
        "StandardErrorPath": log,
    })  # fmt: skip


def install(now: bool) -> dict[str, Any]:
    start.stop()
    plist_file().parent.mkdir(parents=True, exist_ok=True)
    plist_file().write_bytes(plist())
    if now:
        done = _launchctl("bootstrap", f"gui/{os.getuid()}", str(plist_file()))
        if done.returncode:
            raise Refused(f"launchd did not take it: {done.stderr.strip()}", f"its file is {plist_file()}")
    return {"installed": True, "plist": str(plist_file())}


def uninstall() -> bool:
    """False when it was not installed."""
    if not plist_file().is_file():
        return False
    _launchctl("bootout", f"gui/{os.getuid()}/{LABEL}")
    plist_file().unlink()
    start.stop()
    return True


def _launchctl(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["launchctl", *args], capture_output=True, text=True, check=False)
