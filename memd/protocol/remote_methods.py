"""The daemon's methods as methods of the clients, `edge.add` as `edge_add`, made from the generated table.

Their signatures stand in `remote_methods.pyi`, which is generated too; `help(Client)` reads them from the declarations.
Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.method_table import LONG_TIMEOUT, METHODS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RemoteMethod:
    """A method of the daemon, as an attribute of a client's class."""

    def __init__(self, wire: str, name: str) -> None:
        self.wire = wire
        self.__name__ = name

    def __get__(self, client: Any, owner: Any = None) -> Any:
        if client is None:
            return self
        timeout = LONG_TIMEOUT if METHODS[self.wire].slow else None

        def call(*args: Any, on_progress: Any = None, **named: Any) -> Any:
            params = client._call_params(self.wire, args, named)
            return client.call(self.wire, params, on_progress=on_progress, timeout=timeout)

        return call

    def __call__(self, client: Any, *args: Any, **named: Any) -> Any:
        return self.__get__(client)(*args, **named)

    @property
    def __signature__(self) -> Any:
        from memd.protocol.methods.base import signature

        return signature(self.wire)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from memd.protocol.methods.base import help_text

        return help_text(self.wire)


class RemoteMethods:
    """Every method of the daemon; a call returns its result."""


class AsyncRemoteMethods:
    """Every method of the daemon; a call is awaited."""


for _wire, _known in METHODS.items():
    for _methods in (RemoteMethods, AsyncRemoteMethods):
        setattr(_methods, _known.python_name, RemoteMethod(_wire, _known.python_name))
