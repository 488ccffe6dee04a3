"""The client's method for the source code around the notes.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.conversation import LONG_TIMEOUT
from memd.protocol.twin import Asking, twin
from memd.protocol.writing import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from memd.protocol.results import Outlined
    from memd.protocol.twin import Progress
    from memd.protocol.wishes import Outlining


class Outlines(Asking):
    """What a client can ask about source code."""

    @twin
    def outline(self, what: str, *, on_progress: Progress | None = None, **asked: Unpack[Outlining]) -> Outlined:
        """The source code around the notes: `what` is symbol, file, project or map.

        symbol takes `symbol` and perhaps `file`; file takes `file`; these and project take `language`, `depth`,
        `relations`, `omit_native` and `format` (text or json); map takes `language` and `budget`; all `ns` or `cwd`.
        """
        return self._ask(f"outline.{what}", given(**asked), on_progress=on_progress, timeout=LONG_TIMEOUT)
