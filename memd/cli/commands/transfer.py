"""`memd export`, `import`, `ingest`, `backup` and `restore-backup`."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import typer

from memd.cli import console, daemon_calls, reports
from memd.cli.method_command import Args, Result, declared_command, method_command, own_command
from memd.config import paths
from memd.errors import NotFound, Refused
from memd.protocol import start as process, wire
from memd.protocol.client import Client
from memd.protocol.safe_text import one_line
from memd.version import __version__

MANY = 20
"""Lines of one kind that are shown before the rest is counted."""
app = typer.Typer()


# --- export -------------------------------------------------------------------------------------------------------


@declared_command(app, "export", leave_out=["limit"])
def export(args: Args) -> int:
    """Writes memories, versions and lives as one JSON file.

    To standard output, or to --out FILE. Outside of a workspace it is all of them. --okf DIR writes each memory as a
    Markdown file of its own, for other tools.
    """
    counts = {"files": 0, "memories": 0, "gone": 0, "edges": 0, "unread": 0}
    out: Path | None = args["okf"] or args["out"]
    with daemon_calls.connect(not args["no_start"]) as client:
        here = daemon_calls.working_directory()
        name = daemon_calls.named_workspace(client, args) or (here and daemon_calls.workspace_of(client, here))
        workspaces = [one for one in client.workspace_list()["workspaces"] if name in (None, one["ns"])]
        pieces = _document(client, workspaces, counts)
        if out is None:
            for piece in pieces:
                console.raw(piece)
            return int(counts["unread"] > 0)
        if args["okf"]:
            names = [str(one["ns"]) for one in workspaces]
            found = (file for ns in names for file in _files(client, ns, [], [], counts))
            write_bundle(out, found, client.log(ns=names, limit=1_000)["entries"] if names else [])
        else:
            paths.replace_file(out, pieces, 0o600, follow=False)
    result = {"path": str(out.resolve()), "ns": [one["ns"] for one in workspaces], **counts}
    text = f"{reports.count(counts['memories'], 'memory')} of {reports.count(counts['files'], 'file')}: {out}"
    console.show(result, one_line(text), args["json"])
    return int(counts["unread"] > 0)


def _document(client: Client, workspaces: Sequence[Mapping[str, Any]], counts: dict[str, int]) -> Iterator[bytes]:
    """The export piece by piece: a line for each file."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    yield f'{{"memd_export":1,"made":"{made}","by":"memd {__version__}","workspaces":['.encode()
    edges: list[dict[str, Any]] = []
    for nth, workspace in enumerate(workspaces):
        head = wire.encode({"ns": workspace["ns"], "root": workspace["root"]}).rstrip(b"}\n")
        yield (b"," if nth else b"") + b"\n" + head + b',"files":['
        gone: list[dict[str, Any]] = []
        yield from _rows(_files(client, str(workspace["ns"]), gone, edges, counts))
        yield b'],"gone":['
        counts["gone"] += len(gone)
        yield from _rows(iter(gone))
        yield b"]}"
    counts["edges"] = len(edges)
    yield b'],\n"edges":['
    yield b",".join(b"\n" + wire.encode(edge).rstrip(b"\n") for edge in edges)
    yield b"]}\n"


