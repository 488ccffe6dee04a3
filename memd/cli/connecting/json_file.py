"""memd's pieces in an agent's JSON file: found, added and removed, with every other byte left alone.

JSON here has comments, trailing commas and JSON5's spellings; it is recorded where each value stands. A draft remembers
what was added where, so that it can be taken out again exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

SERVER_NAME = "memd"
"""The name of the server in every file."""
HOOK = re.compile(r"\bmemd\b.*\shook\s+[a-z-]+")
"""Recognises memd's commands among other hooks, also those that an older memd wrote."""
INDENT = "  "
BLANK = "\ufeff \t\r\n"
SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
WORD = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
LITERALS = {"true": True, "false": False, "null": None}
CLOSES = {"{": "}", "[": "]"}
MAX_DEPTH = 200


# --- what is added ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """The entry that memd adds at the end of `pointer`."""

    pointer: tuple[str, ...]
    value: dict[str, Any]
    in_list: bool = False
    """Whether it is an item of the list of hooks there; else it is the member `memd` of the object there."""


Pieces = Sequence[Piece]
Span = tuple[int, int]


def entry_state(entry: Any, wanted: dict[str, Any]) -> str:
    """The state of an entry called `memd`: `connected`, `differs`, or `taken` by something that does not start memd."""
    if entry == wanted:
        return "connected"
    given = entry if isinstance(entry, dict) else {}
    command, args = given.get("command"), given.get("args")
    words = command if isinstance(command, list) else [command, *args] if isinstance(args, list) else []
    ours = "mcp" in words[1:] and (PurePath(str(words[0])).name == SERVER_NAME or SERVER_NAME in words)
    return "differs" if ours else "taken"


class Draft:
    """A text, and the spans in it that were added."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.added: list[Span] = []

    def insert(self, at: int, piece: str) -> None:
        size = len(piece)
        moved = [(first + size, last + size) if first >= at else (first, last) for first, last in self.added]
        inside = [(first, last + size if first < at < last else last) for first, last in moved]
        covered = any(first < at < last for first, last in moved)
        self.added = sorted(inside if covered else [*inside, (at, at + size)])
        self.text = self.text[:at] + piece + self.text[at:]


def without(text: str, spans: Iterable[Span]) -> str:
    """The text with the spans cut out."""
    for first, last in sorted(spans, reverse=True):
        text = text[:first] + text[last:]
    return text


# --- the file -----------------------------------------------------------------------------------------------------


def read(text: str) -> Node:
    """The object of a text, empty for an empty one; Unreadable when it is not an object of JSON."""
    if not text.strip(BLANK):
        return Node(0, 0, "{", plain={})
    root = parse(text)
    if root.opens != "{":
        raise Unreadable("line 1: not an object")
    return root


def state(text: str, pieces: Pieces) -> str:
    """`connected`, `differs`, `taken` or `none`."""
    root = read(text)
    found = {_state(root, piece) for piece in pieces}
    return "taken" if "taken" in found else found.pop() if len(found) == 1 else "differs"


def add(text: str, pieces: Pieces) -> Draft:
    """The text with the pieces in it; they must not be there yet."""
    draft = Draft(text)
    if not text.strip(BLANK):
        draft.insert(len(text), "{}\n")
    for piece in pieces:
        _add(draft, piece)
    return draft


def remove(text: str, pieces: Pieces, made: list[list[str]]) -> str:
    """The text without the pieces, and without the containers in `made` that are empty now."""
    for piece in pieces:
        if piece.in_list:
            text = _without_hooks(text, piece.pointer)
        else:
            text = _without_member(text, (*piece.pointer, SERVER_NAME))
    for pointer in sorted(made, key=len, reverse=True):
        node = read(text).at(tuple(pointer))
        if node is not None and node.opens and not node.entries:
            text = _without_member(text, tuple(pointer))
    return text


def containers(text: str, pieces: Pieces) -> list[list[str]]:
    """The containers that the pieces need and the text does not have."""
    root = read(text)
    needed = {piece.pointer[:depth] for piece in pieces for depth in range(1, len(piece.pointer) + 1)}
    return [list(pointer) for pointer in sorted(needed) if root.at(pointer) is None]


def is_empty(text: str) -> bool:
    return not read(text).entries and after_comments(text, 0, len(text)) == 0


# --- finding --------------------------------------------------------------------------------------------------


def _state(root: Node, piece: Piece) -> str:
    if not piece.in_list:
        node = root.at((*piece.pointer, SERVER_NAME))
        return "none" if node is None else entry_state(node.plain, piece.value)
    found = [group.value.plain for group in _our_groups(root.at(piece.pointer))]
    return "none" if not found else "connected" if found == [piece.value] else "differs"


def _our_groups(node: Node | None) -> list[Entry]:
    """The groups in a list of hooks that have one of memd's commands."""
    groups = node.entries if node is not None and node.opens == "[" else []
    return [group for group in groups if any(map(_is_ours, _hooks(group)))]


def _hooks(group: Entry) -> list[Entry]:
    inner = group.value.at(("hooks",))
    return inner.entries if inner is not None and inner.opens == "[" else []


