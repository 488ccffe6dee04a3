"""Builds and edits the text of notes: entries, topic files, sections. Pure: all around an edit stays byte for byte."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from memd.errors import UsageError
from memd.notes.declared import front_matter_span
from memd.notes.parse import parse

NAME = re.compile(r"[^\x00-\x1f/\\]+")


def daily_head(day: str) -> str:
    return f"# {day}\n"


def daily_entry(text: str, time: str, title: str = "", tags: tuple[str, ...] = ()) -> str:
    """A `## HH:MM Title` section."""
    comment = f"<!-- memd: tags={','.join(tags)} -->\n" if tags else ""
    heading = f"## {time} {title}".rstrip()
    return f"\n{heading}\n{comment}\n{_body(text)}\n"


def role_entry(section: str, text: str, stamp: str) -> str:
    """An entry of a shared bus: title, time, text."""
    return f"\n## {_one_line(section)}\n_{stamp}_\n\n{_body(text)}\n"


def _body(text: str) -> str:
    """A text that cannot open a section of its own: a `##` in it would end the memory it belongs to."""
    return re.sub(r"(?m)^(#{1,2})(?=\s)", r"#\1", text.strip("\n"))


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
    return f"---\n{_yaml(facts)}---\n\n{body.strip(chr(10))}\n"


def topic_body(text: str) -> str:
    """The text of a topic file below its front matter."""
    return text[front_matter_span(text) :].strip("\n")


def with_facts(text: str, facts: Mapping[str, Any]) -> str:
    """The same file with some facts of its front matter changed (None: removed); comments and order stay."""
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    end = front_matter_span(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    head = text[:end].strip().removeprefix("---").removesuffix("---") if end else ""
    loaded = yaml.load(head) if head.strip() else CommentedMap()
    loaded = loaded if isinstance(loaded, CommentedMap) else CommentedMap()
    for name, value in facts.items():
        if value is None:
            loaded.pop(name, None)
        else:
            loaded[name] = list(value) if isinstance(value, tuple) else value
    out = io.StringIO()
    yaml.dump(loaded, out)
    return f"---\n{out.getvalue()}---\n" + (text[end:] if end else f"\n{text}")


def _yaml(facts: Mapping[str, Any]) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 10_000
    yaml.default_flow_style = False
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()
            if value not in (None, "", (), [], False)}  # fmt: skip
    out = io.StringIO()
    yaml.dump(kept, out)
    return out.getvalue() if kept else ""


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
    return text[: span[0]] + new.strip("\n") + text[span[1] :]


def without_section(path: str, text: str, slug: str) -> str:
    """The file without one memory, and without the blank lines that stood before it."""
    span = section_span(path, text, slug)
    if span is None:
        raise KeyError(slug)
    before, after = text[: span[0]].rstrip("\n"), text[span[1] :].lstrip("\n")
    return (f"{before}\n\n{after}" if after else f"{before}\n") if before else after
