"""The tools of the profile `knowledge`: topics and the general knowledge, under the names that their users know."""

from __future__ import annotations

from typing import Any

from memd.mcp import shapes
from memd.mcp.telling import MOST, quoted, remarks, sourced
from memd.mcp.tools import Arguments, Ask, Reply, Tool
from memd.protocol.safe_text import one_line

# --- reading ------------------------------------------------------------------------------------------------


async def _general(ask: Ask, given: Arguments) -> Reply:
    found = await ask("topic.general", {})
    listed = "\n".join(f"- {entry['topic']}: {one_line(entry['summary'])}" for entry in found["topics"])
    parts = [quoted(found["content"], MOST), f"Topics:\n{quoted(listed, MOST)}" if listed else ""]
    text = "\n\n".join(part for part in parts if part)
    data = {"content": found["content"][:MOST], "topics": found["topics"], "path": found["path"]}
    told = f"[source: {one_line(found['path'])}]\n{text}" if text else "There is no general knowledge yet."
    return Reply(told, data, remarks(found))


async def _recall(ask: Ask, given: Arguments) -> Reply:
    found = await ask("topic.recall", {"topic": given["topic"]})
    names = ("topic", "title", "tags", "summary", "last_updated", "path")
    data = {**{name: found[name] for name in names}, "content": found["content"][:MOST]}
    return Reply(sourced(found["path"], found["markdown"]), data, remarks(found))


async def _search(ask: Ask, given: Arguments) -> Reply:
    found = await ask("topic.search", {"tags": given["tags"]})
    rows = [{"topic": row["topic"], "tags": row["tags"]} for row in found["topics"]]
    return Reply(one_line(found["text"]), {"topics": rows}, remarks(found))


async def _list(ask: Ask, given: Arguments) -> Reply:
    found = await ask("topic.list", {})
    rows = [{"topic": row["topic"], "summary": row["summary"]} for row in found["topics"]]
    return Reply(one_line(found["text"]) or "There are no topics yet.", {"topics": rows}, remarks(found))


# --- writing ------------------------------------------------------------------------------------------------


async def _memorize(ask: Ask, given: Arguments) -> Reply:
    done = await ask("topic.memorize", given)
    return _done(done, f"Memorized the topic {done['topic']} ({done['path']})")


async def _refine(ask: Ask, given: Arguments) -> Reply:
    names = {"tagsToAdd": "add_tags", "tagsToRemove": "remove_tags", "newSummary": "summary", "newContent": "content"}
    done = await ask("topic.refine", {names.get(name, name): value for name, value in given.items()})
    return _done(done, f"Refined the topic {done['topic']} ({done['path']})")


async def _set_general(ask: Ask, given: Arguments) -> Reply:
    done = await ask("topic.set_general", given)
    return _done({**done, "topic": ""}, f"Memorized the general knowledge ({done['path']})")


async def _forget(ask: Ask, given: Arguments) -> Reply:
    done = await ask("topic.forget", given)
    kept = f"; its file stays: {done['kept']}" if done["kept"] else ""
    return _done(done, f"Forgot the topic {done['topic']}{kept}")


def _done(done: dict[str, Any], told: str) -> Reply:
    data = {name: done[name] for name in ("topic", "path", "action")}
    return Reply(one_line(told), data, remarks(done))


# --- the table ----------------------------------------------------------------------------------------------

DONE = {
    "topic": shapes.TEXT,
    "path": shapes.TEXT,
    "action": shapes.maybe(shapes.whole("The number under which it can be undone.", 0, 2**53)),
}

TOOLS = (
    Tool(
        name="recall_general_memory",
        title="Recall the general knowledge",
        about="Recall what is generally known about this project, and the list of topics with a sentence each. Call it"
        " when a session begins; then recall the topics that matter. Returns the text of the index.",
        takes={},
        gives={
            "content": shapes.text("The general knowledge, as Markdown."),
            "topics": shapes.rows("The topics.", {"topic": shapes.TEXT, "summary": shapes.TEXT}),
            "path": shapes.TEXT,
        },
        run=_general,
        reads=True,
        again=True,
    ),
    Tool(
        name="recall_memory",
        title="Recall a topic",
        about="Recall everything that is known about one topic. Call it before you work on something that the list of"
        " topics names. Returns Markdown: title, tags, when it was last updated, content.",
        takes={"topic": shapes.text("The topic to recall.")},
        needs=("topic",),
        gives={
            "topic": shapes.TEXT,
            "title": shapes.TEXT,
            "tags": shapes.TEXTS,
            "summary": shapes.TEXT,
            "last_updated": shapes.TEXT,
            "path": shapes.TEXT,
            "content": shapes.TEXT,
        },
        run=_recall,
        reads=True,
        again=True,
    ),
    Tool(
        name="search_memories",
        title="Search topics by tag",
        about="Find topics by their tags; one tag is enough to match, and upper or lower case does not matter. Returns"
        " the names of the topics, those with most of the tags first, or “No topics found”.",
        takes={"tags": shapes.texts("Tags to match.", minItems=1)},
        needs=("tags",),
        gives={"topics": shapes.rows("The topics.", {"topic": shapes.TEXT, "tags": shapes.TEXTS})},
        run=_search,
        reads=True,
        again=True,
    ),
    Tool(
        name="list_memories",
        title="List the topics",
        about="List all topics that are memorized. Returns their names, separated by commas.",
        takes={},
        gives={"topics": shapes.rows("The topics.", {"topic": shapes.TEXT, "summary": shapes.TEXT})},
        run=_list,
        reads=True,
        again=True,
    ),
    Tool(
        name="memorize_new_topic",
        title="Memorize a new topic",
        about="Memorize a topic that has no memory yet, once you have learned enough about it to help the next"
        " session. Fails if the topic exists: then use `refine_memory`. Returns where it was written.",
        takes={
            "topic": shapes.text("A name for it: short, without / and \\."),
            "tags": shapes.texts("Tags for the topic."),
            "summary": shapes.text("One or two sentences for the index."),
            "content": shapes.text("Everything worth knowing, as Markdown."),
        },
        needs=("topic", "tags", "summary", "content"),
        gives=DONE,
        run=_memorize,
    ),
    Tool(
        name="refine_memory",
        title="Refine a topic",
        about="Change what is memorized about a topic: its tags, its summary, or its content, which is replaced as a"
        " whole, so recall it first. What is not named stays. The text before it can be brought back.",
        takes={
            "topic": shapes.text("The topic to update."),
            "tagsToAdd": shapes.texts("Tags to add."),
            "tagsToRemove": shapes.texts("Tags to remove."),
            "newSummary": shapes.text("A new summary for the index."),
            "newContent": shapes.text("The new content, as Markdown."),
        },
        needs=("topic",),
        gives=DONE,
        run=_refine,
        destroys=True,
        again=True,
    ),
    Tool(
        name="memorize_general_info",
        title="Memorize the general knowledge",
        about="Replace the general knowledge about this project: recall it first and keep what is still true. A content"
        " that has the heading “Specialized Knowledge” is refused: that is the list of topics.",
        takes={"content": shapes.text("The general knowledge, as Markdown.")},
        needs=("content",),
        gives=DONE,
        run=_set_general,
        destroys=True,
        again=True,
    ),
    Tool(
        name="forget_memory",
        title="Forget a topic",
        about="Forget a topic that is no longer true or wanted: its file and its line in the index. Ask the user first."
        " It can be brought back from the history.",
        takes={"topic": shapes.text("The topic to remove.")},
        needs=("topic",),
        gives=DONE,
        run=_forget,
        destroys=True,
    ),
)
