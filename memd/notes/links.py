"""Reads a memory's links to others: declared ones, [[wikilinks]], Markdown links to notes; none in code."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from urllib.parse import unquote

from memd.models import RELATIONS, Memory
from memd.notes.metadata import CODE
from memd.notes.names import COMMENT, slug

PLAIN = "relates_to"
DECLARED, WRITTEN = "declared", "written"
SUFFIXES = (".md", ".mdk")
MAX_TARGET = 300
"""Characters; a longer target names nothing."""

ENTRY = re.compile(r"(?P<rel>[a-z_]+)(?:\((?P<weight>[^()]*)\))?:(?P<key>.+)", re.DOTALL)
WIKI = re.compile(r"\[\[([^\[\]\n|#]*)(?:#([^\[\]\n|]*))?(?:\|[^\[\]\n]*)?\]\]")
INLINE = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*(?:<([^<>\n]*)>|([^\s()<>]+(?:\([^\s()]*\)[^\s()]*)*))")
DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n]+\]:[ \t]*(?:<([^<>\n]*)>|(\S+))", re.MULTILINE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """A link from a memory; `target` is the folded name of another one."""

    rel: str
    target: str
    weight: float | None = None
    """None: the default weight of the relation."""
    origin: str = DECLARED


def links_of(path: str, memory: Memory) -> tuple[MemoryLink, ...]:
    """The links of a memory in the file at `path`, one per relation and target; a declared one comes first."""
    links: dict[tuple[str, str], MemoryLink] = {}
    for link in (*map(declared_link, memory.declared.links), *_written(path, memory)):
        if link and link.target and len(link.target) <= MAX_TARGET:
            links.setdefault((link.rel, link.target), link)
    return tuple(links.values())


def folded(name: str) -> str:
    """A name for comparison: one space between words, no upper case."""
    return " ".join(name.split()).casefold()


# --- declared -----------------------------------------------------------------------------------------------


def declared_link(entry: str) -> MemoryLink | None:
    """Parse `key`, `rel:key` or `rel(0.7):key`; None for an invalid weight."""
    parts = ENTRY.fullmatch(entry.strip())
    if parts is None or parts["rel"] not in RELATIONS:
        return MemoryLink(PLAIN, _key_target(entry))
    try:
        weight = None if parts["weight"] is None else float(parts["weight"])
    except ValueError:
        return None
    return MemoryLink(parts["rel"], _key_target(parts["key"]), weight) if weight is None or 0 <= weight <= 1 else None


def unread_links(entries: Iterable[str]) -> Iterator[str]:
    """Warnings about declared links that mean nothing."""
    for entry in entries:
        parts = ENTRY.fullmatch(entry.strip())
        if parts is not None and parts["rel"] not in RELATIONS:
            yield f"the link `{entry}` names no relation; there are {', '.join(RELATIONS)}"
        elif declared_link(entry) is None:
            yield f"the link `{entry}` is ignored: a weight is a number from 0 to 1"


def entry_of(rel: str, key: str, weight: float | None) -> str:
    """The shortest entry that `declared_link` parses to this link."""
    usual = weight is None or weight == RELATIONS[rel]
    prefixed = ENTRY.fullmatch(key)
    if usual and rel == PLAIN and not (prefixed and prefixed["rel"] in RELATIONS):
        return key
    return f"{rel}:{key}" if usual else f"{rel}({weight:g}):{key}"


def _key_target(text: str) -> str:
    """The target that a key names; the key may be in the brackets of a wikilink."""
    wiki = WIKI.fullmatch(text.strip())
    if wiki is not None:
        return _target(wiki[1], wiki[2])
    base, hash_, part = text.strip().partition("#")
    return _target(base, part if hash_ else None)


def _target(base: str, heading: str | None) -> str:
    """`name#slug`, with the last of the headings given."""
    # In a table, the bar before a label is escaped.
    name = folded(base.rstrip("\\"))
    last = heading.rpartition("#")[2].strip().lstrip("^") if heading else ""
    return f"{name}#{slug(last)}" if last else name


# --- in the text-----------------------------------------------------------------------------------------------


def _written(path: str, memory: Memory) -> Iterator[MemoryLink]:
    if "[" not in memory.text:
        return
    for prose in _prose(memory):
        for match in WIKI.finditer(prose):
            target = _target(match[1] if match[1].strip() else path, match[2])
            # Skip a file's link to itself as a whole.
            if target and (match[1].strip() or match[2]):
                yield MemoryLink(PLAIN, target, origin=WRITTEN)
        for pattern in (INLINE, DEFINITION):
            for match in pattern.finditer(prose):
                if target := _file_target(path, match[1] or match[2] or ""):
                    yield MemoryLink(PLAIN, target, origin=WRITTEN)


def _prose(memory: Memory) -> Iterator[str]:
    """The blocks of a memory with a bracket, without code and without memd's own comment."""
    for start, end in memory.prose:
        piece = memory.text[start:end]
        if "[" in piece:
            piece = COMMENT.sub(" ", piece)
            yield CODE.sub(" ", piece) if "`" in piece else piece


def _file_target(path: str, url: str) -> str:
    """A Markdown link's target as a path in the workspace; empty if it leads elsewhere."""
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
