"""Conflicts that git and file synchronisers leave in a workspace: `conflict.list` and `conflict.settle`."""

from typing import Annotated, Literal, TypedDict

from memd.protocol.methods import base


class ClashRow(TypedDict):
    """A section that both versions changed at the same place."""

    heading: str
    ours: str
    theirs: str


class ConflictedNote(TypedDict):
    """A note of which there are two versions."""

    path: str
    copy: str
    """The file with the other version; empty where markers in the note itself divide the two."""
    clashes: list[str]
    """Headings of the sections that both changed; where there are none, a merge settles it."""
    taken: list[str]
    """Headings of the sections that a merge takes from the other version."""


class ConflictRow(ConflictedNote):
    """One that is to be settled."""

    ns: str
    both: list[ClashRow]
    """The two texts of each section that both changed."""


class ConflictListResult(base.AcrossWorkspaces):
    """The answer of `conflict.list`."""

    notes: list[ConflictRow]


class ConflictListRequest(base.Scoped, method="conflict.list", result=ConflictListResult, reads=True):
    """Lists the notes of which git or a file synchroniser left two versions."""


class ConflictSettleResult(base.Written, ConflictedNote):
    """The answer of `conflict.settle`."""


class ConflictSettleRequest(base.Writing, method="conflict.settle", args="path take", result=ConflictSettleResult):
    """Makes one note of two versions, and removes the copy; it can be undone as any write."""

    path: Annotated[base.Text, base.doc("the note, or the copy of it, as `conflict.list` names it")]
    take: Literal["merge", "both", "ours", "theirs"] = "merge"
    """`merge`: what either side did; `both`: also what both changed, one after the other; or one of the versions."""
