"""`memd subscribe` and `memd watch`: show what happens as it happens, whether the daemon stays or comes and goes."""

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import typer

from memd.cli import console, daemon_calls, hits, reports
from memd.cli.method_command import Args, call, declared_command, wire_params
from memd.errors import Busy, NoDaemon, UsageError
from memd.protocol import wire
from memd.protocol.safe_text import one_line
from memd.timespans import local_time

RETRY_SECONDS = 0.2
Event = dict[str, Any]
app = typer.Typer()


# --- listening ----------------------------------------------------------------------------------------------------


class EventStream:
    """A subscription that outlives the daemon it was made with."""

    def __init__(self, method: str, args: Args, missed: str) -> None:
        self._method, self._missed, self._args = method, missed, args
        self._client = daemon_calls.connect(not args["no_start"])
        self._params = wire_params(self._client, method, args)
        self.ns: list[str] = call(self._client, method, self._params)["ns"]
        """The workspaces that are listened to; empty means all."""
        self.where = ", ".join(self.ns) or "all workspaces"

    def events(self) -> Iterator[Event]:
        """The daemon's events, for ever; `gap` where it was away."""
        while True:
            try:
                yield from self._client.events()
            except NoDaemon:
                console.note("the daemon is gone; waiting for it to come back")
            self._reconnect()
            console.note(f"the daemon is back; {self._missed}")
            yield {"event": "gap"}

    def _reconnect(self) -> None:
        """Listen as soon as a daemon answers. It is not started from here: someone may have stopped it."""
        self._client = daemon_calls.connect(start=False)
        while True:
            try:
                call(self._client, self._method, self._params)
                return
            except (NoDaemon, Busy):
                time.sleep(RETRY_SECONDS)

    def show(self, show: Callable[[Event], None], counted: str) -> None:
        """Show each event that has the field `counted`, as many as were asked for; with --json, the others too."""
        count = self._args["count"]
        for event in self.events():
            if event["event"] == "dropped":
                console.note(f"{event['dropped']} more events came faster than they could be shown, and are left out")
            if self._args["json"]:
                console.json(event)
            elif counted in event:
                show(event)
            if count is not None and counted in event:
                count -= 1
                if not count:
                    return


def _end_with_reader() -> None:
    """End when nobody reads on, as after `| head`: the next event, and the next try to write, may be days away."""
    threading.Thread(target=_wait_for_closed_pipe, daemon=True).start()


def _wait_for_closed_pipe() -> None:
    if sys.stdout is None:
        return
    closed = select.poll()
    closed.register(sys.stdout.fileno(), 0)
    closed.poll()
    os._exit(console.PIPE_CLOSED)


# --- subscribe ----------------------------------------------------------------------------------------------------


@declared_command(app, "subscribe", words="query")
def subscribe(args: Args) -> None:
    """Shows each new or changed memory that matches, as it is saved.

    Ends with Ctrl-C. --exec runs CMD once a memory, one after the other, with MEMD_EVENT, MEMD_KEY, MEMD_PATH,
    MEMD_LINE, MEMD_NS and MEMD_ROOT in its environment.
    """
    if args["json"] and args["exec"]:
        raise UsageError("--json and --exec exclude each other", "CMD gets the JSON on its standard input")
    args["marks"] = not args["json"] and not args["exec"]
    stream = EventStream("subscribe", args, "memories saved in between may be missing: memd query")
    awaited = f"“{one_line(args['query'])}”" if args["query"] else "every memory"
    console.note(f"waiting for {awaited} in {stream.where}")
    if not args["exec"]:
        _end_with_reader()
    colour, several = console.wants_colour(args["color"]), len(stream.ns) != 1

    def show(event: Event) -> None:
        if args["exec"]:
            _run(args["exec"], event)
        else:
            console.out(f"{event['event']}  {hits.render_one(event['hit'], several, colour)}\n")

    stream.show(show, "hit")


def _run(command: str, event: Event) -> None:
    """Run a command for a memory. The note's text reaches it as data, never as part of the command."""
    hit = event["hit"]
    facts = {"EVENT": event["event"], "KEY": hit["key"], "PATH": hit["path"], "LINE": hit["start_line"],
             "NS": hit["ns"], "ROOT": hit["root"]}  # fmt: skip
    environment = {**os.environ, **{f"MEMD_{name}": str(value).replace("\0", "") for name, value in facts.items()}}
    code = subprocess.run(["sh", "-c", command], input=wire.encode(event), env=environment, check=False).returncode
    if code:
        how = f"failed with code {code}" if code > 0 else f"was ended by signal {-code}"
        console.note(f"the command {how} for {one_line(hit['key'])}; waiting for the next")


# --- watch --------------------------------------------------------------------------------------------------------


@declared_command(app, "watch")
def watch(args: Args) -> None:
    """Shows what happens as it happens, and by whom. Ends with Ctrl-C."""
    stream = EventStream("watch", args, "see what happened in between: memd log")
    console.note(f"watching {stream.where}")
    _end_with_reader()
    stream.show(lambda event: console.line("  ".join(columns(event, several=len(stream.ns) != 1))), "at")


def columns(event: Event, several: bool) -> Iterator[str]:
    yield local_time(event["at"], "%H:%M:%S")
    yield f"{event['event']:<8}"
    if several and event.get("ns"):
        yield event["ns"]
    yield _FACTS.get(event["event"], _unknown)(event)


def _indexed(event: Event) -> str:
    files, gone = event["files"], event["removed"]
    counts = [reports.count(files, "file") if files else "", f"{gone} removed" if gone else ""]
    chunks = f"chunks +{event['chunks_added']} -{event['chunks_dropped']}"
    return f"{_paths(event)}  ({', '.join(part for part in counts if part)}; {chunks})"


def _moved(event: Event) -> str:
    why = f"  {event['why']}" if event.get("why") else ""
    return f"{event['key']}  {event['from']} → {event['to']}{why}"


def _unknown(event: Event) -> str:
    """A kind of event that is newer than this command."""
    return "  ".join(f"{name}={value}" for name, value in event.items() if name not in ("event", "at", "ns"))


_FACTS: dict[str, Callable[[Event], str]] = {
    "indexed": _indexed,
    "written": lambda event: f"{event['key'] or _paths(event)}  {event['what']} by {event['who']}",
    "accessed": lambda event: f"{event['key']}  by {event['who']}",
    "moved": _moved,
    "job": lambda event: f"{event['job']}  {event['result']}",
}


def _paths(event: Event) -> str:
    """The files, the first few by name."""
    first = ", ".join(event["paths"][:3])
    more = event.get("files", 0) + event.get("removed", 0) - 3
    return f"{first}, and {more} more" if more > 0 else first
