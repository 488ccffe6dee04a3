"""The Python client: one connection to the daemon, and a method for everything it can do.

from memd import Client
with Client(autostart=True) as memory:
    for hit in memory.query("ErsatzTV")["hits"]: ...
"""

from __future__ import annotations

import os

from memd import __version__
from memd.config.paths import socket_path_str
from memd.errors import MemdError, NoDaemon, UnknownWorkspace
from memd.protocol import wire
from memd.protocol.link import Closed, Link
from memd.protocol.messages import PROTOCOL, READS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    Progress = Callable[[dict[str, Any]], None]

TIMEOUT = 30.0
LONG_TIMEOUT = 900.0
"""For calls that read every file; the daemon reports progress long before that."""
UNGREETED = frozenset({"hello", "ping", "shutdown"})
"""Methods for which the daemon's version does not matter."""


class Client:
    """A connection to the daemon, made when it is first needed.

    `autostart` starts a daemon when none runs, and restarts one that is older than this client. `timeout` is
    the longest silence to bear, in seconds. `notice` is told what a person might want to know.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        autostart: bool = False,
        timeout: float = TIMEOUT,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self.path = os.fspath(socket) if socket else socket_path_str()
        self.daemon: dict[str, Any] | None = None
        """What `hello` told: version, pid, protocol, capabilities, limits."""
        self._autostart = autostart and socket is None
        self._timeout = timeout
        self._notice = notice or (lambda text: None)
        self._link: Link | None = None
        self._early: dict[int, dict[str, Any]] = {}
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the next call connects again."""
        if self._link:
            self._link.close()
        self._link, self.daemon = None, None
        self._early.clear()

    # Every method of the daemon.

    def hello(self) -> dict[str, Any]:
        """Protocol number, version, methods and limits of the daemon."""
        return self.call("hello", _greeting())

    def ping(self) -> dict[str, Any]:
        """`{"pong": true}` from a daemon that is alive."""
        return self.call("ping")

    def query(
        self, query: str, *, ns: str | None = None, limit: int | None = None, mode: str | None = None, **filters: Any
    ) -> dict[str, Any]:
        """The pieces of memory that answer `query`, best first, in `hits`.

        `mode` is hybrid, text, vector or exact. Filters: `cwd`, `kind`, `tags`, `role`, `path`, `since`, `until`
        (dates as YYYY-MM-DD); `sync` is auto, none or full; `explain` and `marks` ask for more about each hit.
        """
        return self.call("query", _given(query=query, ns=ns, limit=limit, mode=mode, **filters))

    def get(
        self,
        key: str | None = None,
        *,
        path: str | None = None,
        ns: str | None = None,
        cwd: str | None = None,
        first: int | None = None,
        lines: int | None = None,
    ) -> dict[str, Any]:
        """One memory by its key, or a file by its path: `lines` lines of it from line `first`."""
        given = _given(key=key, path=path, ns=ns, cwd=cwd, lines=lines) | _given(**{"from": first})
        return self.call("get", given)

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

    def doctor(self, *, fix: bool = False) -> dict[str, Any]:
        """Check the stores, and mend them with `fix`."""
        return self.call("doctor", _given(fix=fix or None), timeout=LONG_TIMEOUT)

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

    # The conversation.

    def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        on_progress: Progress | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Call any method and return its result; errors come back as the classes of memd.errors.

        `on_progress` gets `{"phase", "done", "total"}` now and then while a long call runs. `timeout` is the
        longest silence to bear in this call.
        """
        asked = _Call(method, params, on_progress, timeout or self._timeout)
        # The daemon may have stopped since the last call, or be stopping just now.
        tries = 2 if method in READS and (self._link or self._autostart) else 1
        for _ in range(tries):
            try:
                return self._ask(asked)
            except Closed:
                self.close()
            except NoDaemon:
                self.close()
                raise
        raise NoDaemon("the daemon hung up before it answered", "see why: memd logs; then try again")

    def _ask(self, asked: _Call) -> dict[str, Any]:
        link = self._open()
        if self.daemon is None and asked.method not in UNGREETED:
            return self._ask_and_greet(link, asked)
        call_id, line = self._line(asked.method, asked.params)
        link.send(line)
        return self._receive(link, call_id, asked)

    def _ask_and_greet(self, link: Link, asked: _Call) -> dict[str, Any]:
        """The first call: `hello` goes along in the same write, to learn the daemon's version."""
        hello_id, hello = self._line("hello", _greeting())
        if asked.method not in READS:
            # Not to a daemon that is about to be restarted.
            link.send(hello)
            self.daemon = self._receive(link, hello_id)
            self._replace_outdated()
            return self._ask(asked)
        call_id, line = self._line(asked.method, asked.params)
        link.send(hello + line)
        self.daemon = self._receive(link, hello_id)
        return self._ask(asked) if self._replace_outdated() else self._receive(link, call_id, asked)

    def _line(self, method: str, params: dict[str, Any] | None) -> tuple[int, bytes]:
        self._last_id += 1
        return self._last_id, wire.encode_request(self._last_id, method, params)

    def _receive(self, link: Link, call_id: int, asked: _Call | None = None) -> dict[str, Any]:
        """Read until the answer to `call_id` has come."""
        patience = asked.patience if asked else self._timeout
        while call_id not in self._early:
            message = wire.decode(link.line(patience))
            if not isinstance(message, dict):
                raise MemdError("the daemon sent something that is not an answer", "restart it: memd restart")
            if message.get("method") == "progress" and asked and asked.on_progress:
                asked.on_progress(message["params"])
            elif "method" not in message:
                # An error without an id is about a line that could not be read, and only ours was sent.
                self._early[call_id if message.get("id") is None else message["id"]] = message
        answer = self._early.pop(call_id)
        if "error" in answer:
            wire.raise_error(answer["error"])
        return dict(answer["result"])

    def _open(self) -> Link:
        if not self._link:
            try:
                self._link = Link(self.path, self._timeout)
            except NoDaemon:
                if not self._autostart:
                    raise
                from memd.protocol import start

                start.start()
                self._link = Link(self.path, self._timeout)
        return self._link

    def _replace_outdated(self) -> bool:
        """After an upgrade the old daemon still runs: restart it, once."""
        theirs = str((self.daemon or {}).get("version", "of unknown version"))
        if theirs == __version__:
            return False
        if not self._autostart or _release(theirs) > _release(__version__):
            self._notice(f"the daemon is memd {theirs} and this is {__version__}; to change it: memd restart")
            return False
        self._notice(f"the daemon was still memd {theirs}; restarting it as {__version__}")
        self.close()
        from memd.protocol import start

        start.restart()
        self._greet_new_daemon()
        return True

    def _greet_new_daemon(self) -> None:
        link = self._open()
        hello_id, hello = self._line("hello", _greeting())
        link.send(hello)
        self.daemon = self._receive(link, hello_id)
        if self.daemon.get("version") != __version__:
            self._notice(
                f"it came back as memd {self.daemon.get('version')}: another installation of memd starts it; "
                "to make it this one: memd service install"
            )


class _Call:
    """What was asked, for when it must be asked again."""

    __slots__ = ("method", "on_progress", "params", "patience")

    def __init__(
        self, method: str, params: dict[str, Any] | None, on_progress: Progress | None, patience: float
    ) -> None:
        self.method = method
        self.params = {**(params or {}), "progress": True} if on_progress else params
        self.on_progress = on_progress
        self.patience = patience


def _with_slash(directory: str | os.PathLike[str]) -> str:
    return os.path.realpath(directory).rstrip("/") + "/"


def _greeting() -> dict[str, Any]:
    return {"client": "memd", "version": __version__, "protocol": PROTOCOL}


def _given(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _release(version: str) -> list[int]:
    """`0.2.10` as numbers that compare; what follows the numbers does not count."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return numbers
