"""What every writing method needs: one workspace, who writes, a look for secrets, and the deed itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from memd.daemon import tasks
from memd.daemon.desk import Desk, Result
from memd.daemon.params import Params
from memd.errors import SecretFound, UsageError
from memd.indexer.actions.writing import Change, Deed
from memd.indexer.store.stores import Shelf
from memd.notes.layout import Layout, layout_of
from memd.notes.secrets import secrets_in


@dataclass(frozen=True, slots=True)
class Hand:
    """Someone who writes to one workspace."""

    desk: Desk
    shelf: Shelf
    who: str
    request: str
    allow_secret: bool

    @property
    def layout(self) -> Layout:
        return layout_of(list(self.shelf.files))

    def may_hold(self, text: str) -> None:
        """Refuse what looks like a secret, unless it was allowed."""
        found = [] if self.allow_secret else secrets_in(text)
        if found:
            kinds = ", ".join(dict.fromkeys(f"{secret.kind} (line {secret.line})" for secret in found))
            raise SecretFound(f"the text seems to hold {kinds}", "leave it out, or say --allow-secret")

    async def write(self, what: str, key: str, *changes: Change) -> Result:
        """Do it; the answer comes when the files are on the disk."""
        deed = Deed(what, self.who, changes, key, self.request)
        done = await asyncio.wrap_future(self.desk.parts.worker.submit(tasks.Write(self.shelf.workspace.ns, deed)))
        return {
            "ns": self.shelf.workspace.ns,
            "root": str(self.shelf.workspace.root),
            "action": done.action,
            "paths": list(done.paths),
            "conflicts": list(done.conflicts),
            "repeated": done.repeated,
            "key": done.key,
            "visible": done.visible,
        }


def hand(desk: Desk, params: Params) -> Hand:
    """Whoever calls, and the one workspace that is meant."""
    who, request = params.text("who") or "socket", params.text("request_id")
    allowed = params.flag("allow_secret")
    return Hand(desk, only_shelf(desk, params), who, request, allowed)


def only_shelf(desk: Desk, params: Params) -> Shelf:
    """The one workspace that is meant: to write to all of them would be nobody's wish."""
    names = desk.names(params)
    if len(names) > 1:
        raise UsageError("which workspace is meant?", f"name it with -n: {', '.join(names)}")
    return desk.parts.stores.shelf(names[0])
