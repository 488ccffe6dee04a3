"""The agents that memd knows: where their files are, and what goes into them; agents.toml has one table for each."""

import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from memd.cli.connecting import json_file, script_file, toml_file
from memd.cli.connecting.json_file import SERVER_NAME, Item, Member, Piece
from memd.cli.hook import EVENTS, LINES

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
    return tuple(Item(("hooks", theirs), {"hooks": [hook_command(here, ours)]}) for ours, theirs in events.items())


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
    def places(self) -> dict[str, Callable[[Here], tuple[Place, ...]]]:
        """The additions and their places, for the user and, if it can be, for a project."""
        files = {"user": self.user, "project": self.project}
        return {scope: partial(self._places, scope, file) for scope, file in files.items() if file}

    def _places(self, scope: str, file: str, here: Here) -> tuple[Place, ...]:
        path = here.path(file)
        pieces: dict[Path, tuple[Piece, ...]] = {path: (Member(self._pointer(path), server(here, self.typed)),)}
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


AGENTS = {
    name: Agent(name, **facts)
    for name, facts in tomllib.loads(Path(__file__).with_name("agents.toml").read_text(encoding="utf-8")).items()
}
