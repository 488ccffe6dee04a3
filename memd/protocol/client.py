"""The Python client: one connection to the daemon, and a method for everything it can do.

from memd import Client
with Client(autostart=True) as memory:
    for hit in memory.query("ErsatzTV")["hits"]: ...
"""

from __future__ import annotations

import os

from memd.errors import UnknownWorkspace
from memd.protocol.conversation import LONG_TIMEOUT, Conversation
from memd.protocol.edges import Edges
from memd.protocol.living import Living
from memd.protocol.outlines import Outlines
from memd.protocol.peeking import Peeking
from memd.protocol.twin import twin
from memd.protocol.writing import Writing
from memd.protocol.writing import given as _given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Unpack

    from memd.protocol.outcomes import (
        Added,
        Backup,
        Diagnosis,
        Dropped,
        Exported,
        Graded,
        Hello,
        Imported,
        Pong,
        Rebuilt,
        Status,
        Stopping,
        Synced,
        WorkspaceStatus,
    )
    from memd.protocol.results import Absence, Blocks, Entries, Found, Got, Listed, Subscribed, Unsubscribed
    from memd.protocol.twin import Progress
    from memd.protocol.wishes import (
        Around,
        Carried,
        Exam,
        Grepping,
        Passage,
        Question,
        Ranking,
        Seeing,
        Sorting,
        Waiting,
    )


