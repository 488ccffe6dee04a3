"""What was: `history`, `diff`, `log` and `trash`; and what shall be again: `restore` and `undo`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from sqlite3 import Row

from memd.daemon import tasks
from memd.daemon.desk import Desk, Result
from memd.daemon.handlers.hand import hand
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import Conflict, NotFound, Refused, UsageError
from memd.indexer.actions import past, revive
from memd.indexer.actions.past import Wanted
from memd.indexer.record.deeds import in_utc
from memd.indexer.store.stores import Shelf

MOST = 1_000
FAR = 10**9


async def history(desk: Desk, params: Params, tell: Tell) -> Result:
    key, shelves = params.required("key"), desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    return await desk.read(past.versions, desk.parts.stores, shelves, key)


async def diff(desk: Desk, params: Params, tell: Tell) -> Result:
    key, shelves = params.required("key"), desk.shelves(params)
    old, new = params.number("old", 0, 1, FAR), params.number("new", 0, 1, FAR)
    params.done()
    await desk.catch_up("auto", ())
    return await desk.read(past.difference, desk.parts.stores, shelves, key, old, new)


async def log(desk: Desk, params: Params, tell: Tell) -> Result:
    since = params.date("since")
    wanted = Wanted(
        who=params.text("who"), what=params.text("what"), since=_begin(since), key=params.text("key"),
        limit=params.number("limit", 50, 1, MOST),
    )  # fmt: skip
    shelves = desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    found = await desk.read(past.entries, desk.parts.stores, shelves, wanted)
    return {"entries": found, "ns": [shelf.workspace.ns for shelf in shelves]}


async def trash(desk: Desk, params: Params, tell: Tell) -> Result:
    limit, shelves = params.number("limit", 200, 1, MOST), desk.shelves(params)
    params.done()
    await desk.catch_up("auto", ())
    found = await desk.read(past.trash, desk.parts.stores, shelves, limit)
    return {**found, "ns": [shelf.workspace.ns for shelf in shelves]}


async def restore(desk: Desk, params: Params, tell: Tell) -> Result:
    key, path, number = params.text("key"), params.text("path"), params.number("version", 0, 1, FAR)
    writer = hand(desk, params)
    params.done()
    if bool(key) == bool(path) or (path and number):
        raise UsageError("`restore` needs a `key`, with a `version`, or the `path` of a file that is gone")
    await desk.catch_up("auto", ())
    if path:
        return await _restore_file(desk, writer.shelf, path, writer.who)
    found = await desk.read(past.known, desk.parts.stores, [writer.shelf], key)
    version, text = await desk.read(past.text_of, desk.parts.stores, found, key, number)
    change = await desk.read(revive.back, desk.parts.stores, found, text)
    told = await writer.write("restore", key, change)
    return {**told, "key": key, "path": found.path, "version": version.number, "was_gone": found.gone is not None}


async def _restore_file(desk: Desk, shelf: Shelf, path: str, who: str) -> Result:
    rows = await desk.read(lambda: past.lost(desk.parts.stores.ledger.reader, shelf, path))
    if not rows:
        raise NotFound(f"{path} was not removed while memd watched, or is back already", "memd trash")
    return {**await _undo(desk, shelf, rows[0]["id"], who), "path": path, "version": None, "was_gone": True}


async def undo(desk: Desk, params: Params, tell: Tell) -> Result:
    number, who = params.number("action", 0, 1, FAR), params.text("who") or "socket"
    shelves = desk.shelves(params)
    params.done()
    row = await desk.read(_meant, desk, shelves, number, who)
    shelf = next(shelf for shelf in shelves if shelf.id == row["workspace"])
    told = {name: row[name] for name in ("what", "who", "at")}
    return {**await _undo(desk, shelf, row["id"], who), "undid": {"action": row["id"], **told}, "key": row["key"]}


async def _undo(desk: Desk, shelf: Shelf, action: int, who: str) -> Result:
    task = tasks.Undo(shelf.workspace.ns, action, who)
    try:
        done = await asyncio.wrap_future(desk.parts.worker.submit(task))
    except Conflict as error:
        since = await desk.read(past.since, desk.parts.stores, shelf.id, action)
        hint = f"since then: {since}; " if since else ""
        raise Conflict(error.message, f"{hint}nothing was overwritten. memd log shows all of it") from error
    return {"ns": shelf.workspace.ns, "root": str(shelf.workspace.root), "action": done.action,
            "paths": list(done.paths), "conflicts": list(done.conflicts), "repeated": done.repeated,
            "visible": done.visible, "back": done.back}  # fmt: skip


def _meant(desk: Desk, shelves: list[Shelf], number: int, who: str) -> Row:
    """The action that is named, else this client's last change of text."""
    row = past.action(desk.parts.stores, shelves, number) if number else past.last(desk.parts.stores, shelves, who)
    if row is None:
        named = f"there is no action {number} here" if number else f"nothing that {who} wrote is left to undo"
        raise NotFound(named, "memd log shows what was done, and by whom")
    if row["state"] != "done":
        raise Refused(f"action {row['id']} failed and changed nothing", f"memd log --what {row['what']}")
    if row["undone"] is not None:
        raise Refused(f"action {row['id']} was undone already", f"to undo that again: memd undo {row['undone']}")
    if not (row["spliced"] or row["shifted"]):
        raise Refused(f"action {row['id']} ({row['what']}) changed nothing that could be put back", "memd log")
    return row


def _begin(date: str) -> str:
    """When a day, a month or a year began here."""
    form = ("%Y", "%Y-%m", "%Y-%m-%d")[date.count("-")]
    return in_utc(datetime.strptime(date, form).astimezone()) if date else ""
