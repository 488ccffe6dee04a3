"""Access for others: `propose` for a team, `token.add` and `token.revoke` for the hub."""

from typing import Annotated

from memd.protocol.methods import base


class ProposeResult(base.WithinWorkspace):
    """The answer of `propose`."""

    key: str
    path: str
    """The file of the team's layer, relative to the workspace."""
    branch: str
    commit: str
    base: str
    """The commit that it is made upon."""
    changed: bool
    """Whether the file is there already, with another text."""


class ProposeRequest(base.OneWorkspace, base.Signed, method="propose", args="key", result=ProposeResult, slow=True):
    """Puts a memory on a branch of git as a file of the team's layer, with a commit that is ready for review."""

    key: base.Key
    """The memory."""
    branch: Annotated[str, base.unset("`memd/` and the memory's name")] = ""
    """The branch, which must be new."""
    message: Annotated[str, base.unset("the memory's heading")] = ""
    """The message of the commit."""


class TokenAddResult(base.Fresh):
    """The answer of `token.add`."""

    name: str
    token: str
    """It stands here and is kept nowhere."""


class TokenAddRequest(base.Signed, method="token.add", args="name", result=TokenAddResult, about_daemon=True):
    """Makes a token for the hub and answers with it: once, and never again."""

    name: base.Text
    """Whose it is, or what for; what is written with it is signed `hub:NAME`."""
    ns: base.Texts
    """The workspaces that it is for, at least one."""
    write: bool = False
    """It may read and write, not only read."""
    expires: Annotated[str, base.unset("never")] = ""
    """When it ends: `12h`, `30d`, `1y`, or a day such as `2027-01-31`."""


class TokenRevokeResult(base.Fresh):
    """The answer of `token.revoke`."""

    revoked: str


class TokenRevokeRequest(base.Signed, method="token.revoke", args="name", result=TokenRevokeResult, about_daemon=True):
    """Takes a token back: from the next request on it is worth nothing."""

    name: base.Text
    """As `memd token list` names it."""