def _rows(entries: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for nth, entry in enumerate(entries):
        entry.pop("ns", None)
        yield (b",\n" if nth else b"\n") + wire.encode(entry).rstrip(b"\n")


def _files(
    client: Client, ns: str, gone: list[dict[str, Any]], edges: list[dict[str, Any]], counts: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Every file of a workspace, put together where it came in several pages."""

    def parts() -> Iterator[dict[str, Any]]:
        after: str | None = ""
        while after is not None:
            page = client.export(ns=ns, after=after)
            yield from page["files"]
            unread = [f"{one['ns']}: {one['path']}" for one in page.get("unread", ())]
            console.note(*(f"left out, as it cannot be read: {one}" for one in unread))
            counts["unread"] += len(unread)
            gone.extend(page["gone"])
            edges.extend(page["edges"])
            after = page["next"] or None

    for _, same in groupby(parts(), key=lambda part: part["path"]):
        whole: dict[str, Any] = {}
        for part in same:
            if part.pop("from") and whole:
                whole["memories"] += part["memories"]
            else:
                whole = part
        counts["files"] += 1
        counts["memories"] += len(whole["memories"])
        yield whole


# --- import and ingest --------------------------------------------------------------------------------------------


@method_command(app, "import", name="import")
def import_export(result: Result, args: Args) -> None:
    """Takes in an export: files, versions, lives.

    A memory that is here with another text stays as it is, and is listed. Doing it twice changes nothing more.
    """
    console.lines(_summary(result))
    _list("kept as it is here", [f"{entry['key']} ({entry['why']})" for entry in result["kept"]], result["kept_count"])
    _list("left out", [f"{entry['path']}: {entry['why']}" for entry in result["problems"]])
    _list("looks like a secret", [f"{entry['place']}: {entry['kind']}" for entry in result["secrets"]])
    if result["kept"]:
        console.note("to take the other texts instead: --overwrite")


@method_command(app, "ingest")
def ingest(result: Result, args: Args) -> None:
    """Copies memories of other tools into the workspace.

    Markdown trees, .ai-knowledge, .muxcode/memory, JSON lines, the memory folders of Claude Code and Codex, and
    sessions (~/.claude/projects, ~/.codex/sessions, conversations.json of ChatGPT and Claude). A text that is here
    already is not copied.
    """
    import_export(result, args)


def _summary(result: Result) -> Iterator[str]:
    would = "would be " if result["dry_run"] else ""
    if not result["added"] and not result["replaced"]:
        verb = "would change" if result["dry_run"] else "changed"
        yield f"nothing {verb}: {result['same']:,} memories are here already"
        return
    replaced = f", {result['replaced']:,} {would}replaced" if result["replaced"] else ""
    same = f", {result['same']:,} were here already" if result["same"] else ""
    files = f"{reports.count(result['files'], 'file')} {would}written"
    yield f"{reports.count(result['added'], 'memory')} {would}added{replaced}{same}; {files}"
    for path in result["paths"][:MANY] if result["dry_run"] else ():
        yield f"  {path}"
    if result["actions"]:
        undo = [f"memd undo {action}" for action in reversed(result["actions"])]
        yield f"to take it back: {' && '.join(undo[:MANY])}{' && …' if len(undo) > MANY else ''}"


def _list(what: str, lines: list[str], count: int | None = None) -> None:
    console.note(*(f"{what}: {one_line(line)}" for line in console.first(lines, MANY, "{} more", count or 0)))


# --- backups ------------------------------------------------------------------------------------------------------


@method_command(app, "backup")
def backup(result: Result, args: Args) -> None:
    """Copies state.db, while it is in use.

    The notes are yours to back up; caches are made again. A copy is made every night too, and seven are kept.
    """
    console.line(f"{result['backup']} ({result['bytes'] / 1e6:.1f} MB)")


@own_command(app, "restore-backup")
def restore_backup(args: Args) -> None:
    """Puts a copy of state.db back.

    A running daemon is stopped for it and started again. The replaced ledger is put aside; the notes stay as they are.
    """
    file: Path = args["file"]
    if not file.is_file():
        raise NotFound(f"there is no file {file}", f"the nightly ones are in {paths.state_dir() / 'backups'}")
    if not args["yes"] and console.on_terminal(sys.stdin):
        typer.confirm(f"Put {file} in the place of {paths.state_dir() / 'state.db'}?", abort=True)
    result = _restored(file)
    caches = "caches are made again" + (", the daemon is running" if result["restarted"] else " by the next start")
    before = f"; the one before is {result['aside']}" if result["aside"] else ""
    text = f"{result['backup']} is in place{before}\n{caches}"
    console.show(result, text, args["json"])


def _restored(file: Path) -> dict[str, Any]:
    """Look at the copy first: a daemon that works is not stopped for one that does not."""
    daemon_calls.run_without_daemon("--check-backup", str(file.resolve()))
    ran = bool(process.stop())
    try:
        result = daemon_calls.run_without_daemon("--restore-backup", str(file.resolve()))
    finally:
        if ran:
            process.start()
    return {**result, "restarted": ran}


# --- the Open Knowledge Format 0.2: a Markdown file for each memory, an index and a log ---------------------------

INDEX, LOG = "index.md", "log.md"
HEAD = '---\nokf_version: "0.2"\n---\n'


def write_bundle(folder: Path, files: Iterable[Mapping[str, Any]], log: Iterable[Mapping[str, Any]]) -> None:
    """Write a bundle into a folder that is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is not an empty folder", "name a new one: other files would become part of the bundle")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    listed: list[str] = []
    for file in files:
        listed.append(f"\n## {file['path']}\n\n")
        for memory in file["memories"]:
            place = _place(file["path"], memory["slug"])
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(_concept(memory), "utf-8", "surrogatepass")
            listed.append(f"- [{memory['heading'] or place.stem}](/{place})\n")
    (folder / INDEX).write_text(f"{HEAD}\n# Memories\n{''.join(listed)}", "utf-8", "surrogatepass")
    (folder / LOG).write_text("".join(_log(log)), "utf-8", "surrogatepass")


def _place(path: str, slug: str) -> PurePosixPath:
    """The file of a memory: below a folder named as its note, or in the note's own place if it is the whole of it."""
    note = PurePosixPath(path).with_suffix("")
    place = note / f"{slug}.md" if slug else note.with_suffix(".md")
    return place if place.name not in (INDEX, LOG) else place.with_name(f"_{place.name}")


def _concept(memory: Mapping[str, Any]) -> str:
    facts = {
        "type": memory["kind"] or "note", "title": memory["heading"], "tags": memory["declared"].get("tags"),
        "timestamp": memory["life"]["changed"], "key": memory["key"],
    }  # fmt: skip
    # JSON is YAML.
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in facts.items() if value)
    return f"---\n{''.join(lines)}---\n\n{memory['text'].rstrip()}\n"


def _log(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The log, newest first, by day."""
    yield "# Log\n"
    for day, some in groupby(entries, lambda entry: entry["at"][:10]):
        yield f"\n## {day}\n\n"
        for entry in some:
            yield f"- {entry['what']} {entry['key'] or ', '.join(entry['paths'])} ({entry['who']})\n"
