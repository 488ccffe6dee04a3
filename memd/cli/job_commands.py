"""`memd jobs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from memd.cli import options, say, show, talk
from memd.protocol.safe_text import one_line

FAILED = 6

jobs_app = typer.Typer(
    help="Show what runs by the clock, or run it now.", invoke_without_command=True, rich_markup_mode=None
)


@jobs_app.callback()
def jobs(context: typer.Context, no_start: options.NoStart = False, json: options.Json = False) -> None:
    """Show what runs by the clock, or run it now."""
    if context.invoked_subcommand is not None:
        return
    with talk.client(not no_start) as caller:
        result = caller.job_list()
    if json:
        say.json(result)
        return
    head = ("job", "schedule", "last run", "took", "next", "result")
    say.out(show.table([head, *map(_row, result["jobs"])]))


def _row(job: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one_line(job["name"]),
        show.scheduled(one_line(job["schedule"])),
        show.moment(job["last"]),
        _took(job) if job["last"] and not job["running"] else "",
        show.moment(job["next"]) if job["next"] else "",
        "running" if job["running"] else one_line(job["result"]),
    )


def _took(job: Mapping[str, Any]) -> str:
    return f"{job['took_ms']:.0f} ms" if job["took_ms"] < 1000 else show.duration(job["took_ms"] / 1000)


@jobs_app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job: reflect, backup, …")],
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> int:
    """Run a job now, whatever its schedule, and say what came of it."""
    with talk.client(not no_start) as caller:
        result = caller.job_run(name)
    job = result["job"]
    if json:
        say.json(result)
    else:
        say.line(f"{job['name']}: {job['result']} ({_took(job)})")
    return 0 if job["ok"] else FAILED


def register(app: typer.Typer) -> None:
    app.add_typer(jobs_app, name="jobs")
