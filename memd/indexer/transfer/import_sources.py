"""Finds memories that other tools keep (Markdown, sessions, JSON lines, SQLite databases), and their places here."""

import json
import os
import re
import sqlite3
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain, count
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from memd.config import paths
from memd.errors import NotFound, Refused, UsageError, in_shell
from memd.indexer.indexing.scan import SWAP
from memd.indexer.transfer.import_plan import ExportedWorkspace, seconds_of
from memd.models import KINDS, NEVER, JsonObject, digest_of, grouped
from memd.notes import merging, metadata, secrets, sessions
from memd.notes.names import DATE, UNSEEN, Layout, layout_of, slug
from memd.notes.read import UTF_16, SkippedFile, UnreadableFile, decode, read_file
from memd.notes.sections import new_entry
from memd.notes.topics import GENERAL, general_of, read_index, topic_file, topic_name

MARKDOWN = (".md", ".markdown", ".mdk")
RECORDS = (".jsonl", ".ndjson", ".json")
PLAIN_NAMES = ("memory", "memories", "notes", "docs", "projects", "knowledge", "ai-knowledge", "muxcode")
"""Folders whose name does not say whose memory it is: the folder above does."""


@cache
def tools() -> JsonObject:
    """The table of other tools: their folders, and how their databases are read."""
    return tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))


LEFT_OUT = frozenset({"raw_memories.md"})
"""The raw material of Codex's MEMORY.md."""

CHATS = "conversations.json"
"""The chats in the data export of ChatGPT or Claude."""

OKF_RESERVED = frozenset({"index.md", "log.md"})

LINK = "a symbolic link that leads elsewhere; name what it points to, if that is meant"
HOME = "memory/ingested"
SESSIONS = "memory/sessions"
RUNNING_SECONDS = 120
"""A transcript that was written so lately is that of a session which goes on."""
SINCE_1970 = re.compile(r"(\d{9,10})(?:\d{3}|\.\d+)?")
FACT = r"^[ \t]*%s:[ \t]*[\"']?([^\n]+?)[\"']?[ \t\r]*$"


@dataclass(frozen=True, slots=True)
class PathMapping:
    """How the files of one place get their paths in the workspace."""

    name: str
    layout: Layout
    taken: frozenset[str]
    """Stems of the workspace's own files: a second file of that stem would change the keys of their memories."""
    root: Path
    max_bytes: int
    since: str
    """Only sessions of this day, month or year, or later."""
    project: str
    """Only sessions in a folder whose path has this in it."""


def gather(
    places: list[Path], files: Sequence[str], root: Path, max_bytes: int, since: str = "", project: str = ""
) -> tuple[list[merging.IncomingFile], list[JsonObject]]:
    """Everything in these files and folders that can be a memory of the workspace at `root`, which has `files`; and the
    files that could not be read."""
    taken = frozenset(PurePosixPath(path).stem for path in files if not path.startswith(f"{HOME}/"))
    found, problems, topics = list[merging.IncomingFile](), list[JsonObject](), set[str]()
    for place in places:
        if not place.exists():
            raise NotFound(f"there is no {place}", "name a folder, a Markdown file or a file of JSON lines")
        mapping = PathMapping(name_of(place), layout_of(files), taken, root.resolve(), max_bytes, since, project)
        for file, path in _files(place):
            try:
                _check_inside(place, file)
                found += _notes(mapping, file, path, topics, problems)
            except (OSError, sqlite3.Error, SkippedFile, UnreadableFile) as error:
                problems.append({"path": str(file), "why": str(error)})
    return found, problems


def _check_inside(place: Path, file: Path) -> None:
    """Skip a link in a place that leads out of it, or to a folder. The place itself may be a link."""
    inside = os.path.realpath(file).startswith(os.path.realpath(place).rstrip("/") + "/")
    if file != place and (not inside or file.is_dir()):
        raise SkippedFile(LINK)


def _notes(
    mapping: PathMapping, file: Path, path: PurePosixPath, topics: set[str], problems: list[JsonObject]
) -> Iterator[merging.IncomingFile]:
    if (found := _sessions(file)) is not None:
        return _session_notes(mapping, file, found)
    if is_database(file):
        return _database_notes(mapping, file)
    if file.suffix in RECORDS:
        return _record_notes(mapping, file, topics, problems)
    return _markdown_notes(mapping, file, path)


# --- finding ------------------------------------------------------------------------------------------------


