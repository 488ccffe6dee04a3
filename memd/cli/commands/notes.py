"""`memd note`, `memd save`, `memd write`, `memd read` and `memd recent`."""

import typer

from memd.cli import console
from memd.cli.method_command import Args, Result, method_command
from memd.errors import UsageError

ROLE = typer.Option("--role", metavar="R")
TITLE = typer.Option("--title", metavar="T")
TAGS = typer.Option("--tags", metavar="a,b")
app = typer.Typer()


@method_command(app, "note", words="text", title=TITLE, tags=TAGS)
def note(result: Result, args: Args) -> None:
    """Writes something down in today's note.

    It becomes a section with the time and the title. Your time zone decides which day it is.
    """
    console.line(f"Noted in {result['path']} ({result['key']})")


@method_command(app, "save", words="text", title=TITLE, tags=TAGS, target=typer.Option("--target"))
def save(result: Result, args: Args) -> None:
    console.line(result["saved"])


def _one_audience(args: Args) -> None:
    if bool(args["role"]) == args["shared"]:
        raise UsageError("an entry is for one role or for all", "name a role with --role R, or write with --shared")


@method_command(app, "write", words="text", prepare=_one_audience, role=ROLE)
def write(result: Result, args: Args) -> None:
    console.line(f"Written to {result['path']} ({result['key']})")


@method_command(app, "read", role=ROLE)
def read(result: Result, args: Args) -> None:
    console.quoted(result["text"])
    console.note_author(result)


@method_command(app, "recent", role=ROLE, budget=typer.Option("--budget", metavar="TOKENS"))
def recent(result: Result, args: Args) -> None:
    if result["text"]:
        console.quoted(result["text"])
    else:
        console.note(f"nothing was written down in the last {args['days'] or 7} days; --days looks further back")