def _is_ours(hook: Entry) -> bool:
    command = hook.value.plain.get("command") if isinstance(hook.value.plain, dict) else None
    return isinstance(command, str) and bool(HOOK.search(command))


# --- adding -------------------------------------------------------------------------------------------------


def _add(draft: Draft, piece: Piece) -> None:
    """Add a piece to the deepest container that is there, with the containers that are missing around it."""
    root = read(draft.text)
    depth = len(piece.pointer)
    while (node := root.at(piece.pointer[:depth])) is None:
        depth -= 1
    keys = piece.pointer if piece.in_list else (*piece.pointer, SERVER_NAME)
    to_list = depth == len(keys)
    if node.opens != ("[" if to_list else "{"):
        raise Unreadable(f"{'.'.join(piece.pointer[:depth])} is not {'a list' if to_list else 'an object'}")
    value: Any = [piece.value] if piece.in_list and not to_list else piece.value
    for key in reversed(keys[depth + 1 :]):
        value = {key: value}
    _insert(draft, node, "" if to_list else keys[depth], value)


def _insert(draft: Draft, node: Node, key: str, value: Any) -> None:
    """Insert the last entry of a container, written as its neighbours are."""
    text = draft.text
    newline = "\r\n" if "\r\n" in text else "\n"
    last = node.entries[-1] if node.entries else None
    in_lines = last is None or "\n" in text[node.start : node.end]
    base = _indent_of_line(text, node.start)
    indent = _indent_of(text, node) or base + _unit(text)
    spelled = json.dumps(value, ensure_ascii=False, indent=_unit(text) if in_lines else None)
    member = (f"{json.dumps(key)}: " if key else "") + spelled.replace("\n", f"{newline}{indent}")
    at = after_comments(text, _end_of(last) if last else node.start + 1, node.end - 1)
    tail = "," if last is not None and last.comma is not None else ""
    if last is None and "\n" not in text[at : node.end - 1]:
        tail = f"{newline}{base}"
    draft.insert(at, (f"{newline}{indent}" if in_lines else " ") + member + tail)
    if last is not None and last.comma is None:
        draft.insert(last.value.end, ",")


def _end_of(entry: Entry) -> int:
    return entry.value.end if entry.comma is None else entry.comma + 1


def _unit(text: str) -> str:
    """The indentation of one level in this file."""
    found = re.search(r"\{[ \t]*\r?\n([ \t]+)\S", text)
    return found[1] if found else INDENT


def _indent_of(text: str, node: Node) -> str:
    """The indentation of a container's entries; empty if they share a line."""
    first = node.entries[0].start if node.entries else 0
    found = re.search(r"\n([ \t]*)\Z", text[:first])
    return found[1] if found else ""


def _indent_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# --- removing -------------------------------------------------------------------------------------------------


def _without_member(text: str, pointer: tuple[str, ...]) -> str:
    node = read(text).at(pointer[:-1])
    entry = node.member(pointer[-1]) if node is not None else None
    return text if node is None or entry is None else _cut(text, node, entry)


def _without_hooks(text: str, pointer: tuple[str, ...]) -> str:
    """Remove only memd's own commands; a group that has others too keeps these."""
    while (node := read(text).at(pointer)) is not None and (groups := _our_groups(node)):
        group = groups[-1]
        hooks, inner = _hooks(group), group.value.at(("hooks",))
        if inner is None or all(map(_is_ours, hooks)):
            text = _cut(text, node, group)
        else:
            text = _cut(text, inner, next(filter(_is_ours, hooks)))
    return text


def _cut(text: str, node: Node, entry: Entry) -> str:
    """The text without one entry of a container, the space before it and one comma."""
    nth = node.entries.index(entry)
    begin = len(text[: entry.start].rstrip(" \t\r\n"))
    spans = [(begin, _end_of(entry))]
    before = node.entries[nth - 1] if nth else None
    if entry.comma is None and before is not None and before.comma is not None:
        spans.append((before.comma, before.comma + 1))
    if len(node.entries) == 1 and not text[spans[0][1] : node.end - 1].strip():
        spans[0] = (begin, node.end - 1)
    return without(text, spans)


# --- where each value stands --------------------------------------------------------------------------------------


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


def parse(text: str) -> Node:
    """The one value of a text."""
    node = _value(text, _skip(text, 0), 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise Unreadable(f"line {_line(text, rest)}: more than one value")
    return node


def after_comments(text: str, at: int, end: int) -> int:
    """The end of the last comment between two places, or the first place when there is none."""
    comments = re.finditer(r"//[^\n\r]*|/\*.*?\*/", text[at:end], re.DOTALL)
    return at + max((comment.end() for comment in comments), default=0)


def _skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise Unreadable(f"line {_line(text, at)}: nested too deep")
    if text[at : at + 1] in CLOSES:
        return _entries(text, at, depth)
    for pattern, made in ((STRING, _string), (NUMBER, _number), (WORD, _literal)):
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
    found = STRING.match(text, at) or WORD.match(text, at)
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
