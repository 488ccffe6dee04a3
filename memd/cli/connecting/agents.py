"""The agents that memd knows: where their files are, and what goes into them."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from memd.cli.connecting import json_file, toml_file
from memd.cli.connecting.pieces import NAME, Item, Member, Piece
from memd.cli.hook import EVENTS

XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
TIMEOUTS = {"session-start": 10, "user-prompt-submit": 10, "pre-compact": 60, "stop": 60, "session-end": 60}
"""Seconds that the agent waits at most; the hooks themselves end much sooner."""


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

    def dir(self, variable: str, fallback: str) -> Path:
        """A directory that a variable names, or its usual place under the home directory."""
        named = self.environ.get(variable)
        return Path(named).expanduser() if named else self.home / fallback

    def config(self, name: str) -> Path:
        """Where a desktop application keeps its settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / name
        return self.dir("XDG_CONFIG_HOME", ".config") / name


@dataclass(frozen=True, slots=True)
class Place:
    """A file of an agent's, and what memd adds to it."""

    path: Path
    pieces: tuple[Piece, ...]
    format: ModuleType = json_file


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be connected."""

    name: str
    title: str
    programs: tuple[str, ...]
    folders: Callable[[Here], tuple[Path, ...]]
    """Places that are there when the agent is."""
    places: dict[str, Callable[[Here], tuple[Place, ...]]]
    then: str
    """What is left to do for a person."""
    hooks: bool = False
    """Whether it has hooks that memd answers."""
    elsewhere: bool = False
    """Whether it starts its servers in a directory that has nothing to do with the work."""


# --- what is added --------------------------------------------------------------------------------------------


def server(here: Here, typed: bool = False) -> dict[str, Any]:
    """How an agent starts `memd mcp`."""
    args = ["mcp", *(("--profile", here.profile) if here.profile else ()), *(("-n", here.ns) if here.ns else ())]
    env = places(here)
    return {
        **({"type": "stdio"} if typed else {}),
        "command": here.command[0],
        "args": [*here.command[1:], *args],
        **({"env": env} if env else {}),
    }


def places(here: Here) -> dict[str, str]:
    """Where memd's config, state and socket are: many agents start their servers without the variables that say so.
    None in a file that others share, who have them elsewhere."""
    if here.shared:
        return {}
    if home := here.environ.get("MEMD_HOME"):
        return {"MEMD_HOME": str(Path(home).expanduser().absolute())}
    named = {name: here.environ.get(name, "") for name in XDG}
    return {name: value for name, value in named.items() if value.startswith("/")}


def hooks(here: Here) -> tuple[Piece, ...]:
    """One command for each of Claude Code's events that memd answers."""
    return tuple(
        Item(("hooks", theirs), {"hooks": [hook_command(here, ours)]}) for ours, theirs in EVENTS.items() if here.hooks
    )


def hook_command(here: Here, event: str) -> dict[str, Any]:
    # Hooks have the agent's whole environment, but not what was set for this shell alone.
    env = [f"{name}={value}" for name, value in places(here).items() if name == "MEMD_HOME"]
    words = [*(("env", *env) if env else ()), *here.command, "hook", event, *(("-n", here.ns) if here.ns else ())]
    return {"type": "command", "command": shlex.join(words), "timeout": TIMEOUTS[event]}


def program(scope: str) -> tuple[str, ...]:
    """How memd is called: by its place for this user, by its name in files that others share."""
    if scope == "project":
        return (NAME,)
    beside = Path(sys.executable).with_name(NAME)
    given = Path(sys.argv[0])
    if given.name == NAME and given.is_file() and os.access(given, os.X_OK):
        return (str(given.absolute()),)
    found = str(beside) if beside.is_file() else shutil.which(NAME)
    return (found,) if found else (sys.executable, "-m", NAME)


# --- where it is added ---------------------------------------------------------------------------------------------


def _claude_dir(here: Here) -> Path:
    return here.dir("CLAUDE_CONFIG_DIR", ".claude")


def _claude_user(here: Here) -> tuple[Place, ...]:
    # With CLAUDE_CONFIG_DIR both files are in that directory.
    main = here.dir("CLAUDE_CONFIG_DIR", ".") / ".claude.json"
    return _with_hooks(here, main, _claude_dir(here) / "settings.json")


