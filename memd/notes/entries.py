"""Entries of a note: composing new ones, quoting old ones, and reading those of the role files. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memd.errors import UsageError
from memd.notes import names
from memd.notes.blocks import LineOffsets, blocks_of, headings_of
from memd.notes.metadata import HEADING
from memd.notes.names import COMMENT
from memd.notes.parse import SECTION_LEVEL, parse

TITLE = re.compile(r"\s*^ {0,3}#{1,2}[ \t]+([^\n]+?)(?:[ \t]+#+)?[ \t\r]*(?:\n|\Z)", re.MULTILINE)
FENCE_OR_HEADING = re.compile(r"\n {0,3}(?:(`{3,}|~{3,})|##[ \t]+(.*))")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
FENCES = re.compile(r"(?m)^ {0,3}(`{3,}|~{3,})")
HTML_ENDS = ("\n-->", "\n?>", "\n]]>", "\n</pre>", "\n</script>", "\n</style>", "\n</textarea>")
STAMP = re.compile(r"^_(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2})(?::\d{2})?)?_[ \t\r]*$", re.MULTILINE)
SHARED = "shared"
"""The role whose file belongs to everyone."""
TITLES = {SHARED: "Shared Memory", "daily": "Daily Notes"}
CHARACTERS_PER_TOKEN = 4


# --- composing ----------------------------------------------------------------------------------------------


def daily_head(day: str) -> str:
    return f"# {day}\n"


def new_entry(heading: str, text: str, tags: tuple[str, ...] = (), stamp: str = "") -> str:
    """A `##` section to add to a file, with its tags or its timestamp under the heading."""
    label = f"<!-- memd: tags={','.join(tags)} -->\n" if tags else f"_{stamp}_\n" if stamp else ""
    return f"\n## {one_line(heading)}\n{label}\n{nested(text)}\n"


def one_line(text: str) -> str:
    return " ".join(text.split())


def nested(text: str, keep: int = 0) -> str:
    """A text that cannot open a section of its own: its `#` and `##` headings, after the first `keep`, become `###`.

    A code fence or a comment that is still open at the end is closed, so that it does not swallow what follows.
    """
    plain = text.replace("\r\n", "\n").strip("\n")
    headings = [block for block in headings_of(plain) if block.level <= SECTION_LEVEL]
    for block in reversed(headings[keep:]):
        plain = f"{plain[: block.start]}### {one_line(block.title)}{plain[block.end :]}"
    return closed(plain)


def closed(text: str) -> str:
    """The text with the code fence or comment closed that is still open at its end."""
    fences = sorted(set(FENCES.findall(text)), key=len, reverse=True)
    for end in ("", *(f"\n{fence}" for fence in fences), *HTML_ENDS):
        probe = f"{text}{end}\n\n## x\n"
        blocks = blocks_of(probe, LineOffsets(probe))
        if blocks and blocks[-1].level == SECTION_LEVEL:
            return text + end
    raise UsageError("the text leaves a block open at its end that would swallow what follows it")


def split_title(text: str) -> tuple[str, str]:
    """The `#` or `##` heading that a text begins with, and the rest; no title if it has none."""
    match = TITLE.match(text)
    rest = text[match.end() :].strip("\r\n") if match else ""
    return (match[1].strip(), rest) if match and rest else ("", text)


def unique_key(key: str, text: str) -> str:
    """The key of a section that is added to a text, given the key it would have alone."""
    base, sharp, slug = key.partition("#")
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
    heading = HEADING.match(plain)
    plain = COMMENT.sub("", plain[heading.end() if heading else 0 :], count=1)
    lines: list[str] = []
    fence = ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", re.sub(r"\A(?:[ \t]*\n)+", "", plain).rstrip()):
        edge = FENCE.match(line)
        if fence:
            closes = edge is not None and edge.group(1).startswith(fence) and not line[edge.end() :].strip()
            fence = "" if closes else fence
        elif edge:
            fence = edge.group(1)
        else:
            line = QUOTED_HEADING.sub(rf"\1{'#' * (QUOTE_LEVEL + 1)}", line)
        lines.append(line)
    return "".join(lines) + (f"\n{fence}" if fence else "")


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
        return -(-len(self.text) // CHARACTERS_PER_TOKEN)


def role_entries(path: str, text: str, day: str) -> list[RoleEntry]:
    """The entries of a file; `day` is the date of those that have none."""
    note = parse(path, text, day)
    return [
        RoleEntry(
            note.role, path, memory.start_line, memory.end_line, memory.heading, time_of(memory.text, memory.date),
            memory.text.replace("\r\n", "\n"),
        )
        for memory in note.memories
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
