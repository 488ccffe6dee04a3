"""`memd sync`, `memd rebuild`, `memd doctor` and `memd jobs`."""

import os
from collections.abc import Mapping
from typing import Any

import typer

from memd import installation
from memd.cli import console, daemon_calls, reports
from memd.cli.method_command import Args, Result, call, command_group, declared_command, method_command, show_result
from memd.errors import MemdError, NoDaemon
from memd.protocol.safe_text import one_line

app = typer.Typer()
jobs_app = command_group(app, "jobs", "Shows what runs by the clock, or runs it now.")


@method_command(app, "sync")
def sync(result: Result, args: Args) -> None:
    """Returns when all changes on disk can be found."""
    console.out(reports.synced(result))


@method_command(app, "rebuild")
def rebuild(result: Result, args: Args) -> None:
    console.out(reports.rebuilt(result))


@declared_command(app, "doctor", leave_out=["no_start"])
def doctor(args: Args) -> int:
    """Checks the stores, and repairs them with --fix.

    Works without a daemon too.
    """
    wanted = [name for name in ("fix", "secrets") if args[name]]
    try:
        with daemon_calls.connect(start=False) as client:
            result = call(client, "doctor", dict.fromkeys(wanted, True))
    except NoDaemon:
        result = daemon_calls.run_without_daemon("--doctor", *(f"--{name}" for name in wanted))
    result = {**result, "findings": [*result["findings"], *_shadows()]}
    show_result(result, args, lambda result, args: console.out(reports.doctor(result, args["fix"])))
    return 0 if result["ok"] else MemdError.exit_code


def _shadows() -> list[dict[str, str]]:
    """Other programs of the same name; only the shell that asks can tell which it would run."""
    return [
        {"name": "command", "state": "warn", "detail": detail, "fix": fix}
        for detail, fix in installation.others(os.environ.get("PATH", os.defpath))
    ]


@method_command(jobs_app, "job.list", of_group=True)
def jobs(result: Result, args: Args) -> None:
    head = ("job", "schedule", "last run", "took", "next", "result")
    console.out(reports.table([head, *map(_row, result["jobs"])]))


def _row(job: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one_line(job["name"]),
        reports.scheduled(one_line(job["schedule"])),
        reports.ago(job["last"]),
        _took(job) if job["last"] and not job["running"] else "",
        reports.until(job["next"]) if job["next"] else "",
        "running" if job["running"] else one_line(job["result"]),
    )


def _took(job: Mapping[str, Any]) -> str:
    return f"{job['took_ms']:.0f} ms" if job["took_ms"] < 1000 else reports.duration(job["took_ms"] / 1000)


@method_command(
    jobs_app, "job.run", name="run", exit_code=lambda result: 0 if result["job"]["ok"] else MemdError.exit_code
)
def run_job(result: Result, args: Args) -> None:
    """Runs a job now, whatever its schedule, and says what came of it."""
    job = result["job"]
    console.line(f"{job['name']}: {job['result']} ({_took(job)})")