def _claude_project(here: Here) -> tuple[Place, ...]:
    return _with_hooks(here, here.project / ".mcp.json", here.project / ".claude" / "settings.json")


def _with_hooks(here: Here, servers: Path, settings: Path) -> tuple[Place, ...]:
    main = Place(servers, (Member(("mcpServers",), server(here, typed=True)),))
    return (main, Place(settings, hooks(here))) if here.hooks else (main,)


def _codex(folder: Callable[[Here], Path]) -> Callable[[Here], tuple[Place, ...]]:
    return lambda here: (Place(folder(here) / "config.toml", (Member(("mcp_servers",), server(here)),), toml_file),)


def _one(path: Callable[[Here], Path], *pointer: str, typed: bool = False) -> Callable[[Here], tuple[Place, ...]]:
    return lambda here: (Place(path(here), (Member(pointer, server(here, typed)),)),)


def _openclaw(here: Here) -> Path:
    named = here.environ.get("OPENCLAW_CONFIG_PATH")
    return Path(named).expanduser() if named else here.dir("OPENCLAW_STATE_DIR", ".openclaw") / "openclaw.json"


def _nanobot(here: Here) -> tuple[Place, ...]:
    """nanobot takes its keys in both spellings; beside those in the other one ours would count for nothing."""
    path = here.home / ".nanobot" / "config.json"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    key = "mcp_servers" if '"mcp_servers"' in text and '"mcpServers"' not in text else "mcpServers"
    return (Place(path, (Member(("tools", key), server(here)),)),)


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code", "Claude Code", ("claude",), lambda here: (_claude_dir(here), here.home / ".claude.json"),
            {"user": _claude_user, "project": _claude_project},
            "begin a new session; /mcp and /hooks show what it found", hooks=True,
        ),
        Agent(
            "claude-desktop", "Claude Desktop", (), lambda here: (here.config("Claude"),),
            {"user": _one(lambda here: here.config("Claude") / "claude_desktop_config.json", "mcpServers")},
            "quit Claude Desktop and start it again", elsewhere=True,
        ),
        Agent(
            "codex", "Codex", ("codex",), lambda here: (here.dir("CODEX_HOME", ".codex"),),
            {
                "user": _codex(lambda here: here.dir("CODEX_HOME", ".codex")),
                "project": _codex(lambda here: here.project / ".codex"),
            },
            "begin a new session; /mcp shows the server. A project's file counts once the project is trusted",
        ),
        Agent(
            "cursor", "Cursor", ("cursor", "cursor-agent"), lambda here: (here.home / ".cursor",),
            {
                "user": _one(lambda here: here.home / ".cursor" / "mcp.json", "mcpServers"),
                "project": _one(lambda here: here.project / ".cursor" / "mcp.json", "mcpServers"),
            },
            "switch memd on in Cursor's settings, under MCP",
        ),
        Agent(
            "vscode", "VS Code", ("code",), lambda here: (here.config("Code"),),
            {
                "user": _one(lambda here: here.config("Code") / "User" / "mcp.json", "servers", typed=True),
                "project": _one(lambda here: here.project / ".vscode" / "mcp.json", "servers", typed=True),
            },
            "start the server: MCP: List Servers in the command palette",
        ),
        Agent(
            "openclaw", "OpenClaw", ("openclaw",), lambda here: (_openclaw(here).parent,),
            {"user": _one(_openclaw, "mcp", "servers")},
            "restart the gateway: openclaw gateway restart", elsewhere=True,
        ),
        Agent(
            "nanobot", "nanobot", ("nanobot",), lambda here: (here.home / ".nanobot",),
            {"user": _nanobot},
            "restart nanobot", elsewhere=True,
        ),
    )
}  # fmt: skip


def found(agent: Agent, here: Here) -> str:
    """What on this machine says that the agent is there; empty for nothing."""
    path = here.environ.get("PATH")
    programs = (shutil.which(name, path=path) for name in agent.programs)
    folders = (str(folder) for folder in agent.folders(here) if folder.exists())
    return next((one for one in (*programs, *folders) if one), "")
