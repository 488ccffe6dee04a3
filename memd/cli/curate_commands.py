"""`memd consolidate`, `memd expand` and `memd curate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from memd.cli import given, options, say, talk
from memd.protocol.safe_text import one_line

Key = Annotated[str, typer.Argument(help="The memory's key, such as deploy or 2026-02-15#ersatztv.")]


def consolidate(
    key: Annotated[str, typer.Argument(help="The key of the summary: a new one, or one to be written again.")],
    summary: Annotated[list[str], typer.Argument(metavar="SUMMARY|-", help="What it says; - reads standard input.")],
    sources: Annotated[list[str], typer.Option("--sources", "-s", metavar="KEY,KEY", help="What it sums up.")],
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    allow_secret: options.AllowSecret = False,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Write a memory that sums up others: in `memd context` it stands for them.

    The sources stay as they are and can be found as before; `memd undo` takes the summary back.
    """
    named = [source.strip() for group in sources for source in group.split(",") if source.strip()]
    with talk.client(not no_start) as caller:
        how = given.aimed(caller, ns, workspace, now=given.now(), allow_secret=allow_secret)
        result = caller.consolidate(key, given.text_of(summary), named, **how)
    where = f" in {result['paths'][0]}" if result["paths"] else ""
    told = f"{result['key']}{where} sums up {', '.join(result['sources'])} (version {result['version']})"
    given.tell(result, told, json)


def expand(
    key: Annotated[str | None, typer.Argument(help="A summary's key; without it the summaries are listed.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show what a summary sums up, or which summaries there are."""
    with talk.client(not no_start) as caller:
        result = caller.expand(key, **given.asked(caller, ns, workspace))
    if json:
        say.json(result)
    elif key is None:
        for one in result["summaries"]:
            say.line(f"{one['key']}  {one['path']}:{one['start_line']}  contains {one['children']}")
        if not result["summaries"]:
            say.note("there is no summary yet: memd consolidate writes one")
    else:
        _children(key, result["children"])


def _children(key: str, children: list[dict[str, Any]]) -> None:
    if not children:
        say.note(f"{one_line(key)} contains no other memory")
    for nth, one in enumerate(children):
        say.out(f"{chr(10) if nth else ''}{one_line(one['key'])}  {one_line(one['path'])}:{one['start_line']}")
        say.quoted(one["text"])


def curate(
    key: Key,
    verb: Annotated[
        str, typer.Argument(help="promote, demote, archive, delete, boost, diminish, pin or unpin.", metavar="VERB")
    ],
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Decide about one memory.

    promote and demote move it a tier up or down, archive and delete lay it aside (its text stays; `memd rm` removes
    it), boost and diminish change its importance by 0.1, pin keeps it in every context and from ageing.
    """
    with talk.client(not no_start) as caller:
        result = caller.curate(key, verb, **given.aimed(caller, ns, workspace))  # type: ignore[arg-type]
    given.tell(result, _told(key, verb, result), json)
    if verb == "delete" and not json:
        say.note(f"its text stays; to remove that: memd rm {key}")


def _told(key: str, verb: str, result: Mapping[str, Any]) -> str:
    if result["what"] == "pinned":
        state = "pinned" if result["after"] else "not pinned"
        return f"{key} is {state} now" if result["changed"] else f"{key} is {state} already"
    name = "" if result["what"] == "tier" else f"{result['what']} "
    if not result["changed"]:
        return f"{key} stays: its {result['what']} is {result['after']} already"
    return f"{key}: {name}{result['before']} → {result['after']}"


def register(app: typer.Typer) -> None:
    for command in (consolidate, expand, curate):
        app.command()(command)
