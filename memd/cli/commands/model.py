"""`memd model` and `memd model try`."""

from pathlib import Path
from typing import Any

import typer

from memd.cli import console, reports
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.protocol.safe_text import one_line

app = typer.Typer()
model_app = command_group(app, "model", "Shows the embedding model, or tries another one.", no_args_is_help=False)


@method_command(model_app, "status", of_group=True)
def model(result: Result, args: Args) -> None:
    """Shows the embedding model, how its cosines are read and how well it found what the last exam asked."""
    console.out(reports.model(result))


def _whole_path(args: Args) -> None:
    if "://" not in args["place"]:
        args["place"] = str(Path(args["place"]).expanduser().absolute())


@method_command(model_app, "model.try", name="try", prepare=_whole_path)
def try_model(result: Result, args: Args) -> None:
    """Asks your own notes with another model and with the one in use, by meaning alone, and changes nothing.

    The probes are sentences of your notes without some of their words. A server gets up to 500 passages of your notes.
    """
    head = ("model", "first", "in 5", "in 10", "ms a note", "ms a question", "tells apart")
    console.out(reports.table([head, *map(_row, result["models"])], numbers=True))
    console.line(f"of {reports.count(result['probes'], 'probe')} among {reports.count(result['passages'], 'passage')}")
    used, other = (one["first_5"] for one in result["models"])
    better = "finds more" if other > used else "finds less" if other < used else "finds as much"
    how = "docs/models.md tells how to change to it" if other > used else "nothing was changed"
    console.line(one_line(f"{result['models'][1]['name']} {better}; {how}"))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    figures = (f"{one[name]:,}" for name in ("first", "first_5", "first_10"))
    times = (f"{one[name]:.1f}" for name in ("ms_note", "ms_question"))
    return (one_line(one["name"]), *figures, *times, f"{one['scale']['told_apart']:.0%}")
