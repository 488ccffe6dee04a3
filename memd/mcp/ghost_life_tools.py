"""The tools of the profile `ghost` that tend many memories: summaries, curation, reflection, links to be judged."""

from __future__ import annotations

from typing import Any

from memd.mcp import shapes
from memd.mcp.ghost_tools import ACTION, KEY, NS, VERSION, WRITTEN
from memd.mcp.telling import MOST_OF_ONE, quoted, remarks
from memd.mcp.tools import Arguments, Ask, Reply, Tool
from memd.protocol.safe_text import one_line

OPS = ("promote", "demote", "boost", "diminish", "archive", "delete", "pin", "unpin")
MOST_ROWS = 50
EXCERPT = 600
UNTOLD = ("ns", "memories", "moved", "action")
"""What a report has for programs: numbers of what it lists, and names that the caller knows."""


# --- what they do -------------------------------------------------------------------------------------------


async def _expand(ask: Ask, given: Arguments) -> Reply:
    found = await ask("expand", given)
    rows = found["children"] if "key" in given else found["summaries"]
    kept = [{**{name: row[name] for name in ("key", "path", "title")}, "children": row.get("children", 0),
             "content": row.get("text", "")[:MOST_OF_ONE]} for row in rows[:MOST_ROWS]]  # fmt: skip
    notes = remarks(found)
    if len(rows) > len(kept):
        notes.append(f"the first {len(kept)} of {len(rows)}")
    return Reply("\n\n".join(_expanded(row) for row in kept) or "Nothing is consolidated here.", {"nodes": kept}, notes)


def _expanded(row: dict[str, Any]) -> str:
    contains = f", contains {row['children']}" if row["children"] else ""
    head = f"[source: {one_line(row['path'])}, {one_line(row['key'])}{contains}]"
    return f"{head}\n{quoted(row['content'] or row['title'])}"


async def _consolidate(ask: Ask, given: Arguments) -> Reply:
    wire = {"summary_key": "key", "content": "text", "source_keys": "sources"}
    done = await ask("consolidate", {wire.get(name, name): value for name, value in given.items()})
    data = {**{name: done[name] for name in WRITTEN}, "sources": done["sources"], "version": done["version"]}
    return Reply(one_line(f"Consolidated {len(done['sources'])} memories into {done['key']}"), data, remarks(done))


async def _curate(ask: Ask, given: Arguments) -> Reply:
    done = await ask("curate", {("verb" if name == "op" else name): value for name, value in given.items()})
    before, after = str(done["before"]), str(done["after"])
    told = f"{done['what']} {before} → {after}" if done["changed"] else f"{done['what']} stays {before}"
    data = {"key": done["key"], "op": given["op"], "what": done["what"], "before": before, "after": after,
            "changed": done["changed"], "action": done["action"]}  # fmt: skip
    return Reply(one_line(f"{done['key']}: {told}"), data, remarks(done))


async def _reflect(ask: Ask, given: Arguments) -> Reply:
    found = await ask("reflect", given)
    reports = [{name: _shortened(value) for name, value in one.items()} for one in found["workspaces"]]
    lines = [line for one in found["workspaces"] for line in _report(one)]
    head = "What would change:" if found["dry_run"] else "What changed:"
    data = {"ns": found["ns"], "dry_run": found["dry_run"], "workspaces": reports}
    return Reply("\n".join([head, *lines]) if lines else "Nothing changes, and nothing wants attention.", data,
                 remarks(found))  # fmt: skip


def _report(one: dict[str, Any]) -> list[str]:
    """What a report says beside zeros: single facts in a line, and each entry of a list in one of its own."""
    lines = []
    for name, value in one.items():
        if isinstance(value, list):
            lines += [one_line(f"{name}: {_entry(entry)}") for entry in value[:MOST_ROWS]]
        elif value and name not in UNTOLD and not isinstance(value, dict):
            lines.append(one_line(f"{name}: {value}"))
    return lines


def _entry(entry: dict[str, Any]) -> str:
    """`2026-02-16#backup stm → ltm (5 accesses on 3 days)`"""
    names = ", ".join(entry.get("keys") or [entry.get("key", "")])
    move = f" {entry.get('from') or '?'} → {entry['to']}" if "to" in entry else ""
    return f"{names}{move}" + (f" ({entry['why']})" if "why" in entry else "")


def _shortened(value: Any) -> Any:
    return value[:MOST_ROWS] if isinstance(value, list) else value


