"""The Python client: one connection to the daemon, and a method for everything it can do.

from memd import Client
with Client(autostart=True) as memory:
    for hit in memory.query("ErsatzTV")["hits"]: ...
"""

from __future__ import annotations

import os

from memd.errors import UnknownWorkspace
from memd.protocol.conversation import LONG_TIMEOUT, greeting
from memd.protocol.writing import Writing
from memd.protocol.writing import given as _given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from memd.protocol.conversation import Progress


class Client(Writing):
    """A connection to the daemon, made when it is first needed.

    `autostart` starts a daemon when none runs, and restarts one that is older than this client. `timeout` is
    the longest silence to bear, in seconds. `notice` is told what a person might want to know.
    """

    def hello(self) -> dict[str, Any]:
        """Protocol number, version, methods and limits of the daemon."""
        return self.call("hello", greeting())

    def ping(self) -> dict[str, Any]:
        """`{"pong": true}` from a daemon that is alive."""
        return self.call("ping")

    def query(
        self, query: str, *, ns: str | None = None, limit: int | None = None, mode: str | None = None, **filters: Any
    ) -> dict[str, Any]:
        """The pieces of memory that answer `query`, best first, in `hits`.

        `mode` is hybrid, text, vector or exact. Filters: `cwd`, `kind`, `tags`, `role`, `path`, `since`, `until`
        (dates as YYYY-MM-DD); `as_of` asks what was known on a day; `sync` is auto, none or full; `explain` and
        `marks` ask for more about each hit.
        """
        return self.call("query", _given(query=query, ns=ns, limit=limit, mode=mode, **filters))

    def why_not(self, file: str, line: int, query: str, *, ns: str | None = None, **filters: Any) -> dict[str, Any]:
        """Why the passage at a line of a file did not come up for `query`; takes what `query` takes."""
        return self.call("why_not", _given(file=file, line=line, query=query, ns=ns, **filters))

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
    ) -> dict[str, Any]:
        """One memory by its key, as it is, in one of its versions or as of a day, or a file by its path.

        Of a file, `lines` lines from line `first`.
        """
        given = _given(key=key, path=path, ns=ns, cwd=cwd, lines=lines, version=version, as_of=as_of)
        return self.call("get", given | _given(**{"from": first}))

    def grep(self, pattern: str, *, ns: str | None = None, **how: Any) -> dict[str, Any]:
        """Where `pattern` stands in the files themselves, the newest first, in `blocks` of lines.

        `cwd` and `path` say where to look; `regex` and `case` how; `context` and `max_results` how much; `after` is the
        `next` of the answer before.
        """
        return self.call("grep", _given(pattern=pattern, ns=ns, **how))

    def bus(self, query: str, *, ns: str | None = None, limit: int | None = None, **filters: Any) -> dict[str, Any]:
        """Whole entries in `entries`, ranked by how often they have the words of `query`.

        Filters and `sync` as in `query`; `offset` is where the page begins.
        """
        return self.call("bus", _given(query=query, ns=ns, limit=limit, **filters))

    def memories(self, *, ns: str | None = None, limit: int | None = None, **filters: Any) -> dict[str, Any]:
        """The memories and the roles that there are.

        Filters as in `query`; `sort` says in which order, `offset` where the page begins.
        """
        return self.call("list", _given(ns=ns, limit=limit, **filters))

    def subscribe(self, query: str | None = None, *, ns: str | None = None, **filters: Any) -> dict[str, Any]:
        """Be told of each new or changed memory that matches, by `told`, until the connection ends.

        Filters: `cwd`, `kind`, `tags`, `role`, `path`; `match` is all or any; `marks` asks for more about each.
        """
        told = self.call("subscribe", _given(query=query, ns=ns, **filters))
        self._subscribed = True
        return told

    def unsubscribe(self, subscription: int) -> dict[str, Any]:
        """End one subscription of this connection."""
        return self.call("unsubscribe", {"subscription": subscription})

    def eval(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        questions: list[dict[str, Any]] | None = None,
        own: bool = False,
        ns: str | None = None,
        on_progress: Progress | None = None,
        **how: Any,
    ) -> dict[str, Any]:
        """How well questions are answered: those of a file, a list of them, or with `own` probes of your notes.

        `mode` and `limit` are those of `query`, `cwd` too. docs/retrieval.md says what a question looks like.
        """
        file = os.path.abspath(path) if path else None  # noqa: PTH100
        given = _given(path=file, questions=questions, ns=ns, **how) | ({"self": True} if own else {})
        return self.call("eval", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    def export(
        self, *, ns: str | None = None, after: str | None = None, limit: int | None = None, **how: Any
    ) -> dict[str, Any]:
        """One page of the memories with their versions and lives, in `files` and `gone`; `after` is the last `next`."""
        return self.call("export", _given(ns=ns, after=after or None, limit=limit, **how), timeout=LONG_TIMEOUT)

    def import_(
        self,
        path: str | os.PathLike[str],
        *,
        ns: str | None = None,
        who: str = "python",
        on_progress: Progress | None = None,
        **how: Any,
    ) -> dict[str, Any]:
        """Take in what `memd export` wrote; `dry_run`, `overwrite`, `allow_secret`, `cwd` and `request_id` say how."""
        given = _given(path=os.path.abspath(path), ns=ns, who=who, **how)  # noqa: PTH100
        return self.call("import", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    def ingest(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        ns: str | None = None,
        who: str = "python",
        on_progress: Progress | None = None,
        **how: Any,
    ) -> dict[str, Any]:
        """Copy memories of other tools into a workspace; `how` as in `import_`."""
        given = _given(paths=[os.path.abspath(path) for path in paths], ns=ns, who=who, **how)  # noqa: PTH100
        return self.call("ingest", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    def backup(self, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Copy the ledger, into the state's own `backups` or a directory of yours."""
        where = os.path.abspath(directory) if directory else None  # noqa: PTH100
        return self.call("backup", _given(path=where), timeout=LONG_TIMEOUT)

    def sync(
        self,
        *,
        ns: str | None = None,
        vectors: bool = False,
        accept_missing: bool = False,
        on_progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Return when every change on disk is searchable; with `vectors`, also by meaning.

        `accept_missing` says that files which vanished all at once are meant to be gone.
        """
        given = _given(ns=ns, vectors=vectors or None, accept_missing=accept_missing or None)
        return self.call("sync", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    def status(self) -> dict[str, Any]:
        """What the daemon watches, what is pending, what is degraded and how to mend it."""
        return self.call("status")

    def rebuild(self, *, ns: str | None = None, on_progress: Progress | None = None) -> dict[str, Any]:
        """Make the text index and the vectors anew."""
        return self.call("rebuild", _given(ns=ns), on_progress=on_progress, timeout=LONG_TIMEOUT)

    def doctor(self, *, fix: bool = False, secrets: bool = False) -> dict[str, Any]:
        """Check the stores, and mend them with `fix`; with `secrets`, list the lines that seem to hold one."""
        return self.call("doctor", _given(fix=fix or None, secrets=secrets or None), timeout=LONG_TIMEOUT)

    def outline(self, what: str, *, on_progress: Progress | None = None, **asked: Any) -> dict[str, Any]:
        """The source code around the notes: `what` is symbol, file, project or map.

        symbol takes `symbol` and perhaps `file`; file takes `file`; these and project take `language`, `depth`,
        `relations`, `omit_native` and `format` (text or json); map takes `language` and `budget`; all `ns` or `cwd`.
        """
        return self.call(f"outline.{what}", _given(**asked), on_progress=on_progress, timeout=LONG_TIMEOUT)

    def shutdown(self) -> dict[str, Any]:
        """Stop the daemon."""
        return self.call("shutdown")

    def workspaces(self) -> list[dict[str, Any]]:
        """The directories that hold memory."""
        return list(self.call("workspaces.list")["workspaces"])

    def add(
        self,
        path: str | os.PathLike[str],
        *,
        ns: str | None = None,
        globs: list[str] | None = None,
        follow: bool = False,
        wait: bool = True,
        on_progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Watch a directory; with `wait`, return when its text is searchable."""
        given = _given(path=os.path.abspath(path), ns=ns, globs=globs, follow=follow or None, wait=wait)  # noqa: PTH100
        return self.call("workspaces.add", given, on_progress=on_progress, timeout=LONG_TIMEOUT)

    def remove(self, *, ns: str | None = None, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Stop watching a directory and forget its index; its files stay as they are."""
        where = os.path.abspath(path) if path else None  # noqa: PTH100
        return self.call("workspaces.remove", _given(ns=ns, path=where), timeout=LONG_TIMEOUT)

    def workspace_of(self, directory: str | os.PathLike[str]) -> str | None:
        """The name of the innermost workspace that holds `directory`."""
        place = _with_slash(directory)
        holding = [
            (len(root), str(entry["ns"]))
            for entry in self.workspaces()
            if place.startswith(root := _with_slash(entry["root"]))
        ]
        return max(holding)[1] if holding else None

    def must_be_workspace(self, directory: str | os.PathLike[str]) -> str:
        """`workspace_of`, or an error that says how to make it one."""
        name = self.workspace_of(directory)
        if name is None:
            raise UnknownWorkspace(f"{directory} is in no workspace", f"make it one: memd add {directory}")
        return name


def _with_slash(directory: str | os.PathLike[str]) -> str:
    return os.path.realpath(directory).rstrip("/") + "/"
