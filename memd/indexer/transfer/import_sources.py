"""Finds memories that other tools keep (Markdown trees, knowledge folders, JSON lines), and where they belong here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from memd.errors import NotFound, Refused, UsageError
from memd.indexer.indexing.scan import NEVER, SWAP
from memd.indexer.transfer.export import seconds_of
from memd.models import KINDS
from memd.notes.incoming_file import IncomingFile, read_incoming
from memd.notes.layout import Layout
from memd.notes.metadata import front_matter_end, with_front_matter
from memd.notes.names import DATE, slug
from memd.notes.read import SkippedFile, UnreadableFile, decode, read
from memd.notes.topics import GENERAL, read_index, topic_file, topic_name

MARKDOWN = (".md", ".markdown", ".mdk")
RECORDS = (".jsonl", ".ndjson", ".json")
PLAIN_NAMES = ("memory", "memories", "notes", "docs", "projects", "knowledge", "ai-knowledge", "muxcode")
"""Folders whose name says nothing about whose memory it is: the folder above does."""

HIDDEN = {
    ".ai-knowledge": ("*.mdk", "*.md"),
    ".muxcode": ("memory/**/*.md",),
    ".claude": ("CLAUDE.md", "rules/**/*.md", "memory/**/*.md", "agent-memory/**/*.md", "projects/*/memory/**/*.md"),
    ".codex": ("AGENTS.md", "memories/**/*.md"),
}
"""Folders of other tools, and what in them is memory rather than machinery."""

LEFT_OUT = frozenset({"raw_memories.md"})
"""Codex keeps here what its MEMORY.md was made from."""

HOME = "memory/ingested"
FACT = r"^[ \t]*%s:[ \t]*[\"']?([^\n]+?)[\"']?[ \t\r]*$"


@dataclass(slots=True)
class SourceFiles:
    """What some places hold: incoming files for this workspace, and what could not be read."""

    incoming_files: list[IncomingFile] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PathMapping:
    """How files of one place get their paths in the workspace."""

    name: str
    layout: Layout
    taken: frozenset[str]
    """Stems that the workspace's own files have: a second one would give their memories other keys."""
    root: Path
    max_bytes: int


def gather(places: Iterable[Path], layout: Layout, files: Iterable[str], root: Path, max_bytes: int) -> SourceFiles:
    """Everything in these files and folders that can be a memory of the workspace at `root`."""
    taken = frozenset(PurePosixPath(path).stem for path in files if not path.startswith(f"{HOME}/"))
    found, paths = SourceFiles(), set[str]()
    for place in places:
        if not place.exists():
            raise NotFound(f"there is no {place}", "name a folder, a Markdown file or a file of JSON lines")
        way = PathMapping(name_of(place), layout, taken, root.resolve(), max_bytes)
        for file, path in _files(place):
            _take(found, way, file, path, paths)
    return found


def _take(found: SourceFiles, way: PathMapping, file: Path, path: PurePosixPath, paths: set[str]) -> None:
    try:
        reading = read(file, way.max_bytes)
    except (OSError, SkippedFile, UnreadableFile) as error:
        found.problems.append({"path": str(file), "why": str(error)})
        return
    if file.suffix in RECORDS:
        _take_records(found, way, file, decode(reading.data), paths)
        return
    modified = reading.mtime_ns / 1e9
    for target, data in _markdown(way, file, path, reading.data):
        incoming = read_incoming(target, data, str(file), modified)
        if incoming.items:
            found.incoming_files.append(
                incoming if target.startswith(f"{HOME}/") else replace(incoming, title=f"From {way.name}")
            )


# --- finding ------------------------------------------------------------------------------------------------


def _files(place: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    """The files of a place that can hold memories, in order, each with its path within it."""
    # The folder of another tool that the place is a part of.
    above = next((part for part in place.parts[:-1] if part in HIDDEN), "")
    if place.is_file():
        yield place, PurePosixPath(above) / place.name
        return
    if place.name in HIDDEN:
        for file in _matching(place, HIDDEN[place.name]):
            yield file, PurePosixPath(place.name) / file.relative_to(place).as_posix()
        return
    for folder, names, files in os.walk(place):
        here = Path(folder)
        for name in sorted(set(names) & HIDDEN.keys()):
            for file in _matching(here / name, HIDDEN[name]):
                yield file, PurePosixPath(file.relative_to(place).as_posix())
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in NEVER)
        for name in sorted(files):
            if _wanted(name) and Path(name).suffix != ".json":
                yield here / name, PurePosixPath(above) / (here / name).relative_to(place).as_posix()


def _matching(folder: Path, globs: Iterable[str]) -> list[Path]:
    return sorted({file for glob in globs for file in folder.glob(glob) if file.is_file() and _wanted(file.name)})


def _wanted(name: str) -> bool:
    return Path(name).suffix in (*MARKDOWN, *RECORDS) and not SWAP.search(name) and name not in LEFT_OUT


def name_of(place: Path) -> str:
    """A name for what comes from a place: the folder's, or the one above it where that says nothing."""
    folder = place.resolve()
    named = folder.stem if folder.is_file() else folder.name
    while slug(named) in PLAIN_NAMES and folder.parent != folder:
        folder = folder.parent
        named = folder.name
    return slug(named.lstrip(".") or "files")


# --- Markdown -----------------------------------------------------------------------------------------------