async def _candidates(ask: Ask, given: Arguments) -> Reply:
    found = await ask("edge.candidates", given)
    rows = [_candidate(row) for row in found["candidates"]]
    text = "\n\n".join(_pair(row) for row in rows)
    return Reply(text or "No pair waits for a typed edge.", {"candidates": rows}, remarks(found))


def _candidate(row: dict[str, Any]) -> dict[str, Any]:
    one, other = row["from"], row["to"]
    texts = {"from_text": one["text"][:EXCERPT], "to_text": other["text"][:EXCERPT]}
    return {"from": one["key"], "to": other["key"], "weight": row["weight"], **texts}


def _pair(row: dict[str, Any]) -> str:
    ends = [f"[source: {one_line(row[end])}]\n{quoted(row[f'{end}_text'], EXCERPT)}" for end in ("from", "to")]
    return f"{one_line(row['from'])} ~ {one_line(row['to'])} ({row['weight']:.2f})\n" + "\n".join(ends)


# --- what they take and give --------------------------------------------------------------------------------

TOOLS = (
    Tool(
        name="ghost_expand",
        title="Look into a summary",
        about="Without a key: list the summaries, to see what knowledge was consolidated. With the key of one: read"
        " what it was made from. Returns each memory under a line that names its file and key.",
        takes={"ns": NS, "key": shapes.text("A summary's key; leave it out to list them.")},
        gives={
            "nodes": shapes.rows(
                "The summaries, or what one contains.",
                {
                    "key": shapes.TEXT,
                    "path": shapes.TEXT,
                    "title": shapes.TEXT,
                    "children": shapes.COUNT,
                    "content": shapes.TEXT,
                },
            )
        },
        run=_expand,
        reads=True,
        again=True,
    ),
    Tool(
        name="ghost_consolidate",
        title="Consolidate memories",
        about="Write one summary for several memories that belong together; you write its text. In the context the"
        " summary stands for them from then on; they stay as they are and can still be searched and expanded.",
        takes={
            "ns": NS,
            "summary_key": shapes.text("A key for the summary."),
            "content": shapes.text("The summary, as Markdown."),
            "source_keys": shapes.texts("The keys of the memories it sums up.", minItems=2),
        },
        needs=("summary_key", "content", "source_keys"),
        gives={**WRITTEN, "sources": shapes.TEXTS, "version": VERSION},
        run=_consolidate,
        destroys=True,
        again=True,
    ),
    Tool(
        name="ghost_curate",
        title="Curate a memory",
        about="Decide about one memory: promote or demote it, boost or diminish its importance, pin or unpin it, or"
        " archive or delete it, which both put it to rest: its text stays in the file. Every one can be undone.",
        takes={"ns": NS, "key": KEY, "op": shapes.choice("What to do with it.", OPS)},
        needs=("key", "op"),
        gives={
            "key": shapes.TEXT,
            "op": shapes.TEXT,
            "what": shapes.text("What it is that changed: tier, importance, pinned."),
            "before": shapes.TEXT,
            "after": shapes.TEXT,
            "changed": shapes.FLAG,
            "action": ACTION,
        },
        run=_curate,
    ),
    Tool(
        name="ghost_reflect",
        title="Let memories age",
        about="Let the rules run now: what is used moves closer, what is not fades, what is alike is linked. It also"
        " runs by itself every hour, so call it only to see the report: what moved, what wants consolidation, what"
        " contradicts, what is stale. With dry_run nothing changes.",
        takes={"ns": NS, "dry_run": shapes.flag("Only say what would change.", default=False)},
        gives={
            "ns": shapes.TEXTS,
            "dry_run": shapes.FLAG,
            "workspaces": {"type": "array", "items": {"type": "object"}, "description": "A report for each."},
        },
        run=_reflect,
        again=True,
    ),
    Tool(
        name="ghost_edge_candidates",
        title="Pairs that want a typed link",
        about="List pairs of memories that are alike and have no typed edge yet. Judge each pair by its texts, and"
        " commit what you find with `ghost_edge`. Returns both texts of every pair, shortened.",
        takes={"ns": NS, "limit": shapes.whole("At most this many pairs.", 1, MOST_ROWS, default=10)},
        gives={
            "candidates": shapes.rows(
                "The pairs, the nearest first.",
                {
                    "from": shapes.TEXT,
                    "to": shapes.TEXT,
                    "weight": shapes.number("How much alike."),
                    "from_text": shapes.TEXT,
                    "to_text": shapes.TEXT,
                },
            )
        },
        run=_candidates,
        reads=True,
        again=True,
    ),
)
