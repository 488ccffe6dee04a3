"""Entries that are added to a note: their headings, their keys, and where in the file they go. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memd.notes import names
from memd.notes.blocks import LineOffsets, blocks_of
from memd.notes.compose import nested
from memd.notes.declared import front_matter_span
from memd.notes.parse import SECTION_LEVEL, parse
from memd.notes.topic_index import PAIR

TITLE = re.compile(r"\s*^ {0,3}#{1,2}[ \t]+([^\n]+?)(?:[ \t]+#+)?[ \t\r]*(?:\n|\Z)", re.MULTILINE)
MARKED = re.compile(r"\n {0,3}(?:(`{3,}|~{3,})|##[ \t]+(.*))")
"""A line that is the edge of a fence, or a heading."""
STAMP = re.compile(r"^_(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2})(?::\d{2})?)?_[ \t\r]*$", re.MULTILINE)
HEAD = 300
"""Characters of an entry in which its stamp is looked for."""
BOM = b"\xef\xbb\xbf"
SHARED = "shared"
"""The role whose file is everybody's."""
TOKEN = 4
"""Characters that make about one token of a language model."""


def section(heading: str, text: str, tags: tuple[str, ...] = ()) -> str:
    """A `##` section to be added to a file, with the tags that it declares."""
    comment = f"<!-- memd: tags={','.join(tags)} -->\n" if tags else ""
    return f"\n## {' '.join(heading.split())}\n{comment}\n{nested(text)}\n"


def titled(text: str) -> tuple[str, str]:
    """The title that a text begins with, as a `#` or `##` heading, and the rest; no title when it has none."""
    found = TITLE.match(text)
    rest = text[found.end() :].strip("\r\n") if found else ""
    return (found[1].strip(), rest) if found and rest else ("", text)


def numbered(key: str, text: str) -> str:
    """The key of a section that is added to a text, from the one that it would have alone."""
    base, sharp, slug = key.partition("#")
    slugs, fence = names.Slugs(), ""
    for line in MARKED.finditer(f"\n{text}") if sharp else ():
        edge, heading = line.groups()
        if edge and (not fence or edge.startswith(fence)):
            fence = "" if fence else edge
        elif heading is not None and not fence and names.slug(heading).startswith(slug):
            slugs.of(heading)
    return f"{base}#{slugs.of(slug)}" if sharp else key


# --- before the list of topics ------------------------------------------------------------------------------


def before_index(data: bytes, entry: str) -> bytes:
    """A file with an entry put in before its list of topics; at its end where it has none."""
    mark = BOM if data.startswith(BOM) else b""
    text = data[len(mark) :].decode("utf-8", "surrogateescape")
    place = index_start(text)
    before, after = (text, "") if place is None else (text[:place], text[place:])
    ending = "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"
    new = entry.strip("\n").replace("\n", ending) + ending + (ending if after else "")
    return mark + (before + _gap(before, ending) + new + after).encode("utf-8", "surrogateescape")


def _gap(before: str, ending: str) -> str:
    """What is missing to a blank line."""
    kept = before.rstrip("\r\n")
    return ending * max(0, 2 - before[len(kept) :].count("\n")) if kept else ""


def index_start(text: str) -> int | None:
    """Where the list of topics begins; None when there is none that a section can stand before.

    One with deeper headings begins where the section begins that it stands in.
    """
    above: int | None = None
    for block in blocks_of(text, LineOffsets(text), front_matter_span(text)):
        if 0 < block.level <= SECTION_LEVEL:
            above = block.start if block.level == SECTION_LEVEL or block.title.casefold() in PAIR else None
        if block.level and block.title.casefold() in PAIR:
            return above
    return None


# --- what was written lately --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoleEntry:
    """One section of a role's file, and when it was written."""

    role: str
    path: str
    start_line: int
    end_line: int
    title: str
    time: str
    """`2026-02-21 14:27` where the entry says so, else its day."""
    text: str

    @property
    def tokens(self) -> int:
        return -(-len(self.text) // TOKEN)


def entries_of(path: str, text: str, day: str) -> list[RoleEntry]:
    """The entries of a file; one without a date of its own has that of the file."""
    note = parse(path, text, day)
    return [
        RoleEntry(
            note.role, path, memory.start_line, memory.end_line, memory.heading, _time(memory.text, memory.date),
            memory.text.replace("\r\n", "\n"),
        )
        for memory in note.memories
    ]  # fmt: skip


def _time(text: str, day: str) -> str:
    found = STAMP.search(text, 0, HEAD)
    return f"{found[1]} {found[2]:0>5}" if found and found[2] else found[1] if found else day


def newest(entries: list[RoleEntry], since: str) -> list[RoleEntry]:
    """The entries of that day and later, the newest first; of a file's equals the lower one is the newer."""
    recent = [entry for entry in reversed(entries) if entry.time[:10] >= since]
    return sorted(recent, key=lambda entry: entry.time, reverse=True)


def within(entries: list[RoleEntry], budget: int) -> list[RoleEntry]:
    """As many of them as a budget of tokens takes: each whole or not at all."""
    kept, left = [], budget
    for entry in entries:
        if entry.tokens <= left:
            kept.append(entry)
            left -= entry.tokens
    return kept


def told(kept: list[RoleEntry], roles: tuple[str, ...], left_out: int, budget: int) -> str:
    """The entries as a text for an agent to read: those of all, then its own."""
    parts: list[str] = []
    for role in roles:
        parts.append(f"# {'Shared' if role == SHARED else role} Memory")
        parts += [entry.text.strip("\n") for entry in kept if entry.role == role]
    if left_out:
        noun = "entry was" if left_out == 1 else "entries were"
        parts.append(f"({left_out} {noun} left out to stay within {budget} tokens.)")
    return "\n\n".join(parts) + "\n"
