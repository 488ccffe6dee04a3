"""`memd propose`: what a person noted, for the team to review."""

import typer

from memd.cli import console
from memd.cli.method_command import Args, Result, method_command

app = typer.Typer()


@method_command(app, "propose")
def propose(result: Result, args: Args) -> None:
    """Puts a memory on a branch of git as a file of the team's layer, with a commit that is ready for review.

    Your checkout stays as it is, and nothing is pushed. What looks like a secret is refused.
    """
    verb = "changed" if result["changed"] else "added"
    console.line(f"{result['path']} {verb} on the branch {result['branch']} (commit {result['commit'][:12]})")
    console.line(f"  to look at it: git show {result['branch']}")
    console.line(f"  to send it for review: git push -u origin {result['branch']}")
