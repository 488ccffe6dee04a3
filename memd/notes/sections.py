"""Sections of a note: composed, quoted, read from role files, and edited, while everything around them stays. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from memd.errors import Conflict, UsageError
from memd.models import Declared, Memory
from memd.notes import metadata, names
from memd.notes.blocks import LineOffsets, blocks_of, headings_of, with_line_ends
from memd.notes.parse import SECTION_LEVEL, parse
from memd.prose import FENCE, LINE, CodeFence, estimate_tokens, flat_line

TITLE = re.compile(r"\s*^ {0,3}#{1,2}[ \t]+([^\n]+?)(?:[ \t]+#+)?[ \t\r]*(?:\n|\Z)", re.MULTILINE)
FENCE_OR_HEADING = re.compile(r"\n {0,3}(?:(`{3,}|~{3,})|##[ \t]+(.*))")
FENCES = re.compile(rf"(?m)^{FENCE.pattern}")
HTML_ENDS = ("\n-->", "\n?>", "\n]]>", "\n</pre>", "\n</script>", "\n</style>", "\n</textarea>")
STAMP = re.compile(rf"^{names.STAMP.pattern}[ \t\r]*$", re.MULTILINE)
SHARED = "shared"
"""The role whose file belongs to everyone."""
TITLES = {SHARED: "Shared Memory", "daily": "Daily Notes"}


# --- composing ----------------------------------------------------------------------------------------------


def daily_head(day: str) -> str:
    return f"# {day}\n"


def new_entry(heading: str, text: str, tags: tuple[str, ...] = (), stamp: str = "") -> str:
    """A `##` section to add to a file, with its tags or its timestamp under the heading."""
    label = f"<!-- memd: tags={','.join(tags)} -->\n" if tags else f"_{stamp}_\n" if stamp else ""
    return f"\n## {flat_line(heading)}\n{label}\n{nested(text)}\n"


def nested(text: str, keep: int = 0) -> str:
    """A text that cannot open a section of its own: its `#` and `##` headings, after the first `keep`, become `###`.

    A code fence or a comment that is still open at the end is closed, so that it does not swallow what follows.
    """
    plain = text.replace("\r\n", "\n").strip("\n")
    headings = [block for block in headings_of(plain) if block.level <= SECTION_LEVEL]
    for block in reversed(headings[keep:]):
        plain = f"{plain[: block.start]}### {flat_line(block.title)}{plain[block.end :]}"
    return closed(plain)


def closed(text: str) -> str:
    """The text with the code fence or comment closed that is still open at its end."""
    fences = sorted(set(FENCES.findall(text)), key=len, reverse=True)
    for end in ("", *(f"\n{fence}" for fence in fences), *HTML_ENDS):
        blocks = blocks_of(f"{text}{end}\n\n## x\n")
        if blocks and blocks[-1].level == SECTION_LEVEL:
            return text + end
    raise UsageError("the text leaves a block open, which would take in the text after it")


def closing(text: str) -> str:
    """The line that ends the code fence or comment which a text leaves open at its end; empty where it leaves none."""
    fence = CodeFence()
    for line in LINE.findall(text):
        fence.holds(line)
    if not fence.open and text.rfind("<!--") <= text.rfind("-->"):
        return ""
    with suppress(UsageError):
        if end := closed(text)[len(text) :]:
            return end.lstrip("\n") + "\n"
    return ""


def split_title(text: str) -> tuple[str, str]:
    """The `#` or `##` heading that a text begins with, and the rest; no title if it has none."""
    match = TITLE.match(text)
    rest = text[match.end() :].strip("\r\n") if match else ""
    return (match[1].strip(), rest) if match and rest else ("", text)


def unique_key(key: str, text: str) -> str:
    """The key of a section that is added to a text, given the key it would have alone."""
    base, sharp, slug = key.rpartition("#")
    slugs, fence = names.Slugs(), ""
    for match in FENCE_OR_HEADING.finditer(f"\n{text}") if sharp else ():
        edge, heading = match.groups()
        if edge and (not fence or edge.startswith(fence)):
            fence = "" if fence else edge
        elif heading is not None and not fence and names.slug(heading).startswith(slug):
            slugs.of(heading)
    return f"{base}#{slugs.of(slug)}" if sharp else key


# --- quoting ------------------------------------------------------------------------------------------------

QUOTE_LEVEL = 3
"""Level of the heading above a quoted memory."""
QUOTED_HEADING = re.compile(rf"\A( {{0,3}})#{{1,{QUOTE_LEVEL}}}(?=\s|\Z)")


def quoted(text: str) -> str:
    """A memory's text without its own heading and comment, fit to stand below a heading of `QUOTE_LEVEL`.

    Its headings become deeper ones, and an open code fence is closed.
    """
    plain = text.replace("\r\n", "\n")
    heading = metadata.HEADING.match(plain)
    plain = names.COMMENT.sub("", plain[heading.end() if heading else 0 :], count=1)
    fence, deeper = CodeFence(), rf"\1{'#' * (QUOTE_LEVEL + 1)}"
    lines = LINE.findall(re.sub(r"\A(?:[ \t]*\n)+", "", plain).rstrip())
    text = "".join(line if fence.holds(line) else QUOTED_HEADING.sub(deeper, line) for line in lines)
    return f"{text}\n{fence.open}" if fence.open else text


# --- entries of role files ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoleEntry:
    """One section of a role's file, with its time."""

    role: str
    path: str
    start_line: int
    end_line: int
    title: str
    time: str
    """`2026-02-21 14:27` if the entry has a timestamp, else its day."""
    text: str
    written_by: Sequence[str] = ()
    """Who wrote some of it, where that was not only a person."""

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)


