"""`memd connect`, `memd disconnect` and, for help, `memd hook`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import console, hook as hooks
from memd.cli.connecting import agents, change
from memd.cli.connecting.agents import AGENTS, Agent, Here
from memd.cli.connecting.change import Change
from memd.cli.method_command import Args, own_command
from memd.config import edit, hooks as hook_settings, load
from memd.errors import UnknownWorkspace, UsageError
from memd.protocol.safe_text import one_line

CAPTURE = "Save what sessions teach (decisions, causes, what you ask to remember) in the note of the day."
Capture = Annotated[bool | None, typer.Option("--capture/--no-capture", help=CAPTURE)]
STATES = {"connected": "connected", "taken": "name is taken", "none": "not connected", "unreadable": "unreadable"}
app = typer.Typer()


def _agents(incomplete: str) -> list[str]:
    return [name for name in AGENTS if name.startswith(incomplete)]


def _name(metavar: str) -> Any:
    return Annotated[str | None, typer.Argument(metavar=metavar, help=", ".join(AGENTS), autocompletion=_agents)]


@own_command(app, "connect", agent=_name("[AGENT]"), capture=Capture)
def connect(args: Args) -> None:
    """Connects an agent to memd: shows what changes in its config file and writes it, keeping what else is in it.

    On a terminal it asks before it writes.
    """
    scope, dry_run, json = args["scope"], args["dry_run"], args["json"]
    if args["listed"] or args["agent"] is None:
        _list(json)
        return
    known = _agent(args["agent"], scope)
    here = _here(scope, ns=_ns(known, args["ns"], scope), profile=args["profile"] or "", hooks=args["with_hooks"])
    changes = [change.connected(place, args["force"]) for place in known.places(scope, here)]
    new = " and ".join(str(one.path) for one in changes if one.kind != "none")
    asking = console.can_ask() and bool(new) and not (args["yes"] or dry_run or json)
    if asking:
        _show_diffs(changes)
        if not typer.confirm(one_line(f"Write this to {new}?"), default=True, err=True):
            console.note("nothing was written")
            return
    _carry_out(changes, dry_run)
    _report(known, scope, changes, dry_run, json, shown=asking)
    if new and not json and not dry_run:
        console.note(f"next: {known.then}")
    if not dry_run and args["with_hooks"] and known.saves:
        _offer_capture(known, args["capture"], json)


def _offer_capture(agent: Agent, wanted: bool | None, json: bool) -> None:
    """Ask once whether what sessions teach may be saved, and say whether it is; a "no" is written down as well."""
    on, decided = bool(hook_settings.settings()["capture"]), hook_settings.is_set("capture")
    if wanted is None and not decided and not json and console.can_ask():
        answer = typer.prompt(f"{CAPTURE} Turn it on? (yes, no, later)", default="later", err=True)
        wanted = {"y": True, "n": False}.get(answer[:1].lower())
    if wanted is not None and (wanted != on or not decided):
        edit.set_value("hooks", "capture", wanted)
        on = wanted
    if not json:
        off = f"saving from sessions is off; to turn it on: memd connect {agent.name} --capture"
        console.note("what sessions teach is saved in the note of the day; memd log shows it" if on else off)


@own_command(app, "disconnect", agent=_name("AGENT"))
def disconnect(args: Args) -> None:
    """Takes memd out of an agent's config file again, and nothing else."""
    scope, dry_run, json = args["scope"], args["dry_run"], args["json"]
    known = _agent(args["agent"], scope or "user")
    # In the home directory a project's file can be the user's.
    scopes = [scope] if scope else known.scopes
    places = {place.path: place for where in scopes for place in known.places(where, _here(where))}
    changes = [change.disconnected(place) for place in places.values()]
    undone = [one for one in changes if one.kind != "none"]
    _carry_out(changes, dry_run, forget=True)
    told = changes if json else [one for one in changes if one in undone or one.note]
    _report(known, scope or "", told, dry_run, json)
    if not json and not dry_run:
        out_of = one_line(" and ".join(str(one.path) for one in undone))
        console.note(f"{known.title} is disconnected: memd is out of {out_of}" if undone else "it was not connected")


@own_command(app, "hook", event=Annotated[str, typer.Argument(help=", ".join(hooks.EVENTS))])
def hook(args: Args) -> int:
    """Answers an agent's hook: reads its JSON on standard input; silent, and 0, whatever goes wrong."""
    return hooks.run(args["event"], args)


