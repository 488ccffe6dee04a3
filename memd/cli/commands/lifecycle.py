"""`memd useful`, `memd reflect`, `memd sync-state`, `memd curate` and `memd rule`."""

from typing import Any

import typer

from memd.cli import console, reports
from memd.cli.method_command import Args, Result, command_group, method_command
from memd.errors import in_shell
from memd.protocol.safe_text import one_line

SHOWN = 20
"""Lines of each kind that a report has; it counts the rest."""
MORE = "  … and {} more: memd reflect --json"
FINDINGS = {
    "clusters": "belong together and have no summary yet (memd consolidate)",
    "contradictions": "contradict each other",
    "doubtful": "say nearly the same with other numbers",
    "stale": "have not been asked for in a long time, or have expired",
}
app = typer.Typer()


@method_command(app, "useful")
def useful(result: Result, args: Args) -> None:
    times = "once" if result["useful"] == 1 else f"{result['useful']} times"
    console.line(f"{args['key']} was useful {times}")


@method_command(app, "reflect")
def reflect(result: Result, args: Args) -> None:
    """Lets memories age now, and shows what moved, what was linked and what you should look at.

    It runs by itself every hour; `memd jobs` shows when. No text is ever changed by it.
    """
    for report in result["workspaces"]:
        if len(result["workspaces"]) > 1:
            console.line(f"{report['ns']}:")
        console.lines(_report(report, args["dry_run"]))


@method_command(app, "sync_state", name="sync-state")
def sync_state(result: Result, args: Args) -> None:
    """Exchanges what was observed of memories with your other machines: accesses, usefulness, tiers, edges.

    Each machine has a file of its own under memory/.memd, which git or Syncthing carries with the notes.
    """
    own = f"{reports.count(result['written'], 'line')} added to {result['state_file']}"
    changed = f"{reports.count(result['memories'], 'memory')} and {reports.count(result['edges'], 'edge')} changed"
    console.line(f"{own}; {reports.count(result['others'], 'other machine')}: {changed}")
    if result["elsewhere"]:
        console.note(f"{result['elsewhere']} memories and edges that they know are not here (yet)")
    console.note(*(one_line(f"left out: {line}") for line in result["garbage"]))


def _report(report: dict[str, Any], dry_run: bool) -> list[str]:
    """The findings of a reflection, the changes first."""
    would = "would be " if dry_run else ""
    links = reports.count(report["linked"], "new link")
    moves = [f"  {move['key']}: {move['from']} → {move['to']}  ({move['why']})" for move in report["moves"]]
    lines = [
        f"{report['memories']} memories looked at, {report['moved']} {would}moved, {report['faded']} {would}faded",
        *console.first(moves, SHOWN, MORE, report["moved"]),
        f"{links}, {report['edges_faded']} fading, {report['edges_pruned']} gone",
    ]
    for name, words in FINDINGS.items():
        if report[name]:
            found = [_finding(finding) for finding in report[name]]
            lines += [f"these {words}:", *console.first(found, SHOWN, MORE, report["counts"][name])]
    return lines


def _finding(finding: dict[str, Any]) -> str:
    keys = ", ".join(finding["keys"]) if "keys" in finding else finding["key"]
    why = f"  ({finding['why']})" if finding.get("why") else ""
    return f"  {keys}{why}"


@method_command(app, "curate")
def curate(result: Result, args: Args) -> None:
    """Decides about one memory.

    promote and demote move it a tier up or down, archive and delete lay it aside (its text stays; `memd rm` removes
    it), boost and diminish change its importance by 0.1, pin keeps it in every context and from ageing.
    """
    console.line(_decision(args["key"], result))
    if args["verb"] == "delete":
        console.note(f"its text stays; to remove that: memd rm {in_shell(args['key'])}")


def _decision(key: str, result: Result) -> str:
    what, changed = result["what"], result["changed"]
    if what == "pinned":
        return f"{key} is {'pinned' if result['after'] else 'not pinned'} {'now' if changed else 'already'}"
    if not changed:
        return f"{key} stays: its {what} is {result['after']} already"
    return f"{key}: {'' if what == 'tier' else what + ' '}{result['before']} → {result['after']}"


# --- rules --------------------------------------------------------------------------------------------------------

rule_app = command_group(app, "rule", "Lists, changes or tries the rules by which memories age.")


@method_command(rule_app, "rule.list", name="list")
def list_rules(result: Result, args: Args) -> None:
    """Lists the rules, in the order in which they are applied; the first that matches wins."""
    width = max(len(rule["name"]) for rule in result["rules"])
    for rule in result["rules"]:
        switch = "on " if rule["enabled"] else "off"
        console.line(f"{rule['name']:<{width}}  {switch}  {rule['origin']:<8}  {rule['rule']}")


@method_command(rule_app, "rule.set", name="set", words="rule")
def set_rule(result: Result, args: Args) -> None:
    """Adds a rule, changes one, or switches it on or off.

    Quote it, for the shell's sake: memd rule set chatter 'tag=chat idle>30d -> archive'
    """
    console.line(_rule(result["rule"]))


@method_command(rule_app, "rule.rm", name="rm")
def remove_rule(result: Result, args: Args) -> None:
    console.line(_rule(result["rule"]) if result["rule"] else f"{result['name']} is gone")


def _rule(rule: Result) -> str:
    return f"{rule['name']} is {'on' if rule['enabled'] else 'off'}: {rule['rule']}"


@method_command(rule_app, "rule.test", name="test", words="rule")
def test_rules(result: Result, args: Args) -> None:
    """Shows which memories the rules would move or let fade now, and why; nothing is changed."""
    several = len(result["ns"]) > 1
    console.lines(f"{match['ns'] + ': ' if several else ''}{_match(match)}" for match in result["matches"])
    console.note(_summary(result))


def _match(match: dict[str, Any]) -> str:
    """One memory: what would become of it, by which rule, why."""
    move = f"{match['from']} → {match['to']}" if match["to"] != match["from"] else f"{match['from']}, fading"
    return f"{match['key']}  {move}  {match['rule']}  ({match['why']})"


def _summary(result: Result) -> str:
    summary = f"{reports.count(result['memories'], 'memory')}: {result['moved']:,} would move, {result['faded']:,} fade"
    left = result["moved"] + result["faded"] - len(result["matches"])
    summary += f"; {left:,} of them are not shown, see --limit" if left else ""
    pairs = ", ".join(result["of_pairs"])
    return summary + (f"\nnot tried, since they compare pairs: {pairs}; see memd reflect --dry-run" if pairs else "")
