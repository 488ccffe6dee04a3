"""What the system tells of a process: from /proc, elsewhere from ps."""

import os
import subprocess
from pathlib import Path

PROC = Path("/proc")


def command_line_of(pid: int) -> bytes:
    """The command line of a process."""
    if PROC.is_dir():
        return (PROC / str(pid) / "cmdline").read_bytes()
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout


def work_of(pid: int) -> tuple[float, str]:
    """How many seconds of processor time a process has used, and its state."""
    try:
        state, *fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[10]) + int(fields[11])) / os.sysconf("SC_CLK_TCK"), state
    except OSError:
        told = subprocess.getoutput(f"LC_ALL=C ps -o stat= -o time= -p {pid} 2>/dev/null")
    # Such as "RN 1:02.03"; nothing of a process that has ended, or without ps. Only the difference of two counts.
    state, spent = told.split() or ("", "0")
    return sum(float(part) * 60**nth for nth, part in enumerate(spent.replace("-", ":").split(":")[::-1])), state[:1]
