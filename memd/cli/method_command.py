"""Makes commands from declared methods: arguments, options, bounds and help follow from memd/protocol/methods.

`method_command` registers a function that shows the result of a method. `declared_command` registers one that takes
what a method takes and does the rest itself, `own_command` one that has nothing to do with a method. options.toml
changes single parameters, of which it has only what differs from the declaration; so do keyword arguments,
`typer.Argument(...)` or `typer.Option(...)`. A name that the method does not have is an option of the command's own.
"""

from __future__ import annotations

import inspect
import re
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from memd.cli import console, daemon_calls
from memd.errors import MemdError, UsageError

if TYPE_CHECKING:
    from memd.config.declared import Parameter
    from memd.protocol.client import Client
    from memd.protocol.methods import Method

Args = dict[str, Any]
"""The typed values, by the names of the parameters; None, or False, where nothing was."""
Result = Mapping[str, Any]
Run = Callable[[Args], int | None]

REQUIRED: Any = ...
"""As a default: the parameter must be given, also where the method can do without it."""
MEANT = ("argument", "flags", "kind", "choices", "default", "required", "completes")
"""What options.toml says of a parameter that is not said to Typer in these words."""
STDIN = "-"
FILLED_IN = ("now", "request_id", "progress", "observe", "cwd", "after", "offset", "marks")
"""Parameters that commands set themselves; a command may make an option of one nevertheless."""
EVERY = "every"
"""The table of options.toml for all commands: short flags, and help where the declaration speaks of the protocol."""
UNSPLIT = ("files", "globs")
"""Lists whose entries may hold commas."""
UNBOUNDED = 10**9
EVIDENT = ("any", "none")
"""Defaults that the help need not name."""


# --- completions: names that only the daemon knows; it is asked if it runs, and never started ------------------------

MOST_COMPLETED = 500
SCOPED = ("list", "tag.list")