class Methods(Writing, Living, Peeking, Edges, Outlines):
    """Everything that the daemon can do, a function each. The whole table: both clients are made from it."""

    @twin
    def hello(self) -> Hello:
        """Protocol number, version, methods and limits of the daemon."""
        return self._ask("hello", self._greeting())

    @twin
    def ping(self) -> Pong:
        """`{"pong": true}` from a daemon that is alive."""
        return self._ask("ping")

    @twin
    def query(
        self,
        query: str,
        *,
        ns: str | None = None,
        limit: int | None = None,
        mode: str | None = None,
        **filters: Unpack[Question],
    ) -> Found:
        """The pieces of memory that answer `query`, best first, in `hits`.

        `mode` is hybrid, text, vector or exact. Filters: `cwd`, `kind`, `tags`, `role`, `path`, `since`, `until`
        (dates as YYYY-MM-DD), `tier`; `as_of` asks what was known on a day; `sync` is auto, none or full; `explain`
        and `marks` ask for more about each hit. `who` is who is shown the hits; with `observe=False` nobody is, and
        no access is counted.
        """
        return self._ask("query", _given(query=query, ns=ns, limit=limit, mode=mode, **filters))

    @twin
    def why_not(
        self, file: str, line: int, query: str, *, ns: str | None = None, **filters: Unpack[Passage]
    ) -> Absence:
        """Why the passage at a line of a file did not come up for `query`; takes what `query` takes."""
        return self._ask("why_not", _given(file=file, line=line, query=query, ns=ns, **filters))

    @twin
    def get(
        self,
        key: str | None = None,
        *,
        path: str | None = None,
        ns: str | None = None,
        cwd: str | None = None,
        first: int | None = None,
        lines: int | None = None,
        version: int | None = None,
        as_of: str | None = None,
        **how: Unpack[Seeing],
    ) -> Got:
        """One memory by its key, as it is, in one of its versions or as of a day, or a file by its path.

        Of a file, `lines` lines from line `first`. `who` and `observe` as in `query`.
        """
        given = _given(key=key, path=path, ns=ns, cwd=cwd, lines=lines, version=version, as_of=as_of, **how)
        return self._ask("get", given | _given(**{"from": first}))

    @twin
    def grep(self, pattern: str, *, ns: str | None = None, **how: Unpack[Grepping]) -> Blocks:
        """Where `pattern` stands in the files themselves, the newest first, in `blocks` of lines.

        `cwd` and `path` say where to look; `regex` and `case` how; `context` and `max_results` how much; `after` is the
        `next` of the answer before.
        """
        return self._ask("grep", _given(pattern=pattern, ns=ns, **how))

    @twin
    def bus(
        self, query: str, *, ns: str | None = None, limit: int | None = None, **filters: Unpack[Ranking]
    ) -> Entries:
        """Whole entries in `entries`, ranked by how often they have the words of `query`.

        Filters and `sync` as in `query`; `offset` is where the page begins.
        """
        return self._ask("bus", _given(query=query, ns=ns, limit=limit, **filters))

    @twin
    def memories(self, *, ns: str | None = None, limit: int | None = None, **filters: Unpack[Sorting]) -> Listed:
        """The memories and the roles that there are.

        Filters as in `query`; `sort` says in which order, `offset` where the page begins.
        """
        return self._ask("list", _given(ns=ns, limit=limit, **filters))

    @twin
    def subscribe(self, query: str | None = None, *, ns: str | None = None, **filters: Unpack[Waiting]) -> Subscribed:
        """Be told of each new or changed memory that matches, by `told`, until the connection ends.

        Filters: `cwd`, `kind`, `tags`, `role`, `path`; `match` is all or any; `marks` asks for more about each.
        """
        return self._ask("subscribe", _given(query=query, ns=ns, **filters), take=self._listening)

    @twin
    def unsubscribe(self, subscription: int) -> Unsubscribed:
        """End one subscription of this connection, or one watch."""
        return self._ask("unsubscribe", {"subscription": subscription})

    @twin
    def watch(
        self, *, ns: str | None = None, events: str | list[str] | None = None, **where: Unpack[Around]
    ) -> Subscribed:
        """Be told what happens, by `told`, until the connection ends.

        `events` says what: indexed, written, accessed, moved, job; without it, all of them.
        """
        return self._ask("watch", _given(ns=ns, events=events, **where), take=self._listening)

    @twin
    def eval(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        questions: list[dict[str, Any]] | None = None,
        own: bool = False,
        ns: str | None = None,
        on_progress: Progress | None = None,
        **how: Unpack[Exam],
    ) -> Graded:
        """How well questions are answered: those of a file, a list of them, or with `own` probes of your notes.

        `mode` and `limit` are those of `query`, `cwd` too. docs/retrieval.md says what a question looks like.
        """
        file = os.path.abspath(path) if path else None  # noqa: PTH100
        given = _given(path=file, questions=questions, ns=ns, **how) | ({"self": True} if own else {})
        return self._ask("eval", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    @twin
    def export(
        self, *, ns: str | None = None, after: str | None = None, limit: int | None = None, **how: Unpack[Around]
    ) -> Exported:
        """One page of the memories with their versions and lives, in `files` and `gone`; `after` is the last `next`."""
        return self._ask("export", _given(ns=ns, after=after or None, limit=limit, **how), timeout=LONG_TIMEOUT)

    @twin
    def import_(
        self,
        path: str | os.PathLike[str],
        *,
        ns: str | None = None,
        who: str | None = None,
        on_progress: Progress | None = None,
        **how: Unpack[Carried],
    ) -> Imported:
        """Take in what `memd export` wrote; `dry_run`, `overwrite`, `allow_secret`, `cwd` and `request_id` say how."""
        given = _given(path=os.path.abspath(path), ns=ns, who=who, **how)  # noqa: PTH100
        return self._ask("import", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    @twin
    def ingest(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        ns: str | None = None,
        who: str | None = None,
        on_progress: Progress | None = None,
        **how: Unpack[Carried],
    ) -> Imported:
        """Copy memories of other tools into a workspace; `how` as in `import_`."""
        given = _given(paths=[os.path.abspath(path) for path in paths], ns=ns, who=who, **how)  # noqa: PTH100
        return self._ask("ingest", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    @twin
    def backup(self, directory: str | os.PathLike[str] | None = None) -> Backup:
        """Copy the ledger, into the state's own `backups` or a directory of yours."""
        where = os.path.abspath(directory) if directory else None  # noqa: PTH100
        return self._ask("backup", _given(path=where), timeout=LONG_TIMEOUT)

    @twin
    def sync(
        self,
        *,
        ns: str | None = None,
        vectors: bool = False,
        accept_missing: bool = False,
        on_progress: Progress | None = None,
    ) -> Synced:
        """Return when every change on disk is searchable; with `vectors`, also by meaning.

        `accept_missing` says that files which vanished all at once are meant to be gone.
        """
        given = _given(ns=ns, vectors=vectors or None, accept_missing=accept_missing or None)
        return self._ask("sync", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    @twin
    def status(self) -> Status:
        """What the daemon watches, what is pending, what is degraded and how to mend it."""
        return self._ask("status")

    @twin
    def rebuild(self, *, ns: str | None = None, on_progress: Progress | None = None) -> Rebuilt:
        """Make the text index and the vectors anew."""
        return self._ask("rebuild", _given(ns=ns), on_progress=on_progress, timeout=LONG_TIMEOUT)

    @twin
    def doctor(self, *, fix: bool = False, secrets: bool = False) -> Diagnosis:
        """Check the stores, and mend them with `fix`; with `secrets`, list the lines that seem to hold one."""
        return self._ask("doctor", _given(fix=fix or None, secrets=secrets or None), timeout=LONG_TIMEOUT)

    @twin
    def shutdown(self) -> Stopping:
        """Stop the daemon."""
        return self._ask("shutdown")

    @twin
    def workspaces(self) -> list[WorkspaceStatus]:
        """The directories that hold memory."""
        return self._ask("workspaces.list", take=_listed)

    @twin
    def add(
        self,
        path: str | os.PathLike[str],
        *,
        ns: str | None = None,
        globs: list[str] | None = None,
        follow: bool = False,
        wait: bool = True,
        on_progress: Progress | None = None,
    ) -> Added:
        """Watch a directory; with `wait`, return when its text is searchable."""
        given = _given(path=os.path.abspath(path), ns=ns, globs=globs, follow=follow or None, wait=wait)  # noqa: PTH100
        return self._ask("workspaces.add", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    @twin
    def remove(self, *, ns: str | None = None, path: str | os.PathLike[str] | None = None) -> Dropped:
        """Stop watching a directory and forget its index; its files stay as they are."""
        where = os.path.abspath(path) if path else None  # noqa: PTH100
        return self._ask("workspaces.remove", _given(ns=ns, path=where), timeout=LONG_TIMEOUT)

    @twin
    def workspace_of(self, directory: str | os.PathLike[str]) -> str | None:
        """The name of the innermost workspace that holds `directory`."""
        return self._ask("workspaces.list", take=lambda told: _innermost(_listed(told), directory))

    @twin
    def must_be_workspace(self, directory: str | os.PathLike[str]) -> str:
        """`workspace_of`, or an error that says how to make it one."""
        return self._ask("workspaces.list", take=lambda told: _found(_innermost(_listed(told), directory), directory))


class Client(Conversation, Methods):
    """A connection to the daemon, made when it is first needed.

    with Client(autostart=True) as memory:
        for hit in memory.query("ErsatzTV")["hits"]: ...

    `autostart` starts a daemon when none runs, and restarts one that is older than this client. `timeout` is
    the longest silence to bear, in seconds. `notice` is told what a person might want to know. `bind` is the one
    workspace that this client speaks of; `who` is noted as the author of what it writes. What changes nothing, and
    every write, is sent again up to `retries` times when the connection is lost; a write is done once all the same.
    Errors are those of memd.errors. One thread at a time may use a client.
    """


def _listed(told: dict[str, Any]) -> list[WorkspaceStatus]:
    return list(told["workspaces"])


def _innermost(known: list[WorkspaceStatus], directory: str | os.PathLike[str]) -> str | None:
    place = _with_slash(directory)
    holding = [(len(root), entry["ns"]) for entry in known if place.startswith(root := _with_slash(entry["root"]))]
    return max(holding)[1] if holding else None


def _found(name: str | None, directory: str | os.PathLike[str]) -> str:
    if name is None:
        raise UnknownWorkspace(f"{directory} is in no workspace", f"make it one: memd add {directory}")
    return name


def _with_slash(directory: str | os.PathLike[str]) -> str:
    return os.path.realpath(directory).rstrip("/") + "/"
