"""Writing down what happened and what is worth knowing: `note`, `save`, `write`, `read` and `recent`."""

from typing import Annotated, Any, Literal

from memd.errors import UsageError
from memd.protocol.methods import base


class NoteResult(base.Written):
    """The answer of `note` and `write`: where it stands."""

    path: str


class NewSection(base.Timed, base.Writing):
    """The parameters that `note` and `save` share."""

    text: base.Text
    """The text."""
    title: str = ""
    """The title; without one, a heading that the text begins with."""
    tags: Annotated[base.Texts, base.unset("none")] = ()
    """Tags that the section declares."""


class NoteRequest(NewSection, method="note", args="text", result=NoteResult):
    """Adds a section to the note of the day."""


class SaveResult(NoteResult):
    """The answer of `save`."""

    target: str
    saved: str


class SaveRequest(NewSection, method="save", args="text target", result=SaveResult):
    """Adds a text to the long-term memory or to the note of the day, and says where it went."""

    target: Literal["daily", "long_term"] = "long_term"
    """`long_term`, MEMORY.md, or `daily`, today's note."""


class WriteRequest(base.Timed, base.Writing, method="write", args="section text", result=NoteResult):
    """Adds an entry to the file of a role, or to the file that all roles share."""

    section: base.Text
    """The title of the entry."""
    text: base.Text
    """The entry."""
    role: str = ""
    """The role."""
    shared: bool = False
    """Write to the shared file."""

    def check(self) -> None:
        if bool(self.role) == self.shared:
            raise UsageError("`write` needs a `role`, or `shared`", "memd write TITLE TEXT --role edit, or --shared")


class ReadResult(base.WithinWorkspace, base.Shown):
    """The answer of `read`."""

    role: str
    path: str
    text: str


class ReadRequest(base.OneWorkspace, method="read", args="role", result=ReadResult, reads=True):
    """Returns the file of a role, or the shared one, as it is."""

    role: Annotated[str, base.unset('`"shared"`')] = ""
    """The role."""


class RecentResult(base.WithinWorkspace):
    """The answer of `recent`."""

    role: str
    entries: list[dict[str, Any]]
    left_out: int
    tokens: int
    text: str


class RecentRequest(base.Timed, base.OneWorkspace, method="recent", args="role", result=RecentResult, reads=True):
    """Returns what was written lately to the shared file and to a role's, newest first, within a budget; without a
    role, to the daily notes and to the file of every role."""

    role: Annotated[str, base.unset("all of them")] = ""
    """The role that reads."""
    days: Annotated[int, base.between(1, 36_500)] = 7
    """Entries of this many days before today, and of today."""
    budget: Annotated[int, base.between(1, base.MAX_TOKENS)] = 2_000
    """At most about this many tokens, at four characters each."""