def _completer(method: str, rows: str, name: str = "", **params: Any) -> Callable[[Any, str], list[str]]:
    """Completes what some rows of an answer are called; without a name, the rows themselves."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        # The workspace that was named on the line so far, else the one around the working directory.
        where = {"ns": ctx.params.get("ns"), "cwd": daemon_calls.working_directory()} if method in SCOPED else {}
        try:
            with daemon_calls.connect(start=False) as client:
                answer = client.call(method, {**params, **{key: value for key, value in where.items() if value}})
        except MemdError:
            return []
        names = {row[name] if name else row for row in answer.get(rows, ())}
        return sorted(one for one in names if one.startswith(incomplete))[:MOST_COMPLETED]

    return complete


_workspaces = _completer("workspace.list", "workspaces", "ns")
_keys = _completer("list", "memories", "key", limit=daemon_calls.PAGES["list"][1])
COMPLETED = {
    **dict.fromkeys(("key", "from", "to", "keys"), _keys),
    "role": _completer("list", "roles", limit=1),
    "tags": _completer("tag.list", "tags", "tag"),
    "job.run name": _completer("job.list", "jobs", "name"),
    "token.add ns": _workspaces,
    "workspaces": _workspaces,
}
"""The parameters that are completed: in every method, or in one, or where options.toml names it."""

# --- commands -----------------------------------------------------------------------------------------------------

COMMON = "common"
"""The table of options.toml for options that many commands have."""
OWN: dict[str, Any] = {
    "switch": bool, "text": str | None, "texts": list[str] | None, "number": int | None, "path": Path | None,
}  # fmt: skip
"""The kinds of parameters in options.toml."""


def command_group(app: typer.Typer, name: str, about: str, hidden: bool = False) -> typer.Typer:
    """Register a group of commands, such as `memd edge`."""
    group = typer.Typer(help=about, rich_markup_mode=None)
    app.add_typer(group, name=name, hidden=hidden)
    return group


def declared_command(
    app: typer.Typer, method: str, *, name: str = "", hidden: bool = False, alias: str = "", of_group: bool = False,
    **signature: Any,
) -> Callable[[Run], Run]:  # fmt: skip
    """Register a command that takes what a method takes, as the keyword arguments of `DeclaredCommand` change it;
    `alias` is a name that help does not show. With `of_group` it is what a group does without a subcommand."""

    def register(run: Run) -> Run:
        command = DeclaredCommand(method, run, of_group, **signature)
        (app.callback(invoke_without_command=True) if of_group else app.command(name or None, hidden=hidden))(command)
        if alias:
            app.command(alias, hidden=True)(command)
        return run

    return register


def own_command(
    app: typer.Typer, name: str, leave_out: Sequence[str] = ("no_start",), **changed: Any
) -> Callable[[Run], Run]:
    """Register a command that calls no method; options.toml has what it takes under its whole name, `config set`."""
    return declared_command(app, "", name=name.split()[-1], options=name, leave_out=leave_out, **changed)


def method_command(
    app: typer.Typer, method: str, *, prepare: Callable[[Args], None] | None = None,
    send: Callable[[Client, Args, Args], Result] | None = None, exit_code: Callable[[Result], int] | None = None,
    **declared: Any,
) -> Callable[[Callable[[Any, Args], None]], Callable[[Any, Args], None]]:  # fmt: skip
    """Register a command that calls a method; the function shows the result, unless `--json` was given. `prepare`
    checks and changes what was typed, `send` makes the call where it is more than one."""

    def register(show: Callable[[Any, Args], None]) -> Callable[[Any, Args], None]:
        def run(args: Args) -> int:
            if prepare:
                prepare(args)
            # Without the option, none is started.
            with daemon_calls.connect(not args.get("no_start", True)) as client:
                params = wire_params(client, method, args)
                result = send(client, params, args) if send else call(client, method, params)
            for copied in result.get("conflicts", ()):
                console.note(f"someone else changed the file at the same moment; their text is in {copied}")
            if result.get("repeated"):
                console.note("this had been carried out already, before the answer was lost; it was not done again")
            console.json(result) if args["json"] else show(result, args)
            return exit_code(result) if exit_code else 0

        run.__name__, run.__doc__ = show.__name__, show.__doc__
        declared_command(app, method, **declared)(run)
        return show

    return register


# --- calling ------------------------------------------------------------------------------------------------------


def wire_params(client: Client, method: str, args: Args) -> Args:
    """The parameters for the daemon: those typed, the workspace that is meant, and the time of day here."""
    from memd.protocol.methods.base import parameters_of

    declared = parameters_of(method)
    params = {name: args[name] for name, one in declared.items() if args.get(name) not in (None, one.default)}
    if "now" in declared:
        # Whoever writes decides which day it is.
        params["now"] = time.strftime("%Y-%m-%dT%H:%M")
    return {**params, **daemon_calls.scope(client, args)} if "cwd" in declared else params


def call(client: Client, method: str, params: Args) -> Result:
    """Call a method, with a progress bar where it reports progress."""
    from memd.protocol.methods import METHODS

    function = getattr(client, METHODS[method].python_name)
    if "progress" not in METHODS[method].parameters:
        return dict(function(**params))
    with daemon_calls.ProgressBar() as bar:
        return dict(function(**params, on_progress=bar.update))


# --- what a person gives ------------------------------------------------------------------------------------------


def standard_input(what: str) -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = f"the {what} is not UTF-8 (byte {error.start + 1})"
        raise UsageError(wrong, "convert it first: iconv -t UTF-8") from None


def text_of(words: list[str], what: str) -> str:
    """The words, or with `-` what stands on standard input."""
    text = standard_input(what) if words == [STDIN] else " ".join(words)
    if not text.strip():
        raise UsageError(f"the {what} is empty", f"give it as words, or {STDIN} to read it from standard input")
    return text


# --- the signature ------------------------------------------------------------------------------------------------


class DeclaredCommand:
    """A function that takes what a method takes. Its signature is made when Typer asks for it: only for the command
    that is run. `words` is a text that may be several arguments, or `-`."""

    def __init__(
        self, method: str, run: Run, of_group: bool, words: str = "", leave_out: Sequence[str] = (), options: str = "",
        **changed: Any,
    ) -> None:  # fmt: skip
        self.__name__ = run.__name__
        self.__annotations__: dict[str, Any] = {}
        self._name, self._run, self._words, self._of_group, self._leave_out = method, run, words, of_group, leave_out
        said = _options().get(options or method, {})
        given = {"default", "required"}
        self._defaults = {name: facts.get("default", REQUIRED) for name, facts in said.items() if facts.keys() & given}
        """Those that differ from the method's."""
        self._changed = {name: _changed(name, facts) for name, facts in said.items()} | changed

    @cached_property
    def _method(self) -> Method:
        from memd.protocol.methods import METHODS

        return METHODS[self._name]

    @cached_property
    def _parameters(self) -> dict[str, Parameter]:
        """The parameters of the method that are typed, arguments before options."""
        if not self._name:
            return {}
        from memd.protocol.methods.base import parameters_of

        filled_in = {*FILLED_IN, *self._leave_out, *(["who"] if self._method.signed else []), *self._scope}
        known = parameters_of(self._name).values()
        typed = (one for one in known if one.name in self._changed or one.name not in filled_in)
        return {one.name: one for one in sorted(typed, key=lambda one: not self._is_argument(one))}

    @property
    def _scope(self) -> dict[str, Any]:
        scoped = self._name and "cwd" in self._method.parameters
        return {name: _common(name) for name in ("ns", "workspace")} if scoped else {}

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self._run.__doc__ or self._method.sentence.replace("`", "")

    @property
    def __signature__(self) -> inspect.Signature:
        declared = [
            _parameter(one.python_name, Annotated[self._type(one), self._info(one)], self._default(one))
            for one in self._parameters.values()
        ]
        own = {name: kind for name, kind in self._changed.items() if name not in self._parameters}
        options = {**own, **self._scope, "no_start": _common("no_start"), "json": own.get("json") or _common("json")}
        context = [_parameter("typer_context", typer.Context, REQUIRED)] if self._of_group else []
        return inspect.Signature([*context, *declared, *(
            _parameter(name, kind, self._defaults.get(name, False if kind.__origin__ is bool else None))
            for name, kind in options.items() if name not in self._leave_out
        )])  # fmt: skip

    def __call__(self, typer_context: typer.Context | None = None, **given: Any) -> int | None:
        if typer_context is not None and typer_context.invoked_subcommand is not None:
            return None
        for parameter in self._parameters.values():
            given[parameter.name] = self._value(parameter, given.pop(parameter.python_name))
        return self._run(given)

    def _is_argument(self, parameter: Parameter) -> bool:
        changed = self._changed.get(parameter.name)
        return isinstance(changed, ArgumentInfo) if changed else parameter.python_name in self._method.args

    def _info(self, parameter: Parameter) -> ParameterInfo:
        made = typer.Argument() if self._is_argument(parameter) else typer.Option()
        info: ParameterInfo = copy(self._changed.get(parameter.name) or made)
        everywhere = _options()[EVERY].get(parameter.name, {})
        info.help = info.help or everywhere.get("help") or help_text(_about(parameter))
        info.show_default = self._shown_default(parameter)
        by_method = COMPLETED.get(f"{self._name} {parameter.name}")
        info.autocompletion = info.autocompletion or by_method or COMPLETED.get(parameter.name)
        if parameter.name == self._words:
            info.metavar = info.metavar or f"{parameter.name.upper()}|{STDIN}"
        if info.min is None and info.max is None and parameter.low is not None:
            info.min, info.max = parameter.low, parameter.high if (parameter.high or 0) < UNBOUNDED else None
        if isinstance(info, OptionInfo) and info.default is ...:
            info.param_decls = (f"--{parameter.name.replace('_', '-')}", *everywhere.get("short", ()))
        return info

    def _type(self, parameter: Parameter) -> Any:
        from memd.config.declared import TYPES

        if parameter.name == self._words:
            return list[str] | None
        chosen = parameter.choices and not parameter.is_list
        return (Literal[parameter.choices] if chosen else TYPES[parameter.type]) | None

    def _default(self, parameter: Parameter) -> Any:
        """False, or True, for a switch; None for what was not typed."""
        otherwise = parameter.default if parameter.type == "true or false" else None
        return self._defaults.get(parameter.name, REQUIRED if parameter.required else otherwise)

    def _shown_default(self, parameter: Parameter) -> str | bool:
        """The help about leaving it out."""
        if parameter.name in self._defaults or parameter.type == "true or false" or parameter.required:
            return parameter.name in self._defaults
        if parameter.unset:
            return parameter.unset not in EVIDENT and help_text(parameter.unset, capital=False)
        return str(parameter.default) if parameter.default else False

    def _value(self, parameter: Parameter, value: Any) -> Any:
        if value is None:
            return None
        if parameter.name == self._words:
            return text_of(value, parameter.name)
        if parameter.place:
            paths = [str(Path(path).expanduser()) for path in (value if parameter.is_list else [value])]
            return paths if parameter.is_list else paths[0]
        if parameter.is_list and parameter.name not in UNSPLIT:
            # As people give it, `a,b` or one option each.
            return [entry.strip() for group in value for entry in group.split(",") if entry.strip()]
        return value


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