def role_entries(path: str, text: str, day: str, ended: Collection[str] = ()) -> list[RoleEntry]:
    """The entries of a file but for those with an `ended` slug; `day` is the date of those that have none."""
    note = parse(path, text, day)
    return [
        RoleEntry(
            note.role, path, memory.start_line, memory.end_line, memory.heading, time_of(memory.text, memory.date),
            memory.text.replace("\r\n", "\n"),
        )
        for memory in note.memories if memory.slug not in ended
    ]  # fmt: skip


def time_of(text: str, day: str) -> str:
    """When an entry was written, by its timestamp line (`2026-02-21 14:27`, which compares as text); else the day."""
    match = STAMP.search(names.head(text))
    return f"{match[1]} {match[2]:0>5}" if match and match[2] else match[1] if match else day


def newest_first(entries: list[RoleEntry], since: str) -> list[RoleEntry]:
    """The entries since a day, newest first; at equal times the lower one in the file is newer."""
    recent = [entry for entry in reversed(entries) if entry.time[:10] >= since]
    return sorted(recent, key=lambda entry: entry.time, reverse=True)


def within_budget(entries: list[RoleEntry], budget: int) -> list[RoleEntry]:
    """The entries, in order, that fit into a budget of tokens; an entry is never cut."""
    kept, left = [], budget
    for entry in entries:
        if entry.tokens <= left:
            kept.append(entry)
            left -= entry.tokens
    return kept


def render(entries: list[RoleEntry], roles: tuple[str, ...], left_out: int, budget: int) -> str:
    """The entries as text for an agent, role by role."""
    parts: list[str] = []
    for role in roles:
        parts.append(f"# {TITLES.get(role, f'{role} Memory')}")
        for entry in (entry for entry in entries if entry.role == role):
            parts.append(entry.text.strip("\n"))
            if entry.written_by:
                parts.append(f"(written by {', '.join(entry.written_by)})")
    if left_out:
        noun = "entry was" if left_out == 1 else "entries were"
        parts.append(f"({left_out} {noun} left out to stay within {budget} tokens.)")
    return "\n\n".join(parts) + ("\n" if parts else "")


# --- editing one memory -------------------------------------------------------------------------------------


BOM = b"\xef\xbb\xbf"
LABELS = re.compile(rf"(?:[ \t]*(?:<!--\s*memd:(?:(?!-->).)*-->|{names.STAMP.pattern})[ \t\r]*(?:\n|\Z))*", re.DOTALL)
"""The lines between a heading and its text: the metadata comment and the timestamp."""
TAG_NAME = re.compile(r"[^\W\d_][\w/-]*")
TAGS_AT_END = re.compile(r"(?:(?<=\s)|\A)(?:#[^\W\d_][\w/-]*[ \t\r]*)+\Z")
"""Tags at the end of a line, or a line of tags only."""

TextEdit = Callable[[str | None], str | None]
"""From a file's text (None: no file) to its new text (None: remove the file)."""


def in_bytes(change: TextEdit) -> Callable[[bytes | None], bytes | None]:
    """The same edit of a file's bytes; a byte order mark and bytes that are not UTF-8 survive it."""

    def edit(data: bytes | None) -> bytes | None:
        mark = BOM if data is not None and data.startswith(BOM) else b""
        text = change(None if data is None else data[len(mark) :].decode("utf-8", "surrogateescape"))
        return None if text is None else mark + text.encode("utf-8", "surrogateescape")

    return edit


