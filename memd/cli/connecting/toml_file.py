"""memd's table in an agent's TOML file: found, added and removed, with every other byte left alone."""

import tomllib
from collections.abc import MutableMapping
from typing import Any

import tomlkit

from memd.cli.connecting.json_file import SERVER_NAME, Draft, Pieces, Unreadable, entry_state
from memd.config.edit import line_end, table_at_end
from memd.prose import value_at

MARK = "\ufeff"
"""A byte order mark, which is no part of TOML."""


def read(text: str) -> dict[str, Any]:
    """The values of a text; Unreadable when it is not TOML."""
    try:
        return tomllib.loads(text.removeprefix(MARK).replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(str(error)) from None


def state(text: str, pieces: Pieces) -> str:
    """`connected`, `differs`, `taken` or `none`."""
    (piece,) = pieces
    entry = value_at(read(text), *piece.pointer, SERVER_NAME)
    return "none" if entry is None else entry_state(entry, piece.value)


def add(text: str, pieces: Pieces) -> Draft:
    """The text with the table at its end: the last table changes the meaning of nothing before it."""
    (piece,) = pieces
    keys, table = (*piece.pointer, SERVER_NAME), piece.value
    for key in reversed(keys):
        table = {key: table}
    draft = Draft(text)
    draft.insert(len(text), table_at_end(text, tomlkit.dumps(table)))
    if value_at(read(draft.text), *keys) != piece.value:
        raise Unreadable(f"{'.'.join(piece.pointer)} is written in one line")
    return draft


def remove(text: str, pieces: Pieces, made: list[list[str]]) -> str:
    """The text without the table, and without the tables around it that are empty then."""
    (piece,) = pieces
    mark = MARK if text.startswith(MARK) else ""
    document, expected = tomlkit.parse(text.removeprefix(mark)), read(text)
    for values in (document, expected):
        _delete(values, (*piece.pointer, SERVER_NAME))
    clean, newline = mark + tomlkit.dumps(document), line_end(text)
    if read(clean) != expected:
        raise Unreadable(f"{'.'.join((*piece.pointer, SERVER_NAME))} is not a table of its own")
    # The empty line before the table, where it was the last.
    alone = clean.endswith(newline * 2) and not text.endswith(newline * 2)
    return clean.removesuffix(newline) if alone else clean


def containers(text: str, pieces: Pieces) -> list[list[str]]:
    """A table brings its parents along and leaves none behind."""
    return []


def is_empty(text: str) -> bool:
    return not text.strip()


def _delete(values: MutableMapping[str, Any], keys: tuple[str, ...]) -> None:
    first, *rest = keys
    if rest:
        _delete(values[first], tuple(rest))
    if not rest or not values[first]:
        del values[first]
