"""How each tool shows its result, in a function of the tool's name; what tools.toml says in a sentence has none.

And how a tool gets its result where that takes more than one call of its method.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memd.errors import NotFound, UsageError
from memd.models import pick
from memd.prose import with_texts
from memd.protocol.safe_text import neutralise, one_line

Arguments = dict[str, Any]
Result = dict[str, Any]
Call = Callable[[str, dict[str, Any]], Awaitable[Result]]
"""Calls a method of the daemon, in the session's workspace and in its client's name."""
Run = Callable[[Call, Arguments], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a tool: text for the model, and the same as data."""

    text: str
    data: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    failed: bool = False


def written(result: Result, says: str, tells: Sequence[str]) -> Reply:
    """A sentence with some fields of the result, and those that are its data."""
    return Reply(one_line(says.format(**result)), pick(result, *tells))


# --- how memory is shown to a model: as data with its source, without hidden characters, within a limit -------------

MAX_ANSWER = 40_000
"""Characters of one answer: about 10,000 tokens, above which clients warn or cut by themselves."""

MAX_TEXT = MAX_ANSWER - 2_000
"""The same without the line that names the source and what quoting adds."""

MAX_EXCERPT = 8_000
"""Characters of one memory among several."""

LIKE_OURS = re.compile(r"^(?=(?:Memory Result \d+:|\[source:|\[memd:))", re.MULTILINE)
"""Lines of a note that look like memd's own, by which a note could pretend to be another one or memd itself."""


def quote(text: str, limit: int = MAX_EXCERPT) -> str:
    """A note's text, safe to stand among memd's own lines; where it is cut, its end says so."""
    safe = LIKE_OURS.sub("> ", neutralise(text).rstrip())
    return safe if len(safe) <= limit else f"{safe[:limit]}… [cut: {limit:,} of {len(safe):,} characters]"


def source_of(row: dict[str, Any], *facts: str) -> str:
    """Where a text comes from, and who wrote some of it where that was not only a person."""
    authors = f"written by {', '.join(row['written_by'])}" if row.get("written_by") else ""
    return ", ".join(part for part in (row["path"], *facts, authors) if part)


def written_by(row: dict[str, Any]) -> dict[str, list[str]]:
    """The same as data, always there."""
    return {"written_by": row.get("written_by", [])}


def with_source(source: str, text: str, limit: int = MAX_ANSWER) -> str:
    """A note's text under a line that names where it comes from."""
    return f"[source: {one_line(source)}]\n{quote(text, limit)}"


def with_notes(text: str, notes: list[str]) -> str:
    """A text with memd's own remarks below it."""
    return "\n\n".join(part for part in (text, *(f"[memd: {note}]" for note in notes)) if part)


