"""memd's table in an agent's TOML file: looked for, put in and taken out, with every other byte left alone."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from memd.cli.connecting.jsonish import Unreadable
from memd.cli.connecting.pieces import Draft, Member, Pieces, starts_memd

HEADER = re.compile(r"^[ \t]*\[\[?[ \t]*(?P<name>[^\]\n]+?)[ \t]*\]\]?", re.MULTILINE)


def check(text: str) -> None:
    """Unreadable, when the text is not TOML."""
    _read(text)


def state(text: str, pieces: Pieces) -> str:
    """`connected`, `differs` or `none`."""
    piece = _only(pieces)
    found = _at(_read(text), piece.pointer)
    if not isinstance(found, dict) or piece.key not in found:
        return "none"
    return "connected" if found[piece.key] == piece.value else "differs"


def taken(text: str, pieces: Pieces) -> bool:
    """Whether something else has the name of memd's table."""
    piece = _only(pieces)
    return state(text, pieces) == "differs" and not starts_memd(_at(_read(text), (*piece.pointer, piece.key)))


def add(text: str, pieces: Pieces) -> Draft:
    """The text with the table at its end; TOML has it that a table which comes last changes nothing before it."""
    piece = _only(pieces)
    draft = Draft(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    draft.insert(len(text), gap + _table((*piece.pointer, piece.key), piece.value).replace("\n", newline))
    if _at(_read(draft.text), (*piece.pointer, piece.key)) != piece.value:
        raise Unreadable(f"{'.'.join(piece.pointer)} is written in one line")
    return draft


def remove(text: str, pieces: Pieces, made: list[list[str]]) -> str:
    """The text without the table and those inside it."""
    piece = _only(pieces)
    wanted = [*piece.pointer, piece.key]
    before = _read(text)
    heads = list(HEADER.finditer(text))
    for nth in range(len(heads) - 1, -1, -1):
        if _keys(heads[nth]["name"])[: len(wanted)] == wanted:
            end = heads[nth + 1].start() if nth + 1 < len(heads) else len(text)
            text = _joined(text[: heads[nth].start()], text[end:])
    if _read(text) != _lacking(before, wanted):
        raise Unreadable(f"{'.'.join(wanted)} is not a table of its own")
    return text


def _lacking(values: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """The values without one of them, and without the tables that are empty then."""
    if len(keys) == 1:
        return {key: value for key, value in values.items() if key != keys[0]}
    inner = _lacking(values.get(keys[0], {}), keys[1:])
    return {key: inner if key == keys[0] else value for key, value in values.items() if key != keys[0] or inner}


def containers(text: str, pieces: Pieces) -> list[list[str]]:
    """A table brings its parents along and leaves none behind."""
    return []


def is_empty(text: str) -> bool:
    return not text.strip()


def snippet(pieces: Pieces) -> str:
    """What a person would paste."""
    return add("", pieces).text


def _only(pieces: Pieces) -> Member:
    (piece,) = pieces
    if not isinstance(piece, Member):
        raise TypeError("a TOML file has tables only")
    return piece


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(str(error)) from None


def _at(values: Any, pointer: tuple[str, ...]) -> Any:
    for key in pointer:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _table(names: tuple[str, ...], value: dict[str, Any]) -> str:
    """A table and the tables in it; whatever stands in one is text, a list of texts, or a table."""
    plain = {key: one for key, one in value.items() if not isinstance(one, dict)}
    lines = [f"[{'.'.join(names)}]", *(f"{key} = {_spelled(one)}" for key, one in plain.items())]
    inner = [_table((*names, key), one) for key, one in value.items() if isinstance(one, dict)]
    return "\n".join(["\n".join(lines) + "\n", *inner])


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    inner = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in inner) + '"'


def _keys(name: str) -> list[str]:
    """`a."b c".d` as its parts."""
    parts = re.findall(r"\"[^\"]*\"|'[^']*'|[^.\s]+", name)
    return [part.strip("\"'") for part in parts]


def _joined(before: str, after: str) -> str:
    """What stood around a table, with the empty line before it gone."""
    if not after.strip():
        return (
            before.rstrip("\r\n") + ("\r\n" if "\r\n" in before else "\n") if before.strip() else ""
        ) + after.lstrip()
    return before + after
