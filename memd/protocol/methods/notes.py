"""Writing down what is worth knowing: `note`, `save`, `write`, `read`, `recent`, and by topic, `topic.…`."""

from typing import Annotated, Any, Literal

from memd.errors import UsageError
from memd.protocol.methods import base


class NoteResult(base.Written):
    """The answer of `note`, `write` and `topic.set_general`: where it stands."""

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


# --- topics: one file each, and an index that lists them ----------------------------------------------------------


Topic = Annotated[base.Text, base.doc("the name")]


class TopicWriteResult(NoteResult):
    """The answer of `topic.memorize` and `topic.refine`."""

    topic: str


class TopicMemorizeRequest(base.Timed, base.Writing, method="topic.memorize", args="topic", result=TopicWriteResult):
    """Creates a topic and lists it in the index."""

    topic: Topic
    summary: base.Text
    """One or two sentences for the index."""
    content: base.Text
    """The content, as Markdown."""
    title: Annotated[str, base.unset("the name")] = ""
    """The title."""
    tags: Annotated[base.Texts, base.unset("none")] = ()
    """Its tags."""


class TopicRefineRequest(base.Timed, base.Writing, method="topic.refine", args="topic", result=TopicWriteResult):
    """Changes the tags, the summary or the content of a topic."""

    topic: Topic
    add_tags: Annotated[base.Texts, base.unset("none")] = ()
    """Tags to add."""
    remove_tags: Annotated[base.Texts, base.unset("none")] = ()
    """Tags to remove, in upper or lower case."""
    title: Annotated[str, base.unset("as it is")] = ""
    """A new title."""
    summary: Annotated[str, base.unset("as it is")] = ""
    """A new summary."""
    content: Annotated[str, base.unset("as it is")] = ""
    """A new content."""


class TopicForgetResult(TopicWriteResult):
    """The answer of `topic.forget`."""

    deleted: bool
    kept: str


class TopicForgetRequest(base.Writing, method="topic.forget", args="topic", result=TopicForgetResult):
    """Deletes a topic where it can, and always removes it from the index."""

    topic: Topic


class TopicRecallResult(base.WithinWorkspace, base.Shown):
    """The answer of `topic.recall`."""

    path: str
    topic: str
    title: str
    tags: list[str]
    summary: str
    last_updated: str
    content: str
    markdown: str


class TopicRecallRequest(base.Scoped, method="topic.recall", args="topic", result=TopicRecallResult, reads=True):
    """Returns one topic as Markdown: title, tags, when it was last updated, content."""

    topic: Topic


class TopicGeneralResult(base.WithinWorkspace, base.Shown):
    """The answer of `topic.general`."""

    path: str
    content: str
    topics: list[dict[str, str]]
    index: str
    """Both as they stand in the file, with their headings."""


class TopicGeneralRequest(base.OneWorkspace, method="topic.general", result=TopicGeneralResult, reads=True):
    """Returns the general knowledge and the list of topics, as the index has them."""


class TopicSetGeneralRequest(base.Writing, method="topic.set_general", args="content", result=NoteResult):
    """Replaces the general knowledge."""

    content: base.Text
    """The general knowledge, as Markdown."""


class TopicSearchResult(base.Fresh):
    """The answer of `topic.search`."""

    topics: list[dict[str, Any]]
    text: str


class TopicSearchRequest(base.Scoped, method="topic.search", args="tags", result=TopicSearchResult, reads=True):
    """Finds topics by their tags."""

    tags: Annotated[base.Texts, base.doc("the tags", min_length=1)]
    match: Literal["any", "all"] = "any"
    """`any`: one of them is enough; `all`: none may be missing."""


class TopicListResult(TopicSearchResult):
    """The answer of `topic.list`."""

    missing: list[dict[str, Any]]


class TopicListRequest(base.Scoped, method="topic.list", result=TopicListResult, reads=True):
    """Lists the topics."""
