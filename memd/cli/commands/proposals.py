"""`memd proposal`: what agents want to write, for a person to accept or reject."""

from typing import Any

import typer

from memd.cli import console, reports
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.protocol.safe_text import neutralise, one_line

app = typer.Typer()
proposal_app = command_group(
    app, "proposal", "Shows what agents want to write, accepts it, rejects it.", no_args_is_help=True
)


@method_command(proposal_app, "proposal.list", name="list")
def list_proposals(result: Result, args: Args) -> None:
    several = len(result["ns"]) > 1
    if result["proposals"]:
        console.out("\n\n".join(_proposal(row, several) for row in result["proposals"]))
    else:
        console.note("no write of an agent waits for you")


@method_command(proposal_app, "proposal.accept", name="accept")
def accept(result: Result, args: Args) -> None:
    row, action = result["proposal"], result["result"].get("action")
    undo = f"; to take that back: memd undo {action}" if action else ""
    console.line(f"Accepted {_name(row)}{undo}")


@method_command(proposal_app, "proposal.reject", name="reject")
def reject(result: Result, args: Args) -> None:
    console.line(f"Rejected {_name(result['proposal'])}")


def _name(row: dict[str, Any]) -> str:
    return f"proposal {row['proposal']}: {row['method']} by {row['who']}"


def _proposal(row: dict[str, Any], several: bool) -> str:
    """A proposal whole: nobody should accept what they were not shown."""
    head = [str(row["proposal"]), reports.minute(row["at"]), row["ns"] if several else "", row["who"], row["method"]]
    lines = [one_line("  ".join(part for part in head if part))]
    for name, value in row["params"].items():
        text = value if isinstance(value, str) else ", ".join(value) if isinstance(value, list) else str(value)
        first, *others = neutralise(text).split("\n")
        lines += [f"    {name}: {first}", *(f"        {line}".rstrip() for line in others)]
    return "\n".join(lines)
