"""What a tool is, and what comes of calling one: a text for the model, data for its program, or a typed failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from memd.errors import ConfigError, MemdError, UnknownMethod, UnknownWorkspace, UsageError
from memd.mcp import shapes
from memd.mcp.arguments import checked
from memd.mcp.shapes import Schema
from memd.mcp.telling import clean, fitted
from memd.protocol.safe_text import one_line

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a method of the daemon, in the session's workspace and in its client's name."""

Arguments = dict[str, Any]
NOT_THE_CALLERS = (UnknownWorkspace, UnknownMethod, ConfigError)
"""Mistakes that no other arguments would mend."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool found: for reading, and as data."""

    text: str
    data: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that an agent may do with memory."""

    name: str
    title: str
    about: str
    """Written for the model: when to call it, and what comes back."""
    takes: dict[str, Schema]
    gives: dict[str, Schema]
    run: Callable[[Ask, Arguments], Awaitable[Reply]]
    needs: tuple[str, ...] = ()
    """Which arguments must be given."""
    may_lack: tuple[str, ...] = ()
    """What of `gives` an answer may leave out."""
    reads: bool = False
    destroys: bool = False
    again: bool = False
    """Whether a second call with the same arguments changes nothing more."""

    @property
    def input_schema(self) -> Schema:
        schema = {"type": "object", "properties": self.takes, "additionalProperties": False}
        return {**schema, "required": list(self.needs)} if self.needs else schema

    @property
    def output_schema(self) -> Schema:
        """What a good call gives, or an error and nothing else."""
        good = [name for name in self.gives if name not in self.may_lack]
        return {
            "type": "object",
            "properties": {**self.gives, "notes": shapes.NOTES, "error": shapes.ERROR},
            "anyOf": [{"required": [*good, "notes"]}, {"required": ["error"]}],
        }

    async def call(self, ask: Ask, given: Arguments) -> Reply:
        """Check the arguments and do it; whatever memd has to say against it is the reply."""
        try:
            told = await self.run(ask, checked(self.name, self.input_schema, given))
        except MemdError as error:
            return self.failure(error)
        body, cut = fitted(told.text)
        notes = [*told.notes, *cut]
        text = "\n\n".join(part for part in (body, *(f"[memd: {note}]" for note in notes)) if part)
        return Reply(text, {**clean(told.data), "notes": notes})

    def failure(self, error: MemdError) -> Reply:
        theirs = isinstance(error, UsageError) and not isinstance(error, NOT_THE_CALLERS)
        code = f"{self.name}_{'args' if theirs else 'fail'}"
        message, hint = one_line(error.message), one_line(error.hint)
        told = {"code": code, "cause": error.code, "message": message, "hint": hint, "retryable": error.retryable}
        return Reply(f"{code}: {message}{f' ({hint})' if hint else ''}", {"error": told}, failed=True)
