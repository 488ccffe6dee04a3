"""What a team shares: `propose`."""

from __future__ import annotations

from typing import Annotated

from memd.protocol.methods import base
from memd.protocol.methods.base import method, unset


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


@method("propose", ProposeResult, "key", slow=True)
class ProposeRequest(base.OneWorkspace, base.Signed):
    """Puts a memory on a branch of git as a file of the team's layer, with a commit that is ready for review."""

    key: base.Key
    """The memory."""
    branch: Annotated[str, unset("`memd/` and the memory's name")] = ""
    """The branch, which must be new."""
    message: Annotated[str, unset("the memory's heading")] = ""
    """What the commit says."""
