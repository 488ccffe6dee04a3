"""What the tests call: every tool of every profile, with arguments that are right and some that are wrong."""

from __future__ import annotations

from typing import Any

SEARCH = ["memory_search", "memory_get", "memory_save", "memory_context"]
GHOST = [
    "ghost_put",
    "ghost_get",
    "ghost_search",
    "ghost_context",
    "ghost_expand",
    "ghost_consolidate",
    "ghost_curate",
    "ghost_reflect",
    "ghost_edge",
    "ghost_edge_candidates",
    "ghost_patch",
]
KNOWLEDGE = [
    "recall_general_memory",
    "recall_memory",
    "search_memories",
    "list_memories",
    "memorize_new_topic",
    "refine_memory",
    "memorize_general_info",
    "forget_memory",
]
OUTLINE = ["outline_symbol", "outline_file", "outline_project"]
TOOLS = {
    "search": SEARCH,
    "memories": GHOST,
    "ghost": GHOST,
    "knowledge": KNOWLEDGE,
    "all": [*SEARCH, *GHOST, *KNOWLEDGE],
}
EXPERIMENTAL = {"search": [], "memories": [], "ghost": [], "knowledge": OUTLINE, "all": OUTLINE}
"""What `--experimental` adds, after the others."""

PATCH = "@@ -1 +1 @@\n-Feed the starter daily.\n+Feed the starter at noon.\n"

CALLS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("memory_search", {"query": "ErsatzTV endpoint", "max_results": 2}, {"query": "x", "max_results": 0}, "query"),
    (
        "memory_get",
        {"path": "memory/2026-02-15.md", "from": 3, "lines": 2},
        {"path": "MEMORY.md", "key": "MEMORY"},
        "get",
    ),
    ("memory_get", {"key": "2026-02-15#garden"}, {"from": "three", "key": "x"}, "get"),
    ("memory_save", {"content": "Pierce plays the cello."}, {"content": "x", "target": "weekly"}, "save"),
    ("memory_save", {"content": "The cello is by Montagnana.", "target": "long_term"}, {"content": ""}, "save"),
    ("memory_context", {"task": "set up ErsatzTV", "budget": 500}, {"task": "x", "budget": 1}, "context"),
    (
        "ghost_put",
        {"key": "cello", "content": "The bow is new.", "tags": ["music"], "importance": 0.8},
        {"key": "x", "content": "x", "kind": "odd"},
        "put",
    ),
    ("ghost_get", {"key": "sourdough"}, {"key": 7}, "get"),
    ("ghost_search", {"query": "router", "limit": 3}, {"query": "router", "tags": "network"}, "query"),
    ("ghost_context", {"query": "router", "budget": 500}, {"query": "router", "min_score": 2}, "context"),
    (
        "ghost_consolidate",
        {
            "summary_key": "house",
            "content": "Network and backup.",
            "source_keys": ["MEMORY#home-network", "2026-02-16#backup"],
        },
        {"summary_key": "x", "content": "x", "source_keys": ["one"]},
        "consolidate",
    ),
    ("ghost_expand", {}, {"keys": "x"}, "expand"),
    ("ghost_expand", {"key": "house"}, {"key": []}, "expand"),
    ("ghost_curate", {"key": "2026-02-16#backup", "op": "pin"}, {"key": "2026-02-16#backup", "op": "burn"}, "curate"),
    ("ghost_reflect", {"dry_run": True}, {"dry_run": "yes"}, "reflect"),
    (
        "ghost_edge",
        {"from_key": "sourdough", "rel": "relates_to", "to_key": "MEMORY#preferences"},
        {"from_key": "sourdough"},
        "edge.add",
    ),
    (
        "ghost_edge",
        {"from_key": "sourdough", "op": "list"},
        {"from_key": "sourdough", "op": "list", "weight": 7},
        "edge.list",
    ),
    (
        "ghost_edge",
        {"from_key": "sourdough", "rel": "relates_to", "to_key": "MEMORY#preferences", "op": "remove"},
        {"from_key": "sourdough", "to_key": "x", "rel": "hates"},
        "edge.rm",
    ),
    ("ghost_edge_candidates", {"limit": 5}, {"limit": 0}, "edge.candidates"),
    ("ghost_patch", {"key": "sourdough", "patch": PATCH}, {"key": "sourdough", "patch": "no diff at all"}, "patch"),
    (
        "memorize_new_topic",
        {"topic": "bees", "tags": ["garden"], "summary": "Two hives.", "content": "They fly in March."},
        {"topic": "bees", "tags": ["garden"], "summary": "x"},
        "topic.memorize",
    ),
    ("recall_general_memory", {}, {"topic": "x"}, "topic.general"),
    ("recall_memory", {"topic": "bees"}, {}, "topic.recall"),
    ("search_memories", {"tags": ["GARDEN"]}, {"tags": []}, "topic.search"),
    ("list_memories", {}, {"all": True}, "topic.list"),
    (
        "refine_memory",
        {"topic": "bees", "tagsToAdd": ["honey"], "newSummary": "Three hives."},
        {"topic": "bees"},
        "topic.refine",
    ),
    (
        "memorize_general_info",
        {"content": "A house with a garden."},
        {"content": "## Specialized Knowledge\n"},
        "topic.set_general",
    ),
    ("forget_memory", {"topic": "bees"}, {"topic": "a/b"}, "topic.forget"),
]
"""Each tool with arguments that are right and some that are wrong, in an order in which one can follow the other, and
the daemon's method that it needs."""

