"""memd's pieces in an agent's JSON file: looked for, put in and taken out, with every other byte left alone."""

from __future__ import annotations

import json
import re
from typing import Any

from memd.cli.connecting import jsonish
from memd.cli.connecting.jsonish import Entry, Node, Unreadable
from memd.cli.connecting.pieces import Draft, Item, Member, Piece, Pieces, starts_memd, without

INDENT = "  "


def check(text: str) -> None:
    """Unreadable, when the text is not an object of JSON."""
    _root(text)


def state(text: str, pieces: Pieces) -> str:
    """`connected`, `differs` or `none`."""
    root = _root(text)
    found = [_state(root, piece) for piece in pieces]
    return found[0] if len(set(found)) == 1 else "differs"


def taken(text: str, pieces: Pieces) -> bool:
    """Whether something else has the name of memd's member; its hooks have none."""
    root = _root(text)
    nodes = [root.at((*piece.pointer, piece.key)) for piece in pieces if isinstance(piece, Member)]
    return any(node is not None and not starts_memd(node.plain) for node in nodes)


def add(text: str, pieces: Pieces) -> Draft:
    """The text with the pieces in it; they must not be there yet."""
    draft = Draft(text)
    if not text.strip("\ufeff \t\r\n"):
        draft.insert(len(text), "{}\n")
    for piece in pieces:
        _add(draft, piece)
    return draft


def remove(text: str, pieces: Pieces, made: list[list[str]]) -> str:
    """The text without the pieces, and without the containers in `made` that are empty now."""
    for piece in pieces:
        if isinstance(piece, Member):
            text = _without_member(text, (*piece.pointer, piece.key))
        else:
            text = _without_items(text, piece)
    for pointer in sorted(made, key=len, reverse=True):
        node = _root(text).at(tuple(pointer))
        if node is not None and node.opens and not node.entries:
            text = _without_member(text, tuple(pointer))
    return text


def containers(text: str, pieces: Pieces) -> list[list[str]]:
    """The containers that the pieces need and the text has not."""
    root = _root(text)
    needed = {piece.pointer[:depth] for piece in pieces for depth in range(1, len(piece.pointer) + 1)}
    return [list(pointer) for pointer in sorted(needed) if root.at(pointer) is None]


def is_empty(text: str) -> bool:
    return not _root(text).entries and jsonish.after_comments(text, 0, len(text)) == 0


def snippet(pieces: Pieces) -> str:
    """What a person would paste into a file that has nothing of it."""
    return add("", pieces).text


def _root(text: str) -> Node:
    if not text.strip("\ufeff \t\r\n"):
        return Node(0, 0, "{", plain={})
    root = jsonish.read(text)
    if root.opens != "{":
        raise Unreadable("line 1: not an object")
    return root


# --- looking --------------------------------------------------------------------------------------------------


def _state(root: Node, piece: Piece) -> str:
    node = root.at(piece.pointer)
    if isinstance(piece, Member):
        entry = node.member(piece.key) if node is not None else None
        if entry is None:
            return "none"
        return "connected" if entry.value.plain == piece.value else "differs"
    found = [entry.value.plain for entry in _ours(node, piece)]
    if not found:
        return "none"
    return "connected" if found == [piece.value] else "differs"


def _ours(node: Node | None, piece: Item) -> list[Entry]:
    """The items of a list of hooks in which one of memd's commands stands."""
    entries = node.entries if node is not None and node.opens == "[" else []
    return [entry for entry in entries if any(_is_ours(hook, piece) for hook in _hooks(entry))]


def _hooks(group: Entry) -> list[Entry]:
    inner = group.value.member("hooks")
    return inner.value.entries if inner is not None and inner.value.opens == "[" else []


def _is_ours(hook: Entry, piece: Item) -> bool:
    command = hook.value.plain.get("command") if isinstance(hook.value.plain, dict) else None
    return isinstance(command, str) and bool(piece.ours.search(command))


# --- putting in -----------------------------------------------------------------------------------------------


