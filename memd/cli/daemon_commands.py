"""`memd start`, `stop`, `restart`, `daemon`, `status`, `logs` and `doctor`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from memd.cli import logs as log_files
from memd.cli import options, say, show, talk
from memd.config import paths
from memd.config.load import load
from memd.errors import AlreadyRunning, MemdError, NoDaemon
from memd.protocol import lightjson
from memd.protocol import start as process


def start(json: options.Json = False) -> None:
    """Start the daemon."""
    before = talk.running()
    if not before:
        process.start()
    _running("runs already" if before else "is running", json)


def restart(json: options.Json = False) -> None:
    """Stop the daemon and start it anew."""
    load()  # A daemon that works is not stopped for settings under which none would start.
    process.restart()
    _running("is running", json)


def _running(verb: str, json: bool) -> None:
    told = talk.running()
    if not told:
        raise NoDaemon("the daemon was started and is gone again", "see why: memd logs")
    if json:
        say.json(told)
    else:
        say.line(f"memd {told['version']} {verb} (pid {told['pid']})")


def stop(json: options.Json = False) -> None:
    """Stop the daemon; nothing is lost."""
    pid = process.stop()
    if json:
        say.json({"stopped": bool(pid), "pid": pid or None})
    else:
        say.line(f"memd is stopped (pid {pid})" if pid else "memd was not running")


def daemon(
    json: Annotated[bool, typer.Option("--json", help="Log in JSON, one object a line.")] = False,
) -> None:
    """Run the daemon in the foreground."""
    command = process.daemon_command()
    environment = {**os.environ, **({"MEMD_LOG__FORMAT": "json"} if json else {})}
    if source := process.source_dir():
        environment["PYTHONPATH"] = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.execve(command[0], command, environment)


def status(json: options.Json = False) -> None:
    """Show what is watched, pending and degraded."""
    with talk.client(start=False) as caller:
        result = caller.status()
    if json:
        say.json(result)
    else:
        say.out(show.status(result))


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines.")] = 50,
    json: options.Json = False,
) -> None:
    """Show the daemon's log; it need not run."""
    file = paths.log_file()
    found = log_files.last_lines(file, lines) if lines else []
    if json:
        say.json({"log": str(file), "lines": found})
    else:
        for line in found:
            say.line(line)
        if not found and not follow:
            say.note(f"the log is empty: {file}")
    if follow:
        for line in log_files.follow(file):
            say.line(line)


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended.")] = False,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="List the lines of your notes that seem to hold a key or a password.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Check the stores, and mend them with --fix.

    Works without a daemon too.
    """
    try:
        with talk.client(start=False) as caller:
            result: Mapping[str, Any] = caller.doctor(fix=fix, secrets=secrets)
    except NoDaemon:
        result = _doctor_without_daemon(fix, secrets)
    if json:
        say.json(result)
    else:
        say.out(show.doctor(result, fix))
    raise typer.Exit(0 if result["ok"] else MemdError.exit_code)


def _doctor_without_daemon(fix: bool, secrets: bool) -> dict[str, Any]:
    """The daemon's own check, run under its lock in a process of its own."""
    command = process.daemon_command("--doctor", *(["--fix"] if fix else []), *(["--secrets"] if secrets else []))
    done = subprocess.run(command, capture_output=True, env=process.daemon_environment(), cwd="/", check=False)
    message, hint = process.daemon_words(done.stderr, done.returncode)
    if done.returncode == process.REFUSED:
        raise AlreadyRunning(f"{message}, and it does not answer", hint)
    try:
        result = lightjson.loads(done.stdout.decode("utf-8").strip().rpartition("\n")[2])
    except ValueError:
        raise MemdError(f"the check could not be made: {message}", hint) from None
    return dict(result)


def register(app: typer.Typer) -> None:
    for command in (status, start, stop, restart, daemon, logs, doctor):
        app.command()(command)
