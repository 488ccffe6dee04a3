"""Reads JSON with comments, trailing commas and JSON5's spellings, and records where each value stands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
LITERALS = {"true": True, "false": False, "null": None}
CLOSES = {"{": "}", "[": "]"}
MAX_DEPTH = 200


class Unreadable(Exception):
    """A text that is not JSON, not even with comments."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A member of an object or an item of a list."""

    start: int
    value: Node
    key: str = ""
    comma: int | None = None
    """Where the comma after it stands."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value: where it begins and ends, and what it contains."""

    start: int
    end: int
    opens: str = ""
    """`{` or `[`; empty for a plain value."""
    entries: list[Entry] = field(default_factory=list)
    plain: Any = None

    def member(self, key: str) -> Entry | None:
        # Of two members with the same name, the last counts.
        return next((entry for entry in reversed(self.entries) if self.opens == "{" and entry.key == key), None)

    def at(self, pointer: tuple[str, ...]) -> Node | None:
        """The value at the end of a path of keys."""
        node: Node | None = self
        for key in pointer:
            entry = node.member(key) if node is not None else None
            node = entry.value if entry is not None else None
        return node


def read(text: str) -> Node:
    """The one value of a text."""
    node = _value(text, _skip(text, 0), 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise Unreadable(f"line {_line(text, rest)}: more than one value")
    return node


def after_comments(text: str, at: int, end: int) -> int:
    """The end of the last comment between two places, or the first place when there is none."""
    last = at
    for comment in re.finditer(r"//[^\n\r]*|/\*.*?\*/", text[at:end], re.DOTALL):
        last = at + comment.end()
    return last


def _skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise Unreadable(f"line {_line(text, at)}: nested too deep")
    if text[at : at + 1] in CLOSES:
        return _entries(text, at, depth)
    for pattern, made in ((STRING, _string), (NUMBER, _number), (NAME, _literal)):
        found = pattern.match(text, at)
        if found:
            return Node(at, found.end(), plain=made(text, found))
    raise Unreadable(f"line {_line(text, at)}: a value is missing")


def _entries(text: str, start: int, depth: int) -> Node:
    opens, entries = text[start], list[Entry]()
    at = _skip(text, start + 1)
    while text[at : at + 1] != CLOSES[opens]:
        if entries and entries[-1].comma is None:
            raise Unreadable(f"line {_line(text, at)}: a comma or {CLOSES[opens]} is missing")
        begin = at
        key, at = _key(text, at) if opens == "{" else ("", at)
        value = _value(text, at, depth + 1)
        at = _skip(text, value.end)
        comma = at if text[at : at + 1] == "," else None
        entries.append(Entry(begin, value, key, comma))
        at = at if comma is None else _skip(text, at + 1)
    plain: Any = {one.key: one.value.plain for one in entries} if opens == "{" else [one.value.plain for one in entries]
    return Node(start, at + 1, opens, entries, plain)


def _key(text: str, at: int) -> tuple[str, int]:
    found = STRING.match(text, at) or NAME.match(text, at)
    colon = _skip(text, found.end()) if found else at
    if found is None or text[colon : colon + 1] != ":":
        raise Unreadable(f"line {_line(text, at)}: a key and a colon are missing")
    key = _string(text, found) if found[0][0] in "\"'" else found[0]
    return key, _skip(text, colon + 1)


def _string(text: str, found: re.Match[str]) -> str:
    quoted = found[0]
    if quoted[0] == "'":
        inner = re.sub(r"\\?\"", r'\\"', quoted[1:-1].replace("\\'", "'"))
        quoted = f'"{inner}"'
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:
        raise Unreadable(f"line {_line(text, found.start())}: a text that cannot be read") from None


def _number(text: str, found: re.Match[str]) -> Any:
    spelled = found[0]
    try:
        return int(spelled, 0) if re.fullmatch(r"[+-]?(?:0[xX][\da-fA-F]+|0|[1-9]\d*)", spelled) else float(spelled)
    except ValueError:
        raise Unreadable(f"line {_line(text, found.start())}: {spelled} is no number") from None


def _literal(text: str, found: re.Match[str]) -> Any:
    if found[0] not in LITERALS:
        raise Unreadable(f"line {_line(text, found.start())}: {found[0]} is no value")
    return LITERALS[found[0]]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
