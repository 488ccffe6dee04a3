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
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn, TextIO

PIPE_CLOSED = 141
BOLD, RED, GREEN, CYAN, END = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"
PAGE_WIDTH, PAGE_LINES, LEAST_WIDTH = 100, 24, 40


def out(text: str, nothing: str = "") -> None:
    """Write `text` and a newline to standard output; where it is empty, a note that says so."""
    if text or not nothing:
        _write(sys.stdout, text + "\n")
    else:
        note(nothing)


def page(text: str) -> None:
    """`out`, but through a pager, as git does, where it is more than the terminal shows at once."""
    fits = not on_terminal(sys.stdout) or text.count("\n") < _size(sys.stdout)[1] - 1
    pager = os.environ.get("MEMD_PAGER", os.environ.get("PAGER", "less"))
    if fits or pager in ("", "cat") or os.environ.get("TERM") == "dumb" or not _paged(pager, text):
        out(text)


def _paged(pager: str, text: str) -> bool:
    """Show a text in a pager; False where it cannot be started."""
    import shlex
    import shutil
    import subprocess

    words = shlex.split(pager)
    if not words or shutil.which(words[0]) is None:
        return False
    # As git has it: colours are shown, and what fits the screen stays on it.
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment) as process:
        try:
            process.communicate((text + "\n").encode(sys.stdout.encoding or "utf-8", "replace"))
        except KeyboardInterrupt:
            process.wait()
    return True


def width() -> int:
    """How many columns there are to write in: the terminal's; for a pipe, or where nobody says, a page's."""
    return _size(sys.stdout)[0] if on_terminal(sys.stdout) else PAGE_WIDTH


def _size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of a terminal; the variables of that name count before what it says of itself."""
    try:
        terminal = os.get_terminal_size(stream.fileno())
    except OSError:
        terminal = os.terminal_size((0, 0))
    given = (os.environ.get(name, "") for name in ("COLUMNS", "LINES"))
    columns, lines = (int(text) if text.isdigit() else told for text, told in zip(given, terminal, strict=True))
    return max(columns or PAGE_WIDTH, LEAST_WIDTH), lines or PAGE_LINES


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


def first(lines: Sequence[str], most: int, more: str, total: int = 0) -> list[str]:
    """As many lines as are shown; where there are others, `more` says how many."""
    shown = lines[:most]
    left = (total or len(lines)) - len(shown)
    return [*shown, more.format(left)] if left > 0 else list(shown)


def text(exact: str) -> None:
    """Write to standard output what a file says, and nothing else but the newline at its end."""
    raw(exact.encode("utf-8", "replace") + (b"" if exact.endswith("\n") else b"\n"))


def quoted(exact: str, nothing: str = "") -> None:
    """The text of a note: made safe for a terminal, and for a pipe as it is."""
    if on_terminal(sys.stdout) or (nothing and not exact):
        out(neutralise(exact.removesuffix("\n")), nothing)
    else:
        text(exact)


def diff(text: str, nothing: str = "") -> None:
    """A unified diff: in colour and paged on a terminal, for a pipe as it is."""
    if not text or not wants_colour():
        quoted(text, nothing)
    else:
        page("\n".join(map(_coloured, neutralise(text.removesuffix("\n")).split("\n"))))


def _coloured(line: str) -> str:
    """A line of a diff."""
    colour = BOLD if line.startswith(("+++ ", "--- ")) else {"+": GREEN, "-": RED, "@": CYAN}.get(line[:1])
    return f"{colour}{line}{END}" if colour else line


def raw(data: bytes) -> None:
    """Write a piece of a larger whole to standard output."""
    _write(sys.stdout, data)


def json(result: Mapping[str, Any]) -> None:
    """Write a result as the wire has it: one line of JSON."""
    raw(wire.encode(result))


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    """A result as JSON, or in words."""
    if as_json:
        json(result)
    else:
        out(neutralise(text))


def note(*texts: str) -> None:
    """Tell the person something beside the answer."""
    for text in texts:
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
    try:
        if as_json:
            json({"error": wire.error_object(error)})
            return error.exit_code
    except MemdError as worse:
        error = worse
    hint = f"\n{neutralise(error.hint)}" if error.hint else ""
    note(error.message + hint.replace("\n", "\n  "))
    return error.exit_code


def confirm_irreversible(question: str, yes: bool) -> None:
    """Ask before what cannot be undone; without a terminal to ask on, the answer is no."""
    import typer

    if yes:
        return
    if not on_terminal(sys.stdin):
        raise UsageError("this cannot be undone, and there is no terminal to ask on", "if you mean it: --yes")
    typer.confirm(question, abort=True, err=True)


def can_ask() -> bool:
    """Whether a person is there to be asked."""
    return on_terminal(sys.stdin) and on_terminal(sys.stderr)


def on_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def wants_colour(choice: str | None = None) -> bool:
    """Whether standard output gets colours and links; https://no-color.org is honoured."""
    if choice not in (None, "auto"):
        return choice == "always"
    return on_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(stream: TextIO | None, data: str | bytes) -> None:
    if stream is None:
        return
    try:
        stream.flush()
        stream.buffer.write(data.encode(stream.encoding or "utf-8", "replace") if isinstance(data, str) else data)
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
