"""The tools by profile, under the names that their users know.

tools.toml has what a model sees of them; it chooses better from a short list.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from memd.mcp import replies
from memd.mcp.tools import DECLARED, Reply, Result, Tool


def _tool(name: str, row: dict[str, Any]) -> Tool:
    """A tool as tools.toml declares it."""
    takes = {argument: _argument(declared) for argument, declared in row.get("takes", {}).items()}
    about, reply = " ".join(row["about"].split()), _reply(row.get("reply", name))
    return Tool(name=name, run=replies.RUNS.get(name), **{**row, "about": about, "takes": takes, "reply": reply})


def _argument(declared: str | dict[str, Any]) -> dict[str, Any]:
    """An argument as it is declared, or one that several tools have, by its name."""
    known = DECLARED["arguments"][declared] if isinstance(declared, str) else declared
    return {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}


def _reply(declared: str | dict[str, Any]) -> Callable[[Result], Reply]:
    """A function of replies.py, or what `written` says and tells."""
    made: Callable[[Result], Reply] = (
        getattr(replies, declared) if isinstance(declared, str) else partial(replies.written, **declared)
    )
    return made


TOOLS = [_tool(name, row) for name, row in DECLARED["tools"].items()]


def _tools_in(*profiles: str) -> tuple[Tool, ...]:
    """The tools of some profiles, in the order of their declarations."""
    return tuple(tool for tool in TOOLS if tool.profile in profiles)


PROFILES = {
    "search": _tools_in("search"),
    "memories": _tools_in("ghost"),
    "ghost": _tools_in("ghost"),
    "knowledge": _tools_in("knowledge"),
    "all": _tools_in("search", "ghost", "knowledge"),
}
EXPERIMENTAL = dict.fromkeys(("knowledge", "all"), _tools_in("experimental"))
"""The tools that `--experimental` adds to a profile; to the others it adds none."""


def tools_of(profile: str, experimental: bool, folders: str = "") -> dict[str, Tool]:
    """The tools of a profile by name, in the order in which they are listed; `folders` may be indexed by agents."""
    tools = PROFILES[profile] + (EXPERIMENTAL.get(profile, ()) if experimental else ())
    tools += _tools_in("folders") if folders else ()
    return {tool.name: tool for tool in tools}
