"""Carries out what a plan says, some files at a time, so that other writers get in between."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from memd.daemon import tasks
from memd.daemon.desk import Desk, Result, Told
from memd.daemon.events import INDEXED, WRITTEN, written
from memd.daemon.params import Params
from memd.errors import SecretFound
from memd.indexer.actions import writing
from memd.indexer.actions.writing import Change, Deed, Done
from memd.indexer.intake import ingest
from memd.indexer.intake.decide import Saved
from memd.indexer.store.stores import Shelf
from memd.indexer.transfer import arriving, relive
from memd.indexer.transfer.arriving import Cargo, Plan, Step
from memd.notes import parcel, pen

BATCH = 50
"""Files that are one action."""
LIVES = 500
LISTED = 1_000
"""The most that an answer lists of one thing."""
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Terms:
    """How someone wants it done."""

    who: str
    request: str
    allow_secret: bool
    overwrite: bool
    dry_run: bool

    @classmethod
    def of(cls, params: Params) -> Terms:
        return cls(
            params.text("who") or "socket", params.text("request_id"), params.flag("allow_secret"),
            params.flag("overwrite"), params.flag("dry_run"),
        )  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What came of it, over all workspaces."""

    files: int = 0
    paths: list[str] = field(default_factory=list)
    added: int = 0
    replaced: int = 0
    same: int = 0
    gone: int = 0
    kept: list[Result] = field(default_factory=list)
    problems: list[Result] = field(default_factory=list)
    secrets: list[Result] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def count(self, shelf: Shelf, plan: Plan) -> None:
        ns = shelf.workspace.ns
        self.files += len(plan.steps)
        self.paths += [step.parcel.path for step in plan.steps]
        self.added, self.replaced, self.same = (
            self.added + plan.added, self.replaced + plan.replaced, self.same + plan.same,
        )  # fmt: skip
        self.kept += [{"ns": ns, **conflict} for conflict in plan.conflicts]
        self.problems += plan.problems
        self.secrets += plan.secrets

    def told(self) -> Result:
        listed = {name: getattr(self, name)[:LISTED] for name in ("paths", "kept", "problems", "secrets", "conflicts")}
        counted = {name: getattr(self, name) for name in ("files", "added", "replaced", "same", "gone", "actions")}
        return {**counted, **listed, "kept_count": len(self.kept)}


def refuse_secrets(tally: Tally, terms: Terms) -> None:
    """Refuse all of it, and say where; never what it is."""
    if not tally.secrets or terms.allow_secret or terms.dry_run:
        return
    places = "\n".join(f"{found['place']}: {found['kind']}" for found in tally.secrets[:SHOWN])
    more = f"\nand {len(tally.secrets) - SHOWN} more" if len(tally.secrets) > SHOWN else ""
    raise SecretFound(
        f"{len(tally.secrets)} places look like secrets; nothing was written\n{places}{more}",
        "take them out, or say --allow-secret",
    )


async def carry_out(
    desk: Desk, shelf: Shelf, plan: Plan, what: str, terms: Terms, tally: Tally, told: Told | None
) -> None:
    """Write what was planned; each batch is an action that can be undone as one."""
    for nth in range(0, len(plan.steps), BATCH):
        steps = plan.steps[nth : nth + BATCH]
        changes = tuple(Change(step.parcel.path, edit=_edit(step, terms.overwrite)) for step in steps)
        request = f"{terms.request}:{shelf.workspace.ns}:{nth}" if terms.request else ""
        deed = Deed(what, terms.who, changes, request=request)
        done: Done = await _on_writer(desk, partial(_carry, desk, shelf, deed, steps))
        tally.actions.append(done.action)
        tally.conflicts += done.conflicts
        if told:
            await told(what, nth + len(steps), len(plan.steps))


async def restore(desk: Desk, shelf: Shelf, cargo: Cargo, tally: Tally) -> None:
    """Give the memories back what was observed of them, the gone ones their history, and all of them their links."""
    stores, paths = desk.parts.stores, [each.path for each in cargo.parcels]
    for nth in range(0, len(paths), LIVES):
        await _on_writer(desk, partial(arriving.restore_lives, stores, shelf, cargo, paths[nth : nth + LIVES]))
    gone = await desk.read(arriving.absent, stores, shelf, cargo)
    for nth in range(0, len(gone), LIVES):
        await _on_writer(desk, partial(arriving.restore_gone, stores, shelf, gone[nth : nth + LIVES]))
    tally.gone += len(gone)
    places = arriving.places(cargo)
    for nth in range(0, len(cargo.edges), LIVES):
        edges = cargo.edges[nth : nth + LIVES]
        await _on_writer(desk, partial(relive.restore_edges, stores, shelf, places, edges))


async def _on_writer(desk: Desk, work: Callable[[], Any]) -> Any:
    return await asyncio.wrap_future(desk.parts.worker.submit(tasks.Call(work)))


def _edit(step: Step, overwrite: bool) -> pen.Edit:
    """Decided anew on the bytes that are there when it is written."""
    return lambda found: parcel.merged(step.parcel, found, overwrite).data


def _carry(desk: Desk, shelf: Shelf, deed: Deed, steps: Sequence[Step]) -> Done:
    """One batch, on the writer's thread: the files, then the index."""
    worker = desk.parts.worker
    done = writing.perform(worker.stores, shelf, deed)
    if done.repeated:
        return done
    for step in steps:
        _date(shelf, step)
    saved: list[Saved] = []
    report = ingest.apply(worker.stores, shelf, done.paths, worker.max_bytes, saved=saved)
    worker.on_saved(shelf, saved)
    worker.events.tell(WRITTEN, ns=shelf.workspace.ns, **written(deed.who, deed.what, done))
    worker.events.tell(INDEXED, ns=shelf.workspace.ns, **report.figures)
    worker.on_applied(shelf, tuple(done.paths))
    if report.to_embed:
        worker.on_text(report.to_embed)
    return done


def _date(shelf: Shelf, step: Step) -> None:
    """A file that came as it is keeps its time: the day of a note that names none."""
    if step.new and step.parcel.modified and step.parcel.modified < datetime.now().timestamp():
        with suppress(OSError):
            os.utime(pen.place_of(shelf.workspace.root, step.parcel.path), (step.parcel.modified,) * 2)
