"""The client's methods for what belongs together.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.conversation import Conversation
from memd.protocol.writing import deed, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Edges(Conversation):
    """What a client can ask and say about edges between memories; all of it takes `ns` or `cwd`."""

    def add_edge(self, one: str, rel: str, other: str, *, weight: float | None = None, **how: Any) -> dict[str, Any]:
        """Declare an edge in the file of its first memory; `edge` has it as it is now."""
        return self.call("edge.add", deed(rel=rel, to=other, weight=weight, **{"from": one}, **how))

    def remove_edge(self, one: str, rel: str, other: str, **how: Any) -> dict[str, Any]:
        """Take an edge away: out of the file that declares it, or so that it is not made again."""
        return self.call("edge.rm", deed(rel=rel, to=other, **{"from": one}, **how))

    def edges(self, key: str | None = None, *, rel: str | None = None, **which: Any) -> dict[str, Any]:
        """The edges of a memory, or of a workspace, the strongest first; `min_weight` and `limit` say which."""
        return self.call("edge.list", given(key=key, rel=rel, **which))

    def related(self, key: str, *, depth: int | None = None, **which: Any) -> dict[str, Any]:
        """The memories that edges lead to, in `memories`, each with the way there; `depth` is 1 to 3."""
        return self.call("related", given(key=key, depth=depth, **which))

    def clusters(self, **which: Any) -> dict[str, Any]:
        """Groups of memories that belong together; `min` and `min_weight` say which. `wants_summary`: none has one."""
        return self.call("clusters", given(**which))

    def edge_candidates(self, *, limit: int | None = None, **where: Any) -> dict[str, Any]:
        """Pairs that belong together without its being said how, with the beginning of both texts."""
        return self.call("edge_candidates", given(limit=limit, **where))
