"""`memd query` by hand: flags, call, answer. What it does not understand it leaves to Typer.

Loads neither Typer nor anything that Typer needs; tests/test_light_imports.py guards that.
"""

from __future__ import annotations

import os

from memd.cli import hits, say
from memd.errors import MemdError
from memd.protocol.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = {
    "-n": "ns",
    "--ns": "ns",
    "-w": "workspace",
    "--workspace": "workspace",
    "-l": "limit",
    "--limit": "limit",
    "-m": "mode",
    "--mode": "mode",
    "--kind": "kind",
    "--tags": "tags",
    "--role": "role",
    "--path": "path",
    "--since": "since",
    "--until": "until",
    "--sync": "sync",
    "--color": "color",
}
SWITCHES = {"--json": "json", "--explain": "explain", "--no-start": "no_start"}
CHOICES = {
    "mode": ("hybrid", "text", "vector", "exact"),
    "sync": ("auto", "none", "full"),
    "color": ("auto", "always", "never"),
}
MAX_LIMIT = 200
ON_THE_WIRE = ("ns", "limit", "mode", "kind", "tags", "role", "path", "since", "until", "sync", "explain")


class Asked:
    """A query as it was typed."""

    def __init__(self, words: list[str], given: dict[str, Any]) -> None:
        self.query = " ".join(words)
        self.given = given
        self.json = bool(given.get("json"))

    def params(self) -> dict[str, Any]:
        """What goes to the daemon: only what was said, and where it was said."""
        params = {name: self.given[name] for name in ON_THE_WIRE if self.given.get(name) is not None}
        params["query"] = self.query
        if not self.json:
            params["marks"] = True
        here = working_directory()
        if here and "ns" not in params:
            params["cwd"] = here
        return params


def working_directory() -> str | None:
    """None where it was removed under the shell, or has a name that is not text: no workspace is there."""
    try:
        here = os.getcwd()  # noqa: PTH109
        here.encode()
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    return here


def parse(args: list[str]) -> Asked | None:
    """The query, or None for Typer to explain what is wrong with it (or to help)."""
    words: list[str] = []
    given: dict[str, Any] = {}
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            words += rest
        elif not arg.startswith("-") or arg == "-":
            words.append(arg)
        elif arg in SWITCHES:
            given[SWITCHES[arg]] = True
        elif not _take_flag(arg, rest, given):
            return None
    return Asked(words, given) if any(word.strip() for word in words) else None


def _take_flag(arg: str, rest: Any, given: dict[str, Any]) -> bool:
    """Keep the value of one flag; False when it is not one of ours or its value makes no sense."""
    flag, equals, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
    name = FLAGS.get(flag)
    if name is None:
        return False
    text = value if equals else next(rest, None)
    if not text or (name in CHOICES and text not in CHOICES[name]):
        return False
    if name == "limit":
        if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= MAX_LIMIT):
            return False
        given[name] = int(text)
    elif name == "tags":
        given[name] = given.get(name, []) + [tag for tag in text.split(",") if tag]
    else:
        given[name] = text
    return True


def run(asked: Asked) -> int:
    """Ask, show, and give the exit code; errors are told here."""
    try:
        return answer(asked)
    except MemdError as error:
        return say.report(error)


def answer(asked: Asked) -> int:
    with Client(autostart=not asked.given.get("no_start"), notice=say.note) as client:
        params = asked.params()
        if "workspace" in asked.given and "ns" not in params:
            params["ns"] = client.must_be_workspace(asked.given["workspace"])
        result = client.call("query", params)
    if asked.json:
        say.json(result)
    else:
        _show(asked, result)
    return exit_code(result)


def exit_code(result: dict[str, Any]) -> int:
    """0 hits, 1 nothing found, 4 nothing found while something is degraded."""
    if result["hits"] and result.get("verdict") != "none":
        return 0
    return 4 if result["degraded"] else 1


def _show(asked: Asked, result: dict[str, Any]) -> None:
    colour = say.wants_colour(asked.given.get("color", "auto"))
    if exit_code(result) == 0:
        say.out(hits.render(result, colour))
    for line in hits.remarks(asked.query, result):
        say.note(line)
