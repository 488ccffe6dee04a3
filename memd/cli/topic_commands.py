"""`memd topic`: the knowledge store, one topic a file and an index that lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from memd.cli import given, options, say, talk
from memd.errors import NotFound, UsageError
from memd.protocol.safe_text import neutralise

app = typer.Typer(help="Keep knowledge by topic.", rich_markup_mode=None)

Where = tuple[str | None, Path | None]
Topic = Annotated[str, typer.Argument(help="The topic's name.")]
Content = Annotated[str, typer.Argument(help="The content, as Markdown; - reads it from standard input.")]
Maybe = Annotated[str | None, typer.Argument(help="The new content, as Markdown; - reads it from standard input.")]
Title = Annotated[str | None, typer.Option(help="The title, where it is not the name.")]


@app.command()
def memorize(
    topic: Topic,
    content: Content,
    summary: Annotated[str, typer.Option("--summary", "-s", help="One or two sentences for the index.")],
    tags: Annotated[list[str] | None, typer.Option(help="Tags: a,b")] = None,
    title: Title = None,
    allow_secret: options.AllowSecret = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Memorize a new topic; fails if it exists."""
    wanted = {"topic": topic, "content": given.text_of([content]), "summary": summary, "tags": tags, "title": title}
    done = _write("memorize", (ns, workspace), no_start, now=given.now(), allow_secret=allow_secret, **wanted)
    given.tell(done, f"Memorized {topic} ({done['path']})", json)


@app.command()
def refine(
    topic: Topic,
    content: Maybe = None,
    add_tags: Annotated[list[str] | None, typer.Option("--add-tags", help="Tags to add: a,b")] = None,
    remove_tags: Annotated[list[str] | None, typer.Option("--remove-tags", help="Tags to remove: a,b")] = None,
    summary: Annotated[str | None, typer.Option("--summary", "-s", help="A new summary for the index.")] = None,
    title: Title = None,
    allow_secret: options.AllowSecret = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Change a topic's tags, summary or content."""
    body = given.text_of([content]) if content is not None else None
    wanted = {"topic": topic, "content": body, "summary": summary, "title": title,
              "add_tags": add_tags, "remove_tags": remove_tags}  # fmt: skip
    done = _write("refine", (ns, workspace), no_start, now=given.now(), allow_secret=allow_secret, **wanted)
    given.tell(done, f"Refined {topic} ({done['path']})", json)


@app.command()
def forget(
    topic: Topic,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Delete a topic's file and take it from the index; memd undo brings it back."""
    done = _write("forget", (ns, workspace), no_start, topic=topic)
    if done["kept"]:
        say.note(f"its file stays: {done['kept']}")
    given.tell(done, f"Forgot {topic}" if done["deleted"] else f"Took {topic} from the index", json)


@app.command()
def recall(
    topic: Topic,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show one topic: title, tags, when it was last updated, content."""
    result = _read("recall", (ns, workspace), no_start, topic=topic)
    if json:
        say.json(result)
    else:
        say.out(neutralise(result["markdown"]).removesuffix("\n"))


@app.command()
def general(
    new: Annotated[
        str | None, typer.Option("--set", metavar="TEXT", help="Replace it; - reads it from standard input.")
    ] = None,
    allow_secret: options.AllowSecret = False,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Show the general project knowledge, or replace it."""
    if new is not None:
        body = given.text_of([new])
        done = _write("set_general", (ns, workspace), no_start, content=body, allow_secret=allow_secret)
        given.tell(done, f"Memorized as general knowledge ({done['path']})", json)
        return
    result = _read("general", (ns, workspace), no_start)
    if json:
        say.json(result)
    elif result["content"]:
        say.out(neutralise(result["content"]))
    if not result["content"]:
        say.note("there is no general knowledge yet; begin: memd topic general --set TEXT")
        raise typer.Exit(NotFound.exit_code)


@app.command()
def search(
    tags: Annotated[list[str], typer.Argument(help="Tags, in upper or lower case.")],
    match: Annotated[Literal["any", "all"], typer.Option(help="Whether one of them is enough.")] = "any",
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """Find topics by their tags."""
    wanted = options.tags_of(tags)
    if not wanted:
        raise UsageError("which tags?", "memd topic search baking bread")
    result = _read("search", (ns, workspace), no_start, tags=wanted, match=match)
    if json:
        say.json(result)
    else:
        say.line(result["text"])
    if not result["topics"]:
        raise typer.Exit(NotFound.exit_code)


@app.command(name="list")
def topics(
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List the topics, separated by commas."""
    result = _read("list", (ns, workspace), no_start)
    if json:
        say.json(result)
        return
    if result["text"]:
        say.line(result["text"])
    for entry in result["missing"]:
        say.note(f"the index lists {entry['topic']}, but its file is gone: memd topic forget {entry['topic']}")


def _read(operation: str, where: Where, no_start: bool, **wanted: Any) -> dict[str, Any]:
    with talk.client(not no_start) as caller:
        return caller.call(f"topic.{operation}", given.asked(caller, *where, **wanted))


def _write(operation: str, where: Where, no_start: bool, **wanted: Any) -> dict[str, Any]:
    with talk.client(not no_start) as caller:
        method = getattr(caller, f"topic_{operation}")
        return dict(method(**given.aimed(caller, *where, **wanted)))
