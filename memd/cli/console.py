"""Everything the command line says goes through here: whole, in the terminal's encoding, to the right stream.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os
import sys

from memd.errors import MemdError, UsageError
from memd.protocol import wire
from memd.protocol.safe_text import neutralise, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn, TextIO

PIPE_CLOSED = 141


def out(text: str) -> None:
    """Write `text` and a newline to standard output."""
    _write(sys.stdout, text + "\n")


def line(text: str) -> None:
    """`out` for text that holds names from elsewhere."""
    out(one_line(text))


def lines(texts: Iterable[str], nothing: str = "") -> None:
    """`line` for each text; where there are none, a note that says so."""
    count = 0
    for text in texts:
        line(text)
        count += 1
    if nothing and not count:
        note(nothing)


def text(exact: str) -> None:
    """Write to standard output what a file says, and nothing else but the newline at its end."""
    _flush(sys.stdout, exact.encode("utf-8", "replace") + (b"" if exact.endswith("\n") else b"\n"))


def quoted(exact: str) -> None:
    """What a note says: made safe for a terminal, and for a pipe as it is."""
    if on_terminal(sys.stdout):
        out(neutralise(exact.removesuffix("\n")))
    else:
        text(exact)


def json(result: Mapping[str, Any]) -> None:
    """Write a result as the wire has it: one line of JSON."""
    _flush(sys.stdout, wire.encode(result))


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    """A result as JSON, or in words."""
    if as_json:
        json(result)
    else:
        out(neutralise(text))


def raw(data: bytes) -> None:
    """Write a piece of a larger whole to standard output."""
    _flush(sys.stdout, data)


def note(text: str) -> None:
    """Tell the person something beside the answer."""
    _write(sys.stderr, f"memd: {neutralise(text)}\n")


def note_author(result: Mapping[str, Any]) -> None:
    """Tell who wrote some of what was shown, where that was not only a person."""
    if result.get("written_by"):
        note(f"written by {', '.join(result['written_by'])}")


def wants_json(args: list[str]) -> bool:
    """Whether a command line asks for JSON, as far as that can be told before it is understood."""
    return "--json" in (args[: args.index("--")] if "--" in args else args)


def report(error: MemdError, as_json: bool = False) -> int:
    """Say what happened and what to do, with `--json` as JSON where the result would be; the exit code."""
    if as_json:
        json({"error": wire.error_object(error)})
        return error.exit_code
    note(error.message)
    if error.hint:
        _write(sys.stderr, "  " + neutralise(error.hint).replace("\n", "\n  ") + "\n")
    return error.exit_code


def confirm_irreversible(question: str, yes: bool) -> None:
    """Ask before what cannot be undone; without a terminal to ask on, the answer is no."""
    import typer

    if yes:
        return
    if not on_terminal(sys.stdin):
        raise UsageError("this cannot be undone, and there is nobody to ask", "say --yes if it is meant")
    typer.confirm(question, abort=True, err=True)


def on_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def wants_colour(choice: str | None = None) -> bool:
    """Whether standard output gets colours and links; https://no-color.org is honoured."""
    if choice not in (None, "auto"):
        return choice == "always"
    return on_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        _flush(stream, text.encode(stream.encoding or "utf-8", "replace"))


def _flush(stream: TextIO | None, data: bytes) -> None:
    if stream is None:
        return
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except BrokenPipeError:
        _leave_quietly()
    except OSError as error:
        raise MemdError(f"the output could not be written: {error.strerror}") from error


def _leave_quietly() -> NoReturn:
    """Nobody reads on, as after `| head`: what Python still holds for the pipe goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    raise SystemExit(PIPE_CLOSED)
