"""The parts of every write: one workspace, who writes, a look for secrets, edits of a memory, the action itself."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memd.daemon.handlers.handler_context import HandlerContext, Result
from memd.daemon.writer import queue, tasks
from memd.errors import Conflict, Refused, UsageError
from memd.indexer.indexing.scan import left_out
from memd.indexer.query import lookup
from memd.indexer.record import actions, history
from memd.indexer.store.lexicon import similar_names
from memd.indexer.store.own_stores import OwnIndex
from memd.indexer.store.stores import WorkspaceIndex
from memd.indexer.views import keys, topics
from memd.indexer.writing.write_files import ActionResult, FileChange, WriteAction
from memd.models import TEAM, Memory
from memd.notes import names, secrets, sections
from memd.protocol.methods.base import Writing

WRITTEN = ("action", "paths", "conflicts", "repeated", "key", "visible")
"""The fields of an outcome that a write returns."""


@dataclass(frozen=True, slots=True)
class WorkspaceWriter:
    """An author who writes to one workspace."""

    ctx: HandlerContext
    index: OwnIndex
    who: str
    request_id: str = ""
    allow_secret: bool = True

    @property
    def ns(self) -> str:
        return self.index.workspace.ns

    @property
    def layout(self) -> names.Layout:
        return topics.layout(self.index)

    def refuse_secrets(self, *texts: str) -> None:
        """Refuse what looks like a secret, unless it was allowed, and masks that would replace one."""
        if not self.allow_secret:
            secrets.refuse(*texts)

    def refuse_unindexed(self, path: str, size: int) -> None:
        """Refuse to write a file that memd itself would never read."""
        workspace, most = self.index.workspace, self.ctx.max_bytes
        if why := left_out(workspace, path):
            hint = "choose another name, or have it taken in, in the config"
            raise Refused(f"memd would not read {path}: {why}", hint)
        if size > most:
            why = f"{path} would be larger than index.max_file_kb = {most // 1024:,} and no longer be indexed"
            raise Refused(why, "move a part of it to another file, or raise the limit")

    async def target(self, key: str) -> keys.KeyTarget:
        """The memory that has a key, with the changes that were seen so far."""
        await self.ctx.catch_up()
        return await self.ctx.read(keys.existing, self.ctx.stores, self.index, key)

    async def repeated(self) -> bool:
        """Whether this request was carried out before: then it is not checked against its own outcome."""
        ledger = self.ctx.stores.ledger
        return await self.ctx.read(lambda: actions.by_request(ledger.reader, self.request_id)) is not None

    async def write(self, what: str, key: str, *changes: FileChange) -> Result:
        """Carry out an action; returns when its files are on the disk."""
        layer_of = self.index.workspace.layer_of
        if what != actions.SETTLE and (path := next((one.path for one in changes if layer_of(one.path) == TEAM), "")):
            hint = f"write your own and have it reviewed: memd propose KEY; or edit {path} in an editor, and commit it"
            raise Refused(f"{path} is the team's: it changes by review", hint)
        action = WriteAction(what, self.who, changes, key, self.request_id)
        done = await self.ctx.write(tasks.write, self.ctx.worker, self.ns, action, turn=queue.Turn.WRITES)
        return written(self.index, done)

    async def act(self, what: str, key: str, change: tasks.ChangeLives) -> Result:
        """Carry out an action that changes no file."""
        action = WriteAction(what, self.who, (), key, self.request_id)
        number = await self.ctx.write(tasks.act, self.ctx.worker, self.ns, action, change)
        return {**self.untouched(key), "action": number}

    def untouched(self, key: str) -> Result:
        """The result of a write that had nothing to write."""
        return {**written(self.index, ActionResult(0, key=key, visible=self.ctx.stores.ledger.clock)), "action": None}

    async def edit(self, what: str, target: keys.KeyTarget, edit: sections.TextEdit) -> Result:
        """Change the file that a memory is in."""
        return await self.write(what, target.key, edit_of(target, edit))

    async def edit_version(self, what: str, target: keys.KeyTarget, edit: Callable[[str | None], str]) -> Result:
        """Change the text of a memory; the result has the key that it has then, and the number of the version that was
        written: None where others wrote over it before it was indexed."""
        digest: str | None = None

        def noting_digest(text: str | None) -> str:
            nonlocal digest
            edited = edit(text)
            digest = keys.digest_in(target, edited)
            return edited

        done = await self.edit(what, target, noting_digest)
        await self.ctx.catch_up()
        return {**done, **await self.ctx.read(self._outcome, target, digest, done["action"])}

    def _outcome(self, target: keys.KeyTarget, digest: str | None, action: int | None) -> Result:
        reader, memory = self.ctx.stores.reader, target.memory
        if memory is None:
            rows = lookup.memories(reader, self.index.id, target.key)
            memory = rows[0]["id"] if rows else None
        versions = history.versions(reader, memory) if memory is not None else []
        # Not simply the last one: that may be someone else's, whom a later `if_version` would then overwrite unread.
        own = [version.number for version in versions if version.action == action is not None]
        fitting = own or [version.number for version in versions if digest in (None, version.digest)]
        named = lookup.keyed_rows(reader, "m.id", "m.id = ? AND m.slug <> ?", (memory, target.slug))
        return {"version": fitting[-1] if fitting else None, **({"key": named[0][0]} if named else {})}


def written(index: WorkspaceIndex, done: ActionResult) -> Result:
    """The fields that every write returns."""
    return {**index.place, **{name: getattr(done, name) for name in WRITTEN}}


def workspace_writer(ctx: HandlerContext, request: Writing) -> WorkspaceWriter:
    """Whoever calls, and the one workspace that is meant."""
    return WorkspaceWriter(ctx, ctx.only_index(request), request.author, request.request_id, request.allow_secret)


def edit_of(target: keys.KeyTarget, edit: sections.TextEdit) -> FileChange:
    """A change of a memory's file; a conflict where the memory went meanwhile."""

    def checked(text: str | None) -> str | None:
        try:
            return edit(text)
        except KeyError as error:
            raise Conflict(f"`{target.key}` is no longer in {target.path}", "memd sync, and look again") from error

    return FileChange(target.path, edit=sections.in_bytes(checked))


def in_memory(target: keys.KeyTarget, edit: Callable[[str, Memory], str]) -> Callable[[str | None], str]:
    """An edit of a file that must have the memory; it is given the file's text and the memory."""

    def checked(text: str | None) -> str:
        memory = sections.memory_in(target.path, text or "", target.slug)
        if text is None or memory is None:
            raise KeyError(target.slug)
        return edit(text, memory)

    return checked


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint that names what is spelled alike; where nothing is, another hint."""
    similar = similar_names(name, known)
    return f"did you mean {', '.join(f'`{one}`' for one in similar)}?" if similar else otherwise


def absolute_path(text: str) -> Path:
    """An absolute path of this machine; `~` is allowed."""
    try:
        path = Path(text).expanduser()
        os.fsencode(path)
        # `exists` would say no whatever is wrong, from Python 3.14 on.
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):
            path.stat()
    except UnicodeEncodeError:
        raise UsageError("the path is not valid Unicode") from None
    except RuntimeError:
        raise UsageError(f"the home directory in {text} belongs to no user of this machine") from None
    except OSError as error:
        raise UsageError(f"this path cannot be used: {error.strerror}") from None
    if not path.is_absolute() or "\0" in text:
        raise UsageError(f"the path must be absolute, not {text!r}")
    return path
