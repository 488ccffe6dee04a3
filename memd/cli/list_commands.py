"""`memd list`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from memd.cli import formats, options, pages, say, talk
from memd.protocol.safe_text import one_line

ALL = 0
Sort = Literal["newest", "oldest", "key", "role", "title"]
Kind = Literal["semantic", "episodic", "procedural"]


def memories(
    role: Annotated[str | None, typer.Option(help="Only files of this role: daily, memory, topic, …")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only memories of this kind.")] = None,
    tags: Annotated[list[str] | None, typer.Option(help="Only memories with all of these tags: a,b")] = None,
    tier: Annotated[str | None, typer.Option(help="Only memories of this tier: stm, ltm, …")] = None,
    path: Annotated[str | None, typer.Option(help="Only files under this path, or that match this pattern.")] = None,
    sort: Annotated[Sort, typer.Option(help="What comes first.")] = "newest",
    limit: Annotated[int, typer.Option("--limit", "-l", min=0, help="At most this many; 0 for all.")] = ALL,
    ns: options.Ns = None,
    workspace: options.Workspace = None,
    no_start: options.NoStart = False,
    json: options.Json = False,
) -> None:
    """List the memories: role, title, time."""
    given: dict[str, Any] = {"role": role, "kind": kind, "tier": tier, "path": path, "sort": sort}
    params = {name: value for name, value in given.items() if value is not None}
    if tags:
        params["tags"] = options.tags_of(tags)
    with talk.client(not no_start) as caller:
        params = pages.aimed(caller, {"ns": ns, "workspace": workspace}, params)
        result = pages.gathered(caller, "list", params, "memories", limit, pages.LIST_PAGE)
    if json:
        say.json(result)
        return
    if result["memories"]:
        say.out(formats.columns(result))
    if role and role not in result["roles"]:
        known = ", ".join(result["roles"]) or "none yet"
        say.note(f"no memory has the role “{one_line(role)}”; there are: {known}")


def register(app: typer.Typer) -> None:
    app.command(name="list")(memories)
