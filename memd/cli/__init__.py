"""The front door. Commands that must be quick are answered without loading the rest of the command line."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    args = sys.argv[1:] if argv is None else argv
    try:
        return _run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        from memd.cli import say
        from memd.errors import MemdError

        where = f"{error.filename}: " if error.filename else ""
        return say.report(MemdError(f"{where}{error.strerror or error}"))


def _run(args: list[str]) -> int:
    if args and args[0] in ("query", "search"):
        from memd.cli import fast

        asked = fast.parse(args[1:])
        if asked is not None:
            return fast.run(asked)
    if args and args[0] == "grep":
        from memd.cli import grepping

        wanted = grepping.parse(args[1:])
        if wanted is not None:
            return grepping.run(*wanted)
    if args and args[0] == "hook":
        from memd.cli import hook

        event = hook.parse(args[1:])
        if event is not None:
            return hook.run(*event)
    if args and args[0] == "mcp":
        from memd.cli import pump

        session = pump.parse(args[1:])
        if session is not None:
            return pump.run(session)
    from memd.cli import app

    return app.run(args)
