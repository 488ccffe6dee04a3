"""What belongs together: `edge.add`, `edge.rm`, `edge.list`, `edge.candidates`, `related` and `clusters`."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from memd.models import Relation
from memd.protocol.methods import base
from memd.protocol.methods.base import method, unset

EdgeStep = TypedDict("EdgeStep", {"from": str, "rel": str, "to": str, "weight": float})
"""An edge on the way from one memory to another."""


class EdgeRow(EdgeStep):
    """An edge, and where it comes from."""

    origin: str
    accesses: int
    ns: NotRequired[str]


class EdgeAddResult(base.Written):
    """The answer of `edge.add`; `edge` is None when it went again before the answer."""

    edge: EdgeRow | None


@method("edge.add", EdgeAddResult, "from_", "rel", "to")
class EdgeAddRequest(base.Writing):
    """Declares an edge between two memories, in the file of the first."""

    from_: base.Text
    """The key of the memory that says it."""
    rel: Relation = "relates_to"
    """The relation."""
    to: base.Text
    """The key of the other memory, of the same workspace."""
    weight: Annotated[base.Share | None, unset("the relation's")] = None
    """From 0 to 1."""


class EdgeRmResult(base.Written):
    """The answer of `edge.rm`."""

    removed: list[EdgeRow]


@method("edge.rm", EdgeRmResult, "from_", "rel", "to")
class EdgeRmRequest(base.Writing):
    """Removes an edge: from the file that declares it, or so that it is not made again."""

    from_: base.Text
    """The key of the memory that says it; of `relates_to`, either."""
    rel: Relation = "relates_to"
    """The relation."""
    to: base.Text
    """The key of the other memory."""


class EdgeListResult(base.AcrossWorkspaces):
    """The answer of `edge.list`."""

    edges: list[EdgeRow]


@method("edge.list", EdgeListResult, "key", reads=True)
class EdgeListRequest(base.Scoped):
    """Lists the edges of a memory or of a workspace, the strongest first."""

    key: Annotated[str, unset("any")] = ""
    """Only edges of this memory."""
    rel: Annotated[Relation | None, unset("any")] = None
    """Only this relation."""
    min_weight: base.Share = 0.0
    """Only edges at least this strong."""
    limit: base.Rows = base.MAX_ROWS


class EdgeCandidatesResult(base.AcrossWorkspaces):
    """The answer of `edge.candidates`."""

    relations: dict[str, float]
    candidates: list[dict[str, Any]]


@method("edge.candidates", EdgeCandidatesResult, reads=True)
class EdgeCandidatesRequest(base.Scoped):
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


@method("related", RelatedResult, "key", reads=True)
class RelatedRequest(base.Scoped):
    """Returns the memories that edges lead to from one, each with the way there."""

    key: base.Key
    depth: Annotated[int, Meta(ge=1, le=3)] = 1
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


@method("clusters", ClustersResult, reads=True)
class ClustersRequest(base.Scoped):
    """Lists groups of memories that belong together, and whether one of them sums them up."""

    min: Annotated[int, Meta(ge=2, le=base.MAX_ROWS)] = 3
    """Memories that make a group, 2 or more."""
    min_weight: base.Share = 0.8
    """The weight from which an edge holds a group together: that of memories which are alike."""
