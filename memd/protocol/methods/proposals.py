"""Reviews: what agents want to write (`proposal.…`), two versions of a note (`conflict.…`), access for others."""

from typing import Annotated, Any, Literal, TypedDict

from memd.protocol.methods import base

# --- proposals: writes by agents that a person decides about ------------------------------------------------------


class ProposalRow(TypedDict):
    """A write that waits for a person."""

    proposal: int
    ns: str
    at: str
    who: str
    method: str
    params: dict[str, Any]


class ProposalListResult(base.AcrossWorkspaces):
    """The answer of `proposal.list`."""

    proposals: list[ProposalRow]


class ProposalListRequest(base.Scoped, method="proposal.list", result=ProposalListResult, reads=True):
    """Lists what others than a person want to write, oldest first, where `server.trust` is `propose`."""


class Deciding(base.Scoped, base.Signed):
    """A person's decision about a proposal."""

    proposal: Annotated[base.Count, base.doc("the number of the proposal")]


class ProposalRejectResult(base.Fresh):
    """The answer of `proposal.reject`."""

    proposal: ProposalRow


class ProposalAcceptResult(ProposalRejectResult):
    """The answer of `proposal.accept`."""

    result: dict[str, Any]
    """The answer of the proposed method."""


class ProposalAcceptRequest(
    Deciding, method="proposal.accept", args="proposal", result=ProposalAcceptResult, local=True
):
    """Carries out a proposal in the name of who made it; it can be undone as any write."""


class ProposalRejectRequest(
    Deciding, method="proposal.reject", args="proposal", result=ProposalRejectResult, local=True
):
    """Forgets a proposal."""


# --- conflicts, which git and file synchronisers leave in a workspace ---------------------------------------------


class ClashRow(TypedDict):
    """A section that both versions changed at the same place."""

    heading: str
    """Of a section that both changed."""
    ours: str
    """Its text here."""
    theirs: str
    """Its text in the other version."""


class ConflictedNote(TypedDict):
    """A note of which there are two versions."""

    path: str
    copy: str
    """The file with the other version; empty where markers in the note itself divide the two."""
    clashes: list[str]
    """Headings of the sections that both changed; where there are none, a merge settles it."""
    taken: list[str]
    """Headings of the sections that a merge takes from the other version."""


class ConflictRow(ConflictedNote):
    """One that is to be settled."""

    ns: str
    both: list[ClashRow]
    """The two texts of each section that both changed."""


class ConflictListResult(base.AcrossWorkspaces):
    """The answer of `conflict.list`."""

    notes: list[ConflictRow]


class ConflictListRequest(base.Scoped, method="conflict.list", result=ConflictListResult, reads=True):
    """Lists the notes of which git or a file synchroniser left two versions."""


class ConflictSettleResult(base.Written, ConflictedNote):
    """The answer of `conflict.settle`."""


class ConflictSettleRequest(base.Writing, method="conflict.settle", args="path take", result=ConflictSettleResult):
    """Makes one note of two versions, and removes the copy; it can be undone as any write."""

    path: Annotated[base.Text, base.doc("the note, or the copy of it, as `conflict.list` names it")]
    take: Literal["merge", "both", "ours", "theirs"] = "merge"
    """`merge`: what either side did; `both`: also what both changed, one after the other; or one of the versions."""


# --- access for others: a team, and the hub -----------------------------------------------------------------------


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


class TokenAddRequest(base.Signed, method="token.add", args="name", result=TokenAddResult):
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


class TokenRevokeRequest(base.Signed, method="token.revoke", args="name", result=TokenRevokeResult):
    """Takes a token back: from the next request on it is worth nothing."""

    name: base.Text
    """As `memd token list` names it."""