def memory_in(path: str, text: str, slug: str) -> Memory | None:
    """The memory with this slug in a file's text."""
    return next((memory for memory in parse(path, text).memories if memory.slug == slug), None)


# --- text ---------------------------------------------------------------------------------------------------


def put(path: str, slug: str, text: str | None, new: str | None, fields: metadata.Fields) -> str:
    """The file with a memory's text (None: unchanged) and some of its metadata set."""
    known = None if text is None else memory_in(path, text, slug)
    if slug and known is None:
        raise KeyError(slug)
    if text is None or (new is not None and known is None):
        return _first(text or "", new or "", fields)
    if new is not None and known is not None:
        body = new if names.is_topic(path) else _under_heading(known, new)
        # What stands behind a memory is none of its text: blanks at its end would pile up there.
        text = with_section(path, text, slug, with_line_ends(body.strip("\r\n").rstrip(), text))
    return with_metadata(path, slug, text, fields) if fields else text


def _first(text: str, new: str, fields: metadata.Fields) -> str:
    """A topic file that is new, or that has only front matter so far."""
    body = new.replace("\r\n", "\n").strip("\n").rstrip() + "\n"
    if not text.strip():
        return metadata.with_front_matter(body, fields)
    kept = metadata.with_front_matter(text, fields) if fields else text
    return kept.rstrip("\r\n") + with_line_ends(f"\n\n{body}", text)


def _under_heading(memory: Memory, new: str) -> str:
    """A section's new text under its old heading, unless it has a heading of its own."""
    first = heading.group().strip() if (heading := metadata.HEADING.match(new)) else ""
    below_title = first.startswith("##") or ("\n" in first and first.endswith("-"))
    if first and below_title == bool(memory.slug):
        return nested(new, keep=1)
    head = head_of(memory.text).rstrip("\r\n")
    return f"{head}\n\n{nested(new)}" if head else nested(new)


def head_of(section: str) -> str:
    """A section's heading, with its comment and timestamp."""
    heading = metadata.HEADING.match(section)
    end = heading.end() if heading else 0
    labels = LABELS.match(section, end)
    return section[: labels.end() if labels else end]


def section_span(path: str, text: str, slug: str) -> tuple[int, int]:
    """The span of the memory with this slug; KeyError if the file has none."""
    memory = memory_in(path, text, slug)
    if memory is None:
        raise KeyError(slug)
    start = LineOffsets(text).offset(memory.start_line - 1)
    return start, start + len(memory.text)


def with_section(path: str, text: str, slug: str, new: str) -> str:
    """The file with one memory's text replaced."""
    start, end = section_span(path, text, slug)
    return text[:start] + new.strip("\r\n") + text[end:]


def with_new_section(text: str, new: str) -> str:
    """The file with a section at its end, after a blank line."""
    line_end = with_line_ends("\n", text)
    kept = text if not text or text.endswith("\n") else text + line_end
    gap = "" if not kept or kept.endswith(line_end * 2) else line_end
    return f"{kept}{gap}{new}{line_end}"


def with_preamble(path: str, text: str, new: str) -> str:
    """The file with a text before its first section; a lone title there is replaced by the text's own."""
    memories = parse(path, text).memories
    if any(not memory.slug for memory in memories):
        raise Conflict(f"{path} begins with another text now", "look at it: memd get; the old text: memd diff")
    rest = text[section_span(path, text, memories[0].slug)[0] :] if memories else ""
    line_end = with_line_ends("\n", text)
    return before_preamble(text) + new + line_end + (line_end + rest if rest else "")


def before_preamble(text: str) -> str:
    """A file's front matter with the blank lines behind it."""
    end = metadata.front_matter_end(text)
    return text[: len(text) - len(text[end:].lstrip("\r\n"))] if end else ""


def before_sections(path: str, text: str) -> str:
    """Everything before a file's first `##` section that is no memory: front matter, a title."""
    memories = parse(path, text).memories
    if not memories or not memories[0].slug:
        return before_preamble(text)
    return text[: section_span(path, text, memories[0].slug)[0]]


def without_section(path: str, slug: str, text: str) -> str | None:
    """The file without one memory and the blank lines behind it; None if nothing is left."""
    if names.is_topic(path) and not slug:
        return None
    start, end = section_span(path, text, slug)
    before, after = text[:start], re.sub(r"\A(?:[ \t]*\r?\n)+", "", text[end:])
    if after.strip():
        return before + after
    left = re.sub(r"(?:\r?\n[ \t]*)+\Z", "", before)
    return left + with_line_ends("\n", text) if left.strip() else None


