"""Knowledge by topic: one file each, and an index that lists them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from memd.errors import UsageError
from memd.protocol.methods import base
from memd.protocol.methods.base import doc, method, unset

Topic = Annotated[base.Text, doc("the name")]


class TopicWriteResult(base.Written):
    """The answer of `topic.memorize` and `topic.refine`."""

    topic: str
    path: str


@method("topic.memorize", TopicWriteResult, "topic")
class TopicMemorizeRequest(base.Timed, base.Writing):
    """Creates a topic and lists it in the index."""

    topic: Topic
    summary: base.Text
    """One or two sentences for the index."""
    content: base.Text
    """The content, as Markdown."""
    title: Annotated[str, unset("the name")] = ""
    """The title."""
    tags: Annotated[base.Texts, unset("none")] = ()
    """Its tags."""


@method("topic.refine", TopicWriteResult, "topic")
class TopicRefineRequest(base.Timed, base.Writing):
    """Changes the tags, the summary or the content of a topic."""

    topic: Topic
    add_tags: Annotated[base.Texts, unset("none")] = ()
    """Tags to add."""
    remove_tags: Annotated[base.Texts, unset("none")] = ()
    """Tags to remove, in upper or lower case."""
    title: Annotated[str, unset("as it is")] = ""
    """A new title."""
    summary: Annotated[str, unset("as it is")] = ""
    """A new summary."""
    content: Annotated[str, unset("as it is")] = ""
    """A new content."""


class TopicForgetResult(TopicWriteResult):
    """The answer of `topic.forget`."""

    deleted: bool
    kept: str


@method("topic.forget", TopicForgetResult, "topic")
class TopicForgetRequest(base.Writing):
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


@method("topic.recall", TopicRecallResult, "topic", reads=True)
class TopicRecallRequest(base.Scoped):
    """Returns one topic as Markdown: title, tags, when it was last updated, content."""

    topic: Topic


class TopicGeneralResult(base.WithinWorkspace, base.Shown):
    """The answer of `topic.general`."""

    path: str
    content: str
    topics: list[dict[str, str]]
    index: str
    """Both as they stand in the file, with their headings."""


@method("topic.general", TopicGeneralResult, reads=True)
class TopicGeneralRequest(base.OneWorkspace):
    """Returns the general knowledge and the list of topics, as the index has them."""


class TopicSetGeneralResult(base.Written):
    """The answer of `topic.set_general`."""

    path: str


@method("topic.set_general", TopicSetGeneralResult, "content")
class TopicSetGeneralRequest(base.Writing):
    """Replaces the general knowledge."""

    content: base.Text
    """The general knowledge, as Markdown."""


class TopicSearchResult(base.Fresh):
    """The answer of `topic.search`."""

    topics: list[dict[str, Any]]
    text: str


@method("topic.search", TopicSearchResult, "tags", reads=True)
class TopicSearchRequest(base.Scoped):
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


@method("topic.list", TopicListResult, reads=True)
class TopicListRequest(base.Scoped):
    """Lists the topics."""