@cache
def _options() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


def _changed(name: str, said: Mapping[str, Any]) -> Any:
    """A parameter as options.toml has it."""
    if "as" in said:
        return _common(said["as"])
    words = {word: value for word, value in said.items() if word not in MEANT}
    own = Literal[tuple(said["choices"])] | None if "choices" in said else OWN.get(said.get("kind", ""))
    flags = said.get("flags") or ([f"--{name.replace('_', '-')}"] if own else [])
    info = typer.Argument(**words) if "argument" in said else typer.Option(*flags, **words)
    info.autocompletion = COMPLETED.get(said.get("completes", ""))
    return Annotated[own, info] if own else info


def _common(name: str) -> Any:
    return _changed(name, _options()[COMMON][name])


def _about(parameter: Parameter) -> str:
    """The meaning of a parameter; where it says `as in` another method, what it means there."""
    from memd.protocol.methods.base import parameters_of

    other = re.fullmatch(r"as in `(.+)`", parameter.about)
    return parameters_of(other[1])[parameter.name].about if other else parameter.about


def help_text(about: str, capital: bool = True) -> str:
    """A sentence of a declaration without Markdown."""
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", about).replace("`", "")
    if not plain or not capital:
        return plain
    # What begins with a value, `daily`, keeps it as it is typed.
    return f"{plain[0] if about[0] == '`' else plain[0].upper()}{plain[1:]}{'' if plain.endswith('…') else '.'}"
