"""Knowledge by topic: one file each, and an index that lists them."""

from typing import Annotated, Any, Literal

from memd.errors import UsageError
from memd.protocol.methods import base

Topic = Annotated[base.Text, base.doc("the name")]


class TopicWriteResult(base.Written):
    """The answer of `topic.memorize` and `topic.refine`."""

    topic: str
    path: str


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


class TopicSetGeneralResult(base.Written):
    """The answer of `topic.set_general`."""

    path: str


class TopicSetGeneralRequest(base.Writing, method="topic.set_general", args="content", result=TopicSetGeneralResult):
    """Replaces the general knowledge."""

    content: base.Text
    """The general knowledge, as Markdown."""


class TopicSearchResult(base.Fresh):
    """The answer of `topic.search`."""

    topics: list[dict[str, Any]]
    text: str


class TopicSearchRequest(base.Scoped, method="topic.search", args="tags", result=TopicSearchResult, reads=True):
    """Finds topics by their tags."""

    tags: base.Texts = ()
    """The tags."""
    match: Literal["any", "all"] = "any"
    """`any`: one of them is enough; `all`: none may be missing."""

    def check(self) -> None:
        if not self.tags:
            raise UsageError("`topic.search` needs `tags`")


class TopicListResult(TopicSearchResult):
    """The answer of `topic.list`."""

    missing: list[dict[str, Any]]


class TopicListRequest(base.Scoped, method="topic.list", result=TopicListResult, reads=True):
    """Lists the topics."""
