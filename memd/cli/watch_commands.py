"""`memd watch`: shows what happens as it happens: what is indexed, written, read and moved, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import typer

from memd.cli import options, pages, say, talk
from memd.cli.ear import Ear, Event, end_with_the_reader


def watch(
    events: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="KIND", help="Only these: indexed, written, accessed, moved, job."),
    ] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N events.")] = None,
    no_start: options.NoStart = False,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Show what happens as it happens, and by whom. Ends with Ctrl-C."""
    with talk.client(not no_start) as caller:
        where: dict[str, Any] = {
            "ns": ns or (pages.must_be_workspace(caller, workspace) if workspace else None),
            "cwd": None if ns or workspace else pages.working_directory(),
        }
        ear = Ear(lambda client: client.watch(events=events or None, **where), "what happened in between: memd log")  # type: ignore[arg-type]
        say.note(f"watching {ear.listen(caller)}")
        end_with_the_reader()
        left = count
        for event in ear.events(caller):
            _tell(ear, event, json)
            if left is not None and "at" in event:
                left -= 1
                if not left:
                    return


def _tell(ear: Ear, event: Event, json: bool) -> None:
    if event["event"] == "dropped":
        say.note(f"{event['dropped']} more came faster than they were taken here, and are not shown")
    if json:
        say.json(event)
    elif "at" in event:
        say.line("  ".join(_columns(event, several=len(ear.ns) != 1)))


def _columns(event: Event, several: bool) -> Iterator[str]:
    yield datetime.fromisoformat(event["at"]).astimezone().strftime("%H:%M:%S")
    yield f"{event['event']:<8}"
    if several and event.get("ns"):
        yield event["ns"]
    yield _WORDS.get(event["event"], _anything)(event)


def _indexed(event: Event) -> str:
    files, gone = event["files"], event["removed"]
    many = f"{files} file{'s' * (files != 1)}" if files else ""
    counts = ", ".join(part for part in (many, f"{gone} removed" if gone else "") if part)
    return f"{_named(event)}  ({counts}; chunks +{event['chunks_added']} -{event['chunks_dropped']})"


def _written(event: Event) -> str:
    return f"{event['key'] or _named(event)}  {event['what']} by {event['who']}"


def _accessed(event: Event) -> str:
    return f"{event['key']}  by {event['who']}"


def _moved(event: Event) -> str:
    why = f"  {event['why']}" if event.get("why") else ""
    return f"{event['key']}  {event['from']} → {event['to']}{why}"


def _job(event: Event) -> str:
    return f"{event['job']}  {event['result']}"


def _anything(event: Event) -> str:
    """A kind of event that is newer than this command."""
    return "  ".join(f"{name}={value}" for name, value in event.items() if name not in ("event", "at", "ns"))


_WORDS = {"indexed": _indexed, "written": _written, "accessed": _accessed, "moved": _moved, "job": _job}


def _named(event: Event) -> str:
    """The files, the first few by name."""
    first = ", ".join(event["paths"][:3])
    more = event.get("files", 0) + event.get("removed", 0) - 3
    return f"{first}, and {more} more" if more > 0 else first


def register(app: typer.Typer) -> None:
    app.command()(watch)
