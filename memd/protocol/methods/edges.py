"""Edges between memories: `edge.add`, `edge.rm`, `edge.list`, `edge.candidates`, `related` and `clusters`."""

from typing import Annotated, Any, NotRequired, TypedDict

from memd.models import Relation
from memd.protocol.methods import base

EdgeStep = TypedDict("EdgeStep", {"from": str, "rel": str, "to": str, "weight": float})
"""An edge on the way from one memory to another."""


class EdgeRow(EdgeStep):
    """An edge, and where it comes from."""

    origin: str
    accesses: int
    titles: list[str]
    """Of both memories."""
    ns: NotRequired[str]


class BetweenMemories(base.Writing):
    """An edge by its ends, for `edge.add` and `edge.rm`."""

    from_: base.Text
    """The key of the memory that says it; to remove `relates_to`, either."""
    rel: Relation = "relates_to"
    """The relation."""
    to: base.Text
    """The key of the other memory, of the same workspace."""


class EdgeAddResult(base.Written):
    """The answer of `edge.add`; `edge` is None when it went again before the answer."""

    edge: EdgeRow | None


class EdgeAddRequest(BetweenMemories, method="edge.add", args="from_ rel to", result=EdgeAddResult):
    """Declares an edge between two memories, in the file of the first."""

    weight: Annotated[base.Share | None, base.unset("the relation's")] = None
    """From 0 to 1."""


class EdgeRmResult(base.Written):
    """The answer of `edge.rm`."""

    removed: list[EdgeRow]


class EdgeRmRequest(BetweenMemories, method="edge.rm", args="from_ rel to", result=EdgeRmResult):
    """Removes an edge: from the file that declares it, or so that it is not made again."""


class EdgeListResult(base.AcrossWorkspaces):
    """The answer of `edge.list`."""

    edges: list[EdgeRow]


class EdgeListRequest(base.Scoped, method="edge.list", args="key", result=EdgeListResult, reads=True):
    """Lists the edges of a memory or of a workspace, the strongest first."""

    key: Annotated[str, base.unset("any")] = ""
    """Only edges of this memory."""
    rel: Annotated[Relation | None, base.unset("any")] = None
    """Only this relation."""
    min_weight: base.Share = 0.0
    """Only edges at least this strong."""
    limit: base.Rows = base.MAX_ROWS


class EdgeCandidatesResult(base.AcrossWorkspaces):
    """The answer of `edge.candidates`."""

    relations: dict[str, float]
    candidates: list[dict[str, Any]]


class EdgeCandidatesRequest(base.Scoped, method="edge.candidates", result=EdgeCandidatesResult, reads=True):
    """Lists linked pairs without a relation type, with their texts."""

    limit: base.Rows = 20


class RelatedRow(base.NamedMemory):
    """A memory that edges lead to."""

    weight: float
    way: list[EdgeStep]


class RelatedResult(base.WithinWorkspace):
    """The answer of `related`."""

    key: str
    memories: list[RelatedRow]


class RelatedRequest(base.Scoped, method="related", args="key", result=RelatedResult, reads=True):
    """Returns the memories that edges lead to from one, each with the way there."""

    key: base.Key
    depth: Annotated[int, base.between(1, 3)] = 1
    """How many edges far, 1 to 3."""
    min_weight: base.Share = 0.0
    """Follow only edges at least this strong."""
    limit: base.Rows = 50


class ClusterRow(TypedDict):
    """Memories that belong together."""

    ns: str
    size: int
    summary: str | None
    wants_summary: bool
    memories: list[base.NamedMemory]


class ClustersResult(base.AcrossWorkspaces):
    """The answer of `clusters`."""

    min_weight: float
    clusters: list[ClusterRow]


class ClustersRequest(base.Scoped, method="clusters", result=ClustersResult, reads=True):
    """Lists groups of memories that belong together, and whether one of them sums them up."""

    min: Annotated[int, base.between(2, base.MAX_ROWS)] = 3
    """Memories that make a group, 2 or more."""
    min_weight: base.Share = 0.8
    """The weight from which an edge holds a group together: that of memories which are alike."""
