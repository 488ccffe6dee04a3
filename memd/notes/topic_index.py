"""Reads and edits the index of topics. Pure: all around an edit stays byte for byte.

It is a pair of sections in a file that may hold anything else: "General Project Knowledge", and "Specialized
Knowledge" with a line `- topic: summary` for each topic. It is read leniently: headings of any level, any bullet,
names in bold, in backticks or as links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memd.errors import UsageError
from memd.notes import compose
from memd.notes.blocks import Block, LineOffsets, blocks_of
from memd.notes.declared import front_matter_span

GENERAL = "General Project Knowledge"
SPECIALIZED = "Specialized Knowledge"
PAIR = {GENERAL.casefold(), SPECIALIZED.casefold()}
LEVEL, DEEPEST = 2, 6

LINE = re.compile(r"[^\n]*\n|[^\n]+")
BULLET = re.compile(r"(?P<indent> {0,3})[-*+][ \t]+(?P<rest>\S.*)")
WRAPPED = re.compile(
    r"\*\*(?:`([^`]+)`|\[\[([^\]|]+)(?:\|[^\]]*)?\]\]|\[([^\]]+)\]\([^)]*\)|(.+?)):?\*\*"
    r"|`([^`]+)`|\[\[([^\]|]+)(?:\|[^\]]*)?\]\]|\[([^\]]+)\]\([^)]*\)"
)
"""A name that something stands around, which is no part of it."""
DASH = re.compile(r"\s[–—]\s")
SPLIT = re.compile(r"(.*?)(?=:|\s[–—]\s)|(.+?)(?=\s-\s)")
"""A bare name ends at a colon or a dash; a hyphen ends it only where there is neither."""
GAP = re.compile(r"[ \t]*(?::|[–—-](?=\s))?[ \t]*")


# --- reading the index --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexSection:
    """One section of the pair: where its heading starts, where its text begins, where it ends."""

    level: int
    start: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """The line of one topic, with lines that go on from it; `said` is where the summary begins."""

    topic: str
    summary: str
    start: int
    said: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicIndex:
    """What a file says about topics."""

    general: IndexSection | None
    lists: tuple[IndexSection, ...]
    entries: tuple[TopicEntry, ...]

    def of(self, topic: str) -> list[TopicEntry]:
        return [entry for entry in self.entries if entry.topic == topic]


def read_index(text: str) -> TopicIndex:
    blocks = blocks_of(text, LineOffsets(text), front_matter_span(text))
    headings = [block for block in blocks if block.level]
    code = [(block.start, block.end) for block in blocks if not block.prose]
    general = _sections(text, headings, GENERAL)
    lists = _sections(text, headings, SPECIALIZED)
    entries = tuple(entry for section in lists for entry in _entries(text, section, code))
    return TopicIndex(general[0] if general else None, lists, entries)


def _sections(text: str, headings: Sequence[Block], title: str) -> tuple[IndexSection, ...]:
    """The sections of a title; each ends at the next heading of its level, or at the other of the pair."""
    found = []
    for nth, heading in enumerate(headings):
        if _plain(heading.title) != title.casefold():
            continue
        after = (other for other in headings[nth + 1 :] if other.level <= heading.level or _plain(other.title) in PAIR)
        end = next((other.start for other in after), len(text))
        newline = text.find("\n", heading.end, end)
        found.append(IndexSection(heading.level, heading.start, newline + 1 if newline >= 0 else end, end))
    return tuple(found)


def _plain(title: str) -> str:
    """A heading without what stands around it."""
    return " ".join(title.strip("*_:` \t").casefold().split())


def _entries(text: str, section: IndexSection, code: Sequence[tuple[int, int]]) -> list[TopicEntry]:
    found: list[TopicEntry] = []
    indent = DEEPEST
    for line in LINE.finditer(text, section.body, section.end):
        bullet = BULLET.match(line[0])
        shown = not any(start <= line.start() < end for start, end in code)
        if bullet and shown and len(bullet["indent"]) <= indent:
            indent = len(bullet["indent"]) if indent == DEEPEST else indent
            found.append(_entry(line.start(), line.start() + bullet.start("rest"), bullet["rest"], line.end()))
        elif found and found[-1].end == line.start() and line[0][:1] in " \t" and line[0].strip():
            more = f"{found[-1].summary} {line[0].strip()}".strip()
            found[-1] = replace(found[-1], summary=more, end=line.end())
    return found


def _entry(start: int, named: int, rest: str, end: int) -> TopicEntry:
    wrapped = WRAPPED.match(rest)
    if wrapped:
        name, stop = next(group for group in wrapped.groups() if group), wrapped.end()
    else:
        bare = SPLIT.match(rest)
        name = bare[0] if bare else rest
        stop = len(name)
    said = GAP.match(rest, stop)
    at = said.end() if said else stop
    return TopicEntry(name.strip(), rest[at:].strip(), start, named + at, end)


def general_of(text: str) -> str:
    """The general knowledge, without its heading."""
    general = read_index(text).general
    return text[general.body : general.end].strip("\r\n") if general else ""


# --- editing the index --------------------------------------------------------------------------------------


def with_entry(text: str, topic: str, summary: str) -> str:
    """The index with one line for the topic: its own with this summary, else a new one at the end of the list."""
    index = read_index(text)
    mine = index.of(topic)
    if not mine and not index.lists:
        text = _with_list(text, index)
        index = read_index(text)
    if not mine:
        return _with_new(text, index, _line(topic, summary))
    text = _cut(text, mine[1:])
    first = mine[0]
    if first.summary == summary:
        return text
    ended = "\n" if text[: first.end].endswith("\n") else ""
    kept = text[first.start : first.said].rstrip()
    line = f"{kept} {summary}" if first.summary else _line(topic, summary)
    return text[: first.start] + compose.like(line + ended, text) + text[first.end :]


def without_entry(text: str, topic: str) -> str:
    return _cut(text, read_index(text).of(topic))


def with_general(text: str, content: str) -> str:
    """The index with other general knowledge; its headings become deeper than the one that they stand under."""
    index = read_index(text)
    if index.general is None:
        at, level = (index.lists[0].start, index.lists[0].level) if index.lists else (len(text), LEVEL)
        text = _with_heading(text, at, level, GENERAL)
        index = read_index(text)
    section = index.general
    assert section is not None
    before, after = text[: section.body], text[section.end :]
    opening = "\n" if before.endswith("\n") else "\n\n"
    body = f"{opening}{_below(content, section.level)}\n" + ("\n" if after.strip() else "")
    return before + compose.like(body, text) + after


def check_general(content: str) -> None:
    """Refuse a text that would be read as the list of topics."""
    headings = blocks_of(content, LineOffsets(content))
    if any(block.level and _plain(block.title) == SPECIALIZED.casefold() for block in headings):
        raise UsageError(
            f"general knowledge may not have a heading “{SPECIALIZED}”: that is the list of topics",
            "leave it out; topics are listed by memd itself",
        )


def _below(content: str, level: int) -> str:
    """A text whose headings all belong under a heading of this level, and which leaves nothing open."""
    plain = content.replace("\r\n", "\n").strip("\n")
    headings = [block for block in blocks_of(plain, LineOffsets(plain)) if block.level]
    if headings and headings[0].start == 0 and _plain(headings[0].title) == GENERAL.casefold():
        # It came with its own heading, as one who read the file would send it.
        return _below(plain[headings[0].end :], level)
    deeper = level + 1 - min((block.level for block in headings), default=DEEPEST)
    for block in reversed(headings if deeper > 0 else []):
        title, depth = " ".join(block.title.split()), block.level + deeper
        heading = f"{'#' * depth} {title}" if depth <= DEEPEST else f"**{title}**"
        plain = plain[: block.start] + heading + plain[block.end :]
    return compose.nested(plain)


def _line(topic: str, summary: str) -> str:
    """`- topic: summary`; a name that could be taken for something else stands in backticks."""
    plain = ":" not in topic and not DASH.search(topic) and not topic.startswith(("*", "`", "["))
    return f"- {topic if plain else f'`{topic}`'}: {summary}"


def _cut(text: str, entries: Sequence[TopicEntry]) -> str:
    for entry in reversed(entries):
        text = text[: entry.start] + text[entry.end :]
    return text


def _with_list(text: str, index: TopicIndex) -> str:
    """The text with a section for the list, behind the general knowledge."""
    at, level = (index.general.end, index.general.level) if index.general else (len(text), LEVEL)
    return _with_heading(text, at, level, SPECIALIZED)


def _with_new(text: str, index: TopicIndex, line: str) -> str:
    section = index.lists[0]
    last = [entry for entry in index.entries if section.start <= entry.start < section.end][-1:]
    if last:
        at = last[0].end
        new = f"{line}\n" if text[:at].endswith("\n") else f"\n{line}\n"
        return text[:at] + compose.like(new, text) + text[at:]
    body, after = text[: section.end], text[section.end :]
    kept = body if after else _closed(body)
    at = len(kept.rstrip())
    gap = kept[at:] if kept[at:].count("\n") > 1 or not after else compose.like("\n\n", text)
    return kept[:at] + compose.like(f"\n\n{line}", text) + (gap or compose.like("\n", text)) + after


def _with_heading(text: str, at: int, level: int, title: str) -> str:
    """The text with a heading at an offset, blank lines around it."""
    before, after = text[:at], text[at:]
    before = before if after else _closed(before)
    bare = before.replace("\r\n", "\n")
    lead = "" if not before or bare.endswith("\n\n") else "\n" if bare.endswith("\n") else "\n\n"
    return before + compose.like(f"{lead}{'#' * level} {title}\n" + ("\n" if after.strip() else ""), text) + after


def _closed(text: str) -> str:
    """A whole file, with what it leaves open at its end closed: that would take in what is added."""
    rest = text[front_matter_span(text) :]
    return text + compose.like(compose.closed(rest)[len(rest) :], text)
