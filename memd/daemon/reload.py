"""Takes up a changed config file while the daemon runs: what can be followed at once is, of the rest it says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memd.config.declared import fields_of
from memd.config.load import load
from memd.config.schema import SECTIONS, Settings
from memd.daemon.handler_context import HandlerContext

FOLLOWED = ("embedding", "search", "rules")
"""The sections that hold at once."""
READ_ANEW = ("hooks",)
"""The sections that whoever needs them reads for each call."""


async def reload(ctx: HandlerContext) -> dict[str, Any]:
    """Follow the config file; ConfigError if something is wrong with it, and then everything stays as it was."""
    async with ctx.config_lock:
        settings = await ctx.read(load)
        changed = list(_changes(ctx.settings, settings))
        if set(settings.workspaces) != {index.workspace for index in ctx.stores.indexes.values()}:
            changed.append("workspace")
        ctx.settings = replace(ctx.settings, **{name: getattr(settings, name) for name in (*FOLLOWED, *READ_ANEW)})
    ctx.rules.take(settings.rules)
    ctx.embedding.change(settings.embedding)
    waiting = [name for name in changed if name.split(".")[0] not in (*FOLLOWED, *READ_ANEW)]
    return {"changed": changed, "restart": waiting}


def _changes(before: Settings, after: Settings) -> Iterator[str]:
    """The names of the settings that differ."""
    for name, section in SECTIONS.items():
        old, new = getattr(before, name), getattr(after, name)
        for setting in fields_of(section):
            if getattr(old, setting) != getattr(new, setting):
                yield f"{name}.{setting}"
