"""`memd useful` and `memd reflect`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memd.cli import given, options, say, show, talk

SHOWN = 20
"""Lines of each kind that a report has; it counts the rest."""


def useful(
    key: Annotated[str, typer.Argument(help="The memory's key.")],
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Say that a memory was of use to you."""
    with talk.client(not no_start) as caller:
        result = caller.useful(key, **given.aimed(caller, ns, workspace))
    if json:
        say.json(result)
    else:
        times = "once" if result["useful"] == 1 else f"{result['useful']} times"
        say.line(f"{key} was useful {times}")


def reflect(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Let memories age now, and show what moved, what was linked and what wants your eye.

    It runs by itself every hour; `memd jobs` shows when. No text is ever changed by it.
    """
    with talk.client(not no_start) as caller:
        result = caller.reflect(dry_run=dry_run, **given.aimed(caller, ns, workspace))
    if json:
        say.json(result)
        return
    for found in result["workspaces"]:
        if len(result["workspaces"]) > 1:
            say.line(f"{found['ns']}:")
        for line in _report(found, dry_run):
            say.line(line)


def _report(found: dict[str, Any], dry_run: bool) -> list[str]:
    """What a reflection found, the changes first."""
    would = "would be " if dry_run else ""
    lines = [f"{found['memories']} memories looked at, {found['moved']} {would}moved, {found['faded']} {would}faded"]
    lines += _some(
        found["moves"], found["moved"], lambda move: f"  {move['key']}: {move['from']} → {move['to']}  ({move['why']})"
    )
    lines.append(
        f"{show.count(found['linked'], 'new link')}, {found['edges_faded']} fading, {found['edges_pruned']} gone"
    )
    for name, head in (("clusters", "belong together and have no summary yet (memd consolidate):"),
                       ("contradictions", "contradict each other:"),
                       ("doubtful", "say nearly the same with other numbers:"),
                       ("stale", "have not been asked for in a long time, or have run out:")):  # fmt: skip
        told = found[name]
        if told:
            lines += [f"these {head}", *_some(told, found["counts"][name], _words)]
    return lines


def _some(told: list[Any], count: int, line: Any) -> list[str]:
    shown = [line(one) for one in told[:SHOWN]]
    left = count - len(shown)
    return [*shown, f"  … and {left} more: memd reflect --json"] if left > 0 else shown


def _words(one: dict[str, Any]) -> str:
    keys = ", ".join(one["keys"]) if "keys" in one else one["key"]
    why = f"  ({one['why']})" if one.get("why") else ""
    return f"  {keys}{why}"


def register(app: typer.Typer) -> None:
    app.command()(useful)
    app.command()(reflect)
