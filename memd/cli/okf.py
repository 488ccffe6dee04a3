"""Writes workspaces in the Open Knowledge Format 0.2: a Markdown file for each memory, an index and a log."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from memd.errors import Refused

INDEX, LOG = "index.md", "log.md"
HEAD = '---\nokf_version: "0.2"\n---\n'


def write_bundle(folder: Path, files: Iterable[Mapping[str, Any]], log: Iterable[Mapping[str, Any]]) -> int:
    """Write a bundle into a folder that is new or empty; returns how many memories are in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is not an empty folder", "name a new one: other files would become part of the bundle")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    listed: list[str] = []
    count = 0
    for file in files:
        listed.append(f"\n## {file['path']}\n\n")
        for memory in file["memories"]:
            place = _place(file["path"], memory["slug"])
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(_concept(memory), "utf-8", "surrogatepass")
            title = memory["heading"] or place.stem
            listed.append(f"- [{title}](/{place})\n")
            count += 1
    (folder / INDEX).write_text(f"{HEAD}\n# Memories\n{''.join(listed)}", "utf-8", "surrogatepass")
    (folder / LOG).write_text("".join(_log(log)), "utf-8", "surrogatepass")
    return count


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
    """What was done, newest first, by day."""
    yield "# Log\n"
    for day, some in groupby(entries, lambda entry: entry["at"][:10]):
        yield f"\n## {day}\n\n"
        for entry in some:
            yield f"- {entry['what']} {entry['key'] or ', '.join(entry['paths'])} ({entry['who']})\n"
