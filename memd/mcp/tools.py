"""The tools by profile, under the names that their users know: each has a method, arguments and a reply.

tools.toml has what a model sees of them; it chooses better from a short list.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from memd.config.declared import TYPES, Parameter, checked
from memd.errors import ConfigError, MemdError, Proposed, UnknownMethod, UnknownWorkspace, UsageError, did_you_mean
from memd.mcp import replies
from memd.mcp.replies import Arguments, Call, Reply, Result, Run, degraded_note, sanitize, truncate, with_notes
from memd.protocol.methods import METHODS
from memd.protocol.methods.base import MAX_NUMBER, parameters_of
from memd.protocol.safe_text import one_line

Schema = dict[str, Any]

NOT_ABOUT_ARGUMENTS = (UnknownWorkspace, UnknownMethod, ConfigError)
"""Usage errors that other arguments would not avoid."""

COMMAND = re.compile(r"\bmemd (?!goes|starts|lists|writes)([a-z]+)(?: ([a-z]+))?[^;,)]*")
"""A shell command; the words that are left out tell what memd does."""
SHELL_ONLY = re.compile(r",? or say --[a-z-]+")
"""A way out that only the command line has."""

DECLARED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Tool:
    """A method of the daemon, offered to a model."""

    name: str
    title: str
    about: str
    """Written for the model: when to call it, and what it returns."""
    profile: str
    method: str
    takes: dict[str, dict[str, Any]]
    """Its arguments: `parameter`, the name in the method where that is another, and what is not as declared there."""
    reply: Callable[[Result], Reply]
    run: Run | None
    """Makes the result where that takes more than one call of the method."""
    destroys: bool = False
    """It may replace or remove text."""
    repeatable: bool = False
    """It writes, and a second call with the same arguments changes nothing more."""
    covers: tuple[str, ...] = ()
    """Other methods that it can stand for."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The arguments by name, as the method declares them and the tool changes them."""
        return {name: self._parameter(name, **declared) for name, declared in self.takes.items()}

    def _parameter(self, name: str, parameter: str = "", **changes: Any) -> Parameter:
        """A parameter with its changes; a text where the method has none of this name."""
        known = parameters_of(self.method).get(parameter or name, Parameter(name, "text", ""))
        return replace(known, name=name, declared=None, **changes)

    @property
    def reads(self) -> bool:
        return METHODS[self.method].reads

    async def answer(self, call: Call, arguments: Arguments, offered: Iterable[Self] = ()) -> Reply:
        """Check the arguments and run the tool; an error of memd is a reply too, and names the tools on offer."""
        try:
            checked_arguments = check(self.name, self.parameters, arguments)
            params = {self.takes[name].get("parameter", name): value for name, value in checked_arguments.items()}
            result = await (self.run(call, params) if self.run else call(self.method, params))
            reply = self.reply(result)
        except Proposed as error:
            return Reply(f"Not written: {one_line(error.message)}.", {"proposed": error.message})
        except MemdError as error:
            return self.failure(error, offered)
        text, cut = truncate(reply.text)
        notes = [*degraded_note(result), *reply.notes, *cut]
        return Reply(with_notes(text, notes), {**sanitize(reply.data), "notes": notes})

    def failure(self, error: MemdError, offered: Iterable[Self] = ()) -> Reply:
        wrong_arguments = isinstance(error, UsageError) and not isinstance(error, NOT_ABOUT_ARGUMENTS)
        code = f"{self.name}_{'args' if wrong_arguments else 'fail'}"
        message, hint = one_line(error.message), one_line(self._hint_for_a_model(error.hint, offered))
        data = {"code": code, "cause": error.code, "message": message, "hint": hint, "retryable": error.retryable}
        return Reply(f"{code}: {message}{f' ({hint})' if hint else ''}", {"error": data}, failed=True)

    def _hint_for_a_model(self, hint: str, offered: Iterable[Self]) -> str:
        """A hint that names tools in place of shell commands; what has no tool is for a person."""
        hint = SHELL_ONLY.sub("", hint)
        # Of two tools for the same, the one that belongs with this.
        alike_last = sorted(offered, key=lambda tool: tool.profile == self.profile)
        names = {method: f"`{tool.name}`" for tool in alike_last for method in (tool.method, *tool.covers)}
        told = COMMAND.sub(lambda found: names.get(f"{found[1]}.{found[2]}") or names.get(found[1]) or found[0], hint)
        return f"ask the user for help: {told}" if COMMAND.search(told) else told