def _files(place: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """The files of a place that can hold memories, in order, each with its path in the place; and links to folders."""
    hidden: dict[str, list[str]] = tools()["folders"]
    # What memd keeps itself has the texts of every workspace.
    own = paths.state_dir().resolve()
    if place.resolve().is_relative_to(own):
        return
    # The place may itself be inside the folder of another tool.
    above = next((part for part in place.parts[:-1] if part in hidden), "")
    if place.is_file():
        yield place, PurePosixPath(above) / place.name
        return
    if place.name in hidden:
        for file in _matching(place, hidden[place.name]):
            yield file, PurePosixPath(place.name) / file.relative_to(place).as_posix()
        return
    reserved = OKF_RESERVED if _is_okf(place) else frozenset()
    for folder, names, files in os.walk(place):
        here = Path(folder)
        for name in sorted(set(names) & hidden.keys()):
            for file in _matching(here / name, hidden[name]):
                yield file, PurePosixPath(file.relative_to(place).as_posix())
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in NEVER)
        names[:] = [name for name in names if name != own.name or (here / name).resolve() != own]
        links = {name for name in names if (here / name).is_symlink()}
        for name in sorted(links.union(files) - reserved):
            if name in links or (_wanted(name) and (Path(name).suffix != ".json" or name == CHATS)):
                yield here / name, PurePosixPath(above) / (here / name).relative_to(place).as_posix()


def _is_okf(place: Path) -> bool:
    """Whether a folder is a bundle of the Open Knowledge Format, in which an index and a log are no memories."""
    with suppress(OSError), (place / "index.md").open("rb") as index:
        return re.match(rb"---\s*\n(?:.*\n)*?okf_version:", index.read(1_000)) is not None
    return False


def _matching(folder: Path, globs: Iterable[str]) -> list[Path]:
    return sorted({file for glob in globs for file in folder.glob(glob) if file.is_file() and _wanted(file.name)})


def _wanted(name: str) -> bool:
    suffixes = (*MARKDOWN, *RECORDS, *SUFFIXES)
    return Path(name).suffix in suffixes and not SWAP.search(name) and name not in LEFT_OUT


def name_of(place: Path) -> str:
    """A name for what comes from a place: the folder's, or that of the first folder above with a telling name."""
    folder = place.resolve()
    name = folder.stem if folder.is_file() else folder.name
    while slug(name) in PLAIN_NAMES and folder.parent != folder:
        folder = folder.parent
        name = folder.name
    return slug(name.lstrip(".") or "files")


# --- Markdown -----------------------------------------------------------------------------------------------


def _markdown_notes(mapping: PathMapping, file: Path, path: PurePosixPath) -> Iterator[merging.IncomingFile]:
    content = read_file(file, mapping.max_bytes)
    for target, data in _markdown(mapping, file, path, content.data):
        incoming = merging.read_incoming(target, data, str(file), content.stat.mtime_ns / 1e9)
        if incoming.items:
            yield replace(incoming, title="" if target.startswith(f"{HOME}/") else f"From {mapping.name}")


