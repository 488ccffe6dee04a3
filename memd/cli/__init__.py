"""The front door. Commands that must be quick are answered without loading the rest of the command line."""

import sys

from memd.errors import MemdError

INTERRUPTED = 130
OF_MEMORY = {
    "search": ["query", "--format", "entries", "--quiet"],
    "list": ["list"],
    "write": ["write"],
    "read": ["read"],
}
"""`memd memory search`, as a bus of agents calls it, and what else it calls."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    args = sys.argv[1:] if argv is None else argv
    if args[:1] == ["memory"] and args[1:2] and args[1] in OF_MEMORY:
        args = [*OF_MEMORY[args[1]], *args[2:]]
    try:
        code = _run_quickly(args[0], args[1:]) if args else None
        if code is not None:
            return code
        from memd.cli import app

        return app.run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except MemdError as error:
        failed = error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        failed = MemdError(f"{where}{error.strerror or error}")
    from memd.cli import console

    return console.report(failed, console.wants_json(args))


def _run_quickly(command: str, args: list[str]) -> int | None:
    """Run a command without Typer; None where only Typer can explain what is wrong with it (or help)."""
    if command in ("query", "search", "grep"):
        from memd.cli import fast_search

        return fast_search.run_grep(args) if command == "grep" else fast_search.run_query(args)
    if command == "hook":
        from memd.cli import hook

        return hook.run_args(args)
    if command == "mcp":
        from memd.cli import mcp_bridge

        return mcp_bridge.run_args(args)
    if command == "merge-note" and len(args) in (3, 4) and not any(arg.startswith("-") for arg in args):
        from memd.protocol import start

        start.become(start.MERGE, *args)
    return None
