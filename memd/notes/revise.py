"""Edits one memory in the bytes of its file: its text, what it declares, or all of it away. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from memd.errors import UsageError
from memd.models import Declared, Memory
from memd.notes import compose, declared
from memd.notes.names import is_topic
from memd.notes.parse import parse

MARK = b"\xef\xbb\xbf"
HEADING = re.compile(r" {0,3}(?:#{1,2}(?=\s|\Z)[^\n]*|[^\n]+\n {0,3}(?:=+|-+)[ \t\r]*)(?:\n|\Z)")
LABELS = re.compile(
    r"(?:[ \t]*(?:<!--\s*memd:(?:(?!-->).)*-->|_\d{4}-\d{2}-\d{2}(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?_)"
    r"[ \t\r]*(?:\n|\Z))*",
    re.DOTALL,
)
"""What stands between a heading and its text: the comment of facts, and the line that says when it was written."""
BARE = re.compile(r"[^\s\"'\\]+")

TextEdit = Callable[[str | None], str | None]
"""From what the file says (None: there is none) to what it shall say (None: no file)."""


def in_bytes(change: TextEdit) -> Callable[[bytes | None], bytes | None]:
    """The same edit of a file's bytes: a byte order mark and bytes that are no UTF-8 stay as they are."""

    def edit(found: bytes | None) -> bytes | None:
        mark = MARK if found is not None and found.startswith(MARK) else b""
        made = change(None if found is None else found[len(mark) :].decode("utf-8", "surrogateescape"))
        return None if made is None else mark + made.encode("utf-8", "surrogateescape")

    return edit


def memory_in(path: str, text: str, slug: str) -> Memory | None:
    """The memory with this slug, as the file has it."""
    return next((memory for memory in parse(path, text).memories if memory.slug == slug), None)


# --- text ---------------------------------------------------------------------------------------------------


def put(path: str, slug: str, text: str | None, new: str | None, facts: Mapping[str, Any]) -> str:
    """The file with a memory put into it: its text (None: as it is) and some facts (None: removed)."""
    known = None if text is None else memory_in(path, text, slug)
    if slug and known is None:
        raise KeyError(slug)
    if text is None or (new is not None and known is None):
        return _first(text or "", new or "", facts)
    if new is not None:
        fitting = new if is_topic(path) else _section(path, text, slug, new)
        text = compose.with_section(path, text, slug, compose.like(fitting.strip("\r\n"), text))
    return declare(path, slug, text, facts) if facts else text


def _first(text: str, new: str, facts: Mapping[str, Any]) -> str:
    """A topic file that is new, or that has nothing below its front matter."""
    body = new.replace("\r\n", "\n").strip("\n") + "\n"
    if not text.strip():
        return compose.with_facts(body, facts)
    kept = compose.with_facts(text, facts) if facts else text
    return kept.rstrip("\r\n") + compose.like(f"\n\n{body}", text)


def _section(path: str, text: str, slug: str, new: str) -> str:
    """A section's new text under its old heading, unless it brings one of its own."""
    opens = HEADING.match(new)
    if opens and (new.lstrip().startswith("## ") if slug else opens.group().lstrip().startswith("# ")):
        return compose.nested(new, keep=1)
    memory = memory_in(path, text, slug)
    assert memory is not None
    head = head_of(memory.text).rstrip("\r\n")
    return f"{head}\n\n{compose.nested(new)}" if head else compose.nested(new)


def head_of(section: str) -> str:
    """A section's heading with the lines that belong to it."""
    found = HEADING.match(section)
    end = found.end() if found else 0
    labels = LABELS.match(section, end)
    return section[: labels.end() if labels else end]


# --- facts --------------------------------------------------------------------------------------------------


def declared_here(path: str, slug: str, text: str | None) -> Declared:
    """What is declared where `declare` would change it."""
    if text is None:
        return Declared()
    end = declared.front_matter_span(text)
    if _in_front(path, text):
        return declared.front_matter(text[:end])[0] if end else Declared()
    memory = memory_in(path, text, slug)
    return declared.comment(memory.text) if memory else Declared()


def _in_front(path: str, text: str) -> bool:
    """Whether a file's front matter is that of one memory."""
    return is_topic(path) or bool(declared.front_matter_span(text) and len(parse(path, text).memories) == 1)


def declare(path: str, slug: str, text: str, facts: Mapping[str, Any]) -> str:
    """The file with some facts of one memory changed: in its front matter, or in the comment under its heading."""
    if _in_front(path, text):
        return compose.with_facts(text, facts)
    memory = memory_in(path, text, slug)
    if memory is None:
        raise KeyError(slug)
    return compose.with_section(path, text, slug, with_comment(memory.text, facts))


def with_comment(section: str, facts: Mapping[str, Any]) -> str:
    """A section with some facts of its comment changed; one that declares nothing has none."""
    found = declared.COMMENT.search(section)
    said = declared.said(found.group(1)) if found else {}
    for name, value in facts.items():
        if declared.is_nothing(value):
            said.pop(name, None)
        else:
            said[name] = _written(name, value)
    if found and not said:
        return section[: found.start()] + re.sub(r"\A[ \t\r]*\n", "", section[found.end() :])
    comment = f"<!-- memd: {' '.join(_word(name, value) for name, value in said.items())} -->"
    if found:
        return section[: found.start()] + comment + section[found.end() :]
    if not said:
        return section
    heading = HEADING.match(section)
    at = heading.end() if heading else 0
    ending = compose.like("\n", section)
    before = section[:at] if section[:at].endswith("\n") or not at else section[:at] + ending
    return before + comment + ending + section[at:]


def _written(name: str, value: Any) -> str | bool:
    """A fact as a comment can hold it."""
    if isinstance(value, list | tuple):
        if any("," in entry for entry in value):
            raise UsageError(f"`{name}` of a section cannot hold a comma", "a comma parts one from the next")
        return ",".join(value)
    return value if isinstance(value, bool) else str(value)


def _word(name: str, value: str | bool) -> str:
    if isinstance(value, bool):
        return name
    if "--" in value and ">" in value:
        raise UsageError(f"`{name}` cannot stand in a comment: {value}")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f"{name}={value}" if BARE.fullmatch(value) else f'{name}="{quoted}"'


# --- removal ------------------------------------------------------------------------------------------------


def without(path: str, slug: str, text: str) -> str | None:
    """The file without one memory; None when that was all there was to it."""
    if is_topic(path) and not slug:
        return None
    left = compose.without_section(path, text, slug)
    return left if left.strip() else None
