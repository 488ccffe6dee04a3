"""Draws docs/pictures/quickstart.svg: the commands of the quickstart, run for real on a copy of the example notes.

Run it with `make record` when what the commands print has changed. Nothing of it stays: home and notes are temporary.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/pictures/quickstart.svg"
WIDTH, ROWS = 100, 40
SCENES = (
    "memd add .",
    "memd query ErsatzTV --limit 2",
    "memd query television for Tilda and Otto on weekend mornings --limit 1",
    "memd note 'The axolotl is called Gulliver and eats on Tuesdays.'",
    "memd query what does the axolotl eat --limit 1",
    "memd undo",
)
PROMPT = "\x1b[2m$\x1b[0m \x1b[1m{}\x1b[0m\n"


def shown(command: str, folder: Path, environment: dict[str, str]) -> str:
    """The output of a command on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shlex.split(command), cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    process.wait()
    return b"".join(pieces).decode().replace("\r\n", "\n")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="memd-record-") as trial:
        folder = Path(copytree(ROOT / "examples/workspace", Path(trial) / "my-agent"))
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {
            **os.environ, "MEMD_HOME": f"{trial}/home", "PATH": programs, "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(ROWS), "PAGER": "cat",
        }  # fmt: skip
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        try:
            for command in SCENES:
                text = shown(command, folder, environment).replace(trial, "/home/me")
                console.print(Text.from_ansi(PROMPT.format(command) + re.sub(r"\s+\Z", "", text)))
                console.print()
                if command == SCENES[0]:
                    shown("memd sync --vectors", folder, environment)
        finally:
            shown("memd stop", folder, environment)
    drawn = console.export_svg(title="memd", unique_id="memd")
    # The reader's own font: a picture in the documentation loads nothing from elsewhere.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code", "ui-monospace, Menlo")
    PICTURE.write_text(drawn, "utf-8")


if __name__ == "__main__":
    main()
