"""Topics: a file each, with front matter, and the index file that lists them. Pure: an edit leaves the rest alone.

The index is a pair of sections in a file that may hold anything else: "General Project Knowledge", and "Specialized
Knowledge" with a line `- topic: summary` per topic. It is read leniently: headings of any level, any bullet, names in
bold, in backticks or as links.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memd.errors import UsageError
from memd.notes.blocks import Block, blocks_of, headings_of, with_line_ends
from memd.notes.metadata import Fields, front_matter_end, read_front_matter, to_yaml, with_front_matter
from memd.notes.parse import SECTION_LEVEL, parse
from memd.notes.sections import closed, nested
from memd.prose import LINE, composed, flat_line

MAX_SUMMARY = 600
TOPIC_NAME = re.compile(r"[^\x00-\x1f/\\]+")
GENERAL = "General Project Knowledge"
SPECIALIZED = "Specialized Knowledge"
PAIR = {GENERAL.casefold(), SPECIALIZED.casefold()}
LEVEL, MAX_LEVEL = 2, 6

BULLET = re.compile(r"(?P<indent> {0,3})[-*+][ \t]+(?P<rest>\S.*)")
MARKED_UP = r"`([^`]+)`|\[\[([^\]|]+)(?:\|[^\]]*)?\]\]|\[([^\]]+)\]\([^)]*\)"
WRAPPED = re.compile(rf"\*\*(?:{MARKED_UP}|(.+?)):?\*\*|{MARKED_UP}")
"""A name with markup around it."""
DASH = re.compile(r"\s[–—]\s")
SPLIT = re.compile(r"(.*?)(?=:|\s[–—]\s)|(.+?)(?=\s-\s)")
"""A bare name ends at a colon or a dash; a hyphen ends it only where there is neither."""
GAP = re.compile(r"[ \t]*(?::|[–—-](?=\s))?[ \t]*")


# --- topic files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, read from its file."""

    name: str
    title: str
    tags: tuple[str, ...]
    summary: str
    last_updated: str
    content: str

    def markdown(self) -> str:
        """The topic for a reader: title, tags, time of the last update, content."""
        first, _, rest = self.content.partition("\n")
        content = rest.strip("\r\n") if first.strip() == f"# {self.title}" else self.content
        tags, updated = ", ".join(self.tags) or "none", self.last_updated.replace("T", " ")
        return f"# {self.title}\n\n- Tags: {tags}\n- Last updated: {updated}\n\n{content}\n"


def read_topic(name: str, path: str, text: str, day: str) -> Topic:
    """The topic in a file; `day` is when the file was last written."""
    memories = parse(path, text).memories
    declared = memories[0].declared if memories else read_front_matter(text)[0]
    content = text[front_matter_end(text) :].strip("\r\n")
    return Topic(name, declared.title or name, declared.tags, declared.summary, declared.last_updated or day, content)


@dataclass(frozen=True, slots=True)
class Refinement:
    """Changes to a topic; an empty text leaves a part as it is."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    title: str = ""
    summary: str = ""
    content: str = ""

    def __bool__(self) -> bool:
        return self != Refinement()


def refined(text: str, changes: Refinement, stamp: str) -> str:
    """A topic file with the changes applied and `last_updated` set."""
    fields = {name: value for name in ("title", "summary") if (value := getattr(changes, name))}
    if changes.add or changes.remove:
        removed = {tag.casefold() for tag in clean_tags(changes.remove)}
        kept = [tag for tag in read_front_matter(text)[0].tags if tag.casefold() not in removed]
        fields["tags"] = clean_tags((*kept, *changes.add)) or None
    if changes.content:
        head = text[: front_matter_end(text)]
        text = head + with_line_ends(("\n" if head else "") + changes.content.strip("\r\n") + "\n", text)
    return with_front_matter(text, {**fields, "last_updated": stamp})


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags without `#`, each once regardless of case."""
    once: dict[str, str] = {}
    for tag in (tag.strip().lstrip("#").strip() for group in tags for tag in group.split(",")):
        if tag:
            once.setdefault(tag.casefold(), tag)
    return tuple(once.values())


def clean_summary(summary: str) -> str:
    """A summary on one line, checked for length."""
    plain = flat_line(summary)
    if len(plain) > MAX_SUMMARY:
        raise UsageError(f"a summary is one or two sentences; this one has {len(plain)} characters", "shorten it")
    return plain


def new_topic_name(name: str, layout_index: str) -> str:
    """The name of a new topic, checked: the index must also be able to list it."""
    plain = topic_name(name)
    if "`" in plain:
        raise UsageError(f"{name!r} cannot be the name of a topic", "leave out the backticks")
    if plain.casefold() == "index" and layout_index.endswith("/index.mdk"):
        raise UsageError("`index` is the file that lists the topics", "choose another name")
    return plain


