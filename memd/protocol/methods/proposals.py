"""What agents want to write and a person decides: `proposal.list`, `proposal.accept` and `proposal.reject`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from memd.protocol.methods import base
from memd.protocol.methods.base import doc, method


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


@method("proposal.list", ProposalListResult, reads=True)
class ProposalListRequest(base.Scoped):
    """Lists what others than a person want to write, oldest first, where `server.trust` is `propose`."""


class Deciding(base.Scoped, base.Signed):
    """A person's decision about a proposal."""

    proposal: Annotated[base.Count, doc("the number of the proposal")]


class ProposalRejectResult(base.Fresh):
    """The answer of `proposal.reject`."""

    proposal: ProposalRow


class ProposalAcceptResult(ProposalRejectResult):
    """The answer of `proposal.accept`."""

    result: dict[str, Any]
    """What the method answered that was proposed."""


@method("proposal.accept", ProposalAcceptResult, "proposal", local=True)
class ProposalAcceptRequest(Deciding):
    """Carries out a proposal in the name of who made it; it can be undone as any write."""


@method("proposal.reject", ProposalRejectResult, "proposal", local=True)
class ProposalRejectRequest(Deciding):
    """Forgets a proposal."""
