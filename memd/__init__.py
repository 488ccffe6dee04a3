"""memd: a memory daemon that keeps an agent's Markdown notes findable.

Only the version and the clients live here, and a client is loaded when first asked for:
`memd query` starts in the time it takes to import this file.
"""

from memd.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memd.protocol.async_client import AsyncClient
    from memd.protocol.client import Client

__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Client":
        from memd.protocol.client import Client

        return Client
    if name == "AsyncClient":
        from memd.protocol.async_client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module 'memd' has no attribute {name!r}")
