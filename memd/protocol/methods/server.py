"""The daemon itself: `hello`, `ping`, `status`, `reload`, `shutdown`, and `mcp.open` for MCP sessions."""

from typing import Annotated, Any, Literal, TypedDict

from memd.protocol.methods.base import Fresh, OneWorkspace, Request, between, local, unset
from memd.protocol.wire import PROTOCOL


class HelloResult(Fresh):
    """The answer of `hello`."""

    protocol: int
    version: str
    pid: int
    capabilities: list[str]
    limits: dict[str, int]
    bound: str | None
    """The workspace that this connection is bound to."""
    along: list[str]
    """The workspaces that hooks there may tell of, too."""


class HelloRequest(Request, method="hello", result=HelloResult, reads=True, for_bound=True):
    """Returns the protocol number, the version, the methods and the limits."""

    client: str = ""
    """The caller's name."""
    version: str = ""
    """The caller's version."""
    protocol: Annotated[int, between(0, 1_000_000)] = PROTOCOL
    """The protocol that the caller speaks."""
    bind: Annotated[str, unset("none"), local()] = ""
    """The workspace to [bind](#transport) this connection to."""
    bind_around: Annotated[str, unset("none"), local()] = ""
    """A directory: binds this connection to the workspace around it; an error where there is none."""
    mask_secrets: Annotated[bool, local()] = False
    """Mask what looks like a secret in every result on this connection, unless `server.mask_secrets` is off; for
    what a model gets to read."""


class PingResult(Fresh):
    """The answer of `ping`."""

    pong: bool


class PingRequest(Request, method="ping", result=PingResult, reads=True, for_bound=True):
    """Answers, to show that the daemon is alive."""


class WorkspaceStatus(TypedDict):
    """A workspace and how it is."""

    ns: str
    root: str
    globs: list[str]
    shared: bool
    """It answers along with every other one."""
    files: int
    memories: int
    chunks: int
    vectors: int
    pending_vectors: int
    watch: str
    watch_note: str
    held: int
    missing: bool
    last_change: str | None
    conflicts: int
    """Notes of which git or a file synchroniser left two versions."""
    skipped: list[dict[str, Any]]
    """Files with a problem: `path`, `why`, and whether they are `searched` all the same, if not as they are."""
    languages: list[str]
    """Why it needs the model for other languages: the first note and the first question in one."""
    exam: dict[str, Any]


class StatusResult(Fresh):
    """The answer of `status`."""

    pid: int
    readers: list[int]
    """The processes that answer questions; none until some were asked."""
    version: str
    protocol: int
    started: str
    uptime_s: float
    pending_files: int
    pending_vectors: int
    vectors_per_s: float | None
    eta_s: float | None
    embedded: int
    proposals: int
    """Writes that wait for a person."""
    subscriptions: int
    memory_mb: float
    children: list[dict[str, Any]]
    """The processes that the daemon has started: `module`, `pid`, `memory_mb`."""
    degraded_details: list[dict[str, Any]]
    model: dict[str, Any]
    workspaces: list[WorkspaceStatus]
    jobs: list[dict[str, Any]]
    log: str
    state_dir: str
    config: str
    socket: str


class StatusRequest(Request, method="status", result=StatusResult, reads=True, for_bound=True):
    """Returns what the daemon watches, what is pending and what is degraded."""


class ReloadResult(Fresh):
    """The answer of `reload`."""

    changed: list[str]
    """The settings that differ from those that were in force."""
    restart: list[str]
    """Those among them that hold only after `memd restart`."""


class ReloadRequest(Request, method="reload", result=ReloadResult):
    """Reads the settings anew and follows those of `embedding`, `search` and `rules` at once."""


class ShutdownResult(Fresh):
    """The answer of `shutdown`."""

    stopping: bool


class ShutdownRequest(Request, method="shutdown", result=ShutdownResult):
    """Stops the daemon."""


class McpOpenResult(Fresh):
    """The answer of `mcp.open`."""

    profile: str
    ns: str | None
    tools: list[str]


class McpOpenRequest(OneWorkspace, method="mcp.open", result=McpOpenResult, local=True):
    """Makes an MCP session of the connection, bound to one workspace."""

    profile: Literal["search", "memories", "ghost", "knowledge", "all"] = "search"
    """Which tools there are; `ghost` is another name of `memories`."""
    experimental: bool = False
    """Also tools that may still change."""
    who: Annotated[str, unset("`mcp:` and the client's name")] = ""
    """Who writes, for the log."""
    tz: Annotated[str, unset("the daemon's")] = ""
    """The client's time zone, such as `Europe/Oslo`."""
    session: Annotated[str, unset("none")] = ""
    """A name of the session's own: a request that is sent again in a session of the same name, with the same `id`,
    is carried out once."""