def _add(draft: Draft, piece: Piece) -> None:
    """Into the deepest container there is; what is missing on the way is made along with it."""
    root = _root(draft.text)
    depth = len(piece.pointer)
    while (node := root.at(piece.pointer[:depth])) is None:
        depth -= 1
    keys = piece.pointer[depth:]
    value: Any = {piece.key: piece.value} if isinstance(piece, Member) else [piece.value]
    for key in reversed(keys):
        value = {key: value}
    wanted = "[" if isinstance(piece, Item) and not keys else "{"
    if node.opens != wanted:
        raise Unreadable(f"{'.'.join(piece.pointer[:depth])} is not {'a list' if wanted == '[' else 'an object'}")
    if wanted == "[":
        _insert(draft, node, "", piece.value)
    else:
        ((key, inner),) = value.items()
        _insert(draft, node, key, inner)


def _insert(draft: Draft, node: Node, key: str, value: Any) -> None:
    """As the last entry of a container, written as its neighbours are."""
    text = draft.text
    newline = "\r\n" if "\r\n" in text else "\n"
    last = node.entries[-1] if node.entries else None
    in_lines = last is None or "\n" in text[node.start : node.end]
    base = _indent_of_line(text, node.start)
    indent = _indent_of(text, node) or base + _unit(text)
    spelled = json.dumps(value, ensure_ascii=False, indent=_unit(text) if in_lines else None)
    member = (f"{json.dumps(key)}: " if key else "") + spelled.replace("\n", f"{newline}{indent}")
    at = jsonish.after_comments(text, _end_of(last) if last else node.start + 1, node.end - 1)
    tail = "," if last is not None and last.comma is not None else ""
    if last is None and "\n" not in text[at : node.end - 1]:
        tail = f"{newline}{base}"
    draft.insert(at, (f"{newline}{indent}" if in_lines else " ") + member + tail)
    if last is not None and last.comma is None:
        draft.insert(last.value.end, ",")


def _end_of(entry: Entry) -> int:
    return entry.value.end if entry.comma is None else entry.comma + 1


def _unit(text: str) -> str:
    """By how much the file indents."""
    found = re.search(r"\{[ \t]*\r?\n([ \t]+)\S", text)
    return found[1] if found else INDENT


def _indent_of(text: str, node: Node) -> str:
    """How the entries of a container are indented, where they stand on lines of their own."""
    first = node.entries[0].start if node.entries else 0
    found = re.search(r"\n([ \t]*)\Z", text[:first])
    return found[1] if found else ""


def _indent_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# --- taking out -----------------------------------------------------------------------------------------------


def _without_member(text: str, pointer: tuple[str, ...]) -> str:
    node = _root(text).at(pointer[:-1])
    entry = node.member(pointer[-1]) if node is not None else None
    return text if node is None or entry is None else _cut(text, node, entry)


def _without_items(text: str, piece: Item) -> str:
    """Only memd's own commands go; a group that has others too stays with these."""
    while (node := _root(text).at(piece.pointer)) is not None and (ours := _ours(node, piece)):
        group = ours[-1]
        hooks = _hooks(group)
        if all(_is_ours(hook, piece) for hook in hooks):
            text = _cut(text, node, group)
        else:
            inner = group.value.member("hooks")
            hook = next(one for one in hooks if _is_ours(one, piece))
            text = _cut(text, inner.value, hook) if inner is not None else text
    return text


def _cut(text: str, node: Node, entry: Entry) -> str:
    """A container without one of its entries: with the space before it and one comma."""
    nth = node.entries.index(entry)
    begin = len(text[: entry.start].rstrip(" \t\r\n"))
    spans = [(begin, _end_of(entry))]
    before = node.entries[nth - 1] if nth else None
    if entry.comma is None and before is not None and before.comma is not None:
        spans.append((before.comma, before.comma + 1))
    if len(node.entries) == 1 and not text[spans[0][1] : node.end - 1].strip():
        spans[0] = (begin, node.end - 1)
    return without(text, spans)