def topic_name(name: str) -> str:
    """A topic's name, checked: it must be usable as a file name."""
    plain = composed(name.strip())
    if not TOPIC_NAME.fullmatch(plain) or plain.startswith(".") or len(plain.encode()) > 200:
        raise UsageError(
            f"{name!r} cannot be the name of a topic",
            "letters, digits, spaces and dashes; no slashes; 200 bytes at most",
        )
    return plain


def topic_file(fields: Fields, body: str) -> str:
    return f"---\n{to_yaml(fields)}---\n\n{body.strip(chr(10))}\n"


# --- reading the index --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexSection:
    """One section of the pair: the offsets of its heading, its text and its end."""

    level: int
    start: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic's line with its continuation lines."""

    topic: str
    summary: str
    start: int
    summary_start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicIndex:
    """The topic index in a file."""

    general: IndexSection | None
    lists: tuple[IndexSection, ...]
    entries: tuple[TopicEntry, ...]

    def of(self, topic: str) -> list[TopicEntry]:
        return [entry for entry in self.entries if entry.topic == topic]


def read_index(text: str) -> TopicIndex:
    blocks = blocks_of(text, front_matter_end(text))
    headings = [block for block in blocks if block.level]
    code = [(block.start, block.end) for block in blocks if not block.prose]
    general = _sections(text, headings, GENERAL)
    lists = _sections(text, headings, SPECIALIZED)
    entries = tuple(entry for section in lists for entry in _entries(text, section, code))
    return TopicIndex(general[0] if general else None, lists, entries)


def _sections(text: str, headings: Sequence[Block], title: str) -> tuple[IndexSection, ...]:
    """The sections with a title; each ends at the next heading of its level, or at the other of the pair."""
    sections = []
    for nth, heading in enumerate(headings):
        if _plain(heading.title) != title.casefold():
            continue
        after = (other for other in headings[nth + 1 :] if other.level <= heading.level or _plain(other.title) in PAIR)
        end = next((other.start for other in after), len(text))
        newline = text.find("\n", heading.end, end)
        sections.append(IndexSection(heading.level, heading.start, newline + 1 if newline >= 0 else end, end))
    return tuple(sections)


def _plain(title: str) -> str:
    """A heading without markup, for comparison."""
    return flat_line(title.strip("*_:` \t").casefold())


def _entries(text: str, section: IndexSection, code: Sequence[tuple[int, int]]) -> list[TopicEntry]:
    entries: list[TopicEntry] = []
    indent = MAX_LEVEL
    for line in LINE.finditer(text, section.body, section.end):
        bullet = BULLET.match(line[0])
        in_code = any(start <= line.start() < end for start, end in code)
        if bullet and not in_code and len(bullet["indent"]) <= indent:
            indent = len(bullet["indent"]) if indent == MAX_LEVEL else indent
            entries.append(_entry(line.start(), line.start() + bullet.start("rest"), bullet["rest"], line.end()))
        elif entries and entries[-1].end == line.start() and line[0][:1] in " \t" and line[0].strip():
            summary = f"{entries[-1].summary} {line[0].strip()}".strip()
            entries[-1] = replace(entries[-1], summary=summary, end=line.end())
    return entries


def _entry(start: int, name_start: int, rest: str, end: int) -> TopicEntry:
    wrapped = WRAPPED.match(rest)
    if wrapped:
        name, stop = next(group for group in wrapped.groups() if group), wrapped.end()
    else:
        bare = SPLIT.match(rest)
        name = bare[0] if bare else rest
        stop = len(name)
    gap = GAP.match(rest, stop)
    at = gap.end() if gap else stop
    return TopicEntry(composed(name.strip()), rest[at:].strip(), start, name_start + at, end)


def general_of(text: str) -> str:
    """The general knowledge, without its heading."""
    general = read_index(text).general
    return text[general.body : general.end].strip("\r\n") if general else ""


def index_of(text: str) -> str:
    """The general knowledge and the list of topics as they stand in the file, with their headings."""
    index = read_index(text)
    sections = sorted((*filter(None, (index.general,)), *index.lists), key=lambda section: section.start)
    return "".join(text[section.start : section.end] for section in sections)


# --- editing the index --------------------------------------------------------------------------------------


def with_entry(text: str, topic: str, summary: str) -> str:
    """The index with one line for the topic: its old line with this summary, else a new line at the end."""
    index = read_index(text)
    mine = index.of(topic)
    if not mine and not index.lists:
        at, level = (index.general.end, index.general.level) if index.general else (len(text), LEVEL)
        text = _inserted(text, at, f"{'#' * level} {SPECIALIZED}")
        index = read_index(text)
    if not mine:
        return _with_new(text, index, _line(topic, summary))
    text = _cut(text, mine[1:])
    first = mine[0]
    if first.summary == summary:
        return text
    ended = "\n" if text[: first.end].endswith("\n") else ""
    kept = text[first.start : first.summary_start].rstrip()
    line = f"{kept} {summary}" if first.summary else _line(topic, summary)
    return text[: first.start] + with_line_ends(line + ended, text) + text[first.end :]


