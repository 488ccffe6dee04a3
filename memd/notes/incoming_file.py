"""A file of memories to import: how it is cut, and how it merges with a file that exists already. Pure."""

import re
from collections.abc import Container
from dataclasses import dataclass, replace

from memd.models import Memory
from memd.notes import sections
from memd.notes.blocks import LineOffsets, with_line_ends
from memd.notes.names import is_topic, slug
from memd.notes.parse import parse
from memd.notes.read import UTF_16, decode, digest_of

DIFFERENT = "there is another text"
NO_PLACE = "it would not be a memory of its own there"
FOREIGN = "the file is UTF-16"


@dataclass(frozen=True, slots=True)
class IncomingMemory:
    """One memory, with the text between it and the next one."""

    slug: str
    text: str
    after: str = "\n"
    place: str = ""
    """Its origin, as shown to people."""
    line: int = 1
    """Its first line there."""

    @property
    def digest(self) -> str:
        return text_digest(self.text)


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file: the text before its first memory, and its memories."""

    path: str
    head: str
    items: tuple[IncomingMemory, ...]
    exact: bytes | None = None
    """The exact bytes, if they are not plain UTF-8."""
    modified: float = 0.0
    title: str = ""
    """The heading for a text without one, when it goes into an existing file."""

    @property
    def data(self) -> bytes:
        if self.exact is not None:
            return self.exact
        text = self.head + "".join(item.text + item.after for item in self.items)
        return text.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The merged bytes (None: no file), and what happened to each memory."""

    data: bytes | None
    added: tuple[IncomingMemory, ...] = ()
    replaced: tuple[IncomingMemory, ...] = ()
    same: int = 0
    rejected: tuple[tuple[IncomingMemory, str], ...] = ()
    """Memories that were not merged, and why."""


def text_digest(text: str) -> str:
    return digest_of(text.encode("utf-8", "surrogatepass"))


# --- reading ------------------------------------------------------------------------------------------------


def split(path: str, text: str, day: str = "") -> tuple[str, list[tuple[Memory, str]]]:
    """The text before the first memory, and each memory with the text behind it: together the whole text."""
    memories = parse(path, text, day).memories
    if not memories:
        return text, []
    lines = LineOffsets(text)
    starts = [lines.offset(memory.start_line - 1) for memory in memories]
    ends = [*starts[1:], len(text)]
    pairs = [
        (memory, text[start + len(memory.text) : end])
        for memory, start, end in zip(memories, starts, ends, strict=True)
    ]
    return text[: starts[0]], pairs


def read_incoming(path: str, data: bytes, place: str = "", modified: float = 0.0) -> IncomingFile:
    """A file's bytes as an incoming file for `path`."""
    text = decode(data)
    head, pairs = split(path, text)
    items = tuple(IncomingMemory(memory.slug, memory.text, after, place, memory.start_line) for memory, after in pairs)
    return IncomingFile(path, head, items, None if text.encode("utf-8", "replace") == data else data, modified)


def without_known(incoming: IncomingFile, known: Container[str]) -> IncomingFile:
    """The incoming file without the memories whose digest is known."""
    left = tuple(item for item in incoming.items if item.digest not in known)
    return incoming if len(left) == len(incoming.items) else replace(incoming, items=left, exact=None)


def sectioned(incoming: IncomingFile) -> IncomingFile:
    """The incoming file with its preamble as a section of its own, if it has a title for that."""
    if not incoming.title or is_topic(incoming.path) or all(item.slug for item in incoming.items):
        return incoming
    items = (item if item.slug else _as_section(item, incoming.title) for item in incoming.items)
    return replace(incoming, items=tuple(items), exact=None)


def _as_section(item: IncomingMemory, title: str) -> IncomingMemory:
    body = re.sub(r"\A\s*#[ \t][^\n]*\n+", "", item.text)
    return replace(item, slug=slug(title), text=f"## {title}\n\n{body}")


# --- merging ------------------------------------------------------------------------------------------------


def merge(incoming: IncomingFile, data: bytes | None, overwrite: bool = False) -> MergeResult:
    """Merge into a file's bytes: new memories are added, different ones rejected or overwritten."""
    if data is None:
        return MergeResult(incoming.data, added=incoming.items)
    first = _merge_once(incoming, data, overwrite)
    if first.data in (data, None) or _merge_once(incoming, first.data, overwrite).data == first.data:
        return first
    # An addition can change the meaning of the rest: a file that was one memory gets sections, for example.
    return _rejected(data, incoming.items, NO_PLACE)


def _merge_once(incoming: IncomingFile, data: bytes, overwrite: bool) -> MergeResult:
    if data == incoming.data:
        return MergeResult(data, same=len(incoming.items))
    if data.startswith(UTF_16):
        return _rejected(data, incoming.items, FOREIGN)
    existing = parse(incoming.path, decode(data)).memories
    texts, slugs = {_plain(memory.text) for memory in existing}, {memory.slug for memory in existing}
    missing = [item for item in incoming.items if _plain(item.text) not in texts]
    same = len(incoming.items) - len(missing)
    clashing = tuple(item for item in missing if item.slug in slugs or not item.slug)
    new = tuple(item for item in missing if item not in clashing)
    if clashing and overwrite and is_topic(incoming.path):
        return MergeResult(incoming.data, replaced=clashing, same=same)
    result = _combined(incoming.path, data, new, clashing if overwrite else (), slugs)
    rejected = () if overwrite else tuple((item, DIFFERENT) for item in clashing)
    return replace(result, same=same, rejected=(*rejected, *result.rejected))


Items = tuple[IncomingMemory, ...]


def _combined(path: str, data: bytes, new: Items, replaced: Items, slugs: Container[str]) -> MergeResult:
    def edit(text: str | None) -> str:
        text = text or ""
        for item in replaced:
            body = _text_for(text, item)
            if item.slug in slugs:
                text = sections.with_section(path, text, item.slug, body)
            else:
                text = sections.with_preamble(path, text, body)
        for item in new:
            text = sections.with_new_section(text, _text_for(text, item))
        return text

    try:
        merged = sections.in_bytes(edit)(data) or b""
    except KeyError:
        # Replacing one memory made something else of the next: front matter, for example.
        return _rejected(data, (*new, *replaced), NO_PLACE)
    # A file that ends within a code block, for example, swallows what is added to it.
    texts = {_plain(memory.text) for memory in parse(path, decode(merged)).memories}
    if any(_plain(item.text) not in texts for item in (*new, *replaced)):
        return _rejected(data, (*new, *replaced), NO_PLACE)
    return MergeResult(merged, new, replaced)


def _rejected(data: bytes, items: Items, why: str) -> MergeResult:
    return MergeResult(data, rejected=tuple((item, why) for item in items))


def _plain(text: str) -> str:
    """A text regardless of its line ends."""
    return text.replace("\r\n", "\n").rstrip()


def _text_for(text: str, item: IncomingMemory) -> str:
    """A memory's text with the line ends of the file it goes to, encodable as UTF-8."""
    return with_line_ends(_plain(item.text).encode("utf-8", "replace").decode(), text)
