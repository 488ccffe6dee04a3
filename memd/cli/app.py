"""The whole command line, in Typer; `memd query` and `memd grep` come here only for help and for mistakes.

Typer builds every command at each start, which takes longer than most commands. Here a command's module is imported,
and its options are built, when it is run.
"""

import inspect
import os
import re
import tomllib
from collections import UserDict
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group_from_info, solve_typer_info_help

from memd.cli import INTERRUPTED, console, daemon_calls
from memd.errors import UsageError
from memd.version import __version__

_NAMES = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
MODULES: dict[str, str] = _NAMES["modules"]
GROUPS: dict[str, str] = _NAMES["groups"]
OF_THIS_MACHINE = ("server", "connect", "config", "service")
"""Modules whose commands, but for `status`, ask no hub."""
FIRST = next(iter(GROUPS))
ALL = "all"
"""In Typer's context: help is to show every group."""


class LazyCommands(UserDict[str, Any]):
    """Every command by its name; one is built when it is looked up."""

    def __init__(self) -> None:
        super().__init__({name: module for module, names in MODULES.items() for name in names.split()})

    def info(self, name: str) -> Any:
        """The data that Typer has of a command, or a group of commands, before it is built."""
        commands: typer.Typer = import_module(f"memd.cli.commands.{self.data[name]}").app
        every: tuple[Any, ...] = (*commands.registered_commands, *commands.registered_groups)
        return next(one for one in every if (one.name or one.callback.__name__.replace("_", "-")) == name)

    def __getitem__(self, name: str) -> Any:
        info = self.info(name)
        if isinstance(info, typer.models.CommandInfo):
            return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
        return get_group_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None, suggest_commands=True)


class LazyGroup(TyperGroup):
    """A group whose commands are built when they are run; its help needs no more of them than their sentences."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyCommands()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = GROUPS if ctx.obj == ALL else {FIRST: GROUPS[FIRST]}
        for title, names in shown.items():
            with formatter.section(title):
                # As much of each sentence as a list needs.
                clauses = {name: re.split(r"[:;] ", self.sentence(name))[0].rstrip(".") for name in names.split()}
                formatter.write_dl([(name, f"{clause}.") for name, clause in clauses.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write("\nmemd COMMAND --help, or memd help COMMAND, explains a command.\n")
        more = len(" ".join(GROUPS.values()).split()) - len(GROUPS[FIRST].split())
        if ctx.obj != ALL:
            formatter.write(f"memd help --all lists {more} more, by what they are for.\n")

    def sentence(self, name: str) -> str:
        """A command's purpose, in a sentence."""
        info = self.commands.info(name)  # type: ignore[attr-defined]
        grouped = isinstance(info, typer.models.TyperInfo)
        text = solve_typer_info_help(info) if grouped else info.help or inspect.getdoc(info.callback) or ""
        return text.partition("\n\n")[0].replace("\n", " ")


app = typer.Typer(
    name="memd",
    cls=LazyGroup,
    help="A memory daemon: keeps Markdown notes findable in milliseconds.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def memd(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="URL", help="Ask this hub instead of the daemon of this machine.")
    ] = None,
) -> None:
    if version:
        console.out(f"memd {__version__}")
        raise typer.Exit
    _choose_hub(remote, context.invoked_subcommand or "")
    if context.invoked_subcommand is None:
        console.out(context.get_help())


def _choose_hub(url: str | None, command: str) -> None:
    """Let the command ask a hub, unless it is about this machine: then neither flag nor environment leads elsewhere."""
    about_here = command != "status" and any(command in MODULES[module].split() for module in OF_THIS_MACHINE)
    if about_here and url:
        raise UsageError(f"memd {command} is about this machine, and takes no --remote", "leave --remote out")
    if about_here:
        os.environ.pop(daemon_calls.REMOTE, None)
    elif url:
        os.environ[daemon_calls.REMOTE] = url


def run(args: list[str]) -> int:
    """Run one command; the exit code."""
    try:
        done = app(args, prog_name="memd", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        raise _explain(error) from None
    return done if isinstance(done, int) else 0


def _explain(error: typer.TyperException) -> UsageError:
    """A mistake in the command itself: what it is, and where to read on."""
    context: typer.Context | None = getattr(error, "ctx", None)
    hint = f"how it is used: {context.command_path} --help" if context else ""
    if context and context.info_name in ("query", "search", "grep", "note", "save", "write"):
        hint += "\nwords that look like flags go after --"
    message = error.format_message().rstrip(".")
    if context and isinstance(context.command, TyperGroup) and message == "Missing command":
        message = f"{context.command_path} needs one of: {', '.join(context.command.list_commands(context))}"
    return UsageError(message, hint)
