"""A file of memories on its way from one place to another, and how it joins what is there already. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field, replace

from memd.models import Memory
from memd.notes import sections
from memd.notes.blocks import LineOffsets
from memd.notes.names import is_topic, slug
from memd.notes.parse import parse
from memd.notes.read import decode, digest_of

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
OTHER = "there is another text"
NO_PLACE = "it would not be a memory of its own there"
FOREIGN = "the file is UTF-16"


@dataclass(frozen=True, slots=True)
class IncomingMemory:
    """One memory, and what stands between it and the next one."""

    slug: str
    text: str
    after: str = "\n"
    place: str = ""
    """Where it comes from, for people."""
    line: int = 1
    """The line of that place in which it begins."""

    @property
    def digest(self) -> str:
        return text_digest(self.text)


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file: what stands before its first memory, and its memories."""

    path: str
    head: str
    items: tuple[IncomingMemory, ...]
    exact: bytes | None = None
    """The very bytes, where they are not plain UTF-8."""
    modified: float = 0.0
    title: str = ""
    """The heading under which a text without one goes into a file that is there already."""

    @property
    def data(self) -> bytes:
        if self.exact is not None:
            return self.exact
        text = self.head + "".join(item.text + item.after for item in self.items)
        return text.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What became of an incoming file: the bytes that the file shall have (None: none), and each memory's lot."""

    data: bytes | None
    added: tuple[IncomingMemory, ...] = ()
    replaced: tuple[IncomingMemory, ...] = ()
    same: int = 0
    kept: tuple[tuple[IncomingMemory, str], ...] = field(default=())
    """Those that did not get in, and why: what was there stays."""


def text_digest(text: str) -> str:
    return digest_of(text.encode("utf-8", "surrogatepass"))


# --- packing ------------------------------------------------------------------------------------------------


def cut(path: str, text: str, day: str = "") -> tuple[str, list[tuple[Memory, str]]]:
    """What stands before the first memory, and each memory with what stands behind it: together the whole text."""
    memories = parse(path, text, day).memories
    if not memories:
        return text, []
    lines = LineOffsets(text)
    starts = [lines.offset(memory.start_line - 1) for memory in memories]
    ends = [*starts[1:], len(text)]
    behind = [text[start + len(memory.text) : end] for memory, start, end in zip(memories, starts, ends, strict=True)]
    return text[: starts[0]], list(zip(memories, behind, strict=True))


def pack(path: str, data: bytes, place: str = "", modified: float = 0.0) -> IncomingFile:
    """The incoming file that a file's bytes are, when they shall stand at `path`."""
    text = decode(data)
    head, memories = cut(path, text)
    items = tuple(
        IncomingMemory(memory.slug, memory.text, after, place, memory.start_line) for memory, after in memories
    )
    return IncomingFile(path, head, items, None if text.encode("utf-8", "replace") == data else data, modified)


def without(incoming: IncomingFile, known: Container[str]) -> IncomingFile:
    """The incoming file without the memories of which the text is there already."""
    left = tuple(item for item in incoming.items if item.digest not in known)
    return incoming if len(left) == len(incoming.items) else replace(incoming, items=left, exact=None)


def sectioned(incoming: IncomingFile) -> IncomingFile:
    """The same with the text before its first section as a section of its own, where it has a title for that."""
    if not incoming.title or is_topic(incoming.path) or all(item.slug for item in incoming.items):
        return incoming
    items = (item if item.slug else _section(item, incoming.title) for item in incoming.items)
    return replace(incoming, items=tuple(items), exact=None)


def _section(item: IncomingMemory, title: str) -> IncomingMemory:
    body = re.sub(r"\A\s*#[ \t][^\n]*\n+", "", item.text)
    return replace(item, slug=slug(title), text=f"## {title}\n\n{body}")


# --- joining ------------------------------------------------------------------------------------------------


def merged(incoming: IncomingFile, found: bytes | None, overwrite: bool = False) -> MergeResult:
    """An incoming file and the file that is there: what is new is added, what differs is kept or overwritten."""
    if found is None:
        return MergeResult(incoming.data, added=incoming.items)
    first = _once(incoming, found, overwrite)
    if first.data in (found, None) or _once(incoming, first.data, overwrite).data == first.data:
        return first
    # What is added can make something else of what is there: a file that was one memory gets sections, say.
    return MergeResult(found, kept=tuple((item, NO_PLACE) for item in incoming.items))


def _once(incoming: IncomingFile, found: bytes, overwrite: bool) -> MergeResult:
    if found == incoming.data:
        return MergeResult(found, same=len(incoming.items))
    if found.startswith(UTF_16):
        return MergeResult(found, kept=tuple((item, FOREIGN) for item in incoming.items))
    have = [memory for memory, _ in cut(incoming.path, decode(found))[1]]
    texts, slugs = {_plain(memory.text) for memory in have}, {memory.slug for memory in have}
    left = [item for item in incoming.items if _plain(item.text) not in texts]
    same = len(incoming.items) - len(left)
    clashing = tuple(item for item in left if item.slug in slugs or not item.slug)
    fresh = tuple(item for item in left if item not in clashing)
    if clashing and overwrite and is_topic(incoming.path):
        return MergeResult(incoming.data, replaced=clashing, same=same)
    joined = _joined(incoming.path, found, fresh, clashing if overwrite else (), slugs)
    kept = () if overwrite else tuple((item, OTHER) for item in clashing)
    return replace(joined, same=same, kept=(*kept, *joined.kept))


def _joined(
    path: str,
    found: bytes,
    fresh: tuple[IncomingMemory, ...],
    replaced: tuple[IncomingMemory, ...],
    slugs: Container[str],
) -> MergeResult:
    data = found
    for item in replaced:
        data = _with_memory(path, data, item, slugs)
    for item in fresh:
        data = sections.with_section(data, _text_for(data, item))
    # A file that ends within a code block, say, swallows what is added to it.
    there = {_plain(memory.text) for memory, _ in cut(path, decode(data))[1]}
    if any(_plain(item.text) not in there for item in (*fresh, *replaced)):
        return MergeResult(found, kept=tuple((item, NO_PLACE) for item in (*fresh, *replaced)))
    return MergeResult(data, fresh, replaced)


def _plain(text: str) -> str:
    """A text whatever its line ends."""
    return text.replace("\r\n", "\n").rstrip()


def _text_for(data: bytes, item: IncomingMemory) -> str:
    """A memory's text with the line ends of the file that it goes to."""
    return _plain(item.text).replace("\n", sections.ending(data).decode())


def _with_memory(path: str, data: bytes, item: IncomingMemory, slugs: Container[str]) -> bytes:
    if item.slug in slugs:
        return sections.with_text(path, data, item.slug, _text_for(data, item))
    return sections.with_preamble(path, data, _text_for(data, item))
