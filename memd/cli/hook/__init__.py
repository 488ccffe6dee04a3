"""`memd hook EVENT`: answers an agent's hook. Whatever goes wrong, it is silent and exits with 0.

Light on purpose: an agent waits for it at every prompt. tests/test_light_imports.py guards that. It never starts the
daemon, and a timer ends it when its time is over, wherever it is by then.
"""

from __future__ import annotations

import os

from memd.cli.flags import Flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memd.protocol.client import Client

EVENTS = {
    "session-start": "SessionStart",
    "user-prompt-submit": "UserPromptSubmit",
    "pre-compact": "PreCompact",
    "stop": "Stop",
    "session-end": "SessionEnd",
}
"""Our names for them, and the agents'."""
LINES = {"pre-compact": 100, "stop": 200, "session-end": 200}
"""How many of the transcript's last lines each event looks at."""
CAPTURE_SECONDS = 5.0
"""How long it may take to save what was learned, beside the user's own command."""
MOST_INPUT = 1 << 23
INSIDE = "MEMD_HOOK_INSIDE"
"""Set for the user's command: an agent that it starts has hooks too, and they would start the command again."""
FLAGS = Flags(
    values={"-n": "ns", "--ns": "ns"},
    switches={"--verbose": "verbose", "-v": "verbose", "--json": "json"},
    choices={},
    numbers={},
)


def parse(args: list[str]) -> tuple[str, dict[str, Any]] | None:
    """The event and what was given beside it; None for Typer to help."""
    read = FLAGS.read(args)
    return (read[0][0], read[1]) if read and len(read[0]) == 1 else None


def run(event: str, given: dict[str, Any]) -> int:
    """Answer one hook; always 0, since other codes would stop the agent in its work."""
    try:
        told = answer(event, given)
        if told:
            _write({"hookSpecificOutput": {"hookEventName": EVENTS[event], "additionalContext": told}})
    except Exception as error:  # noqa: BLE001
        _tell(given, _reason(error))
    return 0


def answer(event: str, given: dict[str, Any]) -> str:
    """What the agent gets to read; empty for nothing."""
    from memd.config import hooks

    if event not in EVENTS:
        from memd.cli import say

        say.note(f"no hook is called {event}; there are: {', '.join(EVENTS)}")
        return ""
    settings = hooks.settings()
    idle = _idle(event, settings)
    if idle:
        _tell(given, idle)
        return ""
    _end_after(_patience(event, settings), given)
    told = _listen()
    if event in LINES:
        from memd.cli.hook import capture

        with _client() as client:
            saved = capture.save(client, event, told, where(told, given), settings)
        _tell(given, f"saved {saved}")
        return ""
    from memd.cli.hook import recall

    with _client() as client:
        if event == "session-start":
            return recall.start(client, where(told, given))
        return recall.prompt(client, where(told, given), str(told.get("prompt") or ""), settings)


def _idle(event: str, settings: dict[str, Any]) -> str:
    """Why this event has nothing to do, before anything is read; empty when it has."""
    if os.environ.get(INSIDE):
        return f"{INSIDE} is set: an agent that hooks.extract starts has no hooks"
    if event in LINES and not settings["capture"]:
        from memd.config.paths import config_path_str

        return (
            "hooks.capture is off, so nothing is saved;"
            f" to turn it on, write capture = true under [hooks] in {config_path_str()}"
        )
    return ""


def _reason(error: Exception) -> str:
    """What went wrong, in words for a person."""
    hint = getattr(error, "hint", "")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, LookupError):
        # Its text is the bare key, which says nothing alone.
        return f"something that the hook needs is missing: {error}"
    return (str(error) or "the hook failed and does not know why") + (f"; {hint}" if hint else "")


def where(told: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The workspace that is meant: the one that was named, else the one around the agent's directory."""
    if given.get("ns"):
        return {"ns": given["ns"]}
    place = told.get("cwd")
    return {"cwd": os.path.realpath(place if isinstance(place, str) and place else os.curdir)}


def _patience(event: str, settings: dict[str, Any]) -> float:
    if event in LINES:
        return CAPTURE_SECONDS + (settings["extract_s"] if settings["extract"] else 0)
    return float(settings["start_ms" if event == "session-start" else "timeout_ms"]) / 1000


def _end_after(seconds: float, given: dict[str, Any]) -> None:
    # The module that `signal` is made of, for the same reason as `_socket` in protocol/link.py.
    import _signal  # type: ignore[import-not-found]

    def end(*_: object) -> None:
        try:
            if given.get("verbose"):
                # Not by `say`: whatever it interrupts may be about to write, too.
                os.write(2, b"memd: the time for this hook is over after %d ms\n" % (seconds * 1000))
        finally:
            os._exit(0)

    _signal.signal(_signal.SIGALRM, end)
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _client() -> Client:
    from memd.protocol.client import Client

    client = Client()
    try:
        client.daemon = dict(client.hello())
    except BaseException:
        client.close()
        raise
    return client


def _listen() -> dict[str, Any]:
    """What the agent says on standard input: one JSON object."""
    from memd.protocol import wire

    parts, size = [], 0
    while part := os.read(0, 1 << 16):
        parts.append(part)
        size += len(part)
        if size > MOST_INPUT:
            raise ValueError("the input is too long")
    told = wire.decode(b"".join(parts))
    if not isinstance(told, dict):
        raise ValueError("the input is not a JSON object")
    return told


def _write(answer: dict[str, Any]) -> None:
    """The whole answer or nothing: from here on the timer counts no more."""
    import _signal

    from memd.protocol import wire

    _signal.setitimer(_signal.ITIMER_REAL, 0)
    line = wire.encode(answer)
    while line:
        line = line[os.write(1, line) :]


def _tell(given: dict[str, Any], text: str) -> None:
    """Why nothing came, for a person who wants to know."""
    if given.get("verbose") and text:
        from memd.cli import say

        say.note(text)
