"""Builds and edits the text of notes: entries, topic files, sections. Pure: all around an edit stays byte for byte."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memd.errors import Refused, UsageError
from memd.notes.blocks import LineOffsets, blocks_of
from memd.notes.declared import front_matter, front_matter_span, in_yaml, is_nothing
from memd.notes.parse import SECTION_LEVEL, parse

NAME = re.compile(r"[^\x00-\x1f/\\]+")
FENCE = re.compile(r"(?m)^ {0,3}(`{3,}|~{3,})")
HTML_ENDS = ("\n-->", "\n?>", "\n]]>", "\n</pre>", "\n</script>", "\n</style>", "\n</textarea>")
FACT = re.compile(r"([\"']?)(?P<name>[^\s:\"'#-][^:\"'\n]*)\1[ \t]*:(?=\s|\Z)")
REMARK = re.compile(r"[ \t]+#[^\"'\]\n]*$")


def daily_head(day: str) -> str:
    return f"# {day}\n"


def daily_entry(text: str, time: str, title: str = "", tags: tuple[str, ...] = ()) -> str:
    """A `## HH:MM Title` section."""
    comment = f"<!-- memd: tags={','.join(tags)} -->\n" if tags else ""
    heading = f"## {time} {title}".rstrip()
    return f"\n{heading}\n{comment}\n{nested(text)}\n"


def role_entry(section: str, text: str, stamp: str) -> str:
    """An entry of a shared bus: title, time, text."""
    return f"\n## {_one_line(section)}\n_{stamp}_\n\n{nested(text)}\n"


def nested(text: str, keep: int = 0) -> str:
    """A text that cannot open a section of its own: a `##` in it would end the memory it belongs to.

    The first `keep` headings stay as they are. What is left open at its end (a code fence, a comment) is closed, so
    that it does not swallow what follows.
    """
    plain = text.replace("\r\n", "\n").strip("\n")
    headings = [block for block in blocks_of(plain, LineOffsets(plain)) if 0 < block.level <= SECTION_LEVEL]
    for block in reversed(headings[keep:]):
        plain = f"{plain[: block.start]}### {_one_line(block.title)}{plain[block.end :]}"
    return closed(plain)


def closed(text: str) -> str:
    """The text with what it leaves open at its end closed: a code fence, a comment."""
    fences = sorted(set(FENCE.findall(text)), key=len, reverse=True)
    for end in ("", *(f"\n{fence}" for fence in fences), *HTML_ENDS):
        probe = f"{text}{end}\n\n## x\n"
        blocks = blocks_of(probe, LineOffsets(probe))
        if blocks and blocks[-1].level == SECTION_LEVEL:
            return text + end
    raise UsageError("the text leaves something open at its end that would swallow what follows it")


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- topic files --------------------------------------------------------------------------------------------


def topic_name(name: str) -> str:
    """A name that is a file's name and nothing else."""
    plain = name.strip()
    if (
        not plain
        or plain in (".", "..")
        or not NAME.fullmatch(plain)
        or plain.startswith(".")
        or len(plain.encode()) > 200
    ):
        raise UsageError(f"{name!r} cannot be the name of a topic", "letters, digits, spaces and dashes; no slashes")
    return plain


def topic_file(facts: Mapping[str, Any], body: str) -> str:
    """Front matter and text."""
    return f"---\n{in_yaml(facts)}---\n\n{body.strip(chr(10))}\n"


def with_facts(text: str, facts: Mapping[str, Any]) -> str:
    """The same file with some facts of its front matter changed (None: removed); every other line of it stays."""
    end = front_matter_span(text)
    if not end:
        head = in_yaml({name: value for name, value in facts.items() if value is not None})
        return like(f"---\n{head}---\n\n", text) + text if head else text
    first, *lines, last = re.findall(r"[^\n]*\n|[^\n]+", text[:end])
    for name, value in facts.items():
        lines = _with_fact(lines, name, value, like("\n", text))
    head = "".join((first, *lines, last))
    for checked in (text[:end], head):
        if warning := front_matter(checked)[1]:
            raise Refused(f"the {warning}, so it cannot be changed", "mend it in your editor first")
    return head + text[end:]


def _with_fact(lines: list[str], name: str, value: Any, ending: str) -> list[str]:
    """The lines of front matter with one fact set, where it stood or at the end."""
    nothing = is_nothing(value)
    at = next((at for at, line in enumerate(lines) if (found := FACT.match(line)) and found["name"] == name), None)
    if at is None:
        return lines + ([] if nothing else [in_yaml({name: value}).replace("\n", ending)])
    end = at + 1
    for nth in range(at + 1, len(lines)):
        if lines[nth][:1] in (" ", "\t", "-"):
            end = nth + 1
        elif lines[nth].strip() and not lines[nth].startswith("#"):
            break
    if nothing:
        return lines[:at] + lines[end:]
    flow = end == at + 1 and isinstance(value, list | tuple)
    remark = REMARK.search(lines[at].rstrip()) if end == at + 1 else None
    fresh = in_yaml({name: value}, flow).rstrip("\n") + (remark.group() if remark else "") + "\n"
    return [*lines[:at], fresh.replace("\n", ending), *lines[end:]]


def like(new: str, text: str) -> str:
    """New lines with the line ends that a text has already."""
    plain = new.replace("\r\n", "\n")
    first = text.find("\n")
    return plain.replace("\n", "\r\n") if first > 0 and text[first - 1] == "\r" else plain


# --- sections -----------------------------------------------------------------------------------------------


def section_span(path: str, text: str, slug: str) -> tuple[int, int] | None:
    """Where the memory with this slug stands in a file: offsets of its first and behind its last character."""
    note = parse(path, text)
    memory = next((memory for memory in note.memories if memory.slug == slug), None)
    if memory is None:
        return None
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: memory.start_line - 1])
    return start, start + len(memory.text)


def with_section(path: str, text: str, slug: str, new: str) -> str:
    """The file with one memory's text replaced; everything around it stays as it is."""
    span = section_span(path, text, slug)
    if span is None:
        raise KeyError(slug)
    return text[: span[0]] + new.strip("\r\n") + text[span[1] :]


def without_section(path: str, text: str, slug: str) -> str:
    """The file without one memory, and without the blank lines that stood behind it."""
    span = section_span(path, text, slug)
    if span is None:
        raise KeyError(slug)
    before, after = text[: span[0]], re.sub(r"\A(?:[ \t]*\r?\n)+", "", text[span[1] :])
    if after.strip():
        return before + after
    left = re.sub(r"(?:\r?\n[ \t]*)+\Z", "", before)
    return left + like("\n", text) if left.strip() else ""
