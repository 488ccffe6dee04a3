"""memd's pieces in an agent's JSON file: found, added and removed, with every other byte left alone."""

import json
import re
from typing import Any

from memd.cli.connecting import jsonish
from memd.cli.connecting.jsonish import Entry, Node, Unreadable
from memd.cli.connecting.pieces import HOOK, NAME, Draft, Member, Piece, Pieces, entry_state, without

INDENT = "  "
BLANK = "\ufeff \t\r\n"


def read(text: str) -> Node:
    """The object of a text, empty for an empty one; Unreadable when it is not an object of JSON."""
    if not text.strip(BLANK):
        return Node(0, 0, "{", plain={})
    root = jsonish.read(text)
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
        if isinstance(piece, Member):
            text = _without_member(text, (*piece.pointer, NAME))
        else:
            text = _without_hooks(text, piece.pointer)
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
    return not read(text).entries and jsonish.after_comments(text, 0, len(text)) == 0


# --- finding --------------------------------------------------------------------------------------------------


def _state(root: Node, piece: Piece) -> str:
    if isinstance(piece, Member):
        node = root.at((*piece.pointer, NAME))
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
    keys = (*piece.pointer, NAME) if isinstance(piece, Member) else piece.pointer
    to_list = depth == len(keys)
    if node.opens != ("[" if to_list else "{"):
        raise Unreadable(f"{'.'.join(piece.pointer[:depth])} is not {'a list' if to_list else 'an object'}")
    value: Any = piece.value if isinstance(piece, Member) or to_list else [piece.value]
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
