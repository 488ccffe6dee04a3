"""Reads and edits topic files: one topic a file, with what is declared of it in the front matter. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memd.errors import UsageError
from memd.notes import compose
from memd.notes.declared import front_matter, front_matter_span
from memd.notes.parse import parse

LONGEST_SUMMARY = 600


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as its file has it."""

    name: str
    title: str
    tags: tuple[str, ...]
    summary: str
    last_updated: str
    content: str

    def markdown(self) -> str:
        """The topic for a reader: title, tags, when it was last updated, content."""
        content = self.content
        first, _, rest = content.partition("\n")
        if first.strip() == f"# {self.title}":
            content = rest.strip("\r\n")
        told = f"- Tags: {', '.join(self.tags) or 'none'}\n- Last updated: {self.last_updated.replace('T', ' ')}"
        return f"# {self.title}\n\n{told}\n\n{content}\n"


def read_topic(name: str, path: str, text: str, day: str) -> Topic:
    """The topic that a file holds; `day` is when the file was last written."""
    end = front_matter_span(text)
    memories = parse(path, text).memories
    facts = memories[0].declared if memories else front_matter(text[:end])[0]
    content = text[end:].strip("\r\n")
    return Topic(name, facts.title or name, facts.tags, facts.summary, facts.last_updated or day, content)


@dataclass(frozen=True, slots=True)
class Refinement:
    """What shall become different about a topic; None: stays as it is."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    title: str | None = None
    summary: str | None = None
    content: str | None = None

    def __bool__(self) -> bool:
        return bool(self.add or self.remove) or any(
            value is not None for value in (self.title, self.summary, self.content)
        )


def refined(text: str, wish: Refinement, stamp: str) -> str:
    """A topic file with what was wished, and with the time of it."""
    end = front_matter_span(text)
    facts = {"title": wish.title, "summary": wish.summary}
    changed: dict[str, object] = {name: value for name, value in facts.items() if value is not None}
    if wish.add or wish.remove:
        old = front_matter(text[:end])[0].tags if end else ()
        changed["tags"] = clean_tags((*_without(old, wish.remove), *wish.add)) or None
    if wish.content is not None:
        head = text[:end]
        text = head + compose.like(("\n" if head else "") + wish.content.strip("\r\n") + "\n", text)
    return compose.with_facts(text, {**changed, "last_updated": stamp})


def _without(tags: Iterable[str], dropped: Iterable[str]) -> list[str]:
    gone = {tag.casefold() for tag in clean_tags(dropped)}
    return [tag for tag in tags if tag.casefold() not in gone]


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags without their `#`, each once whatever its case."""
    once: dict[str, str] = {}
    for tag in (tag.strip().lstrip("#").strip() for group in tags for tag in group.split(",")):
        if tag:
            once.setdefault(tag.casefold(), tag)
    return tuple(once.values())


def clean_summary(summary: str) -> str:
    """A summary as one line."""
    plain = " ".join(summary.split())
    if len(plain) > LONGEST_SUMMARY:
        raise UsageError(f"a summary is one or two sentences; this one has {len(plain)} characters", "say it in fewer")
    return plain


def new_name(name: str, layout_index: str) -> str:
    """A name that a new topic may have: it must be a file's name, and be found again in the index."""
    plain = compose.topic_name(name)
    if "`" in plain:
        raise UsageError(f"{name!r} cannot be the name of a topic", "leave the backticks out")
    if plain.casefold() == "index" and layout_index.endswith("/index.mdk"):
        raise UsageError("`index` is the file that lists the topics", "choose another name")
    return plain
