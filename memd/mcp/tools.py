"""What a tool is, and what a call of one answers: text for the model, data for its program, or a typed failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from memd.errors import ConfigError, MemdError, UnknownMethod, UnknownWorkspace, UsageError
from memd.mcp.arguments import Argument, Arguments, Schema, check, input_schema
from memd.mcp.tool_text import degraded_note, sanitize, truncate, with_notes
from memd.protocol.methods import METHODS
from memd.protocol.methods.parameters import Parameter
from memd.protocol.safe_text import one_line

Result = dict[str, Any]
Call = Callable[[str, dict[str, Any]], Awaitable[Result]]
"""Calls a method of the daemon, in the session's workspace and in its client's name."""
Run = Callable[[Call, Arguments], Awaitable[Result]]

NOT_ABOUT_ARGUMENTS = (UnknownWorkspace, UnknownMethod, ConfigError)
"""Usage errors that other arguments would not avoid."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool answers: text for the model, and the same as data."""

    text: str
    data: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A method of the daemon, offered to a model."""

    name: str
    title: str
    about: str
    """Written for the model: when to call it, and what it returns."""
    method: str
    takes: dict[str, Argument]
    reply: Callable[[Result], Reply]
    run: Run | None
    """Makes the result where that takes more than one call of the method."""
    destroys: bool
    """It may replace or remove text."""
    repeatable: bool
    """It writes, and a second call with the same arguments changes nothing more."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The arguments by name, as the method declares them and the tool changes them."""
        return {name: argument.declare(self.method, name) for name, argument in self.takes.items()}

    @property
    def reads(self) -> bool:
        return METHODS[self.method].reads

    @property
    def input_schema(self) -> Schema:
        return input_schema(self.parameters)

    async def answer(self, call: Call, arguments: Arguments) -> Reply:
        """Check the arguments and run the tool; an error of memd is a reply too."""
        try:
            params = self._params(check(self.name, self.parameters, arguments))
            result = await (self.run(call, params) if self.run else call(self.method, params))
            reply = self.reply(result)
        except MemdError as error:
            return self.failure(error)
        text, cut = truncate(reply.text)
        notes = [*degraded_note(result), *reply.notes, *cut]
        return Reply(with_notes(text, notes), {**sanitize(reply.data), "notes": notes})

    def _params(self, arguments: Arguments) -> dict[str, Any]:
        """The arguments under the names that the method has for them."""
        return {self.takes[name].parameter or name: value for name, value in arguments.items()}

    def failure(self, error: MemdError) -> Reply:
        wrong_arguments = isinstance(error, UsageError) and not isinstance(error, NOT_ABOUT_ARGUMENTS)
        code = f"{self.name}_{'args' if wrong_arguments else 'fail'}"
        message, hint = one_line(error.message), one_line(error.hint)
        data = {"code": code, "cause": error.code, "message": message, "hint": hint, "retryable": error.retryable}
        return Reply(f"{code}: {message}{f' ({hint})' if hint else ''}", {"error": data}, failed=True)


def tool(
    method: str, title: str, takes: dict[str, Argument], run: Run | None = None, *, destroys: bool = False,
    repeatable: bool = False,
) -> Callable[[Callable[[Result], Reply]], Tool]:  # fmt: skip
    """Declare a tool: the function that follows has its name, and its docstring tells the model when to call it."""

    def declare(reply: Callable[[Result], Reply]) -> Tool:
        about = " ".join((reply.__doc__ or "").split())
        return Tool(reply.__name__, title, about, method, takes, reply, run, destroys, repeatable)

    return declare


def pick(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """Some fields of a result."""
    return {name: row[name] for name in names}
