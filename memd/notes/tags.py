"""Gives a tag another name, or takes it away, in a file's front matter, comments and prose; never in code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memd.errors import UsageError
from memd.notes import compose, declared
from memd.notes.blocks import LineOffsets, blocks_of
from memd.notes.parse import parse
from memd.notes.revise import with_comment

NAME = re.compile(r"[^\W\d_][\w/-]*")
RUN = re.compile(r"(?:(?<=\s)|\A)(?:#[^\W\d_][\w/-]*[ \t\r]*)+\Z")
"""Tags at the end of a line, or a line of nothing else."""


def tag_name(given: str) -> str:
    """A name that can stand behind a `#`."""
    name = given.strip().lstrip("#")
    if not NAME.fullmatch(name) or name.endswith(("/", "-")):
        raise UsageError(f"{given!r} cannot be a tag", "a letter, then letters, digits, dashes and slashes")
    return name


def is_tag(one: str, other: str) -> bool:
    """Whether two spellings are one tag."""
    return one.lstrip("#").casefold() == other.lstrip("#").casefold()


def retagged(path: str, text: str, old: str, new: str | None) -> str:
    """The file with one tag renamed, or without it (None)."""
    return _in_front_matter(_in_comments(path, _in_prose(text, old, new), old, new), old, new)


def _among(tags: Iterable[str], old: str, new: str | None) -> list[str]:
    """A list of tags with one renamed, each once."""
    kept = ((new if is_tag(tag, old) else tag) for tag in tags)
    return list({tag.casefold(): tag for tag in kept if tag}.values())


def _in_front_matter(text: str, old: str, new: str | None) -> str:
    end = declared.front_matter_span(text)
    tags = declared.front_matter(text[:end])[0].tags if end else ()
    if not any(is_tag(tag, old) for tag in tags):
        return text
    return compose.with_facts(text, {"tags": _among(tags, old, new)})


def _in_comments(path: str, text: str, old: str, new: str | None) -> str:
    for memory in parse(path, text).memories:
        tags = declared.comment(memory.text).tags
        if any(is_tag(tag, old) for tag in tags):
            section = with_comment(memory.text, {"tags": _among(tags, old, new)})
            text = compose.with_section(path, text, memory.slug, section)
    return text


def _in_prose(text: str, old: str, new: str | None) -> str:
    blocks = blocks_of(text, LineOffsets(text), declared.front_matter_span(text))
    spans = [
        (block.start + start, block.start + end)
        for block in blocks
        if block.prose and not block.level
        for start, end in declared.tag_spans(text[block.start : block.end])
    ]
    for start, end in reversed(spans):
        if is_tag(text[start:end], old):
            text = f"{text[:start]}{new}{text[end:]}" if new else _struck(text, start, end)
    return text


def _struck(text: str, start: int, end: int) -> str:
    """Without a #tag: at the end of a line all of it goes, within a sentence the word stays."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    run = RUN.search(text[first : last if last >= 0 else len(text)])
    if run is None or first + run.start() > start - 1:
        return text[: start - 1] + text[start:]
    before = text[first : start - 1].rstrip(" \t")
    after = text[end:] if before else text[end:].lstrip(" \t")
    return text[:first] + before + after
