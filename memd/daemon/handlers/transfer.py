"""Out and in: `export`, `import`, `ingest` and `backup`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from memd.daemon.handlers.handler_context import date_of, namespaces
from memd.daemon.handlers.registry import HandlerContext, IncomingCall, Result, handles
from memd.daemon.handlers.workspace_writer import absolute_path
from memd.daemon.writer.tasks import import_files
from memd.errors import NotFound, SecretFound, UnknownWorkspace
from memd.indexer.lifecycle.edges import batches
from memd.indexer.maintenance import backups
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.transfer import export as exporting, import_plan, import_sources
from memd.indexer.transfer.import_plan import ExportedWorkspace, ImportPlan
from memd.indexer.writing.write_files import FileChange, WriteAction
from memd.notes import merging, safe_write
from memd.protocol.methods.transfer import BackupRequest, ExportRequest, ImportRequest, Incoming, IngestRequest

BATCH = 50
"""Files that are one action, so that other writers get in between."""
LIVES = 500
"""Lives or edges that are restored in one transaction."""
LISTED = 1_000
"""The most that an answer lists of one thing."""
SHOWN = 10


@handles(ExportRequest)
async def export(ctx: HandlerContext, request: ExportRequest, call: IncomingCall) -> Result:
    indexes = ctx.indexes(request)
    if not request.after:
        await ctx.scan(ctx.names(request))
    page = await ctx.read(exporting.page, ctx.stores, indexes, request.after, request.limit, ctx.max_bytes)
    return {**page, "workspaces": [index.place for index in indexes]}


@handles(BackupRequest)
async def backup(ctx: HandlerContext, request: BackupRequest, call: IncomingCall) -> Result:
    folder = absolute_path(request.path) if request.path else ctx.stores.folder / backups.FOLDER
    copy = await ctx.read(backups.make, ctx.stores.ledger, folder, datetime.now().astimezone())
    return {"backup": str(copy), "bytes": copy.stat().st_size}


# --- imports --------------------------------------------------------------------------------------------------------


@handles(ImportRequest)
async def import_(ctx: HandlerContext, request: ImportRequest, call: IncomingCall) -> Result:
    names, exports = ctx.names(request), await ctx.read(_load, absolute_path(request.path))
    targets = [(ctx.stores.index(ns), exported) for ns, exported in _targets(names, exports)]
    await ctx.scan(tuple(namespaces([index for index, _ in targets])))
    tally = ImportTally(ctx, request)
    for index, exported in targets:
        plan = await ctx.read(import_plan.plan, index, exported.incoming_files, request.overwrite)
        tally.plans.append((index, plan))
    tally.refuse_secrets()
    for (index, plan), (_, exported) in zip(tally.plans, targets, strict=True):
        if request.dry_run:
            tally.gone += len(await ctx.read(import_plan.absent, ctx.stores, index, exported.gone))
        else:
            await tally.write_plan(index, plan, "import")
            await _restore(ctx, index, exported, tally)
    return tally.result()


def _load(file: Path) -> list[ExportedWorkspace]:
    return import_sources.load_ghost(file) if import_sources.is_database(file) else import_plan.load(file)


def _targets(names: Sequence[str], exports: Sequence[ExportedWorkspace]) -> list[tuple[str, ExportedWorkspace]]:
    """Which workspace each part of an export goes to: the one that is meant, or the one of the same name."""
    if len(exports) == 1 and len(names) == 1:
        return [(names[0], exports[0])]
    targets = [(exported.ns, exported) for exported in exports if exported.ns in names]
    if not targets or (len(names) > 1 and len(targets) < len(exports)):
        held = ", ".join(exported.ns for exported in exports) or "nothing"
        why = f"the export has {held}; known here: {', '.join(names)}"
        raise UnknownWorkspace(why, "make the workspace with memd add, or name one: -n NS")
    return targets


@handles(IngestRequest)
async def ingest(ctx: HandlerContext, request: IngestRequest, call: IncomingCall) -> Result:
    index, tally = ctx.only_index(request), ImportTally(ctx, request)
    root = index.workspace.root
    await ctx.scan((index.workspace.ns,))
    files, sources = sorted(index.files), [absolute_path(path) for path in request.paths]
    asked = sources, files, root, ctx.max_bytes, date_of(request, "since"), request.project
    found, problems = await ctx.read(import_sources.gather, *asked)
    known = await ctx.read(import_plan.known_texts, ctx.stores, index)
    plan = await ctx.read(import_plan.plan, index, found, request.overwrite, known)
    tally.problems += problems
    tally.plans.append((index, plan))
    tally.refuse_nothing("--since or --project may leave out all of it" if request.since or request.project else "")
    tally.refuse_secrets()
    if not request.dry_run:
        await tally.write_plan(index, plan, "ingest")
    return tally.result()


def _edit(step: merging.IncomingFile, overwrite: bool) -> safe_write.Edit:
    """Decided anew on the bytes that are there when it is written."""
    return lambda data: merging.merge_incoming(step, data, overwrite).data


async def _restore(ctx: HandlerContext, index: OwnIndex, exported: ExportedWorkspace, tally: "ImportTally") -> None:
    """Give the memories back what was observed of them, the gone ones their history, and all of them their links."""
    for paths in batches([file.path for file in exported.incoming_files], LIVES):
        await ctx.write(import_plan.restore_lives, ctx.stores, index, exported.lives, paths)
    gone = await ctx.read(import_plan.absent, ctx.stores, index, exported.gone)
    tally.gone += len(gone)
    for some in batches(gone, LIVES):
        await ctx.write(import_plan.restore_gone, ctx.stores, index, some)
    for links in batches(exported.edges, LIVES):
        await ctx.write(import_plan.restore_edges, ctx.stores, index, exported.lives, links)


@dataclass(slots=True)
class ImportTally:
    """An import, over all workspaces, and its result."""

    ctx: HandlerContext
    request: Incoming
    plans: list[tuple[OwnIndex, ImportPlan]] = field(default_factory=list)
    problems: list[Result] = field(default_factory=list)
    gone: int = 0
    actions: list[int] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    @property
    def secrets(self) -> list[Result]:
        return [secret for _, plan in self.plans for secret in plan.secrets]

    def refuse_nothing(self, hint: str) -> None:
        """Say so when there was nothing to take in, or none of it could be."""
        if any(plan.steps or plan.same or plan.conflicts for _, plan in self.plans):
            return
        problems = [*self.problems, *(problem for _, plan in self.plans for problem in plan.problems)]
        places = _first([f"{problem['path']}: {problem['why']}" for problem in problems])
        raise NotFound(f"nothing there can be taken in{places}", hint or "docs/writing.md lists what memd ingest reads")

    def refuse_secrets(self) -> None:
        """Refuse all of it, and say where the secrets are; never what they are."""
        if not self.secrets or self.request.allow_secret or self.request.dry_run:
            return
        places = _first([f"{secret['place']}: {secret['kind']}" for secret in self.secrets])
        why = f"{len(self.secrets)} places look like secrets; nothing was written{places}"
        raise SecretFound(why, "take them out, or say --allow-secret")

    async def write_plan(self, index: OwnIndex, plan: ImportPlan, what: str) -> None:
        """Write what was planned; each batch is an action that can be undone as one."""
        ctx, request = self.ctx, self.request
        for nth in range(0, len(plan.steps), BATCH):
            steps = plan.steps[nth : nth + BATCH]
            changes = tuple(FileChange(step.path, edit=_edit(step, request.overwrite)) for step in steps)
            request_id = f"{request.request_id}:{index.workspace.ns}:{nth}" if request.request_id else ""
            action = WriteAction(what, request.author, changes, request=request_id)
            done = await ctx.write(import_files, ctx.worker, index, action, steps)
            self.actions.append(done.action)
            self.conflicts += done.conflicts
            if ctx.answer.report:
                await ctx.answer.report(what, nth + len(steps), len(plan.steps))

    def result(self) -> Result:
        indexes, plans = [index for index, _ in self.plans], [plan for _, plan in self.plans]
        paths = [step.path for plan in plans for step in plan.steps]
        kept = [{"ns": index.workspace.ns, **conflict} for index, plan in self.plans for conflict in plan.conflicts]
        problems = [*self.problems, *(problem for plan in plans for problem in plan.problems)]
        return {
            "ns": namespaces(indexes), "dry_run": self.request.dry_run, "files": len(paths), "gone": self.gone,
            **{name: sum(getattr(plan, name) for plan in plans) for name in ("added", "replaced", "same")},
            "paths": paths[:LISTED], "kept": kept[:LISTED], "kept_count": len(kept), "problems": problems[:LISTED],
            "secrets": self.secrets[:LISTED], "conflicts": self.conflicts[:LISTED], "actions": self.actions,
            "visible": self.ctx.stores.ledger.clock,
        }  # fmt: skip


def _first(places: list[str]) -> str:
    """The first of some places, a line each, and how many more there are."""
    more = [f"and {len(places) - SHOWN} more"] if len(places) > SHOWN else []
    return "".join(f"\n{line}" for line in (*places[:SHOWN], *more))
