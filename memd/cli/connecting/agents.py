"""The agents that memd knows: where their files are, what goes into them, and the notes that they keep by themselves;
agents.toml has one table for each."""

import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from memd.cli.connecting import json_file, script_file, toml_file
from memd.cli.connecting.json_file import SERVER_NAME, Piece
from memd.cli.hook import EVENTS, LINES
from memd.models import DEFAULT_GLOBS

XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<otherwise>.*))?\}(?P<rest>[^}]*)")
TIMEOUTS = {"session-start": 10, "user-prompt-submit": 10, "pre-compact": 60, "stop": 60, "session-end": 60}
"""Seconds that the agent waits at most; the hooks themselves end much sooner."""
ASIDE = ("pre-compact", "stop")
LOCAL = "local"
FORMATS = {".toml": toml_file, ".js": script_file}
"""How files are written that are no JSON."""


@dataclass(frozen=True, slots=True)
class Here:
    """The machine that agents are connected on, and the command that they run."""

    home: Path
    project: Path
    environ: dict[str, str]
    platform: str
    command: tuple[str, ...]
    profile: str = ""
    ns: str = ""
    hooks: bool = True
    shared: bool = False
    """Whether others use the file too; their directories differ."""

    def path(self, written: str) -> Path:
        """A path as agents.toml has it."""
        applications = "~/Library/Application Support" if self.platform == "darwin" else "${XDG_CONFIG_HOME:-~/.config}"
        written = written.replace("${config}", applications)
        found = VARIABLE.fullmatch(written)
        if found is None:
            return self.home / written.removeprefix("~").removeprefix("/")
        value = str(self.project) if found["name"] == "project" else self.environ.get(found["name"])
        begin = Path(value).expanduser() if value else self.path(found["otherwise"])
        return Path(f"{begin}{found['rest']}")


@dataclass(frozen=True, slots=True)
class Place:
    """A file of an agent's, and what memd adds to it."""

    path: Path
    pieces: tuple[Piece, ...]
    format: ModuleType = json_file


# --- what is added --------------------------------------------------------------------------------------------


def server(here: Here, typed: str = "") -> dict[str, Any]:
    """How an agent starts `memd mcp`."""
    args = ["mcp", *(("--profile", here.profile) if here.profile else ()), *(("-n", here.ns) if here.ns else ())]
    words = [*here.command, *args]
    entry: dict[str, Any] = {"type": typed} if typed else {}
    entry |= {"command": words} if typed == LOCAL else {"command": words[0], "args": words[1:]}
    return entry | ({"environment" if typed == LOCAL else "env": env} if (env := places(here)) else {})


def places(here: Here) -> dict[str, str]:
    """Where memd's config, state and socket are: many agents start their servers without the variables that say so.
    None in a file that others share, who have them elsewhere."""
    if here.shared:
        return {}
    if home := here.environ.get("MEMD_HOME"):
        return {"MEMD_HOME": str(Path(home).expanduser().absolute())}
    named = {name: here.environ.get(name, "") for name in XDG}
    return {name: value for name, value in named.items() if value.startswith("/")}


def hooks(here: Here, saves: bool) -> tuple[Piece, ...]:
    """One command for each of an agent's events that memd answers, by telling something or by saving something."""
    events = {ours: theirs for ours, theirs in EVENTS.items() if saves or ours not in LINES}
    commands = {theirs: hook_command(here, ours) for ours, theirs in events.items()}
    return tuple(Piece(("hooks", event), {"hooks": [command]}, in_list=True) for event, command in commands.items())


def hook_command(here: Here, event: str) -> dict[str, Any]:
    # Hooks have the agent's whole environment, but not what was set for this shell alone.
    env = [f"{name}={value}" for name, value in places(here).items() if name == "MEMD_HOME"]
    words = [*(("env", *env) if env else ()), *here.command, "hook", event, *(("-n", here.ns) if here.ns else ())]
    # What saves while a session goes on holds up nobody.
    aside = {"async": True} if event in ASIDE else {}
    return {"type": "command", "command": shlex.join(words), "timeout": TIMEOUTS[event], **aside}


def program(scope: str) -> tuple[str, ...]:
    """How memd is called: by its place for this user, by its name in files that others share."""
    if scope == "project":
        return (SERVER_NAME,)
    beside = Path(sys.executable).with_name(SERVER_NAME)
    given = Path(sys.argv[0])
    if given.name == SERVER_NAME and given.is_file() and os.access(given, os.X_OK):
        return (str(given.absolute()),)
    found = str(beside) if beside.is_file() else shutil.which(SERVER_NAME)
    return (found,) if found else (sys.executable, "-m", SERVER_NAME)


# --- what agents keep by themselves --------------------------------------------------------------------------------

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


# --- where it is added ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be connected; agents.toml explains the fields."""

    name: str
    title: str
    then: str
    user: str
    servers: list[str]
    project: str = ""
    spelling: str = ""
    programs: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    hooks: dict[str, str] = field(default_factory=dict)
    memory: list[dict[str, Any]] = field(default_factory=list)
    saves: bool = False
    typed: str = ""
    elsewhere: bool = False

    @property
    def scopes(self) -> dict[str, str]:
        """The files that have the servers: the user's and, if it can be, a project's."""
        return {"user": self.user, **({"project": self.project} if self.project else {})}

    def places(self, scope: str, here: Here) -> tuple[Place, ...]:
        """The additions and their places."""
        path = here.path(self.scopes[scope])
        pieces: dict[Path, tuple[Piece, ...]] = {path: (Piece(self._pointer(path), server(here, self.typed)),)}
        if self.hooks and here.hooks:
            pieces[here.path(self.hooks[scope])] = hooks(here, self.saves)
        return tuple(Place(file, some, FORMATS.get(file.suffix, json_file)) for file, some in pieces.items())

    def _pointer(self, path: Path) -> tuple[str, ...]:
        *outer, name = self.servers
        if self.spelling and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            name = self.spelling if f'"{self.spelling}"' in text and f'"{name}"' not in text else name
        return (*outer, name)

    def found(self, here: Here) -> str:
        """The sign on this machine that the agent is there; empty for nothing."""
        programs = (shutil.which(name, path=here.environ.get("PATH")) for name in self.programs)
        places = [here.path(folder) for folder in self.folders] or [here.path(self.user).parent]
        return next((one for one in (*programs, *(str(place) for place in places if place.exists())) if one), "")

    def memories(self, here: Here) -> Iterator[AgentMemory]:
        """The folders with notes that it keeps by itself."""
        for kept in self.memory:
            for folder in sorted(Path("/").glob(str(here.path(kept["folders"])).lstrip("/"))):
                if any(any(folder.glob(glob)) for glob in kept.get("globs", DEFAULT_GLOBS)):
                    # A dash may stand for a slash, a dot or itself: where several directories could be meant, none is.
                    meant = list(PROJECTS[kept.get("project", "")](folder))
                    yield AgentMemory(folder, kept.get("globs", []), meant[0] if len(meant) == 1 else None)


_DECLARED = tomllib.loads(Path(__file__).with_name("agents.toml").read_text(encoding="utf-8"))
AGENTS = {name: Agent(name, **facts) for name, facts in _DECLARED.items()}
