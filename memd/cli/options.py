"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, as the daemon sent it.")]
Ns = Annotated[str | None, typer.Option("--ns", "-n", metavar="NAME", help="The workspace, by its name.")]
Workspace = Annotated[
    Path | None, typer.Option("--workspace", "-w", metavar="DIR", help="The workspace, by its directory.")
]
NoStart = Annotated[bool, typer.Option("--no-start", help="Do not start the daemon when none runs.")]
AllowSecret = Annotated[
    bool, typer.Option("--allow-secret", help="Write it even if it looks like it holds a key or a password.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def tags_of(given: list[str] | None) -> list[str] | None:
    """Tags as people give them, `a,b` or one option each, as a list; None when none was given."""
    return [tag.strip() for group in given for tag in group.split(",") if tag.strip()] if given is not None else None
