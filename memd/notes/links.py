"""Reads where a memory points: declared links, [[wikilinks]], Markdown links to memory files; none in code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import unquote

from memd.models import RELATIONS, Memory
from memd.notes.blocks import LineOffsets, blocks_of
from memd.notes.declared import CODE, COMMENT
from memd.notes.names import slug

PLAIN = "relates_to"
DECLARED, WRITTEN = "declared", "written"
SUFFIXES = (".md", ".mdk")
MAX_TARGET = 300
"""A longer one is no name of anything."""

ENTRY = re.compile(r"(?P<rel>[a-z_]+)(?:\((?P<weight>[^()]*)\))?:(?P<key>.+)", re.DOTALL)
WIKI = re.compile(r"\[\[([^\[\]\n|#]*)(?:#([^\[\]\n|]*))?(?:\|[^\[\]\n]*)?\]\]")
INLINE = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*(?:<([^<>\n]*)>|([^\s()<>]+(?:\([^\s()]*\)[^\s()]*)*))")
DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n]+\]:[ \t]*(?:<([^<>\n]*)>|(\S+))", re.MULTILINE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """What a memory says of another; `target` names it, folded so that upper and lower case are one."""

    rel: str
    target: str
    weight: float | None = None
    """None: what the relation usually weighs."""
    origin: str = DECLARED


def links_of(path: str, memory: Memory) -> tuple[MemoryLink, ...]:
    """Where a memory of the file at `path` points, each relation to a target once; a declared one counts first."""
    found: dict[tuple[str, str], MemoryLink] = {}
    for link in (*declared_links(memory.declared.links), *_written(path, memory.text)):
        if link.target and len(link.target) <= MAX_TARGET:
            found.setdefault((link.rel, link.target), link)
    return tuple(found.values())


def folded(name: str) -> str:
    """A name as it is compared."""
    return " ".join(name.split()).casefold()


# --- declared -----------------------------------------------------------------------------------------------


def declared_links(entries: tuple[str, ...]) -> Iterator[MemoryLink]:
    for entry in entries:
        link = declared_link(entry)
        if link is not None:
            yield link


def declared_link(entry: str) -> MemoryLink | None:
    """`key`, `rel:key` or `rel(0.7):key`; None where the weight is none."""
    parts = ENTRY.fullmatch(entry.strip())
    if parts is None or parts["rel"] not in RELATIONS:
        return MemoryLink(PLAIN, _named(entry))
    weight = _weight(parts["weight"])
    return MemoryLink(parts["rel"], _named(parts["key"]), weight) if weight != -1 else None


def entry_of(rel: str, key: str, weight: float | None) -> str:
    """The same the other way: the shortest entry that says it."""
    usual = weight is None or weight == RELATIONS[rel]
    prefixed = ENTRY.fullmatch(key)
    if usual and rel == PLAIN and not (prefixed and prefixed["rel"] in RELATIONS):
        return key
    return f"{rel}:{key}" if usual else f"{rel}({weight:g}):{key}"


def _weight(text: str | None) -> float | None:
    """-1 for what is no weight."""
    if text is None:
        return None
    try:
        weight = float(text)
    except ValueError:
        return -1
    return weight if 0 <= weight <= 1 else -1


def _named(text: str) -> str:
    """A key, possibly in the brackets of a wikilink."""
    wiki = WIKI.fullmatch(text.strip())
    if wiki is not None:
        return _target(wiki[1], wiki[2])
    base, hash_, part = text.strip().partition("#")
    return _target(base, part if hash_ else None)


def _target(base: str, heading: str | None) -> str:
    """`name#slug`: the heading that is meant is the last of those that are named."""
    # In a table the bar before a label is written with a backslash.
    name = folded(base.rstrip("\\"))
    last = heading.rpartition("#")[2].strip().lstrip("^") if heading else ""
    return f"{name}#{slug(last)}" if last else name


# --- written ------------------------------------------------------------------------------------------------


def _written(path: str, text: str) -> Iterator[MemoryLink]:
    if "[" not in text:
        return
    for prose in _prose(text):
        for found in WIKI.finditer(prose):
            target = _target(found[1] if found[1].strip() else path, found[2])
            # A file that points to itself as a whole says nothing.
            if target and (found[1].strip() or found[2]):
                yield MemoryLink(PLAIN, target, origin=WRITTEN)
        for pattern in (INLINE, DEFINITION):
            for found in pattern.finditer(prose):
                target = _file(path, found[1] or found[2] or "")
                if target:
                    yield MemoryLink(PLAIN, target, origin=WRITTEN)


def _prose(text: str) -> Iterator[str]:
    """The text without its code and without memd's own comment, block by block."""
    for block in blocks_of(text, LineOffsets(text)):
        if block.prose:
            piece = COMMENT.sub(" ", text[block.start : block.end])
            yield CODE.sub(" ", piece) if "`" in piece else piece


def _file(path: str, url: str) -> str:
    """A Markdown link's target as a path in the workspace; empty where it leads elsewhere."""
    if SCHEME.match(url):
        return ""
    base, _, anchor = unquote(url).partition("#")
    base = base.partition("?")[0]
    if not base:
        return _target(path, anchor) if anchor else ""
    if PurePosixPath(base).suffix.lower() not in SUFFIXES:
        return ""
    above = "" if base.startswith("/") else str(PurePosixPath(path).parent)
    place = normpath(f"{above}/{base.lstrip('/')}" if above else base.lstrip("/"))
    return "" if place.startswith("..") else _target(place, anchor or None)
