"""`memd export`, `import`, `ingest`, `backup` and `restore-backup`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from memd.cli import options, say, talk
from memd.cli.progress import Bar
from memd.config import paths
from memd.errors import AlreadyRunning, MemdError, NotFound
from memd.protocol import lightjson, wire
from memd.protocol import start as process
from memd.protocol.client import Client
from memd.protocol.safe_text import one_line
from memd.version import __version__

MANY = 20
"""Lines of one kind that are told before the rest is counted."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Where both have a memory, take this one's text.")]


# --- export -------------------------------------------------------------------------------------------------


def export(
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to a file.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON; needs --out.")] = False,
) -> None:
    """Write memories, versions and lives as one JSON file.

    To standard output, or to --out FILE. Outside of a workspace it is all of them.
    """
    with talk.client(not no_start) as caller:
        name = talk.chosen(caller, ns, workspace)
        entries = [entry for entry in caller.workspace_list()["workspaces"] if name in (None, entry["ns"])]
        counted = {"files": 0, "memories": 0, "gone": 0, "edges": 0}
        pieces = _document(caller, entries, counted)
        if out is None:
            for piece in pieces:
                say.raw(piece)
        else:
            _into_file(out, pieces)
    if json and out is not None:
        say.json({"path": str(out.resolve()), "ns": [entry["ns"] for entry in entries], **counted})
    elif out is not None:
        say.line(f"{counted['memories']:,} memories of {counted['files']:,} files are in {out}")


def _document(caller: Client, entries: Sequence[Mapping[str, Any]], counted: dict[str, int]) -> Iterator[bytes]:
    """The export piece by piece: a line for each file."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    yield f'{{"memd_export":1,"made":"{made}","by":"memd {__version__}","workspaces":['.encode()
    edges: list[dict[str, Any]] = []
    for nth, entry in enumerate(entries):
        head = wire.encode({"ns": entry["ns"], "root": entry["root"]}).rstrip(b"}\n")
        yield (b"," if nth else b"") + b"\n" + head + b',"files":['
        gone: list[dict[str, Any]] = []
        yield from _listed(_files(caller, str(entry["ns"]), gone, edges, counted))
        yield b'],"gone":['
        counted["gone"] += len(gone)
        yield from _listed(iter(gone))
        yield b"]}"
    counted["edges"] = len(edges)
    yield b'],\n"edges":['
    yield b",".join(b"\n" + wire.encode(edge).rstrip(b"\n") for edge in edges)
    yield b"]}\n"


def _listed(entries: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for nth, entry in enumerate(entries):
        entry.pop("ns", None)
        yield (b",\n" if nth else b"\n") + wire.encode(entry).rstrip(b"\n")


def _files(
    caller: Client, ns: str, gone: list[dict[str, Any]], edges: list[dict[str, Any]], counted: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Every file of a workspace, put together where it came in several pages."""
    after, whole = "", None
    while True:
        page = caller.export(ns=ns, after=after)
        for file in page["files"]:
            first = file.pop("from")
            if whole is not None and whole["path"] == file["path"] and first:
                whole["memories"] += file["memories"]
                continue
            if whole is not None and whole["path"] != file["path"]:
                yield _counted(whole, counted)
            whole = file
        gone += page["gone"]
        edges += page["edges"]
        after = page["next"]
        if not after:
            break
    if whole is not None:
        yield _counted(whole, counted)


def _counted(file: dict[str, Any], counted: dict[str, int]) -> dict[str, Any]:
    counted["files"] += 1
    counted["memories"] += len(file["memories"])
    return file


