"""Which tools an agent gets: a model chooses better from a short list."""

from types import ModuleType

from memd.mcp import ghost_tools, knowledge_tools, outline_tools, search_tools
from memd.mcp.tools import Tool


def _declared_in(*modules: ModuleType) -> tuple[Tool, ...]:
    """The tools of some modules, in the order of their declarations."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Tool))


PROFILES = {
    "search": _declared_in(search_tools),
    "memories": _declared_in(ghost_tools),
    "ghost": _declared_in(ghost_tools),
    "knowledge": _declared_in(knowledge_tools),
    "all": _declared_in(search_tools, ghost_tools, knowledge_tools),
}
EXPERIMENTAL = dict.fromkeys(("knowledge", "all"), _declared_in(outline_tools))
"""What `--experimental` adds to a profile; to the others it adds nothing."""


def tools_of(profile: str, experimental: bool) -> dict[str, Tool]:
    """The tools of a profile by name, in the order in which they are listed."""
    tools = PROFILES[profile] + (EXPERIMENTAL.get(profile, ()) if experimental else ())
    return {tool.name: tool for tool in tools}
