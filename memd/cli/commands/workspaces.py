"""`memd add`, `remove`, `workspaces`, `workspace`, `ns`; to keep them well, `sync`, `rebuild`, `doctor` and `jobs`."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from memd import installation
from memd.cli import console, daemon_calls, reports
from memd.cli.commands import service
from memd.cli.connecting.agents import AGENTS, Here
from memd.cli.method_command import Args, Result, call, command_group, declared_command, method_command, own_command
from memd.config import edit, load, paths
from memd.errors import MemdError, NoDaemon, UnknownWorkspace, UsageError, did_you_mean, in_shell
from memd.models import DEFAULT_GLOBS, NEVER
from memd.protocol.client import Client
from memd.protocol.safe_text import one_line
from memd.timespans import duration

VAULT = ".obsidian"
EVERY_NOTE = ["**/*.md"]
MOST_SEEN = 20_000
WAITS, WAIT_SECONDS = 600, 0.1
KEEPING = {name.partition("-")[0]: agent for name, agent in AGENTS.items() if agent.memory}
"""The agents that keep notes by themselves: `claude`, `codex`, …."""
OF_ONE_DIRECTORY = ("ns", "globs", "follow", "exclude", "gitignore", "project", "preset")
app = typer.Typer()
workspace_app = command_group(app, "workspace", "Sets a directory of notes up.")
ns_app = command_group(app, "ns", "The workspaces by another name.", hidden=True)


def _prepare(args: Args) -> None:
    args["agents"] = [name for name in KEEPING if args[f"{name}_memory"]]
    if args["agents"]:
        if args["path"] != "." or any(args[name] for name in OF_ONE_DIRECTORY):
            why = f"--{args['agents'][0]}-memory takes folders as they are, each with its own name, files and project"
            raise UsageError(why, "leave the other options out; with them, one folder at a time: memd add DIR")
        return
    place = Path(args["path"]).resolve()
    if not place.exists() and not args["force"]:
        near = did_you_mean(place.name, (one.name for one in place.parent.glob("*/")))
        raise UsageError(f"{place} does not exist{near}", "to add it before it exists: --force")
    paths.check_notes_place(place)
    args |= {"path": str(place), "wait": not args["no_wait"]}
    args["globs"] = args["globs"] or _globs(place, args["preset"])
    service.open_to_service(place)


def _globs(place: Path, preset: str | None) -> list[str] | None:
    """Which files to read where nothing was said: all Markdown of a vault, and of other folders if that is wanted."""
    if preset is not None:
        return EVERY_NOTE if preset == "obsidian" else None
    if (place / VAULT).is_dir():
        console.note("this is an Obsidian vault, so every note in it is read (as with --preset obsidian)")
        return EVERY_NOTE
    others = 0 if any(next(place.glob(glob), None) for glob in DEFAULT_GLOBS) else _other_notes(place)[0]
    found = f"No memory file is here yet, but {reports.count(others, 'other Markdown file')}. Read them all?"
    wanted = others and console.can_ask() and typer.confirm(found, default=True, err=True)
    return EVERY_NOTE if wanted else None


def _other_notes(place: Path) -> tuple[int, list[str], bool]:
    """How many Markdown files a folder has, without links to them and hidden ones; which folders memd never reads;
    whether it is huge, so that only its first files were counted."""
    found, skipped, seen = set[str](), set[str](), 0
    for folder, folders, names in os.walk(place):
        skipped |= NEVER.intersection(folders)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in NEVER]
        notes = (name for name in names if name.endswith(".md") and not name.startswith("."))
        found |= {os.path.realpath(f"{folder}/{name}") for name in notes}
        seen += len(names) + len(folders)
        if seen > MOST_SEEN:
            break
    return len(found), sorted(skipped), seen > MOST_SEEN


def _add(client: Client, params: Args, args: Args) -> Result:
    """Add a directory, or the folders in which some agents keep notes."""
    if not args["agents"]:
        return call(client, "workspace.add", params)
    here = Here(Path.home(), Path.cwd(), dict(os.environ), sys.platform, ())
    known = {entry["ns"]: Path(entry["root"]) for entry in client.workspace_list()["workspaces"]}
    done: list[Result] = []
    for name in args["agents"]:
        for kept in KEEPING[name].memories(here):
            if not kept.project:
                again = f"memd add {shlex.quote(str(kept.folder))} --glob '**/*.md' --project DIR"
                console.note(f"left out, as it is not clear which directory it is the memory of: {again}")
            elif kept.folder.resolve() not in known.values():
                ns, project = kept.name(name, known), kept.project if kept.project != kept.folder else ""
                known[ns] = kept.folder.resolve()
                service.open_to_service(kept.folder)
                where = {"path": str(kept.folder), "ns": ns, "globs": kept.globs, "project": str(project)}
                done.append(call(client, "workspace.add", {**where, "wait": not args["no_wait"]}))
    return {"added": done}


@method_command(app, "workspace.add", prepare=_prepare, send=_add, leave_out=["wait"])
def add(result: Result, args: Args) -> None:
    """Watches a directory of notes."""
    if args["agents"]:
        lines = [reports.added(one, not args["no_wait"]) for one in result["added"]]
        console.out("\n".join(lines) or "nothing new is kept there")
        return
    others, skipped, many = _other_notes(Path(args["path"])) if args["wait"] else (0, [], False)
    console.out(reports.added(result, args["wait"], 0 if args["globs"] else others))
    if skipped:
        console.note(f"left out, as memd never reads them: {', '.join(skipped)}")
    if many:
        console.note(f"over {MOST_SEEN:,} files are in there; a folder of notes alone is quicker to watch")


def _remove_named(client: Client, params: Args, args: Args) -> Result:
    """Remove the workspace that a person calls by its name, or by its directory."""
    listed = client.workspace_list()
    # A daemon that is older knows of none.
    entries = [*(listed.get("unwatched", ()) if args["hard"] else ()), *listed["workspaces"]]
    name, place = args["ns"], Path(args["ns"]).expanduser().resolve()
    fitting = {entry["root"]: entry["ns"] for entry in entries if name == entry["ns"]}
    fitting = fitting or {entry["root"]: entry["ns"] for entry in entries if place == Path(entry["root"]).resolve()}
    if len(fitting) > 1:
        raise UsageError(f"several directories were called {name}", f"name one: {', '.join(map(in_shell, fitting))}")
    if not fitting:
        there = ", ".join(entry["ns"] for entry in entries)
        raise UnknownWorkspace(f"no workspace is called {name}", f"there are: {there}" if there else "memd workspaces")
    ((root, ns),) = fitting.items()
    if args["hard"]:
        what = f"Forget all that memd knows of the memories of {ns} ({root}), their history and the trash, for good?"
        console.confirm_irreversible(what, args["yes"])
    result = client.workspace_rm(path=root, hard=args["hard"] or None)
    service.close_to_service()
    return result


def _show_removed(result: Result, args: Args) -> None:
    """Stops watching a directory; the notes stay, and the history of its memories, unless it is --hard."""
    ns, root = result["ns"], result["root"]
    for token in result.get("tokens", ()):
        console.note(f"the token {token} no longer opens it; for a new one: memd token add")
    if args["hard"]:
        console.line(f"{ns} is forgotten, with its history; the notes in {root} were not touched")
        copies = sorted((paths.state_dir() / "backups").glob("*"))
        console.note(*(f"a backup from before still has it: {copy}" for copy in copies))
        return
    console.line(f"{ns} is no longer watched; the notes in {root} were not touched")
    globs = result.get("globs", DEFAULT_GLOBS)
    options = [f"--glob {in_shell(glob)}" for glob in globs if tuple(globs) != DEFAULT_GLOBS]
    again, forget = " ".join(("memd add", in_shell(root), *options)), f"memd remove {in_shell(ns)} --hard"
    console.note(f"the history of its memories is kept for: {again}; to forget it: {forget}")


def _show_workspaces(result: Result, args: Args) -> None:
    console.out(reports.workspaces(result["workspaces"]))
    for former in result.get("unwatched", ()):
        console.note(f"no longer watched, its history is kept: {former['ns']} ({former['root']})")


REMOVE: dict[str, Any] = {"send": _remove_named, "leave_out": ["path"]}
method_command(app, "workspace.list", name="workspaces")(_show_workspaces)
method_command(app, "workspace.rm", name="remove", **REMOVE)(_show_removed)
method_command(ns_app, "workspace.list", name="list")(_show_workspaces)
method_command(ns_app, "workspace.rm", name="rm", **REMOVE)(_show_removed)


@own_command(workspace_app, "workspace init")
def init(args: Args) -> None:
    """Has git carry a workspace: memd merges its notes, and conflict copies are ignored.

    Nothing is committed and nothing is pushed. Every clone needs it once: git keeps the driver out of what is cloned.
    """
    if not args["git"]:
        raise UsageError("only git can be set up", "memd workspace init --git")
    root = args["directory"].resolve()
    known = [one for one in load.load().workspaces if one.root.resolve() == root and one.globs != DEFAULT_GLOBS]
    done = set_up_git(root, [glob for one in known for glob in one.globs])
    lines = [
        f"{root} is {'now ' if done['created'] else ''}in git; its notes are merged by memd",
        *(f"  .gitattributes: {line}" for line in done["attributes"]),
        *(f"  .gitignore: {line}" for line in done["ignored"]),
        "Nothing was committed or pushed; every clone needs this command once.",
    ]
    console.show(done, "\n".join(lines), args["json"])


@own_command(workspace_app, "workspace share")
def share(args: Args) -> None:
    """Has a workspace answer along with every other one; never the other way."""
    name, hooks_in = args["name"], args["hooks_in"] or ()
    edit.share_workspace(name, hooks_in)
    told = f", and the hooks in {', '.join(hooks_in)} tell of it" if hooks_in else ""
    _follow({"ns": name, "shared": True}, f"{name} answers along with every other workspace{told}", args["json"])


@own_command(workspace_app, "workspace unshare")
def unshare(args: Args) -> None:
    """Ends that: the workspace answers only for itself, and no other hook tells of it."""
    edit.share_workspace(args["name"], off=True)
    _follow({"ns": args["name"], "shared": False}, f"{args['name']} answers only for itself", args["json"])


def _follow(done: dict[str, Any], text: str, json: bool) -> None:
    """Have a running daemon follow the config file, and say what was changed in it."""
    with suppress(NoDaemon), daemon_calls.connect(start=False) as client:
        client.reload()
    console.show(done, text, json)


# --- git: who merges notes, what is kept out ----------------------------------------------------------------------

DRIVER = "memd-note"
STATE = "memory/.memd/*.jsonl merge=union"
IGNORED = ("*.sync-conflict-*", "*conflicted copy*", "*.conflict-*", "*.orig", ".~*", "*.sw[a-p]", "*.tmp")


def set_up_git(root: Path, globs: Iterable[str] = ()) -> dict[str, Any]:
    """Make a repository unless there is one, and have memd merge its notes; nothing is committed, nothing is sent.

    Tells the lines that were added to `.gitattributes` and `.gitignore`.
    """
    attributes = (*(f"{glob} merge={DRIVER}" for glob in globs or DEFAULT_GLOBS), STATE)
    created = _git(root, "rev-parse", "--show-toplevel", check=False) == ""
    if created:
        _git(root, "init", "--quiet", "--initial-branch=main")
    driver = f"{_memd()} merge-note %O %A %B %P"
    _git(root, "config", "--local", f"merge.{DRIVER}.name", "memd merges notes section by section")
    _git(root, "config", "--local", f"merge.{DRIVER}.driver", driver)
    return {
        "root": str(root), "repository": _git(root, "rev-parse", "--show-toplevel"), "created": created,
        "attributes": _with_lines(root / ".gitattributes", attributes),
        "ignored": _with_lines(root / ".gitignore", IGNORED), "driver": driver,
    }  # fmt: skip


def _memd() -> str:
    """The command as git can run it."""
    return shlex.quote(found) if (found := shutil.which("memd")) else f"{shlex.quote(sys.executable)} -P -m memd"


def _with_lines(file: Path, lines: tuple[str, ...]) -> list[str]:
    """Add the lines that a file lacks; returns those."""
    text = file.read_text() if file.exists() else ""
    missing = [line for line in lines if line not in text.splitlines()]
    if missing:
        file.write_text(text + ("\n" if text and not text.endswith("\n") else "") + "\n".join(missing) + "\n")
    return missing


def _git(root: Path, *arguments: str, check: bool = True) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MemdError("git is not installed", "install it, then try again") from None
    if done.returncode and check:
        look = f"look at it: git -C {in_shell(root)} status"
        raise MemdError(f"git {arguments[0]} failed: {done.stderr.strip()}", look)
    return done.stdout.strip()


# --- keeping them well --------------------------------------------------------------------------------------------

jobs_app = command_group(app, "jobs", "Shows what runs by the clock, or runs it now.")


@method_command(app, "sync")
def sync(result: Result, args: Args) -> None:
    """Returns when all changes on disk can be found."""
    held = "\n  many files vanished at once, so their memories are kept; to let them go: memd sync --accept-missing"
    changes = f"{result['changed']} changed, {result['removed']} removed ({result['took_ms']:.0f} ms)"
    console.out(f"{reports.count(result['files'], 'file')}, {changes}{held if result.get('held') else ''}")


@method_command(app, "rebuild")
def rebuild(result: Result, args: Args) -> None:
    built = ", ".join(reports.count(result[f"{name}s"], name) for name in ("file", "chunk", "vector"))
    console.out(f"built again: {built} ({duration(result['took_ms'] / 1000)})")


@declared_command(app, "doctor", leave_out=["no_start"])
def doctor(args: Args) -> int:
    """Checks the stores, and repairs them with --fix; or says why a file is memory, or is not.

    Works without a daemon too.
    """
    wanted: dict[str, Any] = {name: True for name in ("fix", "secrets") if args[name]}
    wanted |= {"file": str(Path(args["file"]).expanduser().absolute())} if args["file"] else {}
    with daemon_calls.connect(start=False) as client:
        try:
            result = call(client, "doctor", wanted)
        except NoDaemon:
            flags = (f"--file={value}" if name == "file" else f"--{name}" for name, value in wanted.items())
            result = daemon_calls.run_without_daemon("--doctor", *flags)
        # Other programs of the same name: only the shell that asks can tell which it would run.
        others = installation.others(os.environ.get("PATH", os.defpath)) if not args["file"] else ()
        shadows = [{"name": "command", "state": "warn", "detail": detail, "fix": fix} for detail, fix in others]
        result = {**result, "findings": [*result["findings"], *shadows]}
        console.show(result, reports.doctor(result, args["fix"]), args["json"])
        if client.daemon and any(one["name"] == "state.db" and one["state"] == "mended" for one in result["findings"]):
            _wait_for_successor(client)
    return 0 if result["ok"] else MemdError.exit_code


def _wait_for_successor(client: Client) -> None:
    """A daemon that mended its ledger starts again: return when the next one answers, as the next command will ask."""
    mender = client.daemon
    for _ in range(WAITS):
        time.sleep(WAIT_SECONDS)
        with suppress(NoDaemon):
            client.ping()
            if client.daemon is not mender:
                return
    raise NoDaemon("the daemon mended its ledger and has not started again", "see why: memd logs")


@method_command(jobs_app, "job.list", of_group=True)
def jobs(result: Result, args: Args) -> None:
    head = ("job", "schedule", "last run", "took", "next", "result")
    console.out(reports.table([head, *map(_row, result["jobs"])]))


def _row(job: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one_line(job["name"]),
        reports.scheduled(one_line(job["schedule"])),
        reports.ago(job["last"]),
        _took(job) if job["last"] and not job["running"] else "",
        reports.until(job["next"]) if job["next"] else "",
        "running" if job["running"] else one_line(job["result"]),
    )


def _took(job: Mapping[str, Any]) -> str:
    return f"{job['took_ms']:.0f} ms" if job["took_ms"] < 1000 else duration(job["took_ms"] / 1000)


@method_command(
    jobs_app, "job.run", name="run", exit_code=lambda result: 0 if result["job"]["ok"] else MemdError.exit_code
)
def run_job(result: Result, args: Args) -> None:
    """Runs a job now, whatever its schedule, and says what came of it."""
    job = result["job"]
    console.line(f"{job['name']}: {job['result']} ({_took(job)})")
