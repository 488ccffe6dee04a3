"""A file that is memd's own: a script that an agent loads, written whole and removed whole."""

import json
from pathlib import Path

from memd.cli.connecting.json_file import Draft, Pieces
from memd.cli.connecting.toml_file import containers as containers, is_empty as is_empty

MARK = "// Written by `memd connect`"
COMMANDS = "__COMMANDS__"
"""What stands in the script for the command of each hook."""


def read(text: str) -> None:
    """Whatever it says can be replaced."""


def state(text: str, pieces: Pieces) -> str:
    """`connected`, `differs`, `taken` or `none`."""
    ours = "connected" if text == add("", pieces).text else "differs"
    return "none" if is_empty(text) else ours if text.startswith(MARK) else "taken"


def add(text: str, pieces: Pieces) -> Draft:
    """The script, with the command of each of its hooks."""
    draft, source = Draft(""), Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
    commands = {piece.pointer[-1]: piece.value["hooks"][0]["command"] for piece in pieces}
    draft.insert(0, source.replace(COMMANDS, json.dumps(commands, indent=2)))
    return draft


def remove(text: str, pieces: Pieces, made: list[list[str]]) -> str:
    return ""
