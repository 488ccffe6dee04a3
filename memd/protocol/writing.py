"""The client's hand: a method for everything that is written down, and for what an agent reads of it.

Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

import os

from memd.protocol.conversation import LONG_TIMEOUT
from memd.protocol.twin import Asking, twin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Unpack

    from memd.protocol.outcomes import (
        Difference,
        History,
        Log,
        Patched,
        Placed,
        Put,
        Removed,
        Restored,
        Retagged,
        Saved,
        Touching,
        Trash,
        Undone,
    )
    from memd.protocol.reports import Expired
    from memd.protocol.results import Recent, RoleFile, Tags
    from memd.protocol.wishes import Collecting, Declared, Logged, Noted, Reading, Saving, Signed, Trashed, Where


class Writing(Asking):
    """What a client can write.

    All of it takes `ns` or `cwd`; `who`, which is noted as the author; `now`, the local time (2026-02-07T14:27);
    `allow_secret`, which lets a key or a password through; and `request_id`, which makes a repeated call one deed.
    """

    @twin
    def note(self, text: str, *, title: str | None = None, **how: Unpack[Saving]) -> Placed:
        """Add a section to the note of the day."""
        return self._ask("note", deed(text=text, title=title, **how))

    @twin
    def save(self, text: str, target: str, *, title: str | None = None, **how: Unpack[Saving]) -> Saved:
        """Add a text to the note of the day (`target` "daily") or to MEMORY.md ("long_term"); `saved` says where."""
        return self._ask("save", deed(text=text, target=target, title=title, **how))

    @twin
    def write(
        self, section: str, text: str, *, role: str | None = None, shared: bool = False, **how: Unpack[Noted]
    ) -> Placed:
        """Add an entry to the file of a role, or to the file that all roles share."""
        return self._ask("write", deed(section=section, text=text, role=role, shared=shared or None, **how))

    @twin
    def read(self, role: str | None = None, *, ns: str | None = None, cwd: str | None = None) -> RoleFile:
        """The file of a role, or the shared one, as it is."""
        return self._ask("read", given(role=role, ns=ns, cwd=cwd))

    @twin
    def recent(
        self, role: str, *, days: int | None = None, budget: int | None = None, **how: Unpack[Reading]
    ) -> Recent:
        """What was written lately to the shared file and to a role's, newest first, within `budget` tokens.

        `text` has it as an agent reads it, `entries` one by one; `left_out` counts those that did not fit.
        Takes `ns`, `cwd` and `now`.
        """
        return self._ask("recent", given(role=role, days=days, budget=budget, **how))

    @twin
    def put(
        self, key: str, text: str | None = None, *, if_version: int | None = None, **facts: Unpack[Declared]
    ) -> Put:
        """Write a memory under a key: a new one, or the next version of one that is there.

        `if_version` refuses when it has another version now (0: when it is there at all). Facts: `kind`, `tags`,
        `priority`, `importance`, `pinned`, `ttl`, `tier`, `files`; `on_similar` is keep, update or skip.
        """
        return self._ask("put", deed(key=key, text=text, if_version=if_version, **facts))

    @twin
    def patch(self, key: str, patch: str, *, if_version: int | None = None, **how: Unpack[Signed]) -> Patched:
        """Apply a unified diff to a memory, exactly or not at all."""
        return self._ask("patch", deed(key=key, patch=patch, if_version=if_version, **how))

    @twin
    def rm(self, key: str, *, hard: bool = False, **how: Unpack[Signed]) -> Removed:
        """Take a memory out of its file; with `hard`, out of the history and the caches too."""
        return self._ask("rm", deed(key=key, hard=hard or None, **how), timeout=LONG_TIMEOUT)

    @twin
    def gc(self, *, hard: bool = False, who: str | None = None, **where: Unpack[Collecting]) -> Expired:
        """The memories whose ttl has run out, in `expired`, and those that rest, in `dormant`.

        With `hard` the expired ones are forgotten for good; with `dry_run` nothing is, whatever else is said.
        """
        return self._ask("gc", given(hard=hard or None, who=who, **where), timeout=LONG_TIMEOUT)

    @twin
    def files(
        self, key: str | None = None, *, touching: str | None = None, add: str | None = None, rel: str | None = None,
        **how: Unpack[Signed],
    ) -> Touching:  # fmt: skip
        """The files that a memory is about, or the memories that are about a file; `add` and `rel` add one."""
        return self._ask("files", deed(key=key, touching=touching, add=add, rel=rel, **how))

    @twin
    def tags(self, *, ns: str | None = None, cwd: str | None = None) -> Tags:
        """The tags, with the number of memories that have them."""
        return self._ask("tags.list", given(ns=ns, cwd=cwd))

    @twin
    def rename_tag(self, tag: str, to: str, *, dry_run: bool = False, **how: Unpack[Signed]) -> Retagged:
        """Give a tag another name in all files at once; `diff` shows what that changes."""
        return self._ask("tags.rename", deed(tag=tag, to=to, dry_run=dry_run or None, **how))

    @twin
    def remove_tag(self, tag: str, *, dry_run: bool = False, **how: Unpack[Signed]) -> Retagged:
        """Take a tag away in all files at once; `diff` shows what that changes."""
        return self._ask("tags.rm", deed(tag=tag, dry_run=dry_run or None, **how))

    @twin
    def topic(self, operation: str, /, topic: str | None = None, **how: Any) -> dict[str, Any]:
        """The knowledge store: `memorize`, `refine`, `forget` and `recall` a topic, and about all of them `general`,
        `set_general`, `search` and `list`.

        memorize takes `title`, `tags`, `summary` and `content`; refine the same, with `add_tags` and `remove_tags`
        in place of `tags`; set_general `content`; search `tags` and `match` (any or all).
        """
        writes = operation in ("memorize", "refine", "forget", "set_general")
        return self._ask(f"topic.{operation}", (deed if writes else given)(topic=topic, **how))

    # --- the past -----------------------------------------------------------------------------------------

    @twin
    def history(self, key: str, *, ns: str | None = None, cwd: str | None = None) -> History:
        """Every version of a memory in `versions`, the newest first; also of one that is gone."""
        return self._ask("history", given(key=key, ns=ns, cwd=cwd))

    @twin
    def diff(self, key: str, old: int | None = None, new: int | None = None, **where: Unpack[Where]) -> Difference:
        """How two versions of a memory differ; without numbers, its last change."""
        return self._ask("diff", given(key=key, old=old, new=new, **where))

    @twin
    def restore(
        self, key: str | None = None, version: int | None = None, *, path: str | None = None, **how: Unpack[Signed]
    ) -> Restored:
        """Make a former text of a memory its current one, or bring back a file that was removed."""
        return self._ask("restore", deed(key=key, version=version, path=path, **how))

    @twin
    def log(self, *, ns: str | None = None, **which: Unpack[Logged]) -> Log:
        """What was done, in `entries`; `who`, `what`, `since`, `key` and `limit` say which."""
        return self._ask("log", given(ns=ns, **which))

    @twin
    def undo(self, action: int | None = None, *, who: str | None = None, **where: Unpack[Where]) -> Undone:
        """Take an action back; without one, the last change of text that `who` made."""
        return self._ask("undo", given(action=action, who=who, **where))

    @twin
    def trash(self, *, ns: str | None = None, **where: Unpack[Trashed]) -> Trash:
        """What went from the files, in `memories` and `files`, each with the way back."""
        return self._ask("trash", given(ns=ns, **where))


def deed(**params: Any) -> dict[str, Any]:
    """The parameters of a write, with a number of its own, so that it can be sent again; the client adds its author."""
    return {"request_id": os.urandom(8).hex(), **given(**params)}


def given(**params: Any) -> dict[str, Any]:
    """The parameters that have a value."""
    return {name: value for name, value in params.items() if value is not None}
