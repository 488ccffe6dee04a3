"""Who may come in by the hub: `token.add` and `token.revoke`."""

from __future__ import annotations

from typing import Annotated

from memd.protocol.methods import base
from memd.protocol.methods.base import method, unset


class TokenAddResult(base.Fresh):
    """The answer of `token.add`."""

    name: str
    token: str
    """It stands here and is kept nowhere."""


@method("token.add", TokenAddResult, "name", about_daemon=True)
class TokenAddRequest(base.Signed):
    """Makes a token for the hub and answers with it: once, and never again."""

    name: base.Text
    """Whose it is, or what for; what is written with it is signed `hub:NAME`."""
    ns: base.Texts
    """The workspaces that it is for, at least one."""
    write: bool = False
    """It may read and write, not only read."""
    expires: Annotated[str, unset("never")] = ""
    """When it ends: `12h`, `30d`, `1y`, or a day such as `2027-01-31`."""


class TokenRevokeResult(base.Fresh):
    """The answer of `token.revoke`."""

    revoked: str


@method("token.revoke", TokenRevokeResult, "name", about_daemon=True)
class TokenRevokeRequest(base.Signed):
    """Takes a token back: from the next request on it is worth nothing."""

    name: base.Text
    """As `memd token list` names it."""
