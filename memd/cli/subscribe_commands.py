"""`memd subscribe`: shows each new or changed memory that matches as it is saved, or runs a command with it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import typer

from memd.cli import hits, options, pages, say, talk
from memd.cli.ear import Ear, Event, end_with_the_reader
from memd.errors import UsageError
from memd.protocol import wire
from memd.protocol.safe_text import one_line


def subscribe(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORDS...", help="What to wait for; without words, every memory.")
    ] = None,
    exec_: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD", help="Run this with sh for each memory, its JSON on standard input."),
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    kind: Annotated[str | None, typer.Option(help="Only semantic, episodic or procedural memories.")] = None,
    tags: Annotated[list[str] | None, typer.Option(help="Only memories with all of these tags: a,b")] = None,
    role: Annotated[str | None, typer.Option(help="Only files of this role: daily, memory, topic, …")] = None,
    path: Annotated[str | None, typer.Option(help="Only files under this path, or that match this pattern.")] = None,
    match: Annotated[Literal["all", "any"], typer.Option(help="All of the words must be there, or any one.")] = "all",
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N memories.")] = None,
    color: Annotated[Literal["auto", "always", "never"], typer.Option(help="Colours and links.")] = "auto",
    no_start: options.NoStart = False,
    json: Annotated[bool, typer.Option("--json", help="Print each memory as a line of JSON.")] = False,
) -> None:
    """Show each new or changed memory that matches, as it is saved.

    Ends with Ctrl-C. --exec runs CMD once a memory, one after the other, with MEMD_EVENT, MEMD_KEY, MEMD_PATH,
    MEMD_LINE, MEMD_NS and MEMD_ROOT in its environment.
    """
    if json and exec_:
        raise UsageError("--json prints and --exec runs, not both", "CMD gets the JSON on its standard input")
    with talk.client(not no_start) as caller:
        wish: dict[str, Any] = {
            "query": " ".join(words or ()).strip() or None,
            "ns": ns or (pages.must_be_workspace(caller, workspace) if workspace else None),
            "cwd": None if ns or workspace else pages.working_directory(),
            "kind": kind,
            "tags": options.tags_of(tags or None),
            "role": role,
            "path": path,
            "match": match,
            "marks": None if json or exec_ else True,
        }
        given = {name: value for name, value in wish.items() if value is not None}
        ear = Ear(lambda client: client.subscribe(**given), "what was saved in between may be missing: memd query")
        awaited = f"“{one_line(given['query'])}”" if "query" in given else "every memory"
        say.note(f"waiting for {awaited} in {ear.listen(caller)}")
        _tell(ear.events(caller), _way(ear, exec_, json, say.wants_colour(color)), count)


def _tell(events: Iterator[Event], tell: Callable[[Event], None], count: int | None) -> None:
    """Pass on each event, until as many memories came as were wished for."""
    left = count
    for event in events:
        tell(event)
        if left is not None and "hit" in event:
            left -= 1
            if not left:
                return


# --- what is done with a memory ---------------------------------------------------------------------------------


def _way(ear: Ear, command: str | None, json: bool, colour: bool) -> Callable[[Event], None]:
    """How events are passed on: to a command, as JSON, or for a person."""

    def tell(event: Event) -> None:
        if event["event"] == "dropped":
            say.note(f"{event['dropped']} more came faster than they were taken here, and are not shown")
        if json:
            say.json(event)
        elif "hit" in event and command:
            _run(command, event)
        elif "hit" in event:
            asked = ear.ns if len(ear.ns) == 1 else ["all", "of them"]
            shown = hits.render({"ns": asked, "hits": [event["hit"]]}, colour)
            say.out(f"{event['event']}  {shown}\n")

    if not command:
        end_with_the_reader()
    return tell


def _run(command: str, event: Event) -> None:
    """Run a command for a memory. What the note says reaches it as data, never as part of the command."""
    hit = event["hit"]
    told = {"EVENT": event["event"], "KEY": hit["key"], "PATH": hit["path"], "LINE": hit["start_line"], "NS": hit["ns"],
            "ROOT": hit["root"]}  # fmt: skip
    environment = {**os.environ, **{f"MEMD_{name}": str(value).replace("\0", "") for name, value in told.items()}}
    code = subprocess.run(["sh", "-c", command], input=wire.encode(event), env=environment, check=False).returncode
    if code:
        how = f"failed with code {code}" if code > 0 else f"was ended by signal {-code}"
        say.note(f"the command {how} for {one_line(hit['key'])}; waiting for the next")


def register(app: typer.Typer) -> None:
    app.command()(subscribe)
