"""The client's methods for looking in: what runs by the clock, and what the memory holds.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.conversation import LONG_TIMEOUT
from memd.protocol.twin import Asking, twin
from memd.protocol.writing import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from memd.protocol.reports import JobDone, Jobs, Peek, Stats, Timeline, Tree
    from memd.protocol.wishes import Days, Leaves, Where


class Peeking(Asking):
    """What a client can see without asking a question. All but the jobs take `ns` or `cwd`."""

    @twin
    def jobs(self) -> Jobs:
        """What runs by the clock, in `jobs`: the schedule, the last run and what came of it, the next."""
        return self._ask("jobs.list")

    @twin
    def run_job(self, name: str) -> JobDone:
        """Run a job now; `job` tells what came of it, and `ok` in it whether it went well."""
        return self._ask("jobs.run", {"name": name}, timeout=LONG_TIMEOUT)

    @twin
    def peek(self, **where: Unpack[Where]) -> Peek:
        """An index of what the memory holds in `text`: Markdown of at most 200 tokens, made for a prompt."""
        return self._ask("peek", given(**where))

    @twin
    def stats(self, **where: Unpack[Where]) -> Stats:
        """How much there is of everything, what is used most and least, and what it takes on the disk."""
        return self._ask("stats", given(**where))

    @twin
    def tree(self, path: str | None = None, **how: Unpack[Leaves]) -> Tree:
        """The memories by file, without their texts; `offset` and `limit` say which page."""
        return self._ask("tree", given(path=path, **how))

    @twin
    def timeline(self, *, since: str | None = None, until: str | None = None, **how: Unpack[Days]) -> Timeline:
        """Day by day what notes are about and what was done; at most `limit` days, the newest first."""
        return self._ask("timeline", given(since=since, until=until, **how))