def without_entry(text: str, topic: str) -> str:
    return _cut(text, read_index(text).of(topic))


def with_general(text: str, content: str) -> str:
    """The index with new general knowledge, whose headings become deeper than the heading above it."""
    index = read_index(text)
    if index.general is None:
        at, level = (index.lists[0].start, index.lists[0].level) if index.lists else (len(text), LEVEL)
        text = _inserted(text, at, f"{'#' * level} {GENERAL}")
        index = read_index(text)
    section = index.general
    assert section is not None
    before, after = text[: section.body], text[section.end :]
    opening = "\n" if before.endswith("\n") else "\n\n"
    body = f"{opening}{_below(content, section.level)}\n" + ("\n" if after.strip() else "")
    return before + with_line_ends(body, text) + after


def check_general(content: str) -> None:
    """Refuse a text that would be read as the topic list."""
    if any(_plain(block.title) == SPECIALIZED.casefold() for block in headings_of(content)):
        why = f"general knowledge may not have a heading “{SPECIALIZED}”: that is the list of topics"
        raise UsageError(why, "leave it out: memd lists the topics itself")


def _below(content: str, level: int) -> str:
    """A text fit to stand below a heading of this level: deeper headings, nothing left open."""
    plain = content.replace("\r\n", "\n").strip("\n")
    headings = headings_of(plain)
    if headings and headings[0].start == 0 and _plain(headings[0].title) == GENERAL.casefold():
        # It came with its own heading, copied from the file.
        return _below(plain[headings[0].end :], level)
    deeper = level + 1 - min((block.level for block in headings), default=MAX_LEVEL)
    for block in reversed(headings if deeper > 0 else []):
        title, depth = flat_line(block.title), block.level + deeper
        heading = f"{'#' * depth} {title}" if depth <= MAX_LEVEL else f"**{title}**"
        plain = plain[: block.start] + heading + plain[block.end :]
    return nested(plain)


def _line(topic: str, summary: str) -> str:
    """`- topic: summary`, with an ambiguous name in backticks."""
    plain = ":" not in topic and not DASH.search(topic) and not topic.startswith(("*", "`", "["))
    return f"- {topic if plain else f'`{topic}`'}: {summary}"


def _cut(text: str, entries: Sequence[TopicEntry]) -> str:
    for entry in reversed(entries):
        text = text[: entry.start] + text[entry.end :]
    return text


def _with_new(text: str, index: TopicIndex, line: str) -> str:
    section = index.lists[0]
    last = [entry for entry in index.entries if section.start <= entry.start < section.end][-1:]
    if last:
        at = last[0].end
        new = f"{line}\n" if text[:at].endswith("\n") else f"\n{line}\n"
        return text[:at] + with_line_ends(new, text) + text[at:]
    body, after = text[: section.end], text[section.end :]
    kept = body if after else _close_file(body)
    at = len(kept.rstrip())
    gap = kept[at:] if kept[at:].count("\n") > 1 or not after else with_line_ends("\n\n", text)
    return kept[:at] + with_line_ends(f"\n\n{line}", text) + (gap or with_line_ends("\n", text)) + after


def _inserted(text: str, at: int, block: str) -> str:
    """The text with a heading or an entry at an offset, between blank lines."""
    before, after = text[:at], text[at:]
    before = before if after else _close_file(before)
    bare = before.replace("\r\n", "\n")
    lead = "" if not before or bare.endswith("\n\n") else "\n" if bare.endswith("\n") else "\n\n"
    return before + with_line_ends(f"{lead}{block}\n" + ("\n" if after.strip() else ""), text) + after


def _close_file(text: str) -> str:
    """A file with the open block at its end closed: it would swallow what is added."""
    rest = text[front_matter_end(text) :]
    return text + with_line_ends(closed(rest)[len(rest) :], text)


# --- entries before the list --------------------------------------------------------------------------------


def with_entry_before_list(text: str, entry: str) -> str:
    """A file with an entry inserted before its topic list; without a list, at its end."""
    place = list_start(text)
    return _inserted(text, len(text) if place is None else place, entry.strip("\n"))


def list_start(text: str) -> int | None:
    """Where the topic list begins; None without a list that a section can stand before.

    A list with deeper headings begins where the section around it begins.
    """
    above: int | None = None
    for block in headings_of(text, front_matter_end(text)):
        of_list = _plain(block.title) in PAIR
        if block.level <= SECTION_LEVEL:
            above = block.start if block.level == SECTION_LEVEL or of_list else None
        if of_list:
            return above
    return None
