"""Finds the Markdown that agents keep by themselves, and the projects whose memory it is; agents.toml says where."""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memd.cli.connecting.agents import Agent, Here
from memd.models import DEFAULT_GLOBS

MARKER = ".project_root"
"""The file beside Gemini CLI's folder that names its project."""
SPELLED = re.compile(r"[^A-Za-z0-9]")
"""What Claude Code writes as a dash when it names a folder after a project's path."""


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """A folder with notes of an agent's."""

    folder: Path
    globs: list[str]
    project: Path | None
    """The directory whose memory it is: a project's, or the folder itself; None where that is not clear."""

    def name(self, agent: str, taken: Container[str]) -> str:
        """A name for its workspace that no other one has: after its directory, and those above that where needed."""
        parts = [re.sub(r"\s+", "-", part.strip(".")) for part in (self.project or self.folder).parts]
        names = (f"{agent}:{'-'.join(parts[-size:])}" for size in range(1, len(parts)))
        return next(name for name in names if name not in taken)


def found(agent: Agent, here: Here) -> Iterator[AgentMemory]:
    """The folders that have notes."""
    for kept in agent.memory:
        for folder in sorted(Path("/").glob(str(here.path(kept["folders"])).lstrip("/"))):
            if any(any(folder.glob(glob)) for glob in kept.get("globs", DEFAULT_GLOBS)):
                # A dash may stand for a slash, a dot or itself: where several directories could be meant, none is.
                meant = list(PROJECTS[kept.get("project", "")](folder))
                yield AgentMemory(folder, kept.get("globs", []), meant[0] if len(meant) == 1 else None)


def _marked(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        named = Path((folder.parent / MARKER).read_text(encoding="utf-8").strip())
        yield from [named.resolve()] if named.is_dir() else []


def _spelled(name: str, place: Path) -> Iterator[Path]:
    """The directories inside a place that Claude Code would give this name."""
    with suppress(OSError):
        for child in place.iterdir():
            spelled = SPELLED.sub("-", f"/{child.name}")
            if f"{name}-".startswith(f"{spelled}-") and child.is_dir() and not child.is_symlink():
                rest = name.removeprefix(spelled)
                yield from _spelled(rest, child) if rest else (child,)


PROJECTS: dict[str, Callable[[Path], Iterable[Path]]] = {
    "": lambda folder: [folder],
    "marker": _marked,
    "name": lambda folder: _spelled(folder.parent.name, Path("/")),
}
"""The directories that a folder may be the memory of, by how they are known."""
