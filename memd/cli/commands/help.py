"""`memd help`: the commands by what they are for, and the help of one; and memd(1), the same as a man page."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memd.cli import app as command_line
from memd.cli import console
from memd.cli.method_command import Json
from memd.errors import UsageError, did_you_mean

All = Annotated[bool, typer.Option("--all", "-a", help="Every command, by what it is for.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]", help="The command to explain.")]
app = typer.Typer()


@app.command("help")
def show_help(context: typer.Context, command: Names = None, every: All = False, json: Json = False) -> None:
    """Explains a command, or lists them."""
    root = context.find_root()
    if json:
        groups: dict[str, Any] = {
            title: {name: root.command.sentence(name) for name in names.split()}  # type: ignore[attr-defined]
            for title, names in command_line.GROUPS.items()
        }
        console.json({"groups": groups})
        return
    if command:
        console.out(_help_of(root, command))
        return
    root.obj = command_line.ALL if every else None
    console.out(root.get_help())


def _help_of(context: Any, names: list[str]) -> str:
    """The help of a command, or of one in a group of commands."""
    inner = context
    for name in names:
        known = getattr(inner.command, "commands", {})
        if (found := known.get(name)) is None:
            near = did_you_mean(name, known)
            raise UsageError(f"{inner.command_path} has no command {name}{near}", "memd help --all lists them")
        inner = type(inner)(found, info_name=name, parent=inner)
    return str(inner.get_help())


# --- the man page, from the commands and their declared parameters ------------------------------------------------

ABOUT = """\
.SH DESCRIPTION
memd watches plain Markdown notes, keeps them searchable by word and by meaning, and answers over a Unix socket. The
commands below ask the daemon, and start it when none runs. Inside a workspace they mean that one, elsewhere all.
"""
END = """\
.SH EXIT STATUS
0 done or found, 1 nothing found, 2 bad input, 3 no daemon, 4 nothing found while degraded, 5 refused, 6 failed.
.SH FILES
.I ~/.config/memd/config.toml
has the settings,
.I ~/.local/state/memd
the index and the history. MEMD_HOME puts both elsewhere.
.SH SEE ALSO
memd help COMMAND
"""


def man_page() -> str:
    """The whole page, as troff."""
    parts = [
        '.\\" Written by docs/generate.py from the declarations: change those, then run `make docs`.\n',
        ".TH MEMD 1\n.SH NAME\nmemd \\- a memory for agents and people, in plain Markdown\n",
        ".SH SYNOPSIS\n.B memd\n.I COMMAND\n[OPTIONS]\n",
        ABOUT,
    ]
    root: Any = typer.main.get_command(command_line.app)
    for title, names in command_line.GROUPS.items():
        parts.append(f".SH {title.upper()}\n")
        parts += [_entry(f"memd {name}", root.commands[name]) for name in names.split()]
    return "".join([*parts, END])


def _entry(path: str, command: Any) -> str:
    """A command with its arguments and options; of a group, each of its commands."""
    inner = getattr(command, "commands", None)
    if inner:
        return "".join(_entry(f"{path} {name}", one) for name, one in inner.items())
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join([path, *(one.make_metavar(None) for one in arguments)])
    lines = [f".SS {_safe(usage)}\n{_paragraphs(command.help or '')}\n"]
    lines += [f".TP\n.I {_safe(one.make_metavar(None))}\n{_safe(one.help or '')}\n" for one in arguments]
    lines += [
        f".TP\n.B {_safe(', '.join([*one.opts, *one.secondary_opts]))}\n{_safe(one.help or '')}\n" for one in options
    ]
    return "".join(lines)


def _paragraphs(text: str) -> str:
    return "\n.PP\n".join(_safe(" ".join(part.split())) for part in text.split("\n\n"))


def _safe(text: str) -> str:
    """Text that troff takes for no command of its own."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
