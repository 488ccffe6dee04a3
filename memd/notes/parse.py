"""Parses a file's text into a note (its memories, their metadata, their chunks); reparses edited files quickly."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memd.models import Chunk, Declared, Memory, Note
from memd.notes import metadata, names, read
from memd.notes.blocks import Block, LineOffsets, Pieces, below_headings, blocks_in_pieces, chunk_spans, in_one_go

FORMAT = 12
"""Version of the parse result; a new number parses every note again. (8: shorter chunks of lists without headings.)"""

SECTION_LEVEL = 2
TOPIC_INDEX, GENERAL = "specialized knowledge", "general project knowledge"
"""Headings of the topic list, which is for readers: its lines are never hits."""
CACHED_FILES = 4
"""Files cached per workspace; few are written at the same time."""
PIECE = 256
"""Memories that are made in one go."""
MAX_CACHED = 1 << 20
"""Characters; a longer text is not cached."""


@dataclass(frozen=True, slots=True)
class _Section:
    """The blocks of one memory; `title` is the file's, if it stands above them."""

    heading: str
    title: str
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class ParsedNote:
    """A note with what the next parse of nearly the same text can reuse."""

    note: Note
    text: str
    fallback_date: str
    front_end: int
    blocks: list[Block]
    sections: list[_Section]

    def unchanged(self, text: str, front_end: int) -> int:
        """How many leading blocks another text has in common with this one.

        They end before a heading that is still there: a heading closes everything open, so parsing can resume at it
        without knowing what came before.
        """
        same = read.common_prefix(self.text, text)
        if front_end != self.front_end or same < front_end:
            return 0
        for at in range(len(self.blocks) - 1, -1, -1):
            if self.blocks[at].level and text.find("\n", self.blocks[at].end, same) >= 0:
                return at
        return 0


def parse(path: str, text: str, fallback_date: str = "") -> Note:
    """Parse the text of the file at `path` (relative to its workspace)."""
    return in_one_go(reparse(path, text, fallback_date)).note


def reparse(path: str, text: str, fallback_date: str = "", before: ParsedNote | None = None) -> Pieces[ParsedNote]:
    """Parse a text, reusing what it has in common with the parse `before` of the same file."""
    lines = LineOffsets(text)
    front_end = metadata.front_matter_end(text)
    of_file, warning = metadata.read_front_matter(text)
    if before is None or before.note.path != path or before.fallback_date != fallback_date:
        before = ParsedNote(Note(path, "", ()), "", fallback_date, -1, [], [])
    kept = before.unchanged(text, front_end)
    resume = before.blocks[kept].start if kept else front_end
    in_pages = path.lower().endswith(".pdf")
    blocks = before.blocks[:kept] + (yield from blocks_in_pieces(text, lines, resume, in_pages))
    sections = list(_sections(blocks, whole=names.is_topic(path)))
    role, date = names.role_of(path), names.date_of(path)
    slugs, memories = names.Slugs(), []
    for nth, section in enumerate(sections):
        slug = slugs.of(section.heading) if section.heading else ""
        if kept and section.blocks[-1].start < resume and before.sections[nth : nth + 1] == [section]:
            memories.append(before.note.memories[nth])
        else:
            title = names.file_title(path, of_file.title, section.title)
            memories.append(_memory(section, text, lines, of_file, path, title, date or fallback_date, slug, not date))
        if nth % PIECE == PIECE - 1:
            yield
    declared = dict.fromkeys(entry for memory in memories for entry in memory.declared.links)
    note = Note(path, role, tuple(memories), (*([warning] if warning else []), *metadata.unread_links(declared)))
    return ParsedNote(note, text, fallback_date, front_end, blocks, sections)


def _sections(blocks: Sequence[Block], whole: bool) -> Iterator[_Section]:
    """The preamble, then each `##` section; a topic, or a file without `##`, is one section."""
    title, heading = "", ""
    current: list[Block] = []
    for block in blocks:
        opens = not whole and (block.level == SECTION_LEVEL or (block.level == 1 and bool(heading)))
        if opens:
            # A preamble that is only a title is no memory.
            if heading or len(current) > 1 or (current and current[0].level != 1):
                yield _Section(heading, title, current)
            heading, current = block.title or (" " if block.level == SECTION_LEVEL else ""), []
        elif block.level == 1:
            title = block.title
        current.append(block)
    if current:
        yield _Section(heading, title, current)


