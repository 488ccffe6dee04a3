"""The client's methods for the lives of memories.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

from memd.protocol.conversation import LONG_TIMEOUT
from memd.protocol.twin import Asking, twin
from memd.protocol.writing import deed, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from memd.protocol.reports import (
        Consolidated,
        Context,
        Curated,
        Expanded,
        Reflected,
        RuleGone,
        Rules,
        RuleSet,
        RulesTested,
        Useful,
    )
    from memd.protocol.wishes import Looking, Noted, Reflecting, Signed, Task


class Living(Asking):
    """What a client can do for memories that live: say what was useful, and let them age."""

    @twin
    def useful(self, key: str, **how: Unpack[Signed]) -> Useful:
        """Say that a memory was of use; `useful` counts how often that was said."""
        return self._ask("useful", deed(key=key, **how))

    @twin
    def reflect(self, *, ns: str | None = None, dry_run: bool = False, **how: Unpack[Reflecting]) -> Reflected:
        """Let memories age now: what moved and why, what was linked, what wants a person's eye."""
        return self._ask("reflect", given(ns=ns, dry_run=dry_run or None, **how), timeout=LONG_TIMEOUT)

    @twin
    def rules(self) -> Rules:
        """The rules by which memories age, in `rules`, in the order in which they are looked at."""
        return self._ask("rule.list")

    @twin
    def set_rule(self, name: str, rule: str) -> RuleSet:
        """Make or change a rule (`tier=stm age>48h access<10 → decay 0.95`), or switch one `on` or `off`."""
        return self._ask("rule.set", {"name": name, "rule": rule})

    @twin
    def remove_rule(self, name: str) -> RuleGone:
        """Take a rule of your own away; a built-in one gets its own text back."""
        return self._ask("rule.rm", {"name": name})

    @twin
    def test_rules(self, rule: str | None = None, *, ns: str | None = None, **how: Unpack[Looking]) -> RulesTested:
        """What the rules, or one by its name or its text, would do now and why, in `matches`; takes `cwd`, `limit`."""
        return self._ask("rule.test", given(rule=rule, ns=ns, **how), timeout=LONG_TIMEOUT)

    @twin
    def context(self, query: str, *, ns: str | None = None, budget: int | None = None, **how: Unpack[Task]) -> Context:
        """What is known for a task, as Markdown for a prompt in `text`, within `budget` tokens; `memories` says whence.

        Filters as in `query`; `min_score` leaves out what is worth less, `min_spread` everything where nothing stands
        out; with `observe` false it does not count as an access.
        """
        return self._ask("context", given(query=query, ns=ns, budget=budget, **how))

    @twin
    def consolidate(self, key: str, text: str, sources: Sequence[str], **how: Unpack[Noted]) -> Consolidated:
        """Write a memory that sums up others; in `context` it stands for them."""
        return self._ask("consolidate", deed(key=key, text=text, sources=list(sources), **how))

    @twin
    def expand(self, key: str | None = None, *, ns: str | None = None, cwd: str | None = None) -> Expanded:
        """The memories that sum up others, in `summaries`; with a key what that one contains, in `children`."""
        return self._ask("expand", given(key=key, ns=ns, cwd=cwd))

    @twin
    def curate(self, key: str, verb: str, **how: Unpack[Signed]) -> Curated:
        """Decide about one memory: promote, demote, archive, delete, boost, diminish, pin or unpin."""
        return self._ask("curate", deed(key=key, verb=verb, **how))
