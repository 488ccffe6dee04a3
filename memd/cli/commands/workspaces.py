"""`memd add`, `memd remove`, `memd workspaces` and `memd ns`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import console, reports, service
from memd.cli.method_command import REQUIRED, Args, Result, command_group, method_command
from memd.errors import UnknownWorkspace
from memd.protocol.client import Client

NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until its text is searchable.")]
Name = typer.Option("--ns", "-n", metavar="NAME")
app = typer.Typer()
ns_app = command_group(app, "ns", "The workspaces by another name.", no_args_is_help=True)


def _open_to_service(args: Args) -> None:
    args |= {"path": str(Path(args["path"]).resolve()), "wait": not args["no_wait"]}
    service.open_to_service(Path(args["path"]))


@method_command(
    app, "workspace.add", prepare=_open_to_service, leave_out=["wait"], defaults={"path": "."}, no_wait=NoWait, ns=Name,
    path=typer.Argument(metavar="[DIR]", help="The directory that holds the notes."),
    globs=typer.Option("--glob", help="Which files are memory, such as '**/*.md'; may be given again."),
)  # fmt: skip
def add(result: Result, args: Args) -> None:
    """Watches a directory of notes."""
    console.out(reports.added(result, args["wait"]))


def _remove_named(client: Client, params: Args, args: Args) -> Result:
    result = client.workspace_rm(ns=_named(client, args["ns"]))
    service.close_to_service()
    return result


def _named(client: Client, name: str) -> str:
    """The workspace that a person calls `name`: its name, or its directory."""
    roots = {entry["ns"]: Path(entry["root"]).resolve() for entry in client.workspace_list()["workspaces"]}
    if name in roots:
        return name
    place = Path(name).expanduser().resolve()
    for ns, root in roots.items():
        if root == place:
            return ns
    names = ", ".join(roots)
    raise UnknownWorkspace(f"no workspace is called {name}", f"there are: {names}" if names else "begin: memd add .")


def _show_removed(result: Result, args: Args) -> None:
    """Stops watching a directory and forgets its index; the notes stay."""
    console.line(f"{result['ns']} is forgotten; the notes in {result['root']} are as they were")


def _show_workspaces(result: Result, args: Args) -> None:
    console.out(reports.workspaces(result["workspaces"]) or "no workspaces yet; begin with: memd add .")


REMOVE: dict[str, Any] = {
    "send": _remove_named, "leave_out": ["path"], "defaults": {"ns": REQUIRED},
    "ns": typer.Argument(metavar="NAME|DIR", help="The workspace, by its name or directory."),
}  # fmt: skip
method_command(app, "workspace.list", name="workspaces")(_show_workspaces)
method_command(app, "workspace.rm", name="remove", **REMOVE)(_show_removed)
method_command(ns_app, "workspace.list", name="list")(_show_workspaces)
method_command(ns_app, "workspace.rm", name="rm", **REMOVE)(_show_removed)