CODE = {
    "src/store.py": "from src import tools\n\n\nclass Store:\n    def save(self):\n        tools.check()\n"
    "        print()\n",
    "src/tools.py": "def check(): ...\n",
}

OUTLINE_CALLS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "outline_symbol",
        {"symbol": "Store.save", "language": "python"},
        {"symbol": "Store.save"},
        "outline.symbol",
    ),
    (
        "outline_symbol",
        {"symbol": "save", "language": "python", "file": "src/store.py", "relations": ["calls"], "format": "json"},
        {"symbol": "save", "language": "python", "relations": ["hates"]},
        "outline.symbol",
    ),
    (
        "outline_file",
        {"file": "src/store.py", "language": "python", "depth": 1},
        {"file": "src/store.py", "language": "python", "depth": 9},
        "outline.file",
    ),
    (
        "outline_file",
        {"file": "src/tools.py", "language": "python", "omit_native": True, "format": "json"},
        {"file": "src/tools.py", "language": "go"},
        "outline.file",
    ),
    ("outline_project", {"language": "python"}, {"language": "klingon"}, "outline.project"),
    (
        "outline_project",
        {"language": "python", "depth": 3, "format": "json"},
        {"language": "python", "format": "yaml"},
        "outline.project",
    ),
]
"""The same for the tools that `--experimental` adds, in a workspace that has `CODE`."""

WRITTEN = {"ns", "key", "paths", "action", "version"}
MEMORY = {"ns", "key", "path", "start_line", "end_line", "kind", "tier", "tags", "date", "content", "written_by"}
CONTEXT = {"text", "memories", "tokens", "budget", "compaction_suggested"}
TOPIC_WRITTEN = {"topic", "path", "action"}
FIELDS: dict[str, set[str]] = {
    "memory_search": {"results", "verdict"},
    "memory_get": {"path", "startLine", "endLine", "text", "writtenBy"},
    "memory_save": {"saved", "path", "key", "target", "action"},
    "memory_context": CONTEXT,
    "ghost_put": {*WRITTEN, "similar"},
    "ghost_get": {*MEMORY, "version"},
    "ghost_search": {"results", "verdict"},
    "ghost_context": CONTEXT,
    "ghost_expand": {"nodes"},
    "ghost_consolidate": {*WRITTEN, "sources"},
    "ghost_curate": {"key", "op", "what", "before", "after", "changed", "action"},
    "ghost_reflect": {"ns", "dry_run", "workspaces"},
    "ghost_edge": {"op", "edges", "action"},
    "ghost_edge_candidates": {"candidates"},
    "ghost_patch": WRITTEN,
    "recall_general_memory": {"content", "topics", "path", "written_by"},
    "recall_memory": {"topic", "title", "tags", "summary", "last_updated", "path", "content", "written_by"},
    "search_memories": {"topics"},
    "list_memories": {"topics"},
    "memorize_new_topic": TOPIC_WRITTEN,
    "refine_memory": TOPIC_WRITTEN,
    "memorize_general_info": TOPIC_WRITTEN,
    "forget_memory": TOPIC_WRITTEN,
    **{name: {"language", "format", "skipped"} for name in OUTLINE},
}
"""The data that each tool answers with, beside `notes`."""
OPTIONAL: dict[str, set[str]] = {"memory_get": {"key"}, **{name: {"text", "symbols"} for name in OUTLINE}}
ROWS: dict[tuple[str, str], set[str]] = {
    ("memory_search", "results"): {
        *("path", "startLine", "endLine", "score", "vectorScore", "textScore", "snippet", "source", "key", "writtenBy")
    },
    ("memory_context", "memories"): {"key", "path", "start_line", "end_line", "date", "tokens", "written_by"},
    ("ghost_context", "memories"): {"key", "path", "start_line", "end_line", "date", "tokens", "written_by"},
    ("ghost_put", "similar"): {"key", "path"},
    ("ghost_search", "results"): {*MEMORY, "score"},
    ("ghost_expand", "nodes"): {"key", "path", "title", "children", "content", "written_by"},
    ("ghost_edge", "edges"): {"from", "rel", "to", "weight"},
    ("ghost_edge_candidates", "candidates"): {"from", "to", "weight", "from_text", "to_text"},
    ("recall_general_memory", "topics"): {"topic", "summary"},
    ("search_memories", "topics"): {"topic", "tags"},
    ("list_memories", "topics"): {"topic", "summary"},
}
"""The same for the rows of lists. What rows of an outline hold is tested where its answers are."""


def check_data(tool: str, data: dict[str, Any]) -> None:
    """The data of a good call has what it should have, and nothing else."""
    assert FIELDS[tool] | {"notes"} <= set(data) <= FIELDS[tool] | {"notes"} | OPTIONAL.get(tool, set()), (tool, data)
    assert all(isinstance(note, str) for note in data["notes"])
    for (name, field), columns in ROWS.items():
        if name == tool:
            assert all(set(row) == columns for row in data[field]), (tool, data[field])
