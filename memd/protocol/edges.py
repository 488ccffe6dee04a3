"""The client's methods for what belongs together.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.twin import Asking, twin
from memd.protocol.writing import deed, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from memd.protocol.reports import Candidates, Clusters, EdgeAdded, EdgeList, EdgeRemoved, Related
    from memd.protocol.wishes import Grouping, Signed, Strong, Where


class Edges(Asking):
    """What a client can ask and say about edges between memories; all of it takes `ns` or `cwd`."""

    @twin
    def add_edge(
        self, one: str, rel: str, other: str, *, weight: float | None = None, **how: Unpack[Signed]
    ) -> EdgeAdded:
        """Declare an edge in the file of its first memory; `edge` has it as it is now."""
        return self._ask("edge.add", deed(rel=rel, to=other, weight=weight, **{"from": one}, **how))

    @twin
    def remove_edge(self, one: str, rel: str, other: str, **how: Unpack[Signed]) -> EdgeRemoved:
        """Take an edge away: out of the file that declares it, or so that it is not made again."""
        return self._ask("edge.rm", deed(rel=rel, to=other, **{"from": one}, **how))

    @twin
    def edges(self, key: str | None = None, *, rel: str | None = None, **which: Unpack[Strong]) -> EdgeList:
        """The edges of a memory, or of a workspace, the strongest first; `min_weight` and `limit` say which."""
        return self._ask("edge.list", given(key=key, rel=rel, **which))

    @twin
    def related(self, key: str, *, depth: int | None = None, **which: Unpack[Strong]) -> Related:
        """The memories that edges lead to, in `memories`, each with the way there; `depth` is 1 to 3."""
        return self._ask("related", given(key=key, depth=depth, **which))

    @twin
    def clusters(self, **which: Unpack[Grouping]) -> Clusters:
        """Groups of memories that belong together; `min` and `min_weight` say which. `wants_summary`: none has one."""
        return self._ask("clusters", given(**which))

    @twin
    def edge_candidates(self, *, limit: int | None = None, **where: Unpack[Where]) -> Candidates:
        """Pairs that belong together without its being said how, with the beginning of both texts."""
        return self._ask("edge_candidates", given(limit=limit, **where))