def truncate(text: str) -> tuple[str, list[str]]:
    """As much of an answer as a model should get at once, and a note about the rest."""
    if len(text) <= MAX_ANSWER:
        return text, []
    end = text.rfind("\n", MAX_ANSWER // 2, MAX_ANSWER)
    kept = text[: end if end > 0 else MAX_ANSWER]
    return kept, [f"the answer was cut: {len(kept):,} of {len(text):,} characters; ask for less at once"]


def sanitize(value: Any) -> Any:
    """Data with every text in it made safe: some clients show a model the data instead of the text."""
    return with_texts(value, neutralise)


def degraded_note(result: dict[str, Any]) -> list[str]:
    """A note where the daemon says that its answer may be incomplete."""
    why, names = result.get("unheard"), result.get("degraded") or ()
    missing = ", ".join(f"{name}: {why}" if why and name == "vectors" else name for name in names)
    then = "nothing needs repair, ask again in a moment" if why and len(names) == 1 else "`memd status` says more"
    return [f"memory is degraded ({missing}): results may be incomplete; {then}"] if missing else []


# --- search: memory_search ----------------------------------------------------------------------------------------


async def _explained_query(call: Call, params: Arguments) -> Result:
    around = params.pop("context_lines", 0)
    result = await call("query", {**params, "explain": True})
    hits = [await _widened(call, hit, around) for hit in result["hits"]] if around else result["hits"]
    return {**result, "hits": hits}


async def _widened(call: Call, hit: dict[str, Any], around: int) -> dict[str, Any]:
    """A hit with the lines before and after it in its file."""
    first = max(1, hit["start_line"] - around)
    lines = {"from": first, "lines": hit["end_line"] + around - first + 1}
    try:
        read = await call("get", {**pick(hit, "ns", "path"), **lines, "observe": False})
        return {**hit, **pick(read, "start_line", "end_line", "text")}
    except NotFound:
        # The file changed since; what was found is shown as it was.
        return hit


def memory_search(result: Result) -> Reply:
    """The best passages, each under a line that names its file and one with its place there."""
    hits = result["hits"]
    data = {"results": [_passage(hit) for hit in hits], "verdict": result["verdict"]}
    text = memory_results(hits) or "No memory answers this. Try other words: names, dates, file names."
    return Reply(text, data, doubts(result))


def doubts(result: Result) -> list[str]:
    """Notes where the answer is not sure."""
    notes = ["these are weak matches; they may not be what was asked for"] if result["verdict"] == "weak" else []
    missing = result["missing"] if result["hits"] and notes else ()
    notes += [f"no memory has: {', '.join(missing)}"] if missing else []
    notes += [f"not compared with the files: {one_line(result['unchecked'])}"] if result.get("unchecked") else []
    notes += ["what expired or was deleted would answer: `memd gc` lists it"] if result["expired"] else []
    return notes


def memory_results(hits: list[dict[str, Any]]) -> str:
    return "\n\n".join(
        f"Memory Result {nth}: [source: {one_line(source_of(hit))}]\nlines {hit['start_line']}-{hit['end_line']}\n"
        + quote(hit["text"])
        for nth, hit in enumerate(hits, 1)
    )


def _passage(hit: dict[str, Any]) -> dict[str, Any]:
    return {
        "path": hit["path"],
        "startLine": hit["start_line"],
        "endLine": hit["end_line"],
        "score": hit["score"],
        "vectorScore": _part(hit, "meaning", "vector"),
        "textScore": _part(hit, "words", "text"),
        "snippet": hit["text"][:MAX_EXCERPT],
        "source": "memory",
        "key": hit["key"],
        "writtenBy": hit.get("written_by", []),
    }


def _part(hit: dict[str, Any], by_score: str, by_rank: str) -> float:
    """One part of a hit's score: on that part's own scale, or what its rank adds where only ranks count."""
    parts = hit.get("explain") or {}
    if by_score in parts:
        return float(parts[by_score]["value"])
    return float(parts[by_rank]["adds"]) if by_rank in parts else 0.0


# --- search: memory_get -------------------------------------------------------------------------------------------


async def _get_lines(call: Call, params: Arguments) -> Result:
    """Lines of a file, or of a memory, by their numbers in its file."""
    if ("path" in params) == ("key" in params):
        raise UsageError("`memory_get` needs a `path` or a `key`, one of them", "`memory_search` names the path")
    if "path" in params:
        return await call("get", params)
    memory = await call("get", {"key": params["key"]})
    lines, start = memory["text"].split("\n"), memory["start_line"]
    first, count = max(params["from"], start), params.get("lines", 0)
    last = memory["end_line"] if not count else min(memory["end_line"], first + count - 1)
    if first > memory["end_line"]:
        name = memory.get("key", memory["path"])
        raise NotFound(f"`{name}` ends at line {memory['end_line']} of {memory['path']}", "begin earlier")
    text = "\n".join(lines[first - start : last - start + 1])
    return {**memory, "text": text, "start_line": first, "end_line": last}


def memory_get(result: Result) -> Reply:
    """The text at the lines that were asked for, under a line that names its source."""
    start, last = result["start_line"], result["end_line"]
    text, end = _whole_lines(result["text"], start)
    cut = [f"cut after line {end} of {last}; for more, call again with from = {end + 1}"] if end < last else []
    if follow := result.get("sections_follow"):
        cut.append(f"{follow} sections follow; for all, name the path")
    names = [name for name in ("path", "key") if name in result]
    authors = result.get("written_by", [])
    data = {**pick(result, *names), "startLine": start, "endLine": end, "text": text, "writtenBy": authors}
    return Reply(with_source(source_of(result, f"lines {start}-{end}"), text), data, cut)


def _whole_lines(text: str, start: int) -> tuple[str, int]:
    """As many lines as fit, and the number of the last; of a first line that is too long, its beginning."""
    text = neutralise(text)
    if len(text) > MAX_TEXT:
        end = text.rfind("\n", 0, MAX_TEXT)
        text = text[: end if end > 0 else MAX_TEXT]
    return text, start + text.count("\n")


# --- search: memory_context ---------------------------------------------------------------------------------------


def context_reply(result: Result) -> Reply:
    """The context; its text names the source and the date of every memory."""
    text = quote(result["text"], MAX_ANSWER)
    columns = ("key", "path", "start_line", "end_line", "date", "tokens")
    memories = [{**pick(row, *columns), **written_by(row)} for row in result["memories"]]
    data = {"text": text, "memories": memories, **pick(result, "tokens", "budget", "compaction_suggested")}
    compact = result["compaction_suggested"] and memories
    notes = ["several of these belong together and could be consolidated into one summary"] if compact else []
    return Reply(text or _why_empty(result), data, notes)


def _why_empty(result: Result) -> str:
    """Tells "nothing is known" from "what is known needs a larger budget"."""
    pinned = result["explain"]["pinned"]
    if result["explain"]["packing"]["dropped"] or pinned["found"] > pinned["packed"]:
        budget = result["budget"]
        return f"Nothing that memory holds for this fits into {budget} tokens. Ask again with a larger budget."
    return "Memory holds nothing that would help with this."


# --- ghost: single memories ---------------------------------------------------------------------------------------

MAX_ROWS = 50
PAIR_EXCERPT = 600
"""Characters of each text of a pair."""
MEMORY = ("ns", "key", "path", "start_line", "end_line", "kind", "tier", "tags", "date")
WRITTEN = ("ns", "key", "paths", "action")
UNREPORTED = ("ns", "memories", "moved", "action")
"""Fields of a reflection's report that are left out of its text: counts of what it lists, and known names."""
EDGE_METHODS = {"create": "edge.add", "remove": "edge.rm", "list": "edge.list"}


def ghost_put(result: Result) -> Reply:
    """The key, the version, and memories that say much the same."""
    similar = [pick(row, "key", "path") for row in result["similar"]]
    notes = [f"similar memories exist: {', '.join(row['key'] for row in similar)}"] if similar else []
    places = ", ".join(result["paths"]) or "no file"
    text = one_line(f"Stored {result['key']} as version {result['version']} in {places}")
    return Reply(text, {**pick(result, *WRITTEN, "version"), "similar": similar}, notes)


def ghost_get(result: Result) -> Reply:
    """The whole text under a line that names its file."""
    text = result["text"]
    cut = [f"the first {MAX_TEXT:,} of {len(text):,} characters"] if len(text) > MAX_TEXT else []
    known = [name for name in (*MEMORY, "version") if name in result]
    data = {**pick(result, *known), **written_by(result), "content": text[:MAX_TEXT]}
    return Reply(with_source(source_of(result, result.get("key", "")), text[:MAX_TEXT]), data, cut)


def ghost_search(result: Result) -> Reply:
    """The best passages, each under a line with its file, key, kind and tier."""
    hits = result["hits"]
    text = "\n\n".join(
        with_source(source_of(hit, hit["key"], hit["kind"], hit["tier"]), hit["text"], MAX_EXCERPT) for hit in hits
    )
    rows = [{**pick(hit, *MEMORY, "score"), **written_by(hit), "content": hit["text"][:MAX_EXCERPT]} for hit in hits]
    data = {"results": rows, "verdict": result["verdict"]}
    return Reply(text or "No memory answers this.", data, doubts(result))


# --- ghost: upkeep ------------------------------------------------------------------------------------------------


def ghost_expand(result: Result) -> Reply:
    """The summaries, or what one of them was made from, each under a line that names its file and key."""
    rows = result["children"] if "children" in result else result["summaries"]
    nodes = [_node(row) for row in rows[:MAX_ROWS]]
    cut = [f"the first {len(nodes)} of {len(rows)}"] if len(rows) > len(nodes) else []
    return Reply("\n\n".join(map(_node_text, nodes)) or "There are no summaries here.", {"nodes": nodes}, cut)


def _node(row: dict[str, Any]) -> dict[str, Any]:
    content = row.get("text", "")[:MAX_EXCERPT]
    names = pick(row, "key", "path", "title")
    return {**names, "children": row.get("children", 0), **written_by(row), "content": content}


def _node_text(node: dict[str, Any]) -> str:
    contains = f"contains {node['children']}" if node["children"] else ""
    return with_source(source_of(node, node["key"], contains), node["content"] or node["title"], MAX_EXCERPT)


def ghost_consolidate(result: Result) -> Reply:
    """The key of the summary and how many memories it sums up."""
    text = one_line(f"Consolidated {len(result['sources'])} memories into {result['key']}")
    return Reply(text, pick(result, *WRITTEN, "sources", "version"))


def ghost_curate(result: Result) -> Reply:
    """The field that was changed, from what to what."""
    before, after = str(result["before"]), str(result["after"])
    change = f"{before} → {after}" if result["changed"] else f"stays {before}"
    data = {**pick(result, "key", "what", "changed", "action"), "op": result["verb"], "before": before, "after": after}
    return Reply(one_line(f"{result['key']}: {result['what']} {change}"), data)


def ghost_reflect(result: Result) -> Reply:
    """The memories that moved or need attention, a line each."""
    lines = [line for report in result["workspaces"] for line in _report_lines(report)]
    head = "What would change:" if result["dry_run"] else "What changed:"
    reports = [
        {name: value[:MAX_ROWS] if isinstance(value, list) else value for name, value in report.items()}
        for report in result["workspaces"]
    ]
    text = "\n".join([head, *lines]) if lines else "Nothing changes, and nothing needs attention."
    return Reply(text, {**pick(result, "ns", "dry_run"), "workspaces": reports})


def _report_lines(report: dict[str, Any]) -> list[str]:
    """A report without zeros: a line for each fact, and one for each entry of a list."""
    lines = []
    for name, value in report.items():
        if isinstance(value, list):
            lines += [one_line(f"{name}: {_entry_text(entry)}") for entry in value[:MAX_ROWS]]
        elif value and name not in UNREPORTED and not isinstance(value, dict):
            lines.append(one_line(f"{name}: {value}"))
    return lines


def _entry_text(entry: dict[str, Any]) -> str:
    """`2026-02-16#backup stm → ltm (5 accesses on 3 days)`"""
    names = ", ".join(entry.get("keys") or [entry.get("key", "")])
    move = f" {entry.get('from') or '?'} → {entry['to']}" if "to" in entry else ""
    return f"{names}{move}" + (f" ({entry['why']})" if "why" in entry else "")


# --- ghost: links -------------------------------------------------------------------------------------------------


async def _run_edge(call: Call, params: Arguments) -> Result:
    """One of three methods, as `op` says; `weight` is for a new edge."""
    op, ns = params["op"], {"ns": params["ns"]} if "ns" in params else {}
    ends = {"from": params["from"], "to": params.get("to", ""), "rel": params["rel"]}
    if op == "list":
        return {**await call("edge.list", {**ns, "key": params["from"]}), "op": op}
    if not ends["to"]:
        raise UsageError("`ghost_edge` needs `to_key` to create or remove an edge", "op = list shows the edges")
    weight = {"weight": params["weight"]} if "weight" in params and op == "create" else {}
    return {**await call(EDGE_METHODS[op], {**ns, **ends, **weight}), "op": op, "ends": ends}


def ghost_edge(result: Result) -> Reply:
    """The edge that was created or removed, or all edges of a memory."""
    rows = [pick(row, "from", "rel", "to", "weight") for row in result.get("edges", ())]
    data = {"op": result["op"], "edges": rows, "action": result.get("action")}
    if result["op"] == "list":
        lines = [one_line(f"{row['from']} {row['rel']} {row['to']} ({row['weight']:.2f})") for row in rows]
        return Reply("\n".join(lines) or "It has no edges.", data)
    verb = "Removed" if result["op"] == "remove" else "Created"
    return Reply(one_line("{0} {from} {rel} {to}".format(verb, **result["ends"])), data)


def ghost_edge_candidates(result: Result) -> Reply:
    """Both texts of every pair, shortened."""
    pairs = [_pair(row) for row in result["candidates"]]
    text = "\n\n".join(map(_pair_text, result["candidates"]))
    return Reply(text or "No pair needs a typed edge.", {"candidates": pairs})


def _pair(row: dict[str, Any]) -> dict[str, Any]:
    first, second = row["from"], row["to"]
    texts = {"from_text": first["text"][:PAIR_EXCERPT], "to_text": second["text"][:PAIR_EXCERPT]}
    return {"from": first["key"], "to": second["key"], "weight": row["weight"], **texts}


def _pair_text(row: dict[str, Any]) -> str:
    first, second = row["from"], row["to"]
    ends = [with_source(source_of(end, end["key"]), end["text"], PAIR_EXCERPT) for end in (first, second)]
    return "\n".join([one_line(f"{first['key']} ~ {second['key']} ({row['weight']:.2f})"), *ends])


# --- knowledge: reading -------------------------------------------------------------------------------------------


def recall_general_memory(result: Result) -> Reply:
    """The text of the index."""
    text = with_source(source_of(result), result["index"]) if quote(result["index"]) else ""
    data = {**pick(result, "topics", "path"), **written_by(result), "content": result["content"][:MAX_ANSWER]}
    return Reply(text or "There is no general knowledge yet.", data)


def recall_memory(result: Result) -> Reply:
    """Title, tags, when it was last updated, and content, as Markdown."""
    names = ("topic", "title", "tags", "summary", "last_updated", "path")
    data = {**pick(result, *names), **written_by(result), "content": result["content"][:MAX_ANSWER]}
    return Reply(with_source(source_of(result), result["markdown"]), data)


def search_memories(result: Result) -> Reply:
    """The names of the topics, those with most of the tags first."""
    return Reply(one_line(result["text"]), {"topics": [pick(row, "topic", "tags") for row in result["topics"]]})


def list_memories(result: Result) -> Reply:
    """The names of all topics, separated by commas."""
    rows = [pick(row, "topic", "summary") for row in result["topics"]]
    return Reply(one_line(result["text"]) or "There are no topics yet.", {"topics": rows})


# --- knowledge: writing -------------------------------------------------------------------------------------------

TOPIC = ("topic", "path", "action")


def memorize_general_info(result: Result) -> Reply:
    """Where it was written."""
    return written({**result, "topic": ""}, "Memorized the general knowledge ({path})", TOPIC)


def forget_memory(result: Result) -> Reply:
    """The topic that is gone, and its file where that stays."""
    kept = "; its file stays: {kept}" if result["kept"] else ""
    return written(result, "Forgot the topic {topic}" + kept, TOPIC)


# --- where the config allows folders ----------------------------------------------------------------------------


def index_folder(result: Result) -> Reply:
    """The name that its notes have, and how many there are."""
    data = {**pick(result, "files", "chunks", "added"), **pick(result["workspace"], "ns", "root")}
    return written(data, "{root} is indexed as {ns}: {files} files, {chunks} passages", [*data])


# --- what --experimental adds: the source code around the notes ---------------------------------------------------

Symbol = dict[str, Any]
NARROW = "ask for fewer relations, less depth, or one file or symbol"


def outline_reply(result: Result) -> Reply:
    data = pick(result, "language", "format", "skipped")
    if result["format"] == "text":
        text = with_source(f"code outline, {result['language']}", result["text"])
        return Reply(text, {**data, "text": result["text"][:MAX_ANSWER]})
    symbols = result["symbols"]
    # Sanitized before they are written as JSON, whose escapes would hide the characters.
    shown = _first_that_fit(map(sanitize, symbols), MAX_TEXT)
    complete = len(shown) == len(symbols)
    if symbols and not shown:
        shown = [_shallow(sanitize(symbols[0]))]
    cut = f"the outline was cut: {len(shown):,} of {len(symbols):,} symbols are here; {NARROW}"
    return Reply(_json({"symbols": shown}), {**data, "symbols": shown}, [] if complete else [cut])


def _first_that_fit(values: Iterable[Any], room: int) -> list[Any]:
    """The first values, each whole, that take no more than so many characters as JSON."""
    kept = []
    for value in values:
        room -= len(_json(value)) + 1
        if room < 0:
            break
        kept.append(value)
    return kept


def _shallow(symbol: Symbol) -> Symbol:
    """A symbol whose tree is too long: only what is next to it, as far as there is room."""
    lists = {
        "relations": [_without_tree(relation) for relation in symbol.get("relations", ())],
        "mentioned_in": symbol.get("mentioned_in", []),
    }
    shallow = {name: value for name, value in symbol.items() if name not in lists}
    for name, entries in lists.items():
        if kept := _first_that_fit(entries, MAX_TEXT - len(_json(shallow))):
            shallow[name] = kept
    return shallow


def _without_tree(relation: Symbol) -> Symbol:
    if "to" not in relation:
        return relation
    return {**relation, "to": {name: value for name, value in relation["to"].items() if name != "relations"}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


RUNS: dict[str, Run] = {"memory_search": _explained_query, "memory_get": _get_lines, "ghost_edge": _run_edge}
"""Functions for tools whose result is not one call of their method."""
