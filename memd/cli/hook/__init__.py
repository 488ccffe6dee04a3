"""`memd hook EVENT`: answers an agent's hook. Whatever goes wrong, it is silent and exits with 0.

Light on purpose: an agent waits for it at every prompt. tests/test_light_imports.py guards that. It never starts the
daemon, and a timer ends it when its time is over, wherever it is by then.
"""

from __future__ import annotations

# The module that `signal` is made of, for the same reason as `_socket` in protocol/connection.py.
import _signal  # type: ignore[import-not-found]
import os
import sys
import time

from memd.cli.flags import HOOK
from memd.config import hooks
from memd.config.paths import config_path_str, log_path_str, socket_path_str
from memd.protocol import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memd.protocol.client import Client

NAMES = ("session-start", "user-prompt-submit", "pre-compact", "stop", "session-end")
EVENTS = {name: name.title().replace("-", "") for name in NAMES}
"""Our names for them, and the agents': `SessionStart`."""
LINES = {"pre-compact": 100, "stop": 200, "session-end": 200}
"""How many of the transcript's last lines each event looks at."""
CAPTURE_SECONDS = 5.0
"""How long it may take to save what was learned, beside the user's own command."""
YOUNG_FOR, YOUNG_SECONDS = 120.0, 1.0
"""A daemon is young for so long, and a hook then has at least this much time."""
MOST_SLOW = 5.0
MAX_INPUT = 1 << 23
INSIDE = "MEMD_HOOK_INSIDE"
"""Set for the user's command: an agent that it starts has hooks too, and they would start the command again."""


def run_args(args: list[str]) -> int | None:
    """Answer the hook that the arguments name; None for Typer to explain what is wrong with them (or to help)."""
    read = HOOK.read(args)
    return run(read[0][0], read[1]) if read and len(read[0]) == 1 else None


def run(event: str, args: dict[str, Any]) -> int:
    """Answer one hook; always 0, since other codes would stop the agent in its work."""
    try:
        text = answer(event, args)
        if text:
            _write({"hookSpecificOutput": {"hookEventName": EVENTS[event], "additionalContext": text}})
    except Exception as error:  # noqa: BLE001
        _explain(args, _reason(error))
    finally:
        # While the interpreter ends, the signal would end the process by itself, and with another code.
        _signal.setitimer(_signal.ITIMER_REAL, 0)
    return 0


def answer(event: str, args: dict[str, Any]) -> str:
    """The text that the agent gets; empty for nothing."""
    if event not in EVENTS:
        from memd.cli import console

        console.note(f"no hook is called {event}; there are: {', '.join(EVENTS)}")
        return ""
    settings = hooks.settings()
    if idle := _idle(event, settings):
        _explain(args, idle)
        return ""
    _end_after(_time_limit(event, settings), event, args)
    payload = _read_payload()
    from memd.protocol.client import Client

    with Client(mask_secrets=True) as client:
        # By its name, so that it is this one also for a daemon that comes back in between.
        ns, along = _bind(client, payload, args)
        if event in LINES:
            from memd.cli.hook import learned

            _explain(args, f"saved {learned.save(client, event, payload, ns, settings)}")
            return ""
        from memd.cli.hook import recall

        if event == "session-start":
            return recall.start(client, ns, along)
        return recall.prompt(client, ns, along, str(payload.get("prompt") or ""), settings)


def _idle(event: str, settings: dict[str, Any]) -> str:
    """Why this event has nothing to do, before anything is read; empty when it has."""
    if os.environ.get(INSIDE):
        return f"{INSIDE} is set: an agent that hooks.extract starts has no hooks"
    if event in LINES and not settings["capture"]:
        off = "hooks.capture is off, so nothing is saved; to turn it on, write capture = true under [hooks] in"
        return f"{off} {config_path_str()}"
    return ""


def _reason(error: Exception) -> str:
    """The error, in words for a person."""
    hint = getattr(error, "hint", "")
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, LookupError):
        # Its text is the bare key, which says nothing alone.
        return f"something that the hook needs is missing: {error}"
    return (str(error) or "the hook failed for an unknown reason") + (f"; {hint}" if hint else "")


def _time_limit(event: str, settings: dict[str, Any]) -> float:
    if event in LINES:
        return CAPTURE_SECONDS + (settings["extract_s"] if settings["extract"] else 0)
    limit = float(settings["start_ms" if event == "session-start" else "timeout_ms"]) / 1000
    return max(limit, YOUNG_SECONDS) if _daemon_is_young() else limit


def _daemon_is_young() -> bool:
    """Whether the daemon has just started: its first answers take longer than the limit of later ones."""
    try:
        return time.time() - os.stat(socket_path_str()).st_mtime < YOUNG_FOR  # noqa: PTH116
    except OSError:
        return False


def _slowness() -> float:
    """How much longer than its own work this process has been running: on a busy machine everything takes longer."""
    try:
        with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:  # noqa: PTH123
            began = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
            running = float(uptime.read().split()[0]) - began
    except (OSError, ValueError, IndexError):
        return 1.0
    return min(max(running / max(time.process_time(), 0.01), 1.0), MOST_SLOW)


def _end_after(seconds: float, event: str, args: dict[str, Any]) -> None:
    """End the process when its time is over; on a busy machine it has as much more as it needed to start."""

    def end(*_: object) -> None:
        try:
            busy = f" ({seconds * slowness * 1000:.0f} ms on this busy machine)" if slowness > 1 else ""
            over = f"is over after {seconds * 1000:.0f} ms{busy}"
            if args.get("verbose"):
                # Not by `console`: whatever it interrupts may be about to write, too.
                os.write(2, f"memd: the time for this hook {over}\n".encode())
            _log(log_path_str(), f"the time for the hook {event} {over}; the agent was told nothing")
        finally:
            os._exit(0)

    _signal.signal(_signal.SIGALRM, end)
    slowness = _slowness()
    _signal.setitimer(_signal.ITIMER_REAL, seconds * slowness)


def _log(file: str, message: str) -> None:
    """Add a line to the daemon's log, in the daemon's form: silence looks as if nothing were known."""
    log = os.open(file, os.O_RDWR | os.O_APPEND)
    if os.pread(log, 1, 0) == b"{":
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        line = f'{{"time": "{now}", "level": "warning", "part": "hook", "message": "{message}"}}\n'
    else:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')},000 WARNING memd.hook: {message}\n"
    os.write(log, line.encode())


def _bind(client: Client, payload: dict[str, Any], args: dict[str, Any]) -> tuple[str, list[str]]:
    """Bind the connection to the workspace that was named, else to the one around the agent's directory; its name and
    what may be told beside it. In none of them there is nothing for the agent."""
    place = payload.get("cwd")
    here = os.path.realpath(place if isinstance(place, str) and place else os.curdir)
    answer = client.hello(bind=args["ns"]) if args.get("ns") else client.hello(bind_around=here)
    client.daemon = dict(answer)
    return answer["bound"] or "", answer.get("along", [])


def _read_payload() -> dict[str, Any]:
    """The agent's input on standard input: one JSON object."""
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise ValueError("the input is too long")
    payload = wire.decode(data)
    if not isinstance(payload, dict):
        raise ValueError("the input is not a JSON object")
    return payload


def _write(answer: dict[str, Any]) -> None:
    """Write the whole answer or nothing: the timer is stopped first."""
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    line = wire.encode(answer)
    while line:
        line = line[os.write(1, line) :]


def _explain(args: dict[str, Any], text: str) -> None:
    """Why nothing came, for a person who wants to know."""
    if args.get("verbose") and text:
        from memd.cli import console

        console.note(text)