def _markdown(way: PathMapping, file: Path, path: PurePosixPath, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Where a Markdown file belongs, and its bytes there; what stands in the workspace belongs where it is."""
    if file.resolve().is_relative_to(way.root):
        yield file.resolve().relative_to(way.root).as_posix(), data
        return
    if path.name == "index.mdk":
        general = _general(decode(data))
        if general:
            yield f"{HOME}/{way.name}/{way.name}-general.md", general.encode()
        return
    facts = _missing_facts(file, path, decode(data))
    if facts:
        # Front matter that is no YAML stays as it is.
        with suppress(Refused):
            data = with_front_matter(decode(data), facts).encode()
    yield target_of(way, path), data


def target_of(way: PathMapping, path: PurePosixPath) -> str:
    """A day's note goes to the daily notes, a topic to the topics, a role's to the roles, the rest under `HOME`."""
    stem = path.stem
    if DATE.fullmatch(stem):
        return way.layout.daily_note(stem)
    if path.suffix == ".mdk" or "topics" in path.parts[:-1]:
        return way.layout.topic(_file_name(stem))
    if ".muxcode" in path.parts:
        return way.layout.role(stem)
    folders = [_file_name(part) for part in _folders(path)]
    if stem == "MEMORY" or stem in way.taken:
        telling = [folder for folder in folders if slug(folder) not in PLAIN_NAMES]
        stem = f"{telling[-1] if telling else way.name}-{stem.lower()}"
    return "/".join((HOME, way.name, *folders, f"{_file_name(stem)}.md"))


def _folders(path: PurePosixPath) -> tuple[str, ...]:
    """The folders of a path, without those of which the name of the place speaks already."""
    parts = path.parts[:-1]
    if parts[:2] == (".claude", "projects"):
        return parts[2:]
    return parts[1:] if parts[:1] in ((".claude",), (".codex",)) else parts


def _file_name(text: str) -> str:
    """A name that any workspace takes: not hidden, not too long, no separators."""
    plain = re.sub(r"[\x00-\x1f/\\#:]+", "-", text).strip().strip(".-") or "memory"
    while len(plain.encode()) > 150:
        plain = plain[:-1]
    return topic_name(f"{plain}-" if SWAP.search(plain) else plain)


def _missing_facts(file: Path, path: PurePosixPath, text: str) -> dict[str, Any]:
    """What other tools call `name`, `description` and `type`, and what an index says of a topic, in memd's words."""
    head = text[: front_matter_end(text)]
    has = {name for name in ("title", "summary", "tags") if re.search(rf"^{name}:", head, re.MULTILINE)}
    facts: dict[str, Any] = {"title": _fact(head, "name"), "summary": _fact(head, "description")}
    kind = _fact(head, "type")
    facts["tags"] = [kind] if re.fullmatch(r"[a-z]+", kind) else []
    if path.suffix == ".mdk" and not facts["summary"]:
        facts["summary"] = _summaries(file.with_name("index.mdk")).get(path.stem.casefold(), "")
    return {name: value for name, value in facts.items() if value and name not in has}


def _fact(head: str, name: str) -> str:
    found = re.search(FACT % name, head, re.MULTILINE)
    return found[1].strip() if found else ""


def _summaries(index: Path) -> dict[str, str]:
    try:
        text = decode(index.read_bytes())
    except OSError:
        return {}
    return {entry.topic.casefold(): entry.summary for entry in read_index(text).entries}


def _general(text: str) -> str:
    """What an index of topics says beside the list: nothing, where there is only that."""
    section = read_index(text).general
    general = text[section.body : section.end].strip() if section else ""
    return f"# {GENERAL}\n\n{general}\n" if general else ""


# --- records ------------------------------------------------------------------------------------------------


def _take_records(found: SourceFiles, way: PathMapping, file: Path, text: str, paths: set[str]) -> None:
    """Each record is a topic of its own; two with one key and different texts get two names."""
    for line, record in _records(file, text):
        content, key = _first(record, "content", "text", "memory", "body", "value"), _first(record, "key", "id", "name")
        if not content.strip():
            found.problems.append({"path": f"{file}:{line}", "why": "it has no `content`"})
            continue
        name = _file_name(key or _first(record, "title") or content.strip().split("\n")[0][:60])
        target, nth = way.layout.topic(name), 2
        while target in paths:
            target, nth = way.layout.topic(f"{name}-{nth}"), nth + 1
        paths.add(target)
        created = _first(record, "created", "created_at", "timestamp", "date", "updated_at")
        note = topic_file(_facts(record, key, name, created), content.replace("\r\n", "\n"))
        incoming = read_incoming(target, note.encode("utf-8", "replace"), str(file), seconds_of(created))
        found.incoming_files.append(_placed(incoming, line))


def _placed(incoming: IncomingFile, line: int) -> IncomingFile:
    return replace(incoming, items=tuple(replace(item, line=line) for item in incoming.items))


def _records(file: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file with their lines: one JSON object a line, or one list of them."""
    try:
        if file.suffix == ".json":
            told = json.loads(text)
            if isinstance(told, dict) and "memd_export" in told:
                raise UsageError(f"{file} is an export of memd", f"memd import {file}")
            rows = told.get("memories", [told]) if isinstance(told, dict) else told
            numbered = [(nth, row) for nth, row in enumerate(rows if isinstance(rows, list) else [], 1)]
        else:
            numbered = [(nth, json.loads(line)) for nth, line in enumerate(text.splitlines(), 1) if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}", "one object a line: {key, content, kind?, tags?}") from error
    yield from ((nth, row) for nth, row in numbered if isinstance(row, dict))


def _first(record: dict[str, Any], *names: str) -> str:
    values = (record.get(name) for name in names)
    return next((str(value) for value in values if isinstance(value, str | int | float) and str(value).strip()), "")


def _facts(record: dict[str, Any], key: str, name: str, created: str) -> dict[str, Any]:
    """What a record declares, as front matter."""
    tags = record.get("tags")
    words = tags.split(",") if isinstance(tags, str) else tags if isinstance(tags, list) else []
    kind, importance = _first(record, "kind", "type"), record.get("importance")
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
