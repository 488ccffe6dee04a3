"""Memory that a person attaches or sends: resources (`memory://file/<path>`, `memory://topic/<name>`, the lists of
both) and the prompt `recall`, a question with what memory says to it."""

from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from memd.errors import NotFound, UsageError
from memd.mcp.replies import MAX_ANSWER, Call, degraded_note, memory_results, sanitize, truncate, with_notes
from memd.mcp.tools import DECLARED
from memd.protocol.safe_text import neutralise, one_line

FILE, TOPIC = "memory://file/", "memory://topic/"
FILES, TOPICS = "memory://files", "memory://topics"
TEMPLATES: dict[str, list[str]] = DECLARED["templates"]
"""Addresses with a part to be filled in, and what they are."""
PAGE = 1_000
"""Memories to a page; a file has one or more."""


Listed = tuple[str, str, str]
"""A resource, as a list shows it: its address, its name and what it is."""


async def list_page(call: Call, cursor: str) -> tuple[list[Listed], str]:
    """One page of the resources, and the cursor of the next; lists come first, then files, then topics."""
    offset, last = _parse_cursor(cursor)
    paths, more = await _file_page(call, offset, last)
    page = [] if cursor else [(FILES, "files", "All memory files."), (TOPICS, "topics", "All topics.")]
    page += [(FILE + quote(path), path, "A memory file.") for path in paths]
    if more:
        # The next page may begin with more memories of the last file, which is listed already.
        return page, f"{offset + PAGE}:{paths[-1] if paths else last}"
    topics = sanitize((await call("topic.list", {}))["topics"])
    page += [(TOPIC + quote(row["topic"], ""), row["topic"], one_line(row["summary"])) for row in topics]
    return page, ""


def _parse_cursor(cursor: str) -> tuple[int, str]:
    offset, _, last = cursor.partition(":")
    if cursor and not (offset.isascii() and offset.isdigit() and len(offset) < 10):
        raise UsageError(f"{cursor!r} is not a cursor of this list")
    return int(offset or 0), last


async def _file_page(call: Call, offset: int, last: str) -> tuple[list[str], bool]:
    """The files of one page of memories but for the last one of the page before, and whether there are more."""
    # Sorted by key, the memories of a file stand together.
    result = await call("list", {"sort": "key", "offset": offset, "limit": PAGE})
    paths = dict.fromkeys(row["path"] for row in result["memories"])
    return [path for path in paths if path != last], offset + PAGE < result["total"]


async def resource_text(call: Call, uri: str) -> str:
    """The text of a resource, safe for a model to read."""
    if uri == TOPICS:
        rows = (await call("topic.list", {}))["topics"]
        return "\n".join(one_line(f"{row['topic']}: {row['summary']}") for row in rows)
    if uri == FILES:
        return _fit({"text": "\n".join(map(one_line, await _all_files(call)))}, "text")
    if uri.startswith(TOPIC):
        return _fit(await call("topic.recall", {"topic": unquote(uri.removeprefix(TOPIC))}), "markdown")
    if uri.startswith(FILE):
        return _fit(await call("get", {"path": unquote(uri.removeprefix(FILE))}), "text")
    hint = f"there are {FILE}<path>, {TOPIC}<name>, {FILES} and {TOPICS}"
    raise NotFound(f"there is no resource {one_line(uri)}", hint)


async def _all_files(call: Call) -> list[str]:
    files: list[str] = []
    offset, more = 0, True
    while more and sum(map(len, files)) < MAX_ANSWER:
        paths, more = await _file_page(call, offset, files[-1] if files else "")
        files, offset = files + paths, offset + PAGE
    return files


def _fit(result: dict[str, Any], name: str) -> str:
    """The text of a result as far as a model should get it, and who wrote it where that was not only a person."""
    text, cut = truncate(neutralise(result[name]))
    authors = [f"written by {', '.join(result['written_by'])}"] if result.get("written_by") else []
    return with_notes(text, [*authors, *cut])


def uris_of(path: str) -> tuple[str, str]:
    """The resources that change with a file."""
    return FILE + quote(path), TOPIC + quote(PurePosixPath(path).stem, "")


def canonical(uri: str) -> str:
    """A resource's address as memd writes it, so that two spellings of it are equal."""
    for prefix, safe in ((FILE, "/"), (TOPIC, "")):
        if uri.startswith(prefix):
            return prefix + quote(unquote(uri.removeprefix(prefix)), safe)
    return uri


# --- the prompt --------------------------------------------------------------------------------------------

PROMPT: dict[str, str] = DECLARED["prompt"]
ABOUT, ABOUT_MEANS = PROMPT["argument"], PROMPT["argument_about"]
PASSAGES = 8


async def recall(call: Call, arguments: dict[str, str]) -> str:
    """The message that a person sends by choosing the prompt."""
    about = neutralise(arguments.get(ABOUT, "")).strip()
    if not about:
        raise UsageError(f"`{PROMPT['name']}` needs `{ABOUT}`", ABOUT_MEANS)
    result = await call("query", {"query": about, "limit": PASSAGES})
    text, cut = truncate(memory_results(result["hits"]) or "Nothing was found.")
    return PROMPT["message"].format(about=about, memories=with_notes(text, [*degraded_note(result), *cut]))
