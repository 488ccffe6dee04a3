"""`memd query`, `memd search`, `memd grep` and `memd get`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import typer

from memd.cli import absence, fast, grepping, hits, options, pages, say, talk
from memd.errors import UsageError

Mode = Literal["hybrid", "text", "vector", "exact"]
Format = Literal["text", "memory-search", "grep", "bus", "files", "jsonl"]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="DATE", help="As it was known on this day, from the versions of then.")
]
Color = Annotated[Literal["auto", "always", "never"], typer.Option(help="Colours and links.")]


def query(
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS...", help="What to look for; several words need no quotes.")
    ],
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-l", min=0, max=fast.MAX_LIMIT, help="At most this many hits; 0 for all there can be."
        ),
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option("--mode", "-m", help="By words and meaning, by one of them, or letter by letter.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only semantic, episodic or procedural memories.")] = None,
    tags: Annotated[list[str] | None, typer.Option(help="Only memories with all of these tags: a,b")] = None,
    role: Annotated[str | None, typer.Option(help="Only files of this role: daily, memory, topic, …")] = None,
    path: Annotated[str | None, typer.Option(help="Only files under this path, or that match this pattern.")] = None,
    tier: Annotated[str | None, typer.Option(help="Only memories of this tier: stm, ltm, …")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only notes of this day or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Only notes of this day or earlier.")] = None,
    as_of: AsOf = None,
    sync: Annotated[
        Literal["auto", "none", "full"] | None,
        typer.Option(help="Wait for changes: those seen already, none, or all on disk."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each hit got its rank.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show what comes near even when nothing answers the question.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="How hits are written; bus ranks whole entries by counting words.")
    ] = "text",
    color: Color = "auto",
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Find what was written down.

    Inside a workspace it asks that workspace, elsewhere all of them. Words that look like flags go after `--`.
    """
    if not any(word.strip() for word in words):
        raise UsageError("there is nothing to look for", "for example: memd query ErsatzTV")
    given: dict[str, Any] = {
        "ns": ns,
        "limit": limit,
        "mode": mode,
        "kind": kind,
        "tags": options.tags_of(tags or None),
        "role": role,
        "path": path,
        "tier": tier,
        "since": since,
        "until": until,
        "as_of": as_of,
        "sync": sync,
        "explain": explain or None,
        "all": everything,
        "format": form,
        "color": color,
        "no_start": no_start,
        "json": json,
    }
    if workspace:
        given["workspace"] = workspace
    raise typer.Exit(fast.answer(fast.Asked(words, given)))


def grep(
    pattern: Annotated[str, typer.Argument(help="The text, or with -E the regular expression, to look for.")],
    regex: Annotated[bool, typer.Option("--regex", "-E", help="PATTERN is a regular expression.")] = False,
    context: Annotated[
        int, typer.Option("--context", "-C", min=0, max=grepping.MAX_CONTEXT, help="Lines to show on either side.")
    ] = 3,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="As it is anyway.", hidden=True)] = False,
    case: Annotated[bool, typer.Option("--case-sensitive", help="Capital letters differ from small ones.")] = False,
    max_results: Annotated[
        int, typer.Option(min=0, help="At most this many blocks of lines; 0 for all.")
    ] = grepping.MAX_RESULTS,
    path: Annotated[str | None, typer.Option(help="Only files under this path, or that match this pattern.")] = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    color: Color = "auto",
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Find lines letter by letter, in the files themselves.

    Newest files first, each match with the lines around it. A pattern that looks like a flag goes after `--`.
    """
    given: dict[str, Any] = {
        "regex": regex or None,
        "context": context,
        "ignore_case": ignore_case,
        "case": case or None,
        "max_results": max_results,
        "path": path,
        "ns": ns,
        "workspace": workspace,
        "color": color,
        "no_start": no_start,
        "json": json,
    }
    raise typer.Exit(grepping.answer(pattern, given))


def get(
    what: Annotated[str, typer.Argument(metavar="KEY|PATH[:LINE]", help="A memory's key, or a file of notes.")],
    first: Annotated[int | None, typer.Option("--from", min=1, help="Begin at this line of the file.")] = None,
    lines: Annotated[int | None, typer.Option(min=1, help="This many lines.")] = None,
    version: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The memory as it was in this version.")
    ] = None,
    as_of: AsOf = None,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show one memory, or lines of a file."""
    path, line = _as_path(what)
    with talk.client(not no_start) as caller:
        name = talk.chosen(caller, ns, workspace)
        result = caller.get(
            None if path else what, path=path, ns=name, cwd=None if name else pages.working_directory(),
            from_=first or line, lines=lines, version=version, as_of=as_of,
        )  # fmt: skip
    if json:
        say.json(result)
    elif say.wants_colour():
        say.out(hits.memory(result))
    else:
        say.quoted(result["text"])


def _as_path(what: str) -> tuple[str | None, int | None]:
    """`memory/2026-02-15.md:12` as path and line; a key is neither."""
    found = re.fullmatch(r"(?P<path>[^#]+\.mdk?)(:(?P<line>[1-9]\d{0,8}))?", what)
    if not found:
        return None, None
    return found["path"], int(found["line"]) if found["line"] else None


def why_not(
    passage: Annotated[str, typer.Argument(metavar="PATH:LINE", help="The passage that was expected.")],
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="The question, as it was asked.")],
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    limit: Annotated[int | None, typer.Option("--limit", "-l", min=1, max=fast.MAX_LIMIT, help="As asked.")] = None,
    mode: Annotated[Mode | None, typer.Option("--mode", "-m", help="As asked.")] = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Say why a passage did not come up for a question."""
    path, line = _as_path(passage)
    if path is None:
        raise UsageError(f"{passage} is no place in a file of notes", "for example: memory/2026-02-15.md:12")
    with talk.client(not no_start) as caller:
        name = talk.chosen(caller, ns, workspace)
        cwd = None if name else pages.working_directory()
        result = caller.why_not(path, line or 1, " ".join(words), ns=name, cwd=cwd, limit=limit, mode=mode)
    if json:
        say.json(result)
    else:
        say.text(absence.told(passage, result))


def register(app: typer.Typer) -> None:
    app.command()(query)
    app.command(name="search", hidden=True, help="The same as `memd query`.")(query)
    app.command()(grep)
    app.command()(get)
    app.command(name="why-not")(why_not)
