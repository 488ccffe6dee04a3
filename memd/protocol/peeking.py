"""The client's methods for looking in: what runs by the clock, and what the memory holds.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.conversation import LONG_TIMEOUT, Conversation
from memd.protocol.writing import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Peeking(Conversation):
    """What a client can see without asking a question. All but the jobs take `ns` or `cwd`."""

    def jobs(self) -> dict[str, Any]:
        """What runs by the clock, in `jobs`: the schedule, the last run and what came of it, the next."""
        return self.call("jobs.list")

    def run_job(self, name: str) -> dict[str, Any]:
        """Run a job now; `job` tells what came of it, and `ok` in it whether it went well."""
        return self.call("jobs.run", {"name": name}, timeout=LONG_TIMEOUT)

    def peek(self, **where: Any) -> dict[str, Any]:
        """An index of what the memory holds in `text`: Markdown of at most 200 tokens, made for a prompt."""
        return self.call("peek", given(**where))

    def stats(self, **where: Any) -> dict[str, Any]:
        """How much there is of everything, what is used most and least, and what it takes on the disk."""
        return self.call("stats", given(**where))

    def tree(self, path: str | None = None, **how: Any) -> dict[str, Any]:
        """The memories by file, without their texts; `offset` and `limit` say which page."""
        return self.call("tree", given(path=path, **how))

    def timeline(self, *, since: str | None = None, until: str | None = None, **how: Any) -> dict[str, Any]:
        """Day by day what notes are about and what was done; at most `limit` days, the newest first."""
        return self.call("timeline", given(since=since, until=until, **how))
