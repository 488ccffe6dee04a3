"""Which tools an agent gets: a short list is read with more care than a long one."""

from __future__ import annotations

from memd.mcp import ghost_life_tools, ghost_tools, knowledge_tools, outline_tools, search_tools
from memd.mcp.tools import Tool

GHOST = ("put", "get", "search", "context", "expand", "consolidate", "curate", "reflect", "edge", "edge_candidates",
         "patch")  # fmt: skip
_GHOST = {tool.name: tool for tool in (*ghost_tools.TOOLS, *ghost_life_tools.TOOLS)}

PROFILES: dict[str, tuple[Tool, ...]] = {
    "search": search_tools.TOOLS,
    "ghost": tuple(_GHOST[f"ghost_{name}"] for name in GHOST),
    "knowledge": knowledge_tools.TOOLS,
}
PROFILES["all"] = tuple(tool for tools in list(PROFILES.values()) for tool in tools)

EXPERIMENTAL: dict[str, tuple[Tool, ...]] = {"knowledge": outline_tools.TOOLS, "all": outline_tools.TOOLS}
"""What `--experimental` adds to each profile; a profile that is not named here gets nothing."""


def tools_of(profile: str, experimental: bool) -> dict[str, Tool]:
    """The tools of a profile by their names, in the order in which they are listed."""
    tools = PROFILES[profile] + (EXPERIMENTAL.get(profile, ()) if experimental else ())
    return {tool.name: tool for tool in tools}
