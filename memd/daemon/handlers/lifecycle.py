"""How memories age: `useful`, `reflect`, `sync_state`, `curate`, `rule.list`, `rule.set`, `rule.rm` and `rule.test`."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from sqlite3 import Connection, Row
from typing import Any, NoReturn

from memd.config import edit
from memd.daemon.handlers.handler_context import namespaces
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import WorkspaceWriter, in_memory, workspace_writer
from memd.daemon.handlers.workspaces import configure
from memd.daemon.jobs.built_in import rules_of
from memd.errors import Refused, in_shell
from memd.indexer.lifecycle import lives as observed
from memd.indexer.lifecycle.reflect import preview_rules
from memd.indexer.lifecycle.sync_state import exchange
from memd.indexer.views import keys
from memd.lifecycle import lives, rule_book
from memd.lifecycle.rules import Rule, pair_rules
from memd.models import Memory, pick
from memd.notes import sections
from memd.protocol.methods import lifecycle as methods


@handles(methods.UsefulRequest)
async def useful(ctx: HandlerContext, request: methods.UsefulRequest, call: IncomingCall) -> Result:
    writer = workspace_writer(ctx, request)
    target = await writer.target(request.key)

    def count(connection: Connection, action: int) -> Result:
        return {"useful": observed.found_useful(connection, action, 0, target.number)}

    done = await writer.act("useful", request.key, count)
    life = await ctx.read(lambda: observed.life_of(ctx.stores.reader, target.number))
    return {**pick(done, "ns", "key", "action"), "useful": life.useful}


@handles(methods.ReflectRequest)
async def reflect(ctx: HandlerContext, request: methods.ReflectRequest, call: IncomingCall) -> Result:
    names = ctx.names(request)
    await ctx.catch_up()
    # What was shown just before counts.
    await asyncio.wrap_future(ctx.access_log.flush())
    # Not among the readers: it takes its time, and they are few.
    reports = [await asyncio.to_thread(ctx.reflection.reflect, ns, request.author, request.dry_run) for ns in names]
    return {"ns": list(names), "dry_run": request.dry_run, "workspaces": reports}


@handles(methods.SyncStateRequest)
async def sync_state(ctx: HandlerContext, request: methods.SyncStateRequest, call: IncomingCall) -> Result:
    index = ctx.only_index(request)
    await ctx.scan((index.workspace.ns,))
    return {**index.place, **await ctx.write(exchange, ctx.stores, index)}


DELETED = "deleted"
"""The name that `curate` has for a dormant memory in no answer."""


# --- one memory ---------------------------------------------------------------------------------------------------


@handles(methods.CurateRequest)
async def curate(ctx: HandlerContext, request: methods.CurateRequest, call: IncomingCall) -> Result:
    verb, writer = request.verb, workspace_writer(ctx, request)
    target = await writer.target(request.key)
    _, row = await ctx.read(keys.find_memory, ctx.stores, [writer.index], request.key)
    done = await (_move if verb in lives.MOVES else _declare)(writer, target, row, verb)
    return {**done, "verb": verb}


async def _move(writer: WorkspaceWriter, target: keys.KeyTarget, row: Row, verb: str) -> Result:
    """Put a memory into another tier, which only the ledger knows."""
    tier = lives.tier_after(verb, row["tier"], row["home"])
    before, after = DELETED if row["deleted"] else row["tier"], DELETED if verb == "delete" else tier
    repeated = await writer.repeated()
    if verb != "promote" and json.loads(row["declared"]).get("pinned") and not repeated:
        raise Refused(
            f"`{target.key}` is pinned, and only `promote` moves it", f"memd curate {in_shell(target.key)} unpin"
        )
    if before == after and not repeated:
        return {**writer.untouched(target.key), **_change_of("tier", before, before)}

    def move(connection: Connection, action: int) -> Result:
        to = observed.TierMove(row["id"], tier, writer.who, verb, verb == "delete")
        moved = observed.move(connection, action, 0, to, datetime.now(UTC))
        writer.ctx.stores.ledger.tick(connection)
        return {"moved": int(moved), "moves": [{"key": target.key, "to": after, "why": verb}]}

    done = await writer.act(f"curate {verb}", target.key, move)
    return {**done, **_change_of("tier", before, before if repeated else after), "repeated": repeated}


async def _declare(writer: WorkspaceWriter, target: keys.KeyTarget, row: Row, verb: str) -> Result:
    """Change what a memory declares about itself in its file."""
    fact, facts = lives.fact_of(verb), json.loads(row["declared"])
    before = after = bool(facts.get("pinned")) if fact == "pinned" else lives.base_importance(facts.get("importance"))

    def edit(text: str, memory: Memory) -> str:
        nonlocal before, after
        before = memory.declared.pinned if fact == "pinned" else lives.base_importance(memory.declared.importance)
        after = lives.fact_after(verb, before)
        if verb == "unpin" and before and not sections.metadata_of(target.path, target.slug, text).pinned:
            raise Refused(f"`{target.key}` is pinned by the front matter of {target.path}", "unpin it there")
        return sections.with_metadata(target.path, target.slug, text, {fact: after})

    if lives.fact_after(verb, before) == before and not await writer.repeated():
        return {**writer.untouched(target.key), **_change_of(fact, before, before)}
    done = await writer.edit(f"curate {verb}", target, in_memory(target, edit))
    await writer.ctx.catch_up()
    return {**done, **_change_of(fact, before, after)}


def _change_of(what: str, before: Any, after: Any) -> Result:
    return {"what": what, "before": before, "after": after, "changed": before != after}


# --- rules --------------------------------------------------------------------------------------------------------


@handles(methods.RuleListRequest)
async def rule_list(ctx: HandlerContext, request: methods.RuleListRequest, call: IncomingCall) -> Result:
    return {"rules": [_rule_row(rule) for rule in ctx.config.rules]}


@handles(methods.RuleSetRequest)
async def rule_set(ctx: HandlerContext, request: methods.RuleSetRequest, call: IncomingCall) -> Result:
    name = rule_book.named(request.name)

    def change(texts: Mapping[str, str]) -> Mapping[str, str | None]:
        text = rule_book.text_for(rule_book.rule_book(texts.items()).rules, name, request.rule)
        return {rule_book.SYSTEM + name: None, name: text}

    await _change_rules(ctx, change)
    return {"rule": _rule_row(rule_book.find(ctx.config.rules, name))}


@handles(methods.RuleRmRequest)
async def rule_rm(ctx: HandlerContext, request: methods.RuleRmRequest, call: IncomingCall) -> Result:
    # Not by `named`: what could not be a rule's name can be taken out too.
    name = request.name.removeprefix(rule_book.SYSTEM)

    def change(texts: Mapping[str, str]) -> Mapping[str, str | None]:
        return dict.fromkeys([one for one in (name, rule_book.SYSTEM + name) if one in texts] or _refuse(name))

    await _change_rules(ctx, change)
    left = [_rule_row(rule) for rule in ctx.config.rules if rule.name == name]
    return {"name": name, "removed": True, "rule": left[0] if left else None}


def _refuse(name: str) -> NoReturn:
    """Only what the config file has can be taken out of it."""
    rule = rule_book.find(rule_book.BUILT_IN, name)
    raise Refused(f"`{rule.name}` is built in and cannot be removed", f"memd rule set {in_shell(rule.name)} off")


async def _change_rules(ctx: HandlerContext, change: edit.Change) -> None:
    """Change the rules of the config file, and use them from now on."""
    async with ctx.config.lock:
        ctx.config.rules = rules_of(await configure(ctx, edit.write_rules, change), ctx.health)


@handles(methods.RuleTestRequest)
async def rule_test(ctx: HandlerContext, request: methods.RuleTestRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    rules = rule_book.choose(ctx.config.rules, request.rule)
    await ctx.catch_up()
    preview = await ctx.read(preview_rules, ctx.stores, indexes, rules, datetime.now(UTC), request.limit)
    used = [rule.name for rule in rules if rule.enabled and not rule.of_pairs]
    pairs = [rule.name for rule in pair_rules(rules)]
    return {**preview, "rules": used, "of_pairs": pairs, "ns": namespaces(indexes)}


def _rule_row(rule: Rule) -> dict[str, Any]:
    """A rule as the wire has it."""
    as_they_are = {name: getattr(rule, name) for name in ("name", "enabled", "of_pairs", "doc")}
    return {**as_they_are, "rule": rule_book.body(rule), "origin": rule_book.origin(rule)}
