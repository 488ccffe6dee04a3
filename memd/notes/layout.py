"""Where a workspace keeps what: daily notes, long-term memory, topics and roles, by what is there already. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from memd.notes.names import DATE, is_long_term, is_topic

INDEX = ".ai-knowledge/index.mdk"
BUS = ".muxcode/memory"


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
        return f"{self.daily}/{day}.md"

    def topic(self, name: str) -> str:
        return f"{self.topics}/{name}{self.topic_suffix}"

    def role(self, name: str) -> str:
        return f"{self.roles}/{name}.md"


def layout_of(paths: Iterable[str]) -> Layout:
    """Follow what a workspace does already; a new one gets the default."""
    known = sorted(paths)
    pure = [PurePosixPath(path) for path in known]
    knowledge = any(path.startswith(".ai-knowledge/") for path in known)
    dated = Counter(str(path.parent) for path in pure if DATE.fullmatch(path.stem) and path.suffix == ".md")
    long_term = [path for path in known if is_long_term(path)]
    topics = Counter(str(path.parent) for path in pure if is_topic(str(path)) and path.suffix == ".md")
    kept = min(long_term, key=len) if long_term else "MEMORY.md"
    return Layout(
        daily=dated.most_common(1)[0][0]
        if dated
        else ("daily" if any(p.startswith("daily/") for p in known) else "memory"),
        long_term=kept,
        topics=".ai-knowledge" if knowledge else topics.most_common(1)[0][0] if topics else "memory/topics",
        topic_suffix=".mdk" if knowledge else ".md",
        index=INDEX if knowledge else kept,
        roles=BUS if any(path.startswith(f"{BUS}/") for path in known) else "memory/roles",
    )
