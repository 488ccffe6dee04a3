"""Turns a file's text into a note: its memories, what they declare, and their chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memd.models import Chunk, Declared, Memory, Note
from memd.notes import declared, names
from memd.notes.blocks import Block, LineOffsets, blocks_of
from memd.notes.chunks import below_headings, spans

FORMAT = 5
"""The number of this way of cutting; after a change every note is cut again. (5: and what it mentions is kept.)"""

SECTION_LEVEL = 2
TOPIC_INDEX, GENERAL = "specialized knowledge", "general project knowledge"
"""The list of topics is kept for its readers; its lines are never hits."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A run of blocks that is one memory; `above` are the headings over it."""

    heading: str
    above: tuple[str, ...]
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class ParsedNote:
    """A note, and what another parse of nearly the same text can go on from."""

    note: Note
    text: str
    fallback_date: str
    front_end: int
    blocks: list[Block]
    sections: list[_Section]

    def unchanged(self, text: str, front_end: int) -> int:
        """How many blocks stand in another text as they do in this one.

        They end before a heading that is still there: a heading closes whatever is open, so that what comes
        from there on can be cut without knowing what was before.
        """
        same = _same(self.text, text)
        if front_end != self.front_end or same < front_end:
            return 0
        for at in range(len(self.blocks) - 1, -1, -1):
            if self.blocks[at].level and text.find("\n", self.blocks[at].end, same) >= 0:
                return at
        return 0


def parse(path: str, text: str, fallback_date: str = "") -> Note:
    """The note that `text` is, when it stands at `path` (relative to its workspace)."""
    return parsed(path, text, fallback_date).note


def parsed(path: str, text: str, fallback_date: str = "", before: ParsedNote | None = None) -> ParsedNote:
    """The same; what it has in common with the note `before` at this path is taken from there."""
    lines = LineOffsets(text)
    front_end = declared.front_matter_span(text)
    about, warning = declared.front_matter(text[:front_end]) if front_end else (Declared(), "")
    if before is None or before.note.path != path or before.fallback_date != fallback_date:
        before = ParsedNote(Note(path, "", ()), "", fallback_date, -1, [], [])
    kept = before.unchanged(text, front_end)
    onward = before.blocks[kept].start if kept else front_end
    blocks = before.blocks[:kept] + blocks_of(text, lines, onward)
    sections = list(_sections(blocks, whole=names.is_topic(path)))
    role, date = names.role_of(path), names.date_of(path)
    slugs, memories = names.Slugs(), []
    for nth, section in enumerate(sections):
        slug = slugs.of(section.heading) if section.heading else ""
        if kept and section.blocks[-1].start < onward and before.sections[nth : nth + 1] == [section]:
            memories.append(before.note.memories[nth])
        else:
            memories.append(_memory(section, text, lines, about, role, date or fallback_date, slug, not date))
    note = Note(path, role, tuple(memories), (warning,) if warning else ())
    return ParsedNote(note, text, fallback_date, front_end, blocks, sections)


def _same(one: str, other: str) -> int:
    """How long the beginning is that two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _sections(blocks: Sequence[Block], whole: bool) -> Iterator[_Section]:
    """The preamble, then each `##` section; a file without `##` and a topic are one."""
    title, heading = "", ""
    current: list[Block] = []
    for block in blocks:
        opens = not whole and (block.level == SECTION_LEVEL or (block.level == 1 and bool(heading)))
        if opens:
            yield from _keep(heading, title, current)
            heading, current = block.title or " ", []
        if block.level == 1:
            title = block.title if not opens else title
            heading = block.title if opens else heading
        current.append(block)
    only = [_Section(heading, (title,) if title else (), current)] if not heading and current else []
    yield from only if only else _keep(heading, title, current)


def _keep(heading: str, title: str, blocks: list[Block]) -> Iterator[_Section]:
    """A section worth a memory: a preamble that is only a title says nothing of its own."""
    if blocks and (heading or len(blocks) > 1 or blocks[0].level != 1):
        yield _Section(heading, (title,) if title else (), blocks)


def _memory(
    section: _Section,
    text: str,
    lines: LineOffsets,
    about: Declared,
    role: str,
    date: str,
    slug: str,
    stamped: bool,
) -> Memory:
    start, end = section.blocks[0].start, section.blocks[-1].end
    body = text[start:end]
    tags = declared.hashtags(
        text[block.start : block.end] for block in section.blocks if block.prose and not block.level
    )
    facts = declared.merge(about, declared.comment(body), tags)
    stamp = names.STAMP.search(body[:300]) if stamped else None
    return Memory(
        slug=slug,
        heading=section.heading.strip() or facts.title or (section.above[0] if section.above else ""),
        start_line=lines.number(start),
        end_line=lines.number(max(start, end - 1)),
        text=body,
        kind=facts.kind or names.kind_of(role, stamp is not None),
        date=stamp.group(1) if stamp else date,
        declared=facts,
        chunks=tuple(_chunks(section, text, lines, facts)),
    )


def _chunks(section: _Section, text: str, lines: LineOffsets, facts: Declared) -> Iterator[Chunk]:
    path = list(section.above or ((facts.title,) if facts.title else ()))
    context = " ".join((*facts.tags, *facts.aliases, *(file.rpartition(":")[0] or file for file in facts.files)))
    levels = [1] * len(path)
    first = True
    runs = _outside_topic_index(section.blocks)
    for headings, body in (part for run in runs for part in below_headings(run)):
        for heading in headings:
            _descend(path, levels, heading)
        for start, end in _with_headings(text, headings, body):
            yield Chunk(
                text=text[start:end],
                start_line=lines.number(start),
                end_line=lines.number(max(start, end - 1)),
                heading=tuple(path),
                context=f"{context} {facts.summary}".strip() if first else context,
            )
            first = False


def _outside_topic_index(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """The runs of blocks around the list of topics: it ends at the next heading that is no deeper than its own."""
    run: list[Block] = []
    listing = 0
    for block in blocks:
        if block.level and (not listing or block.level <= listing or block.title.casefold() == GENERAL):
            listing = block.level if block.title.strip("*_: ").casefold() == TOPIC_INDEX else 0
        if not listing:
            run.append(block)
        elif run:
            yield run
            run = []
    yield run


def _descend(path: list[str], levels: list[int], heading: Block) -> None:
    """Replace the part of the heading path that a new heading ends."""
    while levels and levels[-1] >= heading.level:
        levels.pop()
        path.pop()
    levels.append(heading.level)
    path.append(heading.title)


def _with_headings(text: str, headings: list[Block], body: list[Block]) -> list[tuple[int, int]]:
    """The body's chunks, the first of them beginning at its heading."""
    if not headings:
        return spans(text, body)
    if not body:
        return [(headings[0].start, headings[-1].end)]
    opened = [Block(headings[0].start, body[0].end, cut_from=body[0].cut_from), *body[1:]]
    return spans(text, opened)
