"""Writes by agents that a person decides about: `proposal.list`, `proposal.accept` and `proposal.reject`."""

from typing import Annotated, Any, TypedDict

from memd.protocol.methods import base


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