def _markdown(mapping: PathMapping, file: Path, path: PurePosixPath, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Where a Markdown file belongs, and its bytes; a file of the workspace stays where it is."""
    if file.resolve().is_relative_to(mapping.root):
        yield file.resolve().relative_to(mapping.root).as_posix(), data
        return
    if path.name == "index.mdk":
        # One that only lists topics says nothing else.
        if general := general_of(decode(data)).strip():
            yield f"{HOME}/{mapping.name}/{mapping.name}-general.md", f"# {GENERAL}\n\n{general}\n".encode()
        return
    facts = _missing_facts(file, path, decode(data))
    if facts:
        # Front matter that is no YAML stays as it is.
        with suppress(Refused):
            data = metadata.with_front_matter(decode(data), facts).encode()
    # In UTF-8, which memd can write again.
    yield target_of(mapping, path), decode(data).encode() if data.startswith(UTF_16) else data


def target_of(mapping: PathMapping, path: PurePosixPath) -> str:
    """Daily notes go to the daily notes, topics to the topics, role files to the roles, the rest under `HOME`."""
    stem = path.stem
    if DATE.fullmatch(stem):
        return mapping.layout.daily_note(stem)
    if path.suffix == ".mdk" or "topics" in path.parts[:-1]:
        return mapping.layout.topic(file_name(stem))
    if ".muxcode" in path.parts:
        return mapping.layout.role(stem)
    folders = [file_name(part) for part in _folders(path)]
    if stem == "MEMORY" or stem in mapping.taken:
        telling = [folder for folder in folders if slug(folder) not in PLAIN_NAMES]
        stem = f"{telling[-1] if telling else mapping.name}-{stem.lower()}"
    return "/".join((HOME, mapping.name, *folders, f"{file_name(stem)}.md"))


def _folders(path: PurePosixPath) -> tuple[str, ...]:
    """The folders of a path, without those that the name of the place implies."""
    parts = path.parts[:-1]
    if parts[:2] == (".claude", "projects"):
        return parts[2:]
    return parts[1:] if parts[:1] in ((".claude",), (".codex",)) else parts


def file_name(text: str) -> str:
    """A file name that any workspace takes: not hidden, not too long, no separators."""
    plain = re.sub(r"[/\\#:]+", "-", UNSEEN.sub("-", text)).strip().strip(".-") or "memory"
    plain = plain.encode()[:150].decode(errors="ignore")
    return topic_name(f"{plain}-" if SWAP.search(plain) else plain)


def _missing_facts(file: Path, path: PurePosixPath, text: str) -> JsonObject:
    """The title, summary and tags that a file lacks, from other tools' `name`, `description`, `type` and index."""
    head = text[: metadata.front_matter_end(text)]
    has = {name for name in ("title", "summary", "tags") if re.search(rf"^{name}:", head, re.MULTILINE)}
    facts: JsonObject = {"title": _fact(head, "name"), "summary": _fact(head, "description")}
    kind = _fact(head, "type")
    facts["tags"] = [kind] if re.fullmatch(r"[a-z]+", kind) else []
    if path.suffix == ".mdk" and not facts["summary"]:
        facts["summary"] = _summaries(file.with_name("index.mdk")).get(path.stem.casefold(), "")
    return {name: value for name, value in facts.items() if value and name not in has}


def _fact(head: str, name: str) -> str:
    found = re.search(FACT % name, head, re.MULTILINE)
    return found[1].strip() if found else ""


def _summaries(index: Path) -> dict[str, str]:
    with suppress(OSError):
        text = "" if index.is_symlink() else decode(index.read_bytes())
        return {entry.topic.casefold(): entry.summary for entry in read_index(text).entries}
    return {}


# --- sessions -----------------------------------------------------------------------------------------------


def _sessions(file: Path) -> list[sessions.Session] | None:
    """The sessions in a file; None if it holds something else. A transcript may be larger than any note."""
    if not file.is_file():
        return None
    if file.name == CHATS:
        try:
            return sessions.read_conversations(json.loads(file.read_bytes()))
        except (ValueError, RecursionError):
            return None
    if file.suffix not in (".jsonl", ".ndjson"):
        return None
    with file.open("rb") as lines:
        session = sessions.read_transcript(lines)
    if session is not None and time.time() - file.stat().st_mtime < RUNNING_SECONDS:
        why = "the session seems to go on, it changed less than two minutes ago: try again when it has ended"
        raise SkippedFile(why)
    return None if session is None else [session]


def _session_notes(mapping: PathMapping, file: Path, found: list[sessions.Session]) -> Iterator[merging.IncomingFile]:
    """A note for each session that is wanted and in which somebody asked something."""
    for session in found:
        there = session.day >= mapping.since and mapping.project.casefold() in session.folder.casefold()
        if session.exchanges and there:
            target = f"{SESSIONS}/{file_name(sessions.name_of(session))}.md"
            ended = session.exchanges[-1].at.timestamp()
            yield merging.read_incoming(target, sessions.note_of(session).encode("utf-8", "replace"), str(file), ended)


# --- databases ----------------------------------------------------------------------------------------------


def _database_notes(mapping: PathMapping, file: Path) -> Iterator[merging.IncomingFile]:
    """A note for each day on which the tool kept something; each record is a section."""
    found = records(file)
    if found is None:
        raise SkippedFile("it is not the database of a tool that memd knows")
    days: dict[str, list[str]] = {}
    for record in found:
        dated = DATE.match(_first(record, "created"))
        content = _first(record, "content").strip()
        heading = _first(record, "title") or content.split("\n")[0].strip("#*>` ")[:80] or "Memory"
        tags = tuple(slug(tag) for tag in _first(record, "tags").split(",") if tag.strip())
        days.setdefault(dated[0] if dated else "undated", []).append(new_entry(heading, content, tags))
    for day, sections in sorted(days.items()):
        target = f"{HOME}/{mapping.name}/{day}-{mapping.name}.md"
        text = secrets.masked(f"# {mapping.name}, {day}\n{''.join(sections)}")
        yield merging.read_incoming(target, text.encode("utf-8", "replace"), str(file), seconds_of(day))


# --- records ------------------------------------------------------------------------------------------------


def _record_notes(
    mapping: PathMapping, file: Path, taken: set[str], problems: list[JsonObject]
) -> Iterator[merging.IncomingFile]:
    """Each record becomes a topic; records with the same key get different names."""
    for line, record in _records(file, decode(read_file(file, mapping.max_bytes).data), problems):
        content, key = _first(record, "content", "text", "memory", "body", "value"), _first(record, "key", "id", "name")
        if not content.strip():
            problems.append({"path": f"{file}:{line}", "why": "it has no `content`"})
            continue
        name = file_name(key or _first(record, "title") or content.strip().split("\n")[0][:60])
        target = mapping.layout.topic(_unused(name, taken))
        created = iso_time(_first(record, "created", "created_at", "timestamp", "date", "updated_at"))
        facts = facts_of(record, key, name, created)
        if (given := record.get("importance")) is not None and facts["importance"] is None:
            problems.append({"path": f"{file}:{line}", "why": f"its importance, {given!r}, is not from 0 to 1"})
        note = topic_file(facts, content.replace("\r\n", "\n"))
        incoming = merging.read_incoming(target, note.encode("utf-8", "replace"), str(file), seconds_of(created))
        yield replace(incoming, items=tuple(replace(item, line=line) for item in incoming.items))


def _unused(name: str, taken: set[str]) -> str:
    """A name, with a number behind it where it is taken; from now on it is."""
    names = chain([name], (f"{name}-{nth}" for nth in count(2)))
    unused = next(one for one in names if one not in taken)
    taken.add(unused)
    return unused


def _records(file: Path, text: str, problems: list[JsonObject]) -> Iterator[tuple[int, JsonObject]]:
    """The records of a file with their lines: one JSON object a line, or one list of them."""
    whole = file.suffix == ".json"
    for nth, line in [(1, text)] if whole else enumerate(text.split("\n"), 1):
        try:
            data = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            problems.append({"path": f"{file}:{nth}", "why": f"it is not JSON: {error}"})
            continue
        if isinstance(data, dict) and "memd_export" in data:
            raise UsageError(f"{file} is an export of memd", f"memd import {in_shell(file)}")
        rows = data.get("memories", [data]) if whole and isinstance(data, dict) else data if whole else [data]
        for number, row in enumerate(rows if isinstance(rows, list) else [rows], nth):
            if isinstance(row, dict):
                yield number, row
            elif row is not None:
                problems.append({"path": f"{file}:{number}", "why": "it is no JSON object"})


def iso_time(time: str) -> str:
    """A time as ISO 8601 has it, where it is given in seconds or milliseconds since 1970."""
    if match := SINCE_1970.fullmatch(time):
        return datetime.fromtimestamp(int(match[1]), UTC).isoformat()
    return time


def _first(record: JsonObject, *names: str) -> str:
    """The first of some fields that has a value."""
    values = (record.get(name) for name in names)
    return next((str(value) for value in values if isinstance(value, str | int | float) and str(value).strip()), "")


def facts_of(record: JsonObject, key: str, name: str, created: str) -> JsonObject:
    """The front matter that a record declares."""
    tags = record.get("tags")
    words = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, list) else []
    kind, importance = _first(record, "kind", "type"), record.get("importance")
    words = [*words, kind] if re.fullmatch(r"[a-z]+", kind) and kind not in KINDS else words
    return {
        "title": _first(record, "title") or (key if key != name else ""),
        "tags": [word.strip().lstrip("#") for word in words if isinstance(word, str) and word.strip()],
        "kind": kind if kind in KINDS else "",
        "pinned": record.get("pinned") is True,
        "priority": _first(record, "priority"),
        "importance": importance if isinstance(importance, int | float) and 0 <= importance <= 1 else None,
        "ttl": _first(record, "ttl"),
        "created": created,
    }


