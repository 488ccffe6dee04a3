"""What every writing method needs: one workspace, the author, a check for secrets, and the action itself."""

from __future__ import annotations

from dataclasses import dataclass

from memd.daemon import tasks
from memd.daemon.handler_context import HandlerContext, InWorkspace, Result
from memd.errors import SecretFound, UsageError
from memd.indexer.record import actions
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.writing.write_files import ActionResult, FileChange, WriteAction
from memd.notes.layout import Layout, layout_of
from memd.notes.secrets import secrets_in
from memd.protocol.methods.base import Writing


@dataclass(frozen=True, slots=True)
class WorkspaceWriter:
    """An author who writes to one workspace."""

    ctx: HandlerContext
    index: WorkspaceIndex
    who: str
    request: str
    allow_secret: bool

    @property
    def layout(self) -> Layout:
        return layout_of(list(self.index.files))

    def may_hold(self, text: str) -> None:
        """Refuse what looks like a secret, unless it was allowed."""
        found = [] if self.allow_secret else secrets_in(text)
        if found:
            kinds = ", ".join(dict.fromkeys(f"{secret.kind} (line {secret.line})" for secret in found))
            raise SecretFound(f"the text seems to hold {kinds}", "leave it out, or say --allow-secret")

    async def repeated(self) -> bool:
        """Whether this request was carried out before: then it is not checked against its own outcome."""
        ledger = self.ctx.stores.ledger
        return await self.ctx.read(lambda: actions.by_request(ledger.reader, self.request)) is not None

    async def write(self, what: str, key: str, *changes: FileChange) -> Result:
        """Carry out an action; returns when its files are on the disk."""
        write_action = WriteAction(what, self.who, changes, key, self.request)
        return written(self.index, await self.ctx.run(tasks.Write(self.index.workspace.ns, write_action)))

    def untouched(self, key: str) -> Result:
        """The result of a write that had nothing to write."""
        return {**written(self.index, ActionResult(0, key=key, visible=self.ctx.stores.ledger.clock)), "action": None}


def written(index: WorkspaceIndex, done: ActionResult) -> Result:
    """What every write returns."""
    return {
        **index.place,
        "action": done.action,
        "paths": list(done.paths),
        "conflicts": list(done.conflicts),
        "repeated": done.repeated,
        "key": done.key,
        "visible": done.visible,
    }


def workspace_writer(ctx: HandlerContext, request: Writing) -> WorkspaceWriter:
    """Whoever calls, and the one workspace that is meant."""
    who = request.who or "socket"
    return WorkspaceWriter(ctx, only_index(ctx, request), who, request.request_id, request.allow_secret)


def only_index(ctx: HandlerContext, request: InWorkspace) -> WorkspaceIndex:
    """The one workspace that is meant: to write to all of them would be nobody's wish."""
    names = ctx.names(request)
    if len(names) > 1:
        raise UsageError("which workspace is meant?", f"name it with -n: {', '.join(names)}")
    return ctx.stores.index(names[0])
