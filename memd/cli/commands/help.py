"""`memd help`: the commands by what they are for, and the help of one."""

from typing import Annotated, Any

import typer

from memd.cli import app as command_line, console
from memd.errors import UsageError, did_you_mean

All = Annotated[bool, typer.Option("--all", "-a", help="Every command, by what it is for.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, as the daemon sent it.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]", help="The command to explain.")]
app = typer.Typer()


@app.command("help")
def show_help(context: typer.Context, command: Names = None, every: All = False, json: Json = False) -> None:
    """Explains a command, or lists them."""
    root = context.find_root()
    if json:
        groups: dict[str, Any] = {
            title: {name: root.command.sentence(name) for name in names.split()}  # type: ignore[attr-defined]
            for title, names in command_line.GROUPS.items()
        }
        console.json({"groups": groups})
    elif command:
        console.out(_help_of(root, command))
    else:
        root.obj = command_line.ALL if every else None
        console.out(root.get_help())


def _help_of(context: Any, names: list[str]) -> str:
    """The help of a command, or of one in a group of commands."""
    inner = context
    for name in names:
        if (known := getattr(inner.command, "commands", None)) is None:
            break  # an argument of the command
        if (found := known.get(name)) is None:
            near = did_you_mean(name, known)
            raise UsageError(f"{inner.command_path} has no command {name}{near}", "memd help --all lists them")
        inner = type(inner)(found, info_name=name, parent=inner)
    return str(inner.get_help())