# --- what is meant ------------------------------------------------------------------------------------------------


def _agent(name: str, scope: str) -> Agent:
    known = AGENTS.get(name)
    if known is None:
        # Both parts of a name are typed alone: `claude`, `desktop`.
        meant = " or ".join(f"`{agent}`" for agent in AGENTS if name.casefold() in agent.split("-"))
        hint = f"did you mean {meant}?" if meant else f"it knows: {', '.join(AGENTS)}"
        raise UsageError(f"memd does not know the agent {name}", hint)
    if scope not in known.scopes:
        raise UsageError(f"{known.title} has no settings for a project", f"memd connect {known.name}")
    return known


def _here(scope: str, **given: Any) -> Here:
    here = Path.cwd()
    around = next((place for place in (here, *here.parents) if (place / ".git").exists()), here)
    program, shared = agents.program(scope), scope == "project"
    return Here(Path.home(), around, dict(os.environ), sys.platform, program, shared=shared, **given)


def _ns(agent: Agent, ns: str | None, scope: str) -> str:
    """The workspace to write down: the one that was named, and for agents that start elsewhere the one around here."""
    workspaces = load.load().workspaces
    names = [workspace.ns for workspace in workspaces]
    if ns:
        if scope == "user" and ns not in names:
            raise UnknownWorkspace(f"no workspace is called {ns}", f"there are: {', '.join(names) or 'none yet'}")
        return ns
    if not agent.elsewhere:
        return ""
    if not workspaces:
        raise UsageError(f"there is no workspace yet for {agent.title}", "first: memd add DIR")
    here = Path.cwd()
    around = [one for one in workspaces if here.is_relative_to(one.root.resolve())]
    if not around and len(names) > 1:
        raise UsageError(f"which workspace should {agent.title} use?", f"name it with -n: {', '.join(names)}")
    return max(around or workspaces, key=lambda one: len(one.root.parts)).ns


# --- doing and telling --------------------------------------------------------------------------------------------


def _show_diffs(changes: list[Change]) -> None:
    for one in changes:
        if one.kind != "none":
            console.diff(one.diff())


def _carry_out(changes: list[Change], dry_run: bool, forget: bool = False) -> None:
    for one in changes if not dry_run else ():
        change.apply(one, forget)


def _report(agent: Agent, scope: str, changes: list[Change], dry_run: bool, json: bool, shown: bool = False) -> None:
    if json:
        files = [
            {
                "path": str(one.path), "change": one.kind, "diff": one.diff(), "backup": str(one.backup or ""),
                "note": one.note,
            }
            for one in changes
        ]  # fmt: skip
        console.json({"agent": agent.name, "scope": scope, "dry_run": dry_run, "files": files, "next": agent.then})
        return
    if not shown:
        _show_diffs(changes)
    for one in changes:
        said = "nothing to change in" if one.kind == "none" else f"would be {one.kind}:" if dry_run else f"{one.kind}:"
        console.note(one_line(f"{said} {one.path}"))
        if one.backup is not None and not dry_run:
            console.note(one_line(f"what was there is in {one.backup}"))
        if one.note:
            console.note(one_line(one.note))


def _list(json: bool) -> None:
    rows = [_row(agent) for agent in AGENTS.values()]
    lines = []
    for row in rows:
        lines.append(f"{row['agent']:<15} {'found: ' + row['found'] if row['found'] else 'not found on this machine'}")
        shown = [place for place in row["places"] if row["found"] or place["state"] != "none"]
        lines += [f"{'':<15} {one['scope']:<8} {STATES[one['state']]:<20} {one['path']}" for one in shown]
    console.show({"agents": rows}, "\n".join(map(one_line, lines)), json)


def _row(agent: Agent) -> dict[str, Any]:
    rows: dict[str, dict[str, str]] = {}
    for scope in agent.scopes:
        for place in agent.places(scope, _here(scope)):
            path, state = str(place.path), change.state(place)
            # What `-n` or `--profile` made of it is connected too.
            state = "connected" if state == "differs" else state
            rows.setdefault(path, {"scope": scope, "path": path, "state": state})
    row = {"agent": agent.name, "title": agent.title, "found": agent.found(_here("user"))}
    return {**row, "places": list(rows.values())}
