"""Reads the flags of the commands that must be quick; what it does not understand is for Typer to explain.

Light on purpose: `memd query` and `memd grep` load it. flag_table.json has the flags of each command, which `make docs`
writes from memd/protocol/methods and memd/cli/commands.
"""

from __future__ import annotations

from memd.protocol.wire import read_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Flags:
    """The flags of a command."""

    values: dict[str, str]
    """The name of each flag that has a value, of each switch without one."""
    switches: dict[str, str]
    choices: dict[str, list[str]]
    numbers: dict[str, int]
    """The highest number that each may be; the lowest is 0."""
    lists: list[str]
    """Flags that may be given again, or have several values with commas between."""
    params: list[str]
    """Those that go to the daemon."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.__dict__.update(table)

    def read(self, args: list[str]) -> tuple[list[str], dict[str, Any]] | None:
        """The words and the values of the flags; None when something is not understood."""
        words: list[str] = []
        given: dict[str, Any] = {}
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                words += rest
            elif not arg.startswith("-") or arg == "-":
                words.append(arg)
            elif arg in self.switches:
                given[self.switches[arg]] = True
            elif not self._take(arg, rest, given):
                return None
        return words, given

    def _take(self, arg: str, rest: Iterator[str], given: dict[str, Any]) -> bool:
        """Keep the value of one flag; False when it is not one of ours or its value makes no sense."""
        flag, equals, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
        name = self.values.get(flag)
        text = value if equals else next(rest, None)
        if name is None or not text or (name in self.choices and text not in self.choices[name]):
            return False
        if name in self.numbers:
            if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= self.numbers[name]):
                return False
            given[name] = int(text)
        elif name in self.lists:
            given[name] = given.get(name, []) + [entry for entry in text.split(",") if entry]
        else:
            given[name] = text
        return True


_TABLE = read_beside(__file__, "flag_table.json")
QUERY, GREP, MCP, HOOK = (Flags(_TABLE[command]) for command in ("query", "grep", "mcp", "hook"))
BUS_PARAMS: list[str] = _TABLE["bus"]
"""The flags of `memd query` that `bus` has too."""
