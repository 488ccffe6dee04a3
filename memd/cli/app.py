"""The whole command line, in Typer; `memd query` and `memd grep` come here only for help and for mistakes."""

from __future__ import annotations

from typing import Annotated

import typer

from memd.cli import (
    INTERRUPTED,
    ask_commands,
    config_commands,
    connect_commands,
    context_commands,
    curate_commands,
    daemon_commands,
    edge_commands,
    exam_commands,
    job_commands,
    label_commands,
    list_commands,
    living_commands,
    mcp_commands,
    move_commands,
    outline_commands,
    past_commands,
    peek_commands,
    put_commands,
    rule_commands,
    say,
    service_commands,
    subscribe_commands,
    topic_commands,
    watch_commands,
    workspace_commands,
    write_commands,
)
from memd.errors import MemdError, UsageError
from memd.version import __version__

app = typer.Typer(
    name="memd",
    help="A memory daemon: keeps Markdown notes findable in milliseconds.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ask_commands.register(app)
list_commands.register(app)
write_commands.register(app)
past_commands.register(app)
put_commands.register(app)
label_commands.register(app)
living_commands.register(app)
context_commands.register(app)
curate_commands.register(app)
move_commands.register(app)
subscribe_commands.register(app)
edge_commands.register(app)
watch_commands.register(app)
mcp_commands.register(app)
exam_commands.register(app)
job_commands.register(app)
peek_commands.register(app)
workspace_commands.register(app)
daemon_commands.register(app)
connect_commands.register(app)
app.add_typer(outline_commands.app, name="outline")
app.add_typer(config_commands.app, name="config")
app.add_typer(rule_commands.app, name="rule")
app.add_typer(service_commands.app, name="service")
app.add_typer(topic_commands.app, name="topic")


@app.callback(invoke_without_command=True)
def memd(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        say.out(f"memd {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        say.out(context.get_help())


def run(args: list[str]) -> int:
    """Run one command and turn whatever happens into an exit code."""
    try:
        done = app(args, prog_name="memd", standalone_mode=False)
    except MemdError as error:
        return say.report(error)
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        return _explain(error)
    return done if isinstance(done, int) else 0


def _explain(error: typer.TyperException) -> int:
    """A mistake in the command itself: what it is, and where to read on."""
    context: typer.Context | None = getattr(error, "ctx", None)
    hint = f"to see how it is meant: {context.command_path} --help" if context else ""
    if context and context.info_name in ("query", "search", "grep", "note", "save", "write"):
        hint += "\nwords that look like flags go after --"
    return say.report(UsageError(error.format_message().rstrip("."), hint))
