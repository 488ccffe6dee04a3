"""`memd merge-note` without Typer: git calls it for every note that both sides of a merge changed."""

import sys

from memd.protocol import start


def run(args: list[str]) -> int | None:
    """Become the driver; None where Typer has to explain what is missing."""
    if not 3 <= len(args) <= 4 or any(arg.startswith("-") for arg in args):
        return None
    start.become([sys.executable, "-P", "-m", "memd.notes.merge_note", *args])
    return 0