def _into_file(out: Path, pieces: Iterator[bytes]) -> None:
    """The file has its name only when it is whole, and is its owner's alone."""
    part = out.with_name(f".{out.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        part.replace(out)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


# --- import and ingest --------------------------------------------------------------------------------------


def bring(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What memd export wrote.")],
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    allow_secret: options.AllowSecret = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Take in an export: files, versions, lives.

    A memory that is here with another text stays as it is, and is listed. Doing it twice changes nothing more.
    """
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "memd export --out FILE writes one")
    with talk.client(not no_start) as caller, Bar() as bar:
        result = caller.import_(
            file, ns=talk.chosen(caller, ns, workspace), dry_run=dry_run, overwrite=overwrite,
            allow_secret=allow_secret, who="cli", on_progress=bar.update,
        )  # fmt: skip
    _told(result, json)


def ingest(
    places: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Folders, Markdown files, JSON lines.")],
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    allow_secret: options.AllowSecret = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Copy memories of other tools into the workspace.

    Markdown trees, .ai-knowledge, .muxcode/memory, JSON lines, and the memory folders of Claude Code and Codex. What is
    here already is copied nowhere.
    """
    for place in places:
        if not place.expanduser().exists():
            raise NotFound(f"there is no {place}", "name a folder, a Markdown file or a file of JSON lines")
    with talk.client(not no_start) as caller, Bar() as bar:
        result = caller.ingest(
            [place.expanduser() for place in places], ns=talk.chosen(caller, ns, workspace), dry_run=dry_run,
            overwrite=overwrite, allow_secret=allow_secret, who="cli", on_progress=bar.update,
        )  # fmt: skip
    _told(result, json)


def _told(result: Mapping[str, Any], json: bool) -> None:
    if json:
        say.json(result)
        return
    for line in _summary(result):
        say.line(line)
    _list("kept as it is here", [f"{entry['key']} ({entry['why']})" for entry in result["kept"]], result["kept_count"])
    _list("left out", [f"{entry['path']}: {entry['why']}" for entry in result["problems"]])
    _list("looks like a secret", [f"{entry['place']}: {entry['kind']}" for entry in result["secrets"]])
    _list("a second text was put beside", result["conflicts"])
    if result["kept"]:
        say.note("to take the other texts instead: --overwrite")


def _summary(result: Mapping[str, Any]) -> Iterator[str]:
    would = "would be " if result["dry_run"] else ""
    if not result["added"] and not result["replaced"]:
        verb = "would change" if result["dry_run"] else "changed"
        yield f"nothing {verb}: {result['same']:,} memories are here already"
        return
    parts = [f"{result['added']:,} memories {would}added"]
    parts += [f"{result['replaced']:,} {would}replaced"] if result["replaced"] else []
    parts += [f"{result['same']:,} were here already"] if result["same"] else []
    yield f"{', '.join(parts)}; {result['files']:,} files {would or 'were '}written"
    for path in result["paths"][:MANY] if result["dry_run"] else ():
        yield f"  {path}"
    if result["actions"]:
        undo = [f"memd undo {action}" for action in reversed(result["actions"])]
        yield f"to take it back: {' && '.join(undo[:MANY])}{' && …' if len(undo) > MANY else ''}"


def _list(what: str, lines: list[str], count: int | None = None) -> None:
    for line in lines[:MANY]:
        say.note(f"{what}: {one_line(line)}")
    left = (count or len(lines)) - MANY
    if left > 0:
        say.note(f"{what}: {left} more")


# --- backups ------------------------------------------------------------------------------------------------


def backup(
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where to; state/backups when left out.")
    ] = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Copy state.db, while it is in use.

    The notes are yours to back up; caches are made again. A copy is made every night too, and seven are kept.
    """
    with talk.client(not no_start) as caller:
        result = caller.backup(directory.expanduser().resolve() if directory else None)
    if json:
        say.json(result)
    else:
        say.line(f"{result['backup']} ({result['bytes'] / 1e6:.1f} MB)")


def restore_backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy that memd backup made.")],
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Put a copy of state.db back.

    A running daemon is stopped for it and started again. What is replaced is put aside; the notes stay as they are.
    """
    if not file.is_file():
        raise NotFound(f"there is no file {file}", f"the nightly ones are in {paths.state_dir() / 'backups'}")
    if not yes and say.on_terminal(sys.stdin):
        typer.confirm(f"Put {file} in the place of {paths.state_dir() / 'state.db'}?", abort=True)
    result = _restored(file)
    if json:
        say.json(result)
    else:
        say.line(f"{result['backup']} is in place; the one before is {result['aside'] or 'gone'}")
        say.out("caches are made again" + (", the daemon is running" if result["restarted"] else " by the next start"))


def _restored(file: Path) -> dict[str, Any]:
    """Look at the copy first: a daemon that works is not stopped for one that does not."""
    _daemon_says("--check-backup", str(file.resolve()))
    ran = bool(process.stop())
    try:
        told = _daemon_says("--restore-backup", str(file.resolve()))
    finally:
        if ran:
            process.start()
    return {**told, "restarted": ran}


def _daemon_says(*flags: str) -> dict[str, Any]:
    """Run the daemon's own code under its lock, in a process of its own."""
    done = subprocess.run(
        process.daemon_command(*flags), capture_output=True, env=process.daemon_environment(), cwd="/", check=False
    )
    if done.returncode:
        message, hint = process.daemon_words(done.stderr, done.returncode)
        raise (AlreadyRunning if done.returncode == process.REFUSED else MemdError)(message, hint)
    return dict(lightjson.loads(done.stdout.decode("utf-8").strip().rpartition("\n")[2]))


def register(app: typer.Typer) -> None:
    named: dict[str, Callable[..., None]] = {
        "export": export, "import": bring, "ingest": ingest, "backup": backup, "restore-backup": restore_backup,
    }  # fmt: skip
    for name, command in named.items():
        app.command(name=name)(command)
