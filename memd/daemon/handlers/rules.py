"""The rules by which memories age: `rule.list`, `rule.set`, `rule.rm` and `rule.test`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from memd.config import edit
from memd.daemon.handler_context import HandlerContext, Result
from memd.daemon.handlers.workspaces import configure
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Refused
from memd.indexer.lifecycle.preview import preview_rules
from memd.lifecycle import rule_book
from memd.lifecycle.rule_language import SYSTEM, body, named
from memd.lifecycle.rules import BUILT_IN, Rule, similar_rules

MOST = 1_000


async def listed(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    params.done()
    return {"rules": [_told(rule) for rule in ctx.parts.rules.all()]}


async def put(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    name, wanted = named(params.required("name")), params.required("rule")
    params.done()

    def change(texts: Mapping[str, str]) -> Mapping[str, str | None]:
        return {SYSTEM + name: None, name: rule_book.text_for(rule_book.rule_book(texts.items()).rules, name, wanted)}

    await _change(ctx, change)
    return {"rule": _told(rule_book.find(ctx.parts.rules.all(), name))}


async def rm(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    # Not by `named`: what could not be a rule's name can be taken out too.
    name = params.required("name").removeprefix(SYSTEM)
    params.done()

    def change(texts: Mapping[str, str]) -> Mapping[str, str | None]:
        return dict.fromkeys([one for one in (name, SYSTEM + name) if one in texts] or _refuse(name))

    await _change(ctx, change)
    left = [_told(rule) for rule in ctx.parts.rules.all() if rule.name == name]
    return {"name": name, "removed": True, "rule": left[0] if left else None}


def _refuse(name: str) -> NoReturn:
    """Only what the config file has can be taken out of it."""
    rule = rule_book.find(BUILT_IN, name)
    raise Refused(f"`{rule.name}` is built in and cannot be removed", f"memd rule set {rule.name} off")


async def _change(ctx: HandlerContext, change: edit.Change) -> None:
    """Change the config file, and go by it from now on."""
    async with ctx.changing:
        ctx.parts.rules.take(await configure(ctx, edit.write_rules, change))


async def test(ctx: HandlerContext, params: Params, tell: Tell) -> Result:
    wanted, names, limit = params.text("rule"), ctx.names(params), params.number("limit", 50, 1, MOST)
    params.done()
    rules = rule_book.chosen(ctx.parts.rules.all(), wanted)
    await ctx.catch_up("auto", names)
    indexes = [ctx.parts.stores.index(ns) for ns in names]
    found = await ctx.read(preview_rules, ctx.parts.stores, indexes, rules, datetime.now(UTC), limit)
    used = [rule.name for rule in rules if rule.enabled and not rule.of_pairs]
    return {**found, "rules": used, "of_pairs": [rule.name for rule in similar_rules(rules)], "ns": list(names)}


def _told(rule: Rule) -> dict[str, Any]:
    """A rule as the wire has it."""
    return {
        "name": rule.name,
        "enabled": rule.enabled,
        "rule": body(rule),
        "origin": rule_book.origin(rule),
        "of_pairs": rule.of_pairs,
        "doc": rule.doc,
    }
