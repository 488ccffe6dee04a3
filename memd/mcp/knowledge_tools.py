"""The tools of the profile `knowledge`: topics and the general knowledge, under the names that their users know."""

from memd.mcp.tool_text import MAX_ANSWER, quote, source_of, with_source, written_by
from memd.mcp.tools import Reply, Result, pick, takes, tool
from memd.protocol.safe_text import one_line

# --- reading ------------------------------------------------------------------------------------------------


@tool("topic.general", "Recall the general knowledge")
def recall_general_memory(result: Result) -> Reply:
    """Recall what is generally known about this project, and the list of topics with a sentence each. Call it when a
    session begins; then recall the topics that matter. Returns the text of the index.
    """
    text = quote(result["index"], MAX_ANSWER)
    data = {**pick(result, "topics", "path"), **written_by(result), "content": result["content"][:MAX_ANSWER]}
    source = f"[source: {one_line(source_of(result))}]"
    return Reply(f"{source}\n{text}" if text else "There is no general knowledge yet.", data)


@tool("topic.recall", "Recall a topic", topic=takes("The topic to recall."))
def recall_memory(result: Result) -> Reply:
    """Recall everything that is known about one topic. Call it before you work on something that the list of topics
    names. Returns Markdown: title, tags, when it was last updated, content.
    """
    names = ("topic", "title", "tags", "summary", "last_updated", "path")
    data = {**pick(result, *names), **written_by(result), "content": result["content"][:MAX_ANSWER]}
    return Reply(with_source(source_of(result), result["markdown"]), data)


@tool("topic.search", "Search topics by tag", tags=takes("Tags to match.", required=True, low=1))
def search_memories(result: Result) -> Reply:
    """Find topics by their tags; one tag is enough to match, and upper or lower case does not matter. Returns the names
    of the topics, those with most of the tags first, or “No topics found”.
    """
    return Reply(one_line(result["text"]), {"topics": [pick(row, "topic", "tags") for row in result["topics"]]})


@tool("topic.list", "List the topics")
def list_memories(result: Result) -> Reply:
    """List all topics that are memorized. Returns their names, separated by commas."""
    rows = [pick(row, "topic", "summary") for row in result["topics"]]
    return Reply(one_line(result["text"]) or "There are no topics yet.", {"topics": rows})


# --- writing ------------------------------------------------------------------------------------------------


@tool(
    "topic.memorize", "Memorize a new topic",
    topic=takes("A name for it: short, without / and \\."),
    tags=takes("Tags for the topic.", required=True),
    summary=takes("One or two sentences for the index."),
    content=takes("Everything worth knowing, as Markdown."),
)  # fmt: skip
def memorize_new_topic(result: Result) -> Reply:
    """Memorize a topic that has no memory yet, once you have learned enough about it to help the next session. Fails if
    the topic exists: then use `refine_memory`. Returns where it was written.
    """
    return _written(result, f"Memorized the topic {result['topic']} ({result['path']})")


@tool(
    "topic.refine", "Refine a topic", destroys=True, repeatable=True,
    topic=takes("The topic to update."),
    tagsToAdd=takes("Tags to add.", "add_tags"),
    tagsToRemove=takes("Tags to remove.", "remove_tags"),
    newSummary=takes("A new summary for the index.", "summary"),
    newContent=takes("The new content, as Markdown.", "content"),
)  # fmt: skip
def refine_memory(result: Result) -> Reply:
    """Change what is memorized about a topic: its tags, its summary, or its content, which is replaced as a whole, so
    recall it first. What is not named stays. The former text can be restored.
    """
    return _written(result, f"Refined the topic {result['topic']} ({result['path']})")


@tool(
    "topic.set_general", "Memorize the general knowledge", destroys=True, repeatable=True,
    content=takes("The general knowledge, as Markdown."),
)  # fmt: skip
def memorize_general_info(result: Result) -> Reply:
    """Replace the general knowledge about this project: recall it first and keep what is still true. A content that has
    the heading “Specialized Knowledge” is refused: that is the list of topics.
    """
    return _written({**result, "topic": ""}, f"Memorized the general knowledge ({result['path']})")


@tool("topic.forget", "Forget a topic", destroys=True, topic=takes("The topic to remove."))
def forget_memory(result: Result) -> Reply:
    """Forget a topic that is no longer true or wanted: its file and its line in the index. Ask the user first. It can
    be restored from the history.
    """
    kept = f"; its file stays: {result['kept']}" if result["kept"] else ""
    return _written(result, f"Forgot the topic {result['topic']}{kept}")


def _written(result: Result, text: str) -> Reply:
    return Reply(one_line(text), pick(result, "topic", "path", "action"))
