"""`memd mcp`, for its help and for mistakes; everything else takes the short way through `pump`."""

from __future__ import annotations

from typing import Annotated

import typer

from memd.cli import options, pump, say


def mcp(
    profile: Annotated[
        str, typer.Option(metavar="P", help="Which tools the agent gets: search, ghost, knowledge or all.")
    ] = "search",
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    experimental: Annotated[bool, typer.Option("--experimental", help="Also tools that may still change.")] = False,
    no_start: options.NoStart = False,
    json: Annotated[
        bool, typer.Option("--json", help="Serve nobody: print what a session would be, as JSON, and end.")
    ] = False,
) -> None:
    """Serve an agent that speaks MCP on standard input and output.

    The session is bound to the workspace of the working directory, or to the one that is named.
    """
    given = {"profile": profile, "ns": ns, "workspace": workspace, "experimental": experimental, "no_start": no_start}
    if json:
        say.json(pump.told(given))
        return
    raise typer.Exit(pump.run(given))


def register(app: typer.Typer) -> None:
    app.command()(mcp)
