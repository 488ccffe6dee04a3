"""Memory as resources: `memory://file/<path>`, `memory://topic/<name>`, and the two lists of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from memd.errors import NotFound, UsageError
from memd.mcp.telling import MOST, clean, fitted
from memd.mcp.tools import Ask
from memd.protocol.safe_text import neutralise, one_line

SCHEME = "memory://"
FILE, TOPIC = "memory://file/", "memory://topic/"
FILES, TOPICS = "memory://files", "memory://topics"
TEMPLATES = {
    "file": ("memory://file/{+path}", "A memory file, by its path from the workspace's root."),
    "topic": ("memory://topic/{name}", "A topic, by its name."),
}
PAGE = 1_000
"""Memories to a page; a file has one or more."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that can be read, as a list shows it."""

    uri: str
    name: str
    about: str


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the list; `next` asks for the rest, and is empty at the end."""

    resources: list[Resource]
    next: str


async def listed(ask: Ask, cursor: str) -> Page:
    """The lists first, then every file, then every topic."""
    offset, last = _place(cursor)
    paths, more = await _files(ask, offset, last)
    found = [] if cursor else [Resource(FILES, "files", "All memory files."), Resource(TOPICS, "topics", "All topics.")]
    found += [Resource(FILE + quote(path), path, "A memory file.") for path in paths]
    if more:
        # A file whose memories go on behind the page has been listed.
        return Page(found, f"{offset + PAGE}:{paths[-1] if paths else last}")
    topics = clean((await ask("topic.list", {}))["topics"])
    found += [Resource(TOPIC + quote(row["topic"], ""), row["topic"], one_line(row["summary"])) for row in topics]
    return Page(found, "")


def _place(cursor: str) -> tuple[int, str]:
    offset, _, last = cursor.partition(":")
    if cursor and not (offset.isascii() and offset.isdigit() and len(offset) < 10):
        raise UsageError(f"{cursor!r} is not a cursor of this list")
    return int(offset or 0), last


async def _files(ask: Ask, offset: int, last: str) -> tuple[list[str], bool]:
    """The files of one page of memories, in the order of their names, and whether there are more."""
    # By key the memories of one file stand together.
    told = await ask("list", {"sort": "key", "offset": offset, "limit": PAGE})
    paths = dict.fromkeys(row["path"] for row in told["memories"])
    return [path for path in paths if path != last], offset + PAGE < told["total"]


async def read(ask: Ask, uri: str) -> str:
    """What a resource says, safe to be read by a model."""
    if uri == TOPICS:
        rows = (await ask("topic.list", {}))["topics"]
        return "\n".join(one_line(f"{row['topic']}: {row['summary']}") for row in rows)
    if uri == FILES:
        return _whole("\n".join(map(one_line, await _all_files(ask))))
    if uri.startswith(TOPIC):
        return _whole((await ask("topic.recall", {"topic": unquote(uri.removeprefix(TOPIC))}))["markdown"])
    if uri.startswith(FILE):
        return _whole((await ask("get", {"path": unquote(uri.removeprefix(FILE))}))["text"])
    raise NotFound(
        f"there is no resource {one_line(uri)}", f"there are {FILE}<path>, {TOPIC}<name>, {FILES} and {TOPICS}"
    )


async def _all_files(ask: Ask) -> list[str]:
    found: list[str] = []
    offset, more = 0, True
    while more and sum(map(len, found)) < MOST:
        paths, more = await _files(ask, offset, found[-1] if found else "")
        found, offset = found + paths, offset + PAGE
    return found


def _whole(text: str) -> str:
    kept, cut = fitted(neutralise(text))
    return "\n\n".join([kept, *(f"[memd: {word}]" for word in cut)])


def uris_of(path: str) -> tuple[str, str]:
    """The resources that may say something else once a file has changed."""
    return FILE + quote(path), TOPIC + quote(PurePosixPath(path).stem, "")


def same(uri: str) -> str:
    """A resource's address as memd writes it, so that addresses that mean the same are equal."""
    for begin, safe in ((FILE, "/"), (TOPIC, "")):
        if uri.startswith(begin):
            return begin + quote(unquote(uri.removeprefix(begin)), safe)
    return uri
