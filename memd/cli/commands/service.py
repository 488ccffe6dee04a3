"""`memd service install`, `uninstall` and `status`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import console, service
from memd.cli.method_command import Json, Yes, command_group
from memd.config import paths
from memd.errors import UsageError
from memd.protocol.safe_text import one_line

UNCONFINED = (
    "a trial of the confined service failed (no namespaces for users here, or memd lies under /tmp): "
    "it runs without PrivateTmp=, ProtectHome= and the like"
)
NO_LINGER = "without linger the service stops when you log out; to let it go on: memd service install --linger"
app = typer.Typer()
service_app = command_group(app, "service", "memd as a systemd service of this user.", no_args_is_help=False)


@service_app.command()
def install(
    print_only: Annotated[bool, typer.Option("--print", help="Show the units and change nothing.")] = False,
    linger: Annotated[bool, typer.Option("--linger", help="Let it go on after logout.")] = False,
    now: Annotated[bool, typer.Option("--now/--no-now", help="Start it at once.")] = True,
    web: Annotated[bool, typer.Option("--web", help="Also the page, which runs while someone looks at it.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Also the hub, for other machines.")] = False,
    json: Json = False,
) -> None:
    """Installs memd as a service: it starts at login, and whenever someone asks."""
    if print_only and service.launchd_in_charge():
        console.out(service.plist().decode())
        return
    if print_only:
        written = service.units(web, serve)
        text = "\n".join(f"# {paths.unit_dir() / name}\n{unit}" for name, unit in written.items()).rstrip()
        console.show(written, text, json)
        return
    state = service.install(now, linger, web, serve)
    console.show(state, describe(state), json)
    if not json and not state.get("confined", True):
        console.note(UNCONFINED)
    if not json and state.get("linger") is False:
        console.note(NO_LINGER)


@service_app.command()
def uninstall(
    purge: Annotated[
        bool, typer.Option("--purge", help="Also remove state, settings and socket: everything but the notes.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Removes the service; with --purge, leaves nothing behind but the notes."""
    if purge and not yes:
        _confirm(service.places())
    removed = service.uninstall()
    gone = service.purge() if purge else []
    result = {"uninstalled": removed, "removed": [str(place) for place in gone]}
    said = "the service is uninstalled" if removed else "the service was not installed"
    console.show(result, "\n".join([said, *(one_line(f"removed {place}") for place in gone)]), json)


def _confirm(places: list[Path]) -> None:
    if not console.can_ask():
        raise UsageError(
            "--purge removes memd's state and settings, and there is no terminal to ask on", "if you mean it: --yes"
        )
    console.note(*(f"to be removed: {place}" for place in places))
    if not typer.confirm("Remove all of this? The notes stay.", err=True):
        raise typer.Exit(5)


@service_app.command()
def status(json: Json = False) -> None:
    """Shows whether the service is installed and how it is."""
    state = service.state()
    console.show(state, describe(state), json)


def describe(state: dict[str, Any]) -> str:
    """The service in a few lines."""
    if not state["installed"]:
        return "the service is not installed; to install it: memd service install"
    if "plist" in state:
        return f"launchd starts memd at login: {state['plist']}"
    lines = [f"{name:<8} {_unit(state[name])}" for name in ("service", "socket", "web", "hub") if state[name]]
    confined = "yes" if state["confined"] else "without namespaces"
    linger = {True: "yes", False: "no, it stops at logout", None: "unknown"}[state["linger"]]
    return "\n".join([*lines, f"unit     {one_line(state['unit'])}", f"confined {confined}", f"linger   {linger}"])


def _unit(shown: dict[str, str]) -> str:
    """`active (running), enabled, pid 42`."""
    parts = [f"{shown.get('ActiveState', 'unknown')} ({shown.get('SubState', '?')})", shown.get("UnitFileState", "")]
    numbers = {"MainPID": "pid {}", "NRestarts": "restarted {} times"}
    parts += [said.format(shown[name]) for name, said in numbers.items() if shown.get(name, "0") != "0"]
    return ", ".join(part for part in parts if part)