def _memory(
    section: _Section, text: str, lines: LineOffsets, file_metadata: Declared, path: str, title: str, date: str,
    slug: str, stamped: bool,
) -> Memory:  # fmt: skip
    start, end = section.blocks[0].start, section.blocks[-1].end
    body = text[start:end]
    prose = (text[block.start : block.end] for block in section.blocks if block.prose and not block.level)
    declared = metadata.merge(file_metadata, metadata.read_comment(body), metadata.hashtags(prose))
    stamp = names.STAMP.search(names.head(body)) if stamped else None
    return Memory(
        slug=slug,
        heading=names.memory_title(title, section.heading.strip(), path, declared.title, section.title),
        start_line=lines.number(start),
        end_line=lines.number(max(start, end - 1)),
        text=body,
        kind=declared.kind or names.kind_of(names.role_of(path), stamp is not None),
        date=stamp.group(1) if stamp else date,
        declared=declared,
        chunks=tuple(_chunks(section, text, lines, declared, title)),
        prose=tuple((block.start - start, block.end - start) for block in section.blocks if block.prose),
    )


def _chunks(section: _Section, text: str, lines: LineOffsets, declared: Declared, title: str) -> Iterator[Chunk]:
    top = section.title or declared.title
    above = [(1, top)] if top else []
    if title and not names.is_telling(top) and not names.is_telling(section.heading):
        # Above every heading: what the `#` heading does not say, the name of the file does.
        above = [(0, title)]
    files = (file.rpartition(":")[0] or file for file in declared.files)
    # Under a `#` heading the title is another name of the file.
    also = [declared.title] if section.title and declared.title not in ("", section.title) else []
    context = " ".join((*also, *declared.tags, *declared.aliases, *files))
    first = True
    runs = _outside_topic_index(section.blocks)
    for headings, body in (part for run in runs for part in below_headings(run)):
        for heading in headings:
            while above and above[-1][0] >= heading.level:
                above.pop()
            above.append((heading.level, heading.title))
        flat = all(block.item for block in body) and not any(names.is_telling(title) for _, title in above)
        for start, end in _with_headings(text, headings, body, flat):
            yield Chunk(
                text=text[start:end],
                start_line=lines.number(start),
                end_line=lines.number(max(start, end - 1)),
                heading=tuple(title for _, title in above),
                context=f"{context} {declared.summary}".strip() if first else context,
            )
            first = False


def _outside_topic_index(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """The runs of blocks around the topic list, which ends at the next heading of its level or above."""
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


def _with_headings(text: str, headings: list[Block], body: list[Block], flat: bool) -> list[tuple[int, int]]:
    """The body's chunks; the first one starts at the heading."""
    if not headings:
        return chunk_spans(text, body, flat)
    if not body:
        return [(headings[0].start, headings[-1].end)]
    opened = [Block(headings[0].start, body[0].end, cut_from=body[0].cut_from), *body[1:]]
    return chunk_spans(text, opened, flat)


class ParseCache:
    """The files of one workspace that were parsed last, so that a line added to a long note costs little."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[str, ParsedNote] = OrderedDict()
        self._lock = threading.Lock()

    def parse(self, path: str, text: str, fallback_date: str = "") -> Note:
        """Parse a text; an unchanged memory is the very same object as before."""
        return in_one_go(self.parse_in_pieces(path, text, fallback_date))

    def parse_in_pieces(self, path: str, text: str, fallback_date: str = "") -> Pieces[Note]:
        with self._lock:
            before = self._parsed.get(path)
        if before is not None and (before.text, before.fallback_date) == (text, fallback_date):
            return before.note
        now = yield from reparse(path, text, fallback_date, before)
        with self._lock:
            self._parsed.pop(path, None)
            if len(text) <= MAX_CACHED:
                self._parsed[path] = now
            while len(self._parsed) > CACHED_FILES:
                self._parsed.popitem(last=False)
        return now.note
