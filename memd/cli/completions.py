"""What the shell offers to complete: names that only the daemon knows. It is asked if it runs, and never started."""

from __future__ import annotations

from typing import Any

from memd.cli import daemon_calls
from memd.errors import MemdError

MOST = 500


def workspaces(incomplete: str) -> list[str]:
    return _beginning(incomplete, (row["ns"] for row in _asked("workspace.list", {}).get("workspaces", ())))


def jobs(incomplete: str) -> list[str]:
    return _beginning(incomplete, (row["name"] for row in _asked("job.list", {}).get("jobs", ())))


def keys(ctx: Any, incomplete: str) -> list[str]:
    rows = _asked("list", {**_where(ctx), "limit": daemon_calls.LIST_PAGE}).get("memories", ())
    return _beginning(incomplete, (row["key"] for row in rows))


def roles(ctx: Any, incomplete: str) -> list[str]:
    return _beginning(incomplete, _asked("list", {**_where(ctx), "limit": 1}).get("roles", ()))


def tags(ctx: Any, incomplete: str) -> list[str]:
    return _beginning(incomplete, (row["tag"] for row in _asked("tag.list", _where(ctx)).get("tags", ())))


def _asked(method: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        with daemon_calls.connect(start=False) as client:
            return client.call(method, params)
    except MemdError:
        return {}


def _where(ctx: Any) -> dict[str, Any]:
    """The workspace that was named on the line so far, else the one around the working directory."""
    named = {"ns": ctx.params.get("ns"), "cwd": daemon_calls.working_directory()}
    return {name: value for name, value in named.items() if value}


def _beginning(incomplete: str, names: Any) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})[:MOST]


def of(method: str, parameter: str) -> Any:
    """What completes a parameter of a declared method; None for nothing."""
    return jobs if (method, parameter) == ("job.run", "name") else BY_NAME.get(parameter)


BY_NAME = {"key": keys, "from": keys, "to": keys, "keys": keys, "role": roles, "tags": tags}