# --- SQLite databases of other tools ------------------------------------------------------------------------


SUFFIXES = (".db", ".sqlite", ".sqlite3")
HEADER = b"SQLite format 3\x00"


def is_database(file: Path) -> bool:
    if file.suffix not in SUFFIXES or not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(HEADER)) == HEADER


def records(file: Path) -> list[JsonObject] | None:
    """The memories of a database as records; None if it is none of the known ones."""
    with closing(opened(file)) as connection:
        for tool in tools()["databases"]:
            known = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?"
            if connection.execute(known, tool["known"].split(".")).fetchone():
                rows = ((dict(row), table) for table in tool["tables"] for row in connection.execute(table["query"]))
                found = [_record(row, table) for row, table in rows if not row.get(table.get("unless", ""))]
                return [record for record in found if record["content"].strip()]
    return None


def opened(file: Path) -> sqlite3.Connection:
    """Read-only; where the folder may not be written to, as it is on the disk."""
    place = f"file:{quote(str(file))}?mode=ro"
    connection = sqlite3.connect(place, uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        connection = sqlite3.connect(f"{place}&immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def _record(row: JsonObject, table: JsonObject) -> JsonObject:
    """A row as a record, by the columns that the table of tools names."""
    content = []
    for entry in table["content"]:
        label, colon, column = entry.rpartition(": ")
        if texts := texts_of(row, column):
            content.append(label + colon + "\n".join(f"- {text}" if column.endswith("[]") else text for text in texts))
    tags = ",".join(text for column in table["tags"] for text in texts_of(row, column))
    title, created = row.get(table.get("title", "")), row.get(table["created"])
    return {"title": title, "content": "\n\n".join(content), "tags": tags, "created": created}


def texts_of(row: JsonObject, column: str) -> list[str]:
    """The texts of a column: nothing, a text, or each text of a list that it has as JSON."""
    value = next((row[name] for name in column.removesuffix("[]").split("|") if row.get(name)), None)
    if not column.endswith("[]"):
        return [] if value is None else [str(value)]
    try:
        found = json.loads(value) if isinstance(value, str) else []
    except (ValueError, RecursionError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


# --- Ghost's own store, `~/.ghost/memory.db`: a topic for each key --------------------------------------------


IS_GHOST = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memory_edges'"
MEMORIES = "SELECT * FROM memories WHERE deleted_at IS NULL ORDER BY ns, key, version"
EDGES = "SELECT * FROM memory_edges WHERE rel <> 'merged_into' ORDER BY created_at, from_id, to_id, rel"


def load_ghost(file: Path) -> list[ExportedWorkspace]:
    """Each namespace of Ghost's store as an export, with versions, lives and links; what was deleted is left out."""
    with closing(opened(file)) as connection:
        if not connection.execute(IS_GHOST).fetchone():
            raise UsageError(f"{file} is neither an export of memd nor Ghost's store", "memd ingest takes other files")
        rows = [dict(row) for row in connection.execute(MEMORIES)]
        edges = [dict(row) for row in connection.execute(EDGES)]
    by_ns = grouped((row["ns"], row) for row in rows)
    return [_ghost_workspace(str(file), ns, some, edges) for ns, some in by_ns.items()]


def _ghost_workspace(file: str, ns: str, rows: Iterable[JsonObject], edges: Iterable[JsonObject]) -> ExportedWorkspace:
    versions = grouped((row["key"], row) for row in rows)
    taken: set[str] = set()
    names = {key: _unused(file_name(key), taken) for key in versions}
    stems = {versions[key][-1]["id"]: name for key, name in names.items()}
    known = [edge for edge in edges if edge["to_id"] in stems]
    links = grouped((edge["from_id"], f"{edge['rel']}({edge['weight']}):{stems[edge['to_id']]}") for edge in known)
    files, lives = list[merging.IncomingFile](), dict[tuple[str, str], JsonObject]()
    for key, name in names.items():
        row, path = versions[key][-1], f"memory/topics/{name}.md"
        row |= {"tags": texts_of(row, "tags[]"), "pinned": bool(row["pinned"])}
        front = {**facts_of(row, key, name, row["created_at"]), "links": links.get(row["id"])}
        note = topic_file(front, row["content"].replace("\r\n", "\n"))
        incoming = merging.read_incoming(path, note.encode("utf-8", "replace"), file, seconds_of(row["created_at"]))
        files.append(incoming)
        life = {**_ghost_life(versions[key], path), "key": name}
        lives |= {(path, item.slug): {**life, "slug": item.slug, "text": item.text} for item in incoming.items}
    return ExportedWorkspace(ns, tuple(files), lives, ())


def _ghost_life(versions: list[JsonObject], path: str) -> JsonObject:
    """What was observed of a memory, and its texts from the first to the last."""
    last = versions[-1]
    life = {
        "tier": last["tier"], "first_seen": versions[0]["created_at"], "changed": last["created_at"],
        "accesses": last["access_count"], "accessed": last["last_accessed_at"], "useful": last["utility_count"],
        "expires": last["expires_at"], "importance": last["importance"],
    }  # fmt: skip
    texts = [(row["created_at"], row["content"].replace("\r\n", "\n").strip("\n")) for row in versions]
    by = {"who": "ghost", "path": path}
    return {"life": life, "versions": [{**by, "at": at, "digest": digest_of(text), "text": text} for at, text in texts]}
