"""The Python client: one connection to the daemon, and a method for everything it can do.

from memd import Client
with Client(autostart=True) as memory:
    for hit in memory.query("ErsatzTV")["hits"]: ...
"""

from __future__ import annotations

from memd.protocol.remote_methods import RemoteMethods
from memd.protocol.rpc_session import BlockingSession


class Client(BlockingSession, RemoteMethods):
    """A connection to the daemon, opened when it is first needed.

    with Client(autostart=True) as memory:
        for hit in memory.query("ErsatzTV")["hits"]: ...

    `autostart` starts a daemon when none runs, and restarts one that is older than this client. `timeout` is how long
    to wait in silence, in seconds. `notice` is called with what a person might want to know. `bind` is the one
    workspace that this client speaks of; `who` is noted as the author of what it writes. A call is sent again up to
    `retries` times when the connection is lost; a write is carried out once all the same. `mask_secrets` masks what
    looks like a secret in every answer, as for a model. Errors are those of memd.errors. One thread at a time may use
    a client.

    `Client("https://memory.example.org")` asks a hub, with the `token` that is given, else the one in MEMD_TOKEN or in
    the token file.
    """
