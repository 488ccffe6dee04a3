"""Completions for the shell: names that only the daemon knows. It is asked if it runs, and never started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memd.cli import daemon_calls
from memd.errors import MemdError

MOST_SHOWN = 500


def _completer(method: str, rows: str, name: str = "", **params: Any) -> Callable[[Any, str], list[str]]:
    """Completes what some rows of an answer are called; without a name, the rows themselves."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        # The workspace that was named on the line so far, else the one around the working directory.
        where = {"ns": ctx.params.get("ns"), "cwd": daemon_calls.working_directory()} if method in SCOPED else {}
        try:
            with daemon_calls.connect(start=False) as client:
                answer = client.call(method, {**params, **{key: value for key, value in where.items() if value}})
        except MemdError:
            return []
        names = {row[name] if name else row for row in answer.get(rows, ())}
        return sorted(one for one in names if one.startswith(incomplete))[:MOST_SHOWN]

    return complete


SCOPED = ("list", "tag.list")
workspaces = _completer("workspace.list", "workspaces", "ns")
_jobs = _completer("job.list", "jobs", "name")
_keys = _completer("list", "memories", "key", limit=daemon_calls.PAGES["list"][1])
_roles, _tags = _completer("list", "roles", limit=1), _completer("tag.list", "tags", "tag")
BY_NAME = {"key": _keys, "from": _keys, "to": _keys, "keys": _keys, "role": _roles, "tags": _tags}

BY_METHOD = {("job.run", "name"): _jobs, ("token.add", "ns"): workspaces}


def of(method: str, parameter: str) -> Any:
    """The function that completes a parameter of a declared method; None for nothing."""
    return BY_METHOD.get((method, parameter)) or BY_NAME.get(parameter)
