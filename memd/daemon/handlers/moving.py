"""In and out: `export`, `import`, `ingest` and `backup`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memd.daemon.carrying import Tally, Terms, carry_out, refuse_secrets, restore
from memd.daemon.desk import Desk, Result, teller
from memd.daemon.params import Params
from memd.daemon.server import Tell
from memd.errors import UnknownWorkspace, UsageError
from memd.indexer.store.stores import Shelf
from memd.indexer.transfer import arriving, moving, sources
from memd.indexer.transfer.arriving import Cargo, Plan
from memd.indexer.upkeep import backups
from memd.notes.layout import layout_of

MEMORIES = 500
MOST = 5_000


async def export(desk: Desk, params: Params, tell: Tell) -> Result:
    after, limit = params.text("after"), params.number("limit", MEMORIES, 1, MOST)
    ns = desk.names(params)
    params.done()
    if not after:
        await desk.scan(ns)
    stores = desk.parts.stores
    shelves = [stores.shelf(name) for name in ns]
    page = await desk.read(moving.page, stores, shelves, after, limit, desk.parts.worker.max_bytes)
    return {**page, "workspaces": [{"ns": one.workspace.ns, "root": str(one.workspace.root)} for one in shelves]}


async def bring(desk: Desk, params: Params, tell: Tell) -> Result:
    """`import`: what an export has, with the lives of its memories."""
    path, terms = params.required("path"), Terms.of(params)
    names, told = desk.names(params), teller(params, tell)
    params.done()
    cargoes = await desk.read(arriving.load, _place(path))
    aimed = [(desk.parts.stores.shelf(ns), cargo) for ns, cargo in _aims(names, cargoes)]
    await desk.scan(tuple(shelf.workspace.ns for shelf, _ in aimed))
    tally, plans = Tally(), list[tuple[Shelf, Cargo, Plan]]()
    for shelf, cargo in aimed:
        plan = await desk.read(arriving.plan, shelf, cargo.parcels, terms.overwrite)
        tally.count(shelf, plan)
        plans.append((shelf, cargo, plan))
    refuse_secrets(tally, terms)
    for shelf, cargo, plan in plans:
        if terms.dry_run:
            tally.gone += len(await desk.read(arriving.absent, desk.parts.stores, shelf, cargo))
        else:
            await carry_out(desk, shelf, plan, "import", terms, tally, told)
            await restore(desk, shelf, cargo, tally)
    return _answer(desk, [shelf for shelf, _ in aimed], terms, tally)


def _aims(names: Sequence[str], cargoes: Sequence[Cargo]) -> list[tuple[str, Cargo]]:
    """Which workspace each part of an export goes to: the one that is meant, or the one of the same name."""
    if len(cargoes) == 1 and len(names) == 1:
        return [(names[0], cargoes[0])]
    aims = [(cargo.ns, cargo) for cargo in cargoes if cargo.ns in names]
    if not aims or (len(names) > 1 and len(aims) < len(cargoes)):
        held = ", ".join(cargo.ns for cargo in cargoes) or "nothing"
        raise UnknownWorkspace(
            f"the export has {held}; known here: {', '.join(names)}",
            "make the workspace with memd add, or name one: -n NS",
        )
    return aims


async def ingest(desk: Desk, params: Params, tell: Tell) -> Result:
    places, terms = params.texts("paths"), Terms.of(params)
    names, told = desk.names(params), teller(params, tell)
    params.done()
    if not places:
        raise UsageError("`ingest` needs `paths`", "name a folder, a Markdown file or a file of JSON lines")
    if len(names) > 1:
        raise UsageError("which workspace is meant?", f"name it with -n: {', '.join(names)}")
    await desk.scan(names)
    stores, worker = desk.parts.stores, desk.parts.worker
    shelf, tally = stores.shelf(names[0]), Tally()
    files = sorted(shelf.files)
    here = [_place(place) for place in places]
    found = await desk.read(sources.gather, here, layout_of(files), files, shelf.workspace.root, worker.max_bytes)
    known = await desk.read(arriving.known_texts, stores, shelf)
    plan = await desk.read(arriving.plan, shelf, found.parcels, terms.overwrite, known)
    tally.problems += found.problems
    tally.count(shelf, plan)
    refuse_secrets(tally, terms)
    if not terms.dry_run:
        await carry_out(desk, shelf, plan, "ingest", terms, tally, told)
    return _answer(desk, [shelf], terms, tally)


def _answer(desk: Desk, shelves: Sequence[Shelf], terms: Terms, tally: Tally) -> Result:
    return {
        "ns": [shelf.workspace.ns for shelf in shelves],
        "dry_run": terms.dry_run,
        **tally.told(),
        "visible": desk.parts.stores.ledger.clock,
    }


async def backup(desk: Desk, params: Params, tell: Tell) -> Result:
    path = params.text("path")
    params.done()
    stores = desk.parts.stores
    folder = _place(path) if path else stores.folder / backups.FOLDER
    made = await desk.read(backups.make, stores.ledger, folder, datetime.now().astimezone())
    return {"backup": str(made.file), "bytes": made.size}


def _place(given: str) -> Path:
    try:
        place = Path(given).expanduser()
    except RuntimeError:
        raise UsageError(f"{given} is of no user of this machine") from None
    if not place.is_absolute() or "\0" in given:
        raise UsageError(f"a path must be absolute, not {given!r}")
    return place
