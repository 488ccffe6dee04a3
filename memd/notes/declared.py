"""Reads what the Markdown declares: front matter, the comment under a heading, #tags."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from memd.models import KINDS, TIERS, Declared

MAX_FRONT_MATTER = 16 * 1024
MAX_DEPTH = 20
COMMENT = re.compile(r"<!--\s*memd:(.*?)-->", re.DOTALL)
TAG = re.compile(r"(?<![\w/#&])#([^\W\d_][\w/-]*)")
CODE = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n[ \t\r]*\n).)*?(?<!`)\1(?!`)", re.DOTALL)
"""Code in running text: between as many backticks as it began with."""


def front_matter_span(text: str) -> int:
    """Where the front matter ends (0 when there is none)."""
    if not text.startswith("---"):
        return 0
    opening = text.find("\n")
    if opening < 0 or text[:opening].rstrip() != "---":
        return 0
    closing = re.compile(r"^(?:---|\.\.\.)[ \t\r]*(?:\n|\Z)", re.MULTILINE).search(text, opening + 1)
    return closing.end() if closing else 0


def front_matter(text: str) -> tuple[Declared, str]:
    """What a file's front matter declares, and a warning when it cannot be read."""
    body = text.strip().removeprefix("---").removesuffix("---").removesuffix("...")
    if len(body) > MAX_FRONT_MATTER:
        return Declared(), f"front matter over {MAX_FRONT_MATTER // 1024} KB is not read"
    if max(body.count("["), body.count("{")) > MAX_DEPTH * 5 or _deepest_indent(body) > MAX_DEPTH * 2:
        return Declared(), "front matter is nested too deep"
    # Imported at the first front matter: most notes have none.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True
    try:
        loaded = yaml.load(body)
    except (YAMLError, ValueError, RecursionError) as error:
        return Declared(), f"front matter is not YAML ({str(error).splitlines()[0]})"
    return (_from_mapping(loaded), "") if isinstance(loaded, dict) else (Declared(), "")


def in_yaml(facts: Mapping[str, Any], flow: bool = False) -> str:
    """Facts as lines of front matter; `flow` writes a list on one line."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 10_000
    yaml.default_flow_style = None if flow else False
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()
            if not is_nothing(value)}  # fmt: skip
    out = io.StringIO()
    yaml.dump(kept, out)
    return out.getvalue() if kept else ""


def is_nothing(value: Any) -> bool:
    """Whether a fact says nothing and need not stand anywhere; the number 0 says something."""
    return value is None or value is False or (isinstance(value, str | list | tuple) and not value)


def _deepest_indent(body: str) -> int:
    return max((len(line) - len(line.lstrip(" ")) for line in body.splitlines()), default=0)


def _from_mapping(values: dict[Any, Any]) -> Declared:
    return Declared(
        title=_text(values.get("title")),
        summary=_text(values.get("summary")),
        tags=_tags(values.get("tags")),
        aliases=_texts(values.get("aliases")),
        kind=_kind(values.get("kind")),
        pinned=values.get("pinned") is True,
        priority=_text(values.get("priority")),
        importance=_share(values.get("importance")),
        ttl=_text(values.get("ttl")),
        last_updated=_text(values.get("last_updated")),
        links=_texts(values.get("links")),
        tier=_tier(values.get("tier")),
        files=_texts(values.get("files")),
    )


def comment(text: str) -> Declared:
    """What `<!-- memd: pinned tags=a,b importance=0.8 -->` declares for its section."""
    found = COMMENT.search(text)
    if not found:
        return Declared()
    values: dict[str, Any] = dict(said(found.group(1)))
    if isinstance(values.get("pinned"), str):
        values["pinned"] = values["pinned"].lower() in ("true", "yes", "1")
    return _from_mapping(values)


def said(words: str) -> dict[str, str | bool]:
    """The words of a comment: names with what they are set to, or alone."""
    values: dict[str, str | bool] = {}
    for word in _words(words):
        name, equals, value = word.partition("=")
        values[name] = value if equals else True
    return values


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def hashtags(prose: Iterable[str]) -> tuple[str, ...]:
    """The #tags in running text, each once, in order."""
    return tuple(dict.fromkeys(text[start:end] for text in prose for start, end in tag_spans(text)))


def tag_spans(text: str) -> list[tuple[int, int]]:
    """Where the names of #tags stand in running text; what is code is none."""
    code = [found.span() for found in CODE.finditer(text)] if "`" in text and "#" in text else []
    return [
        (found.start(1), found.start(1) + len(found.group(1).rstrip("/-")))
        for found in TAG.finditer(text)
        if not any(start < found.start() < end for start, end in code)
    ]


def merge(file: Declared, section: Declared, tags: tuple[str, ...]) -> Declared:
    """A section's facts over its file's; tags add up."""
    together = tuple(dict.fromkeys((*file.tags, *section.tags, *tags)))
    return replace(
        section,
        title=section.title or file.title,
        summary=section.summary or file.summary,
        tags=together,
        aliases=section.aliases or file.aliases,
        kind=section.kind or file.kind,
        pinned=section.pinned or file.pinned,
        priority=section.priority or file.priority,
        importance=file.importance if section.importance is None else section.importance,
        ttl=section.ttl or file.ttl,
        last_updated=section.last_updated or file.last_updated,
        links=section.links or file.links,
        tier=section.tier or file.tier,
        files=tuple(dict.fromkeys((*file.files, *section.files))),
    )


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list | bool) else str(value).strip()


def _texts(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    return tuple(text for entry in values if (text := _text(entry)))


def _tags(value: Any) -> tuple[str, ...]:
    return tuple(tag.lstrip("#") for tag in _texts(value) if tag.lstrip("#"))


def _kind(value: Any) -> str:
    return value if isinstance(value, str) and value in KINDS else ""


def _tier(value: Any) -> str:
    return value if isinstance(value, str) and value in TIERS else ""


def _share(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number <= 1 and not isinstance(value, bool) else None