# --- metadata -----------------------------------------------------------------------------------------------


def metadata_of(path: str, slug: str, text: str | None) -> Declared:
    """The metadata of one memory, from where `with_metadata` would write it."""
    if text is None:
        return Declared()
    memory = None if names.is_topic(path) else memory_in(path, text, slug)
    comment = metadata.read_comment(memory.text) if memory else Declared()
    return metadata.merge(_of_only_memory(path, text) or Declared(), comment, ())


def with_metadata(path: str, slug: str, text: str, fields: metadata.Fields) -> str:
    """The file with some metadata of one memory changed: in a topic's front matter, or in the comment of another.

    Sections that come later have what the front matter says, too: a memory that is no topic has its own in its comment,
    but for what the front matter of its file has already.
    """
    of_file, topic = _of_only_memory(path, text), names.is_topic(path)
    in_front = {name: value for name, value in fields.items()
                if of_file is not None and (topic or not metadata.is_empty(getattr(of_file, name)))}  # fmt: skip
    in_comment = {name: value for name, value in fields.items() if name not in in_front}
    text = metadata.with_front_matter(text, in_front) if in_front else text
    if not in_comment:
        return text
    start, end = section_span(path, text, slug)
    return text[:start] + metadata.with_comment(text[start:end], in_comment).strip("\r\n") + text[end:]


def _of_only_memory(path: str, text: str) -> Declared | None:
    """What the front matter says of the only memory of a file; None where there are others, or no front matter."""
    alone = names.is_topic(path) or (metadata.front_matter_end(text) and len(parse(path, text).memories) == 1)
    return metadata.read_front_matter(text)[0] if alone else None


# --- tags ---------------------------------------------------------------------------------------------------


def tag_name(tag: str) -> str:
    """A tag without its `#`, checked."""
    name = tag.strip().lstrip("#")
    if not TAG_NAME.fullmatch(name) or name.endswith(("/", "-")):
        raise UsageError(f"{tag!r} cannot be a tag", "a letter, then letters, digits, dashes and slashes")
    return name


def same_tag(one: str, other: str) -> bool:
    """Whether two spellings are one tag."""
    return one.lstrip("#").casefold() == other.lstrip("#").casefold()


def with_tag_renamed(path: str, text: str, old: str, new: str | None) -> str:
    """The file with one tag renamed (None: removed) in prose, comments and front matter, never in code."""
    text = _rename_in_prose(text, old, new)
    for memory in parse(path, text).memories:
        tags = metadata.read_comment(memory.text).tags
        if any(same_tag(tag, old) for tag in tags):
            section = metadata.with_comment(memory.text, {"tags": _rename(tags, old, new)})
            text = with_section(path, text, memory.slug, section)
    tags = metadata.read_front_matter(text)[0].tags
    if any(same_tag(tag, old) for tag in tags):
        renamed = _rename(tags, old, new)
        changed = metadata.with_tag_in_place(text, old, new, renamed) if new else text
        text = changed if changed != text else metadata.with_front_matter(text, {"tags": renamed})
    return text


def _rename(tags: Iterable[str], old: str, new: str | None) -> list[str]:
    renamed = (new if same_tag(tag, old) else tag for tag in tags)
    return list({tag.casefold(): tag for tag in renamed if tag}.values())


def _rename_in_prose(text: str, old: str, new: str | None) -> str:
    blocks = (block for block in blocks_of(text, metadata.front_matter_end(text)) if block.prose and not block.level)
    found = ((block.start, span) for block in blocks for span in metadata.tag_spans(text[block.start : block.end]))
    spans = [(at + start, at + end) for at, (start, end) in found]
    for start, end in reversed(spans):
        if same_tag(text[start:end], old):
            text = f"{text[:start]}{new}{text[end:]}" if new else _without_tag(text, start, end)
    return text


def _without_tag(text: str, start: int, end: int) -> str:
    """The text without a #tag: at the end of a line the whole tag goes, within a sentence only the `#`."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    tags = TAGS_AT_END.search(text[first : last if last >= 0 else len(text)])
    if tags is None or first + tags.start() > start - 1:
        return text[: start - 1] + text[start:]
    before = text[first : start - 1].rstrip(" \t")
    after = text[end:] if before else text[end:].lstrip(" \t")
    return text[:first] + before + after
