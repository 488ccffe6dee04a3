"""`memd rule list`, `set`, `rm` and `test`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from memd.cli import given, options, say, talk

app = typer.Typer(
    help="The rules by which memories age: list, change or try them.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(help="The rule's name.")]


@app.command(name="list")
def listed(no_start: options.NoStart = False, json: options.Json = False) -> None:
    """List the rules, in the order in which they are looked at; the first that matches wins."""
    with talk.client(not no_start) as caller:
        result = caller.rule_list()
    if json:
        say.json(result)
        return
    width = max(len(rule["name"]) for rule in result["rules"])
    for rule in result["rules"]:
        switch = "on " if rule["enabled"] else "off"
        say.line(f"{rule['name']:<{width}}  {switch}  {rule['origin']:<8}  {rule['rule']}")


@app.command(name="set")
def put(
    name: Name,
    rule: Annotated[list[str], typer.Argument(metavar="RULE|on|off", help="What it asks and does, or a switch.")],
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Make a rule, change one, or switch it on or off.

    Quote it, for the shell's sake: memd rule set chatter 'tag=chat idle>30d -> archive'
    """
    with talk.client(not no_start) as caller:
        result = caller.rule_set(name, " ".join(rule))
    if json:
        say.json(result)
    else:
        _tell(result["rule"])


@app.command()
def rm(name: Name, no_start: options.NoStart = False, json: options.Json = False) -> None:
    """Take a rule of your own away; a built-in one that you changed gets its own text back."""
    with talk.client(not no_start) as caller:
        result = caller.rule_rm(name)
    if json:
        say.json(result)
    elif result["rule"]:
        _tell(result["rule"])
    else:
        say.line(f"{result['name']} is gone")


def _tell(rule: Mapping[str, Any]) -> None:
    say.line(f"{rule['name']} is {'on' if rule['enabled'] else 'off'}: {rule['rule']}")


@app.command()
def test(
    rule: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|RULE]", help="One rule alone, by its name or its text.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, max=1_000, help="At most this many memories.")] = 50,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show which memories the rules would move or let fade now, and why; nothing is changed."""
    with talk.client(not no_start) as caller:
        one = " ".join(rule) if rule else None
        result = caller.rule_test(one, limit=limit, **given.asked(caller, ns, workspace))
    if json:
        say.json(result)
        return
    several = len(result["ns"]) > 1
    for match in result["matches"]:
        say.line(f"{match['ns'] + ': ' if several else ''}{_matched(match)}")
    say.note(_summary(result))


def _matched(match: dict[str, Any]) -> str:
    """One memory: what would become of it, by which rule, why."""
    move = f"{match['from']} → {match['to']}" if match["to"] != match["from"] else f"{match['from']}, fading"
    return f"{match['key']}  {move}  {match['rule']}  ({match['why']})"


def _summary(result: Mapping[str, Any]) -> str:
    said = f"of {result['memories']:,} memories {result['moved']:,} would move and {result['faded']:,} fade"
    left = result["moved"] + result["faded"] - len(result["matches"])
    said += f"; {left:,} of them are not shown, see --limit" if left else ""
    pairs = ", ".join(result["of_pairs"])
    return said + (f"\nnot tried, since they compare pairs: {pairs}; see memd reflect --dry-run" if pairs else "")
