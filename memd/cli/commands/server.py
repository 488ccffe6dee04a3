"""`memd start`, `stop`, `restart`, `reload`, `daemon`, `status`, `logs`, `web`, `serve`, `token`; for help, `mcp`."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from memd.cli import console, mcp_bridge, reports
from memd.cli.method_command import Args, Result, command_group, declared_command, method_command, own_command
from memd.config import paths, tokens
from memd.config.tokens import AccessToken
from memd.errors import NoDaemon, UsageError
from memd.protocol import start as process, wire
from memd.protocol.client import Client

POLL_SECONDS = 0.2
app = typer.Typer()


@method_command(app, "status", leave_out=["no_start"])
def status(result: Result, args: Args) -> None:
    """Shows what is watched, pending and degraded."""
    console.out(reports.status(result))


@own_command(app, "start")
def start(args: Args) -> None:
    """Starts the daemon."""
    before = _running()
    if not before:
        process.start()
    _show_running("runs already" if before else "is running", args["json"])


@own_command(app, "restart")
def restart(args: Args) -> None:
    """Stops the daemon and starts it again."""
    from memd.config.load import load

    load()  # A daemon that works is not stopped for settings under which none would start.
    process.restart()
    _show_running("is running", args["json"])


@method_command(app, "reload", leave_out=["no_start"])
def reload(result: Result, args: Args) -> None:
    """Has the daemon read its settings anew; what needs a restart is named."""
    console.lines(reports.reloaded(result).splitlines())


def _running() -> Result | None:
    """The running daemon's `hello`, or None."""
    with suppress(NoDaemon), Client() as client:
        return client.hello()
    return None


def _show_running(verb: str, json: bool) -> None:
    hello = _running()
    if not hello:
        raise NoDaemon("the daemon started and ended again", "see why: memd logs")
    console.show(hello, f"memd {hello['version']} {verb} (pid {hello['pid']})", json)


@own_command(app, "stop")
def stop(args: Args) -> None:
    """Stops the daemon; nothing is lost."""
    pid = process.stop()
    text = f"memd is stopped (pid {pid})" if pid else "memd was not running"
    console.show({"stopped": bool(pid), "pid": pid or None}, text, args["json"])


@app.command()
def daemon(json: Annotated[bool, typer.Option("--json", help="Log in JSON, one object a line.")] = False) -> None:
    """Runs the daemon in the foreground."""
    process.become(process.DAEMON, **({"MEMD_LOG__FORMAT": "json"} if json else {}))


@own_command(app, "web", leave_out=["no_start", "json"])
def web(args: Args) -> None:
    """Opens a page to see, search and tend the memory, on this machine only.

    The first line that it prints is the address, which works once and for ten minutes.
    """
    process.become(process.WEB, wire.dumps(args))


@declared_command(app, "mcp.open", name="mcp", leave_out=["who", "tz", "session"])
def mcp(args: Args) -> int:
    """Serves an agent that speaks MCP on standard input and output.

    The session is bound to the workspace of the working directory, or to the one that is named.
    """
    if not args["json"]:
        return mcp_bridge.run(args)
    console.json(mcp_bridge.describe(args))
    return 0


# --- the log ------------------------------------------------------------------------------------------------------


@own_command(app, "logs")
def logs(args: Args) -> None:
    """Shows the daemon's log; it need not run."""
    file, follow, json = paths.log_file(), args["follow"], args["json"]
    found = last_lines(file, args["lines"]) if args["lines"] else []
    if json:
        console.json({"log": str(file), "lines": found})
    elif not found and not follow and args["lines"]:
        console.note(f"the log is empty: {file}")
    console.lines(chain([] if json else found, _follow(file) if follow else []))


def last_lines(file: Path, count: int) -> list[str]:
    """The newest `count` lines, oldest first."""
    lines: list[str] = []
    for part in _newest_first(file):
        lines = part.read_text(encoding="utf-8", errors="replace").splitlines() + lines
        if len(lines) >= count:
            break
    return lines[-count:]


def _newest_first(file: Path) -> list[Path]:
    """`memd.log`, `memd.log.1`, `memd.log.2`, as far as they exist."""
    rotated = [part for part in file.parent.glob(f"{file.name}.*") if part.suffix[1:].isdigit()]
    rotated.sort(key=lambda part: int(part.suffix[1:]))
    return [part for part in (file, *rotated) if part.is_file()]


def _follow(file: Path) -> Iterator[str]:
    """Lines as they are written, for ever; goes along when the file is rotated."""
    log, rest = file.open("rb") if file.is_file() else None, b""
    if log:
        log.seek(0, os.SEEK_END)
    while True:
        data = log.read() if log else b""
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines)
        if log is None or (not data and _was_rotated(log, file)):
            if log:
                log.close()
            log = file.open("rb") if file.is_file() else None
        if not data:
            time.sleep(POLL_SECONDS)


def _was_rotated(log: BinaryIO, file: Path) -> bool:
    try:
        return file.stat().st_ino != os.fstat(log.fileno()).st_ino or file.stat().st_size < log.tell()
    except FileNotFoundError:
        return False


# --- the hub: this memory for other machines ----------------------------------------------------------------------

token_app = command_group(app, "token", "Makes, lists and revokes the tokens for the hub.")


@own_command(app, "serve", leave_out=["json"])
def serve(args: Args) -> None:
    """Serves this memory to other machines over HTTP, to each that has a token.

    Agents find MCP at /mcp, memd --remote and Python the same methods as on the socket at /rpc. The first line that it
    prints is the address.
    """
    flags = ["--no-start"] if args.pop("no_start") else []
    args["hosts"] = " ".join(args.pop("host") or ())
    settings = {f"MEMD_HUB__{name.upper()}": str(value) for name, value in args.items() if value}
    process.become(process.HUB, *flags, **settings)


def _read_or_write(args: Args) -> None:
    if args["read"] == args["write"]:
        raise UsageError("a token may read, or read and write", "give --read or --write")


@method_command(token_app, "token.add", name="add", prepare=_read_or_write)
def add(result: Result, args: Args) -> None:
    """Makes a token and prints it: once, alone, and never again."""
    console.line(result["token"])


@own_command(token_app, "token list")
def list_tokens(args: Args) -> None:
    """Lists who may come in, where, and until when; the tokens themselves are kept nowhere."""
    found = tokens.all_tokens()
    if not (found or args["json"]):
        console.note("there is no token; to make one: memd token add NAME --ns WORKSPACE --read")
        return
    table = reports.table([("name", "workspaces", "may", "made", "expires"), *map(_row, found)])
    console.show({"tokens": list(map(_fields, found))}, table, args["json"])


@method_command(token_app, "token.revoke", name="revoke")
def revoke(result: Result, args: Args) -> None:
    console.line(f"the token `{result['revoked']}` is revoked")


def _fields(token: AccessToken) -> dict[str, Any]:
    return {name: getattr(token, name) for name in ("name", "ns", "write", "who", "created", "expires", "expired")}


def _row(token: AccessToken) -> tuple[str, ...]:
    until = "never" if token.expires is None else _day(token.expires) + (" (expired)" if token.expired else "")
    return (token.name, ", ".join(token.ns), "write" if token.write else "read", _day(token.created), until)


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
