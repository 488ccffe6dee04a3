"""Commands about reviews: `memd proposal`, `memd propose`, `memd conflict` and `memd merge-note`."""

from collections.abc import Iterator
from typing import Any

import typer

from memd.cli import console
from memd.cli.method_command import Args, Result, command_group, method_command, own_command
from memd.errors import in_shell
from memd.protocol import start
from memd.protocol.safe_text import neutralise, one_line
from memd.timespans import local_time

app = typer.Typer()

# --- proposal: what agents want to write, for a person to accept or reject ----------------------------------------

proposal_app = command_group(app, "proposal", "Shows what agents want to write, accepts it, rejects it.")


@method_command(proposal_app, "proposal.list", name="list")
def list_proposals(result: Result, args: Args) -> None:
    proposals = "\n\n".join(_proposal(row, len(result["ns"]) > 1) for row in result["proposals"])
    console.out(proposals, "no proposal waits for you")


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
    head = [str(row["proposal"]), local_time(row["at"]), row["ns"] if several else "", row["who"], row["method"]]
    lines = [one_line("  ".join(part for part in head if part))]
    for name, value in row["params"].items():
        text = value if isinstance(value, str) else ", ".join(value) if isinstance(value, list) else str(value)
        first, *others = neutralise(text).split("\n")
        lines += [f"    {name}: {first}", *(f"        {line}".rstrip() for line in others)]
    return "\n".join(lines)


# --- propose: what a person noted, for the team to review ---------------------------------------------------------


@method_command(app, "propose")
def propose(result: Result, args: Args) -> None:
    """Puts a memory on a branch of git as a file of the team's layer, with a commit that is ready for review.

    Your checkout stays as it is, and nothing is pushed. A text that looks like a secret is refused.
    """
    verb = "changed" if result["changed"] else "added"
    console.line(f"{result['path']} {verb} on the branch {result['branch']} (commit {result['commit'][:12]})")
    console.line(f"  to look at it: git show {result['branch']}")
    console.line(f"  to send it for review: git push -u origin {result['branch']}")


# --- conflict: notes of which git or a file synchroniser has two versions -----------------------------------------

conflict_app = command_group(app, "conflict", "Shows notes that have two versions, and merges these.")


@method_command(app, "conflict.list", name="conflicts", hidden=True)
@method_command(conflict_app, "conflict.list", name="list")
def list_conflicts(result: Result, args: Args) -> None:
    console.lines((line for row in result["notes"] for line in _conflict(row)), "no note has two versions")


def _conflict(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['path']}: {row['copy'] or 'git left markers in it'}"
    for clash in row["both"]:
        yield f"  both changed: {clash['heading']}"
        for mark, side in (("<", "ours"), (">", "theirs")):
            yield from (f"    {mark} {line}" for line in clash[side].splitlines())
    if row["taken"]:
        yield f"  a merge takes from the other version: {', '.join(row['taken'])}"
    choice = " both (or ours, or theirs)" if row["clashes"] else ""
    yield f"  to settle it: memd conflict settle {in_shell(row['path'])}{choice}"


@method_command(conflict_app, "conflict.settle", name="settle")
def settle(result: Result, args: Args) -> None:
    removed = f", {result['copy']} removed" if result["copy"] else ""
    taken = f"; from the other version: {', '.join(result['taken'])}" if result["taken"] else ""
    console.line(f"Settled {result['path']}{removed}{taken}; to take that back: memd undo {result['action']}")


@own_command(app, "merge-note", leave_out=["no_start", "json"])
def merge_note(args: Args) -> None:
    """Merges three versions of a note, for git, section by section; it needs no daemon.

    Exit code 1: both sides changed the same lines, which stand between markers now.
    """
    start.become(start.MERGE, *(str(file) for file in args.values() if file is not None))
