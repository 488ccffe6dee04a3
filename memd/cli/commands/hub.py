"""`memd serve`, and `memd token add`, `list` and `revoke`: this memory for other machines."""

import time
from typing import Annotated, Any

import typer

from memd.cli import completions, console, reports
from memd.cli.method_command import Args, Json, NoStart, Result, command_group, method_command
from memd.config import tokens
from memd.config.tokens import AccessToken
from memd.errors import UsageError
from memd.protocol import start as process

Read = Annotated[bool, typer.Option("--read", help="It may read.")]

app = typer.Typer()
token_app = command_group(app, "token", "Lets other machines in by the hub, and shuts them out.", no_args_is_help=True)


@app.command()
def serve(
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where; else 127.0.0.1:8428.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", metavar="NAME", help="A name by which it is reached; may be repeated.")
    ] = None,
    cert: Annotated[str | None, typer.Option("--cert", metavar="FILE", help="The certificate for TLS, PEM.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="The certificate's key, PEM.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front of it does TLS.")] = False,
    no_start: NoStart = False,
) -> None:
    """Serves this memory to other machines over HTTP, to each that has a token.

    Agents find MCP at /mcp, memd --remote and Python the same methods as on the socket at /rpc. The first line that it
    prints is the address.
    """
    given = {"--listen": listen, "--cert": cert, "--key": key}
    flags = [f"{name}={value}" for name, value in given.items() if value is not None]
    flags += [f"--host={name}" for name in host or ()] + ["--behind-proxy"] * behind_proxy
    flags += ["--no-start"] * no_start
    process.become(process.hub_command(*flags))


def _read_or_write(args: Args) -> None:
    if args["read"] == args["write"]:
        raise UsageError("a token is to read, or to write as well", "give --read or --write")


@method_command(
    token_app, "token.add", name="add", prepare=_read_or_write, read=Read,
    ns=typer.Option(
        "--ns", "-n", metavar="NAME", help="A workspace that it is for; may be repeated.",
        autocompletion=completions.workspaces,
    ),
    write=typer.Option("--write", help="It may read and write."),
    expires=typer.Option("--expires", metavar="WHEN", help="12h, 30d, 1y, or a day; else never."),
)  # fmt: skip
def add(result: Result, args: Args) -> None:
    """Makes a token and prints it: once, alone, and never again."""
    console.line(result["token"])


@token_app.command(name="list")
def list_tokens(json: Json = False) -> None:
    """Lists who may come in, where, and until when; the tokens themselves are kept nowhere."""
    found = tokens.all_tokens()
    rows = [_row(token) for token in found]
    table = reports.table([("name", "workspaces", "may", "made", "expires"), *rows]) if rows else ""
    if not (table or json):
        console.note("there is no token; to make one: memd token add NAME --ns WORKSPACE --read")
    else:
        console.show({"tokens": [_fields(token) for token in found]}, table, json)


@method_command(token_app, "token.revoke", name="revoke")
def revoke(result: Result, args: Args) -> None:
    console.line(f"the token `{result['revoked']}` is revoked")


def _fields(token: AccessToken) -> dict[str, Any]:
    return {
        "name": token.name, "ns": list(token.ns), "write": token.write, "who": token.who, "created": token.created,
        "expires": token.expires, "expired": token.expired,
    }  # fmt: skip


def _row(token: AccessToken) -> tuple[str, ...]:
    until = "never" if token.expires is None else _day(token.expires) + (" (expired)" if token.expired else "")
    return (token.name, ", ".join(token.ns), "write" if token.write else "read", _day(token.created), until)


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
