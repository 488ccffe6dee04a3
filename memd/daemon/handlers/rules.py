"""The rules by which memories age: `rule.list`, `rule.set`, `rule.rm` and `rule.test`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from memd.config import edit
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.workspaces import configure
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Refused
from memd.indexer.living.foresee import foreseen
from memd.lifecycle import book
from memd.lifecycle.language import SYSTEM, body, named
from memd.lifecycle.rules import BUILT_IN, Rule, similar_rules

MOST = 1_000


async def listed(desk: Desk, params: Params, tell: Tell) -> Result:
    params.done()
    return {"rules": [_told(rule) for rule in desk.parts.rules.all()]}


async def put(desk: Desk, params: Params, tell: Tell) -> Result:
    name, wanted = named(params.required("name")), params.required("rule")
    params.done()

    def change(texts: Mapping[str, str]) -> Mapping[str, str | None]:
        return {SYSTEM + name: None, name: book.text_for(book.book(texts.items()).rules, name, wanted)}

    await _change(desk, change)
    return {"rule": _told(book.find(desk.parts.rules.all(), name))}


async def rm(desk: Desk, params: Params, tell: Tell) -> Result:
    # Not by `named`: what could not be a rule's name can be taken out too.
    name = params.required("name").removeprefix(SYSTEM)
    params.done()

    def change(texts: Mapping[str, str]) -> Mapping[str, str | None]:
        return dict.fromkeys([one for one in (name, SYSTEM + name) if one in texts] or _refuse(name))

    await _change(desk, change)
    left = [_told(rule) for rule in desk.parts.rules.all() if rule.name == name]
    return {"name": name, "removed": True, "rule": left[0] if left else None}


def _refuse(name: str) -> NoReturn:
    """Only what the config file has can be taken out of it."""
    rule = book.find(BUILT_IN, name)
    raise Refused(f"`{rule.name}` is built in and cannot be removed", f"memd rule set {rule.name} off")


async def _change(desk: Desk, change: edit.Change) -> None:
    """Change the config file, and go by it from now on."""
    async with desk.changing:
        desk.parts.rules.take(await configure(desk, edit.write_rules, change))


async def test(desk: Desk, params: Params, tell: Tell) -> Result:
    wanted, names, limit = params.text("rule"), desk.names(params), params.number("limit", 50, 1, MOST)
    params.done()
    rules = book.chosen(desk.parts.rules.all(), wanted)
    await desk.catch_up("auto", names)
    shelves = [desk.parts.stores.shelf(ns) for ns in names]
    found = await desk.read(foreseen, desk.parts.stores, shelves, rules, datetime.now(UTC), limit)
    used = [rule.name for rule in rules if rule.enabled and not rule.of_pairs]
    return {**found, "rules": used, "of_pairs": [rule.name for rule in similar_rules(rules)], "ns": list(names)}


def _told(rule: Rule) -> dict[str, Any]:
    """A rule as the wire has it."""
    return {
        "name": rule.name,
        "enabled": rule.enabled,
        "rule": body(rule),
        "origin": book.origin(rule),
        "of_pairs": rule.of_pairs,
        "doc": rule.doc,
    }
