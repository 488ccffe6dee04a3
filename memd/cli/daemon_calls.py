"""How commands call the daemon: which workspace is meant, page by page, with a progress bar.

Light on purpose: `memd query` and `memd grep` load it.
"""

from __future__ import annotations

import os
import sys
import time

from memd.cli import console
from memd.errors import AlreadyRunning, MemdError, UnknownWorkspace, UsageError
from memd.protocol.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

REMOTE = "MEMD_REMOTE"
"""The variable of the environment that has the address of a hub."""
PAGES = {"bus": ("entries", 200), "list": ("memories", 1_000), "tree": ("memories", 5_000)}
"""The name of an answer's rows, and the most that one answer has."""
GREP_PAGE = 1_000
BAR_WIDTH = 30
REDRAW_SECONDS = 0.05
PHASES = {"scan": "reading", "text": "indexing", "vectors": "embedding", "questions": "asking",
          "import": "writing", "ingest": "writing", "outline": "reading"}  # fmt: skip


def connect(start: bool = True) -> Client:
    """A client of the hub that `memd --remote` names; else one that starts or upgrades the daemon where it must, and
    says so."""
    remote = os.environ.get(REMOTE) or None
    if remote and "://" not in remote and not remote.startswith(("/", "~", ".")):
        raise UsageError(f"{remote} is no address of a hub", f"with its scheme: https://{remote}")
    return Client(remote, autostart=start, notice=console.note, who="cli")


def run_without_daemon(*flags: str) -> dict[str, Any]:
    """Run the daemon's own code under its lock, in a process of its own; what it answers."""
    from memd.protocol import start as process, wire

    done = process.run_daemon(*flags)
    message, hint = process.daemon_words(done.stderr, done.returncode)
    if done.returncode == process.REFUSED:
        raise AlreadyRunning(f"{message}, and it does not answer", hint)
    try:
        return dict(wire.loads(done.stdout.decode("utf-8").strip().rpartition("\n")[2]))
    except ValueError:
        raise MemdError(message, hint) from None


# --- which workspace ----------------------------------------------------------------------------------------------


def working_directory() -> str | None:
    """None where it was removed under the shell, or has a name that is not text: no workspace is there."""
    try:
        here = os.getcwd()  # noqa: PTH109
        here.encode()
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    return here


def workspace_of(client: Client, directory: str | os.PathLike[str]) -> str | None:
    """The name of the innermost workspace that holds `directory`."""
    place = _with_slash(directory)
    known = client.call("workspace.list")["workspaces"]
    holding = [(len(root), entry["ns"]) for entry in known if place.startswith(root := _with_slash(entry["root"]))]
    return max(holding)[1] if holding else None


def _with_slash(directory: str | os.PathLike[str]) -> str:
    return os.path.realpath(directory).rstrip("/") + "/"


def named_workspace(client: Client, args: dict[str, Any]) -> str | None:
    """The workspace that `-n` or `-w` names; None where neither is given."""
    directory = args.get("workspace")
    if args.get("ns") or not directory:
        return args.get("ns")
    name = workspace_of(client, directory)
    if name is None:
        import shlex

        raise UnknownWorkspace(
            f"{directory} is in no workspace", f"make it one: memd add {shlex.quote(str(directory))}"
        )
    return name


def scope(client: Client, args: dict[str, Any]) -> dict[str, Any]:
    """`ns` and `cwd` of a call; paths in it are meant as the shell has them, also where the workspace is named."""
    where = {"ns": named_workspace(client, args), "cwd": working_directory()}
    return {name: value for name, value in where.items() if value}


# --- page by page -------------------------------------------------------------------------------------------------


def all_rows(client: Client, method: str, params: dict[str, Any], limit: int | None = 0) -> dict[str, Any]:
    """One answer that has as many rows as were asked for: all of them for 0, the daemon's own number for None."""
    if limit is None:
        return client.call(method, params)
    rows, page = PAGES[method]
    result = client.call(method, {**params, "limit": min(limit or page, page)})
    total = min(limit or result["total"], result["total"])
    while (have := len(result[rows])) < total:
        more = client.call(method, {**params, "offset": have, "limit": min(total - have, page)})[rows]
        if not more:
            break
        result[rows] += more
    return result


def all_blocks(client: Client, params: dict[str, Any], limit: int) -> dict[str, Any]:
    """The matches of `grep`, up to `limit` blocks, all for 0."""
    result = client.call("grep", {**params, "max_results": min(limit or GREP_PAGE, GREP_PAGE)})
    while result["next"] and (not limit or len(result["blocks"]) < limit):
        left = min(limit - len(result["blocks"]) if limit else GREP_PAGE, GREP_PAGE)
        more = client.call("grep", {**params, "max_results": left, "after": result["next"]})
        result["blocks"] += more["blocks"]
        result["next"] = more["next"]
    return result


# --- progress -----------------------------------------------------------------------------------------------------


class ProgressBar:
    """Draws what the daemon reports while a long call runs, where a person sees it; `update` is `on_progress`."""

    def __init__(self) -> None:
        self._shown = console.on_terminal(sys.stderr)
        self._drawn_at = 0.0
        self._phase = ""
        self._phase_began = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn_at:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def update(self, report: dict[str, Any]) -> None:
        now = time.monotonic()
        done, total, phase = int(report["done"]), int(report["total"]), str(report["phase"])
        if phase != self._phase:
            self._phase, self._phase_began, self._drawn_at = phase, now, 0.0
        if self._shown and (now - self._drawn_at > REDRAW_SECONDS or done >= total):
            self._drawn_at = now
            sys.stderr.write("\r\x1b[K" + progress_line(phase, done, total, now - self._phase_began))
            sys.stderr.flush()


def progress_line(phase: str, done: int, total: int, seconds: float) -> str:
    """`indexing  [#####.....]  1200/3400  2/s, 18 min left`."""
    share = min(1.0, done / total) if total else 1.0
    filled = round(share * BAR_WIDTH)
    left = ""
    if 0 < share < 1 and seconds > 1:
        from memd.cli.reports import span

        rate = f"{done / seconds:.0f}/s, " if done > seconds else ""
        left = f"  {rate}{span(seconds * (1 - share) / share)} left"
    return f"{PHASES.get(phase, phase):<9}  [{'#' * filled}{'.' * (BAR_WIDTH - filled)}]  {done}/{total}{left}"
