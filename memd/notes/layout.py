"""Where a workspace keeps daily notes, long-term memory, topics and roles, derived from its files. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from memd.models import TEAM
from memd.notes.names import DATE

KNOWLEDGE = ".ai-knowledge"
INDEX = f"{KNOWLEDGE}/index.mdk"
BUS = ".muxcode/memory"
DATED = len("2026-02-07.md")


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one workspace, relative to it."""

    daily: str = "memory"
    long_term: str = "MEMORY.md"
    topics: str = "memory/topics"
    topic_suffix: str = ".md"
    index: str = "MEMORY.md"
    """The file that lists the topics."""
    roles: str = "memory/roles"

    def daily_note(self, day: str) -> str:
        return f"{self.daily}/{day}.md" if self.daily else f"{day}.md"

    def topic(self, name: str) -> str:
        return f"{self.topics}/{name}{self.topic_suffix}"

    def role(self, name: str) -> str:
        return f"{self.roles}/{name}.md"


def layout_of(paths: Iterable[str]) -> Layout:
    """The layout that a workspace's files show; the default for a new workspace."""
    return _layout(frozenset(paths))


@lru_cache(maxsize=8)
def _layout(paths: frozenset[str]) -> Layout:
    # Cached: every write needs it, and a workspace may have thousands of files.
    folders = {kind: Counter[str]() for kind in ("daily", "topics", "long_term", "shared")}
    tops = set()
    for path in sorted(path for path in paths if not path.startswith(f"{TEAM}/")):
        folder, _, name = path.rpartition("/")
        tops.add(path[: path.find("/") + 1] if not path.startswith(BUS) else BUS)
        kind = _kind(folder, name)
        if kind:
            folders[kind][folder] += 1
    knowledge = f"{KNOWLEDGE}/" in tops
    kept = f"{min(folders['long_term'], key=len)}/MEMORY.md".lstrip("/") if folders["long_term"] else "MEMORY.md"
    return Layout(
        daily=_most(folders["daily"], "daily" if "daily/" in tops else "memory"),
        long_term=kept,
        topics=KNOWLEDGE if knowledge else _most(folders["topics"], "memory/topics"),
        topic_suffix=".mdk" if knowledge else ".md",
        index=INDEX if knowledge else kept,
        roles=BUS if BUS in tops else _most(folders["shared"], "memory/roles"),
    )


def _kind(folder: str, name: str) -> str:
    """Which part of the layout a file shows: daily note, topic, long-term memory, the roles' shared file."""
    if not name.endswith(".md"):
        return ""
    if name == "MEMORY.md":
        return "long_term"
    if "topics" in folder and "topics" in folder.split("/"):
        return "topics"
    if len(name) == DATED and DATE.fullmatch(name[:-3]):
        return "daily"
    return "shared" if name == "shared.md" and folder else ""


def _most(found: Counter[str], default: str) -> str:
    return found.most_common(1)[0][0] if found else default
