"""The client's methods for the lives of memories.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.conversation import LONG_TIMEOUT, Conversation
from memd.protocol.writing import deed, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Living(Conversation):
    """What a client can do for memories that live: say what was useful, and let them age."""

    def useful(self, key: str, **how: Any) -> dict[str, Any]:
        """Say that a memory was of use; `useful` counts how often that was said."""
        return self.call("useful", deed(key=key, **how))

    def reflect(self, *, ns: str | None = None, dry_run: bool = False, **how: Any) -> dict[str, Any]:
        """Let memories age now: what moved and why, what was linked, what wants a person's eye."""
        return self.call("reflect", given(ns=ns, dry_run=dry_run or None, **how), timeout=LONG_TIMEOUT)

    def rules(self) -> dict[str, Any]:
        """The rules by which memories age, in `rules`, in the order in which they are looked at."""
        return self.call("rule.list")

    def set_rule(self, name: str, rule: str) -> dict[str, Any]:
        """Make or change a rule (`tier=stm age>48h access<10 → decay 0.95`), or switch one `on` or `off`."""
        return self.call("rule.set", {"name": name, "rule": rule})

    def remove_rule(self, name: str) -> dict[str, Any]:
        """Take a rule of your own away; a built-in one gets its own text back."""
        return self.call("rule.rm", {"name": name})

    def test_rules(self, rule: str | None = None, *, ns: str | None = None, **how: Any) -> dict[str, Any]:
        """What the rules, or one by its name or its text, would do now and why, in `matches`; takes `cwd`, `limit`."""
        return self.call("rule.test", given(rule=rule, ns=ns, **how), timeout=LONG_TIMEOUT)

    def context(self, query: str, *, ns: str | None = None, budget: int | None = None, **how: Any) -> dict[str, Any]:
        """What is known for a task, as Markdown for a prompt in `text`, within `budget` tokens; `memories` says whence.

        Filters as in `query`; `min_score` leaves out what is worth less, `min_spread` everything where nothing stands
        out; with `observe` false it does not count as an access.
        """
        return self.call("context", given(query=query, ns=ns, budget=budget, **how))

    def consolidate(self, key: str, text: str, sources: Sequence[str], **how: Any) -> dict[str, Any]:
        """Write a memory that sums up others; in `context` it stands for them."""
        return self.call("consolidate", deed(key=key, text=text, sources=list(sources), **how))

    def expand(self, key: str | None = None, *, ns: str | None = None, cwd: str | None = None) -> dict[str, Any]:
        """The memories that sum up others, in `summaries`; with a key what that one contains, in `children`."""
        return self.call("expand", given(key=key, ns=ns, cwd=cwd))

    def curate(self, key: str, verb: str, **how: Any) -> dict[str, Any]:
        """Decide about one memory: promote, demote, archive, delete, boost, diminish, pin or unpin."""
        return self.call("curate", deed(key=key, verb=verb, **how))