# --- arguments ------------------------------------------------------------------------------------------


def input_schema(parameters: dict[str, Parameter]) -> Schema:
    """The arguments of a tool, in JSON Schema."""
    properties = {name: _schema(parameter) for name, parameter in parameters.items()}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [name for name, parameter in parameters.items() if parameter.required]
    return {**schema, "required": required} if required else schema


def _schema(parameter: Parameter) -> Schema:
    optional = {
        "enum": list(parameter.choices) or None,
        "minItems" if parameter.is_list else "minimum": parameter.low,
        # A bound that nobody would reach says nothing to a model.
        "maximum": parameter.high if parameter.high is None or parameter.high < MAX_NUMBER else None,
        "default": parameter.default or None,
    }
    known = {name: value for name, value in optional.items() if value is not None}
    return {**msgspec.json.schema(TYPES[parameter.type]), **known, "description": parameter.about}


def check(tool: str, parameters: dict[str, Parameter], arguments: Arguments) -> Arguments:
    """The arguments with their defaults; UsageError for the first that is wrong. Null means left out."""
    for name in arguments:
        if name not in parameters:
            meant = did_you_mean(name, parameters).removeprefix("; ")
            hint = meant or f"it takes: {', '.join(parameters) or 'nothing'}"
            raise UsageError(f"`{tool}` has no argument `{name}`", hint)
    # JSON has one type of number, and some clients write 5.0.
    given = {name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in arguments.items()}
    defaults = {name: parameter.default for name, parameter in parameters.items() if parameter.default}
    return {**defaults, **checked(tool, parameters, given, explain=True)}


# --- the tools as tools.toml declares them ---------------------------------------------------------------


def _tool(name: str, row: dict[str, Any]) -> Tool:
    takes = {argument: _argument(declared) for argument, declared in row.get("takes", {}).items()}
    about, reply = " ".join(row["about"].split()), _reply(row.get("reply", name))
    return Tool(name=name, run=replies.RUNS.get(name), **{**row, "about": about, "takes": takes, "reply": reply})


def _argument(declared: str | dict[str, Any]) -> dict[str, Any]:
    """An argument as it is declared, or one that several tools have, by its name."""
    known = DECLARED["arguments"][declared] if isinstance(declared, str) else declared
    return {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}


def _reply(declared: str | dict[str, Any]) -> Any:
    """A function of replies.py, or what `written` says and tells."""
    return getattr(replies, declared) if isinstance(declared, str) else partial(replies.written, **declared)


TOOLS = [_tool(name, row) for name, row in DECLARED["tools"].items()]
PROFILES: dict[str, list[str]] = DECLARED["profiles"]
"""The profiles that a client may name, and the tools in each, by the profile that these declare."""
EXPERIMENTAL = ("knowledge", "all")
"""The profiles to which `--experimental` adds tools."""


def tools_of(profile: str, experimental: bool, folders: str = "") -> dict[str, Tool]:
    """The tools of a profile by name, in the order of their declarations; `folders` may be indexed by agents."""
    added = {"experimental": experimental and profile in EXPERIMENTAL, "folders": bool(folders)}
    wanted = (*PROFILES[profile], *(name for name, offered in added.items() if offered))
    return {tool.name: tool for tool in TOOLS if tool.profile in wanted}
