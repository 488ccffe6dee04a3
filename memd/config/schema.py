"""Every setting, once: its type, default, bounds and the sentence that explains it.

The loader validates against this, `memd config init` writes it as a sample, docs/configuration.md is
generated from it. Precedence: defaults < config file < `MEMD_SECTION__NAME` environment < flags.
"""

import json
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, dataclass_transform

from msgspec import Meta

from memd.config import addresses, schedules
from memd.config.declared import between
from memd.config.hooks import BOUNDS, DEFAULTS
from memd.models import DEFAULT_GLOBS, Workspace

Schedule = Annotated[str, Meta(extra={"problem": schedules.problem, "allowed": '`"1h"`, `"15 3 * * *"`, `"off"`'})]
"""When a job runs."""
Url = Annotated[
    str, Meta(extra={"problem": addresses.url_problem, "allowed": "`http://…`, `https://…`", "private": True})
]
"""The address of a server."""
VariableName = Annotated[str, Meta(extra={"problem": addresses.variable_problem, "allowed": "a name", "private": True})]
"""The name of an environment variable, never what it holds."""


@dataclass_transform(frozen_default=True)
class Section:
    """Settings that belong together; every subclass is a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class WatchSettings(Section):
    """How changes are noticed."""

    mode: Literal["auto", "poll"] = "auto"
    """`auto` uses inotify and falls back to polling where it cannot; `poll` never uses inotify."""
    settle_ms: Annotated[int, between(0, 10_000)] = 50
    """A file is read when it has been quiet this long."""
    scan_seconds: Annotated[int, between(1, 86_400)] = 60
    """How often every file is compared with the index, whatever the events said."""
    poll_seconds: Annotated[float, between(0.2, 3_600)] = 2.0
    """How often files are compared while polling."""


class IndexSettings(Section):
    """Which files are indexed, and how many workspaces are kept open."""

    max_file_kb: Annotated[int, between(1, 1_000_000)] = 4_096
    """Larger files are left out and listed in `memd status`."""
    max_open: Annotated[int, between(1, 100_000)] = 128
    """Workspaces whose index is kept open; others are opened when they are asked."""
    max_open_mb: Annotated[int, between(1, 1_000_000)] = 1_024
    """Memory that open indexes may take before the least recently used are closed."""


LATER = {"path": "", "max_tokens": 0, "query_prefix": "", "document_prefix": ""}
"""Settings of a model that its description leaves out where they are as here."""
SERVERS = ("ollama", "openai")
"""The providers of vectors that are asked over the network."""


class EmbeddingSettings(Section):
    """How texts become vectors."""

    provider: Literal["local", "onnx", "ollama", "openai", "none"] = "local"
    """`local` is memd's own model, `onnx` yours; `ollama` and `openai` ask a server, which gets the notes; `none`
    leaves vectors out."""
    path: str = ""
    """`onnx`: the folder of an ONNX export, or its graph; it needs `tokenizer.json`."""
    model: str = ""
    """The name at a server; empty for `nomic-embed-text` (Ollama) and `text-embedding-3-small` (OpenAI). With `local`,
    as `path`."""
    query_prefix: str = ""
    """Text before each question; empty means what an ONNX export says."""
    document_prefix: str = ""
    """The same before each note."""
    url: Url = ""
    """The server; empty means `http://localhost:11434` for `ollama`, `https://api.openai.com/v1` for `openai`."""
    dimensions: Annotated[int, between(0, 65_536)] = 0
    """The length of the vectors to ask a server for; 0 means what its model gives."""
    key_env: VariableName = ""
    """The environment variable that holds the server's key; without it and `key_file`, `OPENAI_API_KEY` for OpenAI."""
    key_file: str = ""
    """A file that holds the server's key and that nobody but you can read (mode 0600)."""
    plain_http: bool = False
    """Send notes, questions and the key to another machine over `http://`, where others can read them."""
    timeout_s: Annotated[float, between(0.1, 3_600)] = 60.0
    """How long a server may take for a batch of notes."""
    question_ms: Annotated[int, between(10, 60_000)] = 1_000
    """How long a question waits for a server; then its words answer, and `degraded` says so."""
    batch: Annotated[int, between(1, 2_048)] = 32
    """Texts that a server gets at a time."""
    pooling: Literal["auto", "cls", "mean"] = "auto"
    """How your own model is pooled; `auto` means as its files say, else `cls`."""
    max_tokens: Annotated[int, between(0, 65_536)] = 0
    """Tokens that your own model takes; 0 means what its files say, else 512."""
    normalize: bool = True
    """Scale its vectors to length one."""
    threads: Annotated[int, between(1, 64)] = 2
    """Threads the model may use."""
    share: Annotated[float, between(0.05, 1.0)] = 1.0
    """The part of the time in which missing vectors are made; on battery half of it."""
    multilingual: bool = True
    """Beside memd's own model, which is English, load another one where notes or questions are in other languages."""

    @property
    def source(self) -> str:
        """The description by which the same model is loaded again; where a key is, never the key."""
        local, server = ("pooling", "normalize"), ("url", "dimensions", "key_env", "key_file", "plain_http")
        names = ("model", *(server if self.provider in SERVERS else local))
        # Without what says nothing, so that the ledger's older descriptions are the same.
        later = [name for name, nothing in LATER.items() if getattr(self, name) != nothing]
        return json.dumps({name: getattr(self, name) for name in ("provider", *names, *later)})

    def with_source(self, source: str) -> Self:
        """The settings of a model that the ledger knows; what they do not say is as it is here."""
        return replace(self, **{"provider": "local", **LATER, **json.loads(source)})


class VectorsSettings(Section):
    """Where the collections of vectors are, which other programs can read."""

    engine: Literal["embedded", "server"] = "embedded"
    """`embedded` has them in the state directory, where nobody else may open them while memd runs; `server` in a Chroma
    server."""
    workspaces: str = "*"
    """Workspaces, with commas between, whose vectors only the server has; `*` means all, with none it has a copy."""
    url: Url = "http://localhost:8000"
    """The Chroma server."""
    tenant: str = "default_tenant"
    """The tenant there."""
    database: str = "default_database"
    """The database there, which must exist."""
    headers_env: VariableName = ""
    """The environment variable that holds headers for the server, one a line: `Authorization: Bearer …`."""
    plain_http: bool = False
    """Send texts, vectors and headers to another machine over `http://`, where others can read them."""

    def has_alone(self, ns: str) -> bool:
        """Whether the server alone is to have the vectors of a workspace."""
        names = [name.strip() for name in self.workspaces.split(",")]
        return self.engine == "server" and ("*" in names or ns in names)


class SearchSettings(Section):
    """How queries are answered."""

    limit: Annotated[int, between(1, 200)] = 8
    """Hits when the caller does not say how many."""
    fusion: Literal["scores", "rrf"] = "scores"
    """How words and meaning are heard together: `scores` adds what each found, `rrf` their ranks only."""
    rrf_k: Annotated[int, between(1, 1_000)] = 60
    """The constant of reciprocal rank fusion."""
    include_all: bool = False
    """Search what rests (dormant memories, raw captures) as what is awake, always."""


class ContextSettings(Section):
    """How a context is filled."""

    memory_tokens: Annotated[int, between(-1, 200_000)] = 400
    """The most tokens of one memory; -1 means no limit."""
    edges: bool = True
    """Follow the edges of what was found."""
    damping: Annotated[float, between(0, 1)] = 0.3
    """The share of a memory's score, times the edge's weight, that a neighbour gains."""
    edges_per_memory: Annotated[int, between(1, 100)] = 5
    """Edges that are followed from one memory, the heaviest first."""
    min_edge_weight: Annotated[float, between(0, 1)] = 0.1
    """A lighter edge is not followed."""
    max_from_edges: Annotated[int, between(0, 1_000)] = 50
    """The most memories that edges add."""
    max_boost: Annotated[float, between(0, 10)] = 0.5
    """The most that a memory gains from its edges, as a share of its own score."""


class LinksSettings(Section):
    """Which memories are linked by themselves."""

    similarity: Annotated[float, between(0.5, 1)] = 0.8
    """How much alike two memories must be, from 0.5 to 1; see docs/lifecycle.md."""


class HistorySettings(Section):
    """How long the past is kept."""

    keep_days: Annotated[int, between(0, 36_500)] = 0
    """Days after which a former text of a memory is dropped, and a change can no longer be undone; the current and
    the previous text always stay. 0 keeps all: a note that is edited every day is some hundred KB a year."""


class JobsSettings(Section):
    """The jobs that run by the clock: each has an interval, five cron fields in local time, or `off`."""

    reflect: Schedule = "1h"
    """Counts accesses, moves memories by the rules, links and judges similar ones."""
    decay: Schedule = "20 0 * * *"
    """Lets importance fade by the rules, strengthens links that were used, lets the others fade."""
    link: Schedule = "15m"
    """Links memories that name each other or are alike, where no write has done so."""
    backup: Schedule = "30 3 * * *"
    """Copies the ledger; seven copies are kept."""
    selfexam: Schedule = "0 4 * * *"
    """Asks probes made from your notes, whose trend `status` shows."""
    reconcile: Schedule = "30 4 * * *"
    """Compares text index and vectors with the ledger, chunk by chunk, and mends what differs."""
    compact: Schedule = "0 5 * * 0"
    """Removes leftovers, drops what `history.keep_days` lets go, shrinks `state.db` if over a quarter of it is free."""
    jitter_s: Annotated[int, between(0, 3_600)] = 60
    """Seconds by which a run is put off at random, and never more than a tenth of the way to the next one."""


class OutlineSettings(Section):
    """The outline of the source code around the notes."""

    enabled: bool = False
    """Read the sources of each workspace, for `memd outline`; needs the extra `outline`."""
    max_file_kb: Annotated[int, between(1, 100_000)] = 1_024
    """Larger sources are left out and listed by `memd outline project`."""


class ServerSettings(Section):
    """The socket."""

    max_clients: Annotated[int, between(1, 100_000)] = 1_024
    """Connections beyond this are told `busy`."""
    line_timeout_s: Annotated[float, between(0.1, 3_600)] = 30.0
    """A line, or a request to the hub, that has begun must end within this time."""
    calls_per_second: Annotated[int, between(1, 1_000_000)] = 1_000
    """Calls that one connection may make; those beyond are told `busy`."""
    cross_workspace: bool = False
    """Let a connection that is bound to one workspace, as an agent's is, name others."""
    trust: Literal["write", "propose"] = "write"
    """Writes by others than a person: `write` carries them out at once; `propose` keeps them until a
    person says `memd proposal accept`."""
    trusted: str = ""
    """With `propose`: authors whose writes are carried out at once, with spaces between: `mcp:codex hook:*`."""
    index_folders: str = ""
    """Folders that agents may have indexed, and those inside them, with spaces between: `~/notes ~/work`. Without any
    they are not offered the tool `index_folder`."""
    mask_secrets: bool = True
    """Mask what looks like a key, a token or a password in everything that agents are shown, by MCP and hooks."""
    structured_content: bool = False
    """Send the answer of each MCP tool also as data (`structuredContent`). Most clients then show the model the data
    instead of the text."""


class HubSettings(Section):
    """The hub, `memd serve`: how other machines reach this memory. Flags of the command count more."""

    listen: str = "127.0.0.1:8428"
    """Where it listens: an address and a port. Other machines reach it only with TLS, or by a proxy."""
    hosts: str = ""
    """Names under which it is reached, with spaces between: `memory.example.org`."""
    cert: str = ""
    """The certificate for TLS, a PEM file with its chain."""
    key: str = ""
    """The certificate's private key."""
    behind_proxy: bool = False
    """A proxy in front of it does TLS."""
    calls_per_second: Annotated[int, between(1, 100_000)] = 50
    """Requests that may come with one token; those beyond are told `busy`."""
    max_request_kb: Annotated[int, between(1, 1_024)] = 1_024
    """Larger requests are refused."""
    max_clients: Annotated[int, between(1, 100_000)] = 1_024
    """Connections beyond this are refused."""


class DaemonSettings(Section):
    """The daemon's processes."""

    readers: Annotated[int, between(-1, 64)] = -1
    """Processes that answer questions, so that no import and no job holds them up; 0 answers in the daemon itself, -1
    means one, and more while it is busy: one for each core, four at the most."""


class HooksSettings(Section):
    """How `memd hook` works inside an agent; each hook reads these anew, so no restart is needed."""

    timeout_ms: Annotated[int, between(*BOUNDS["timeout_ms"])] = DEFAULTS["timeout_ms"]
    """The longest that a prompt waits for memd."""
    start_ms: Annotated[int, between(*BOUNDS["start_ms"])] = DEFAULTS["start_ms"]
    """The longest that the start of a session waits for memd."""
    limit: Annotated[int, between(*BOUNDS["limit"])] = DEFAULTS["limit"]
    """The most memories that a prompt gets; 0 means none."""
    confidence: Annotated[float, between(*BOUNDS["confidence"])] = DEFAULTS["confidence"]
    """A prompt gets memories only from an answer that is at least this sure."""
    capture: bool = DEFAULTS["capture"]
    """Save what was learned to the note of the day, before a compaction and at the end of each turn."""
    extract: str = DEFAULTS["extract"]
    """Your own command that finds what was learned: it gets the last lines of the transcript on standard input and
    prints one thing a line. Empty means memd's own rules."""
    extract_s: Annotated[int, between(*BOUNDS["extract_s"])] = DEFAULTS["extract_s"]
    """Seconds after which that command is stopped."""


class LogSettings(Section):
    """The log, which never has the text of a memory or a query."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Literal["text", "json"] = "text"
    """`text` for people, `json` for machines: one line each."""
    file_kb: Annotated[int, between(16, 1_000_000)] = 1_024
    """The log file is rotated at this size."""
    files: Annotated[int, between(1, 100)] = 3
    """Rotated log files that are kept."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the user can decide."""

    watch: WatchSettings = field(default_factory=WatchSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    vectors: VectorsSettings = field(default_factory=VectorsSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    links: LinksSettings = field(default_factory=LinksSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    jobs: JobsSettings = field(default_factory=JobsSettings)
    outline: OutlineSettings = field(default_factory=OutlineSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    hub: HubSettings = field(default_factory=HubSettings)
    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    hooks: HooksSettings = field(default_factory=HooksSettings)
    log: LogSettings = field(default_factory=LogSettings)
    rules: tuple[tuple[str, str], ...] = ()
    """The rules of the config file, by name, as written; `lifecycle/rule_book.py` checks them."""
    workspaces: tuple[Workspace, ...] = ()

    @property
    def needs_network(self) -> bool:
        """Whether the daemon has to ask a server."""
        return self.embedding.provider in SERVERS or self.vectors.engine == "server"


SECTIONS: dict[str, type[Any]] = {
    spec.name: type(value) for spec in fields(Settings) if is_dataclass(value := getattr(Settings(), spec.name))
}

RULES = "rules"
"""The section whose names are the user's own."""
RULES_DOC = "Rules by which memories age: your own, and built-in ones that you changed. `memd rule set` writes these."

WORKSPACE_KEYS: dict[str, tuple[str, Any]] = {
    "path": ("The directory. `~` is your home.", "~/agent"),
    "ns": ("Its name; the directory's name when left out.", "agent"),
    "globs": ("Which files are memory; without it, memd's usual ones.", list(DEFAULT_GLOBS)),
    "follow": ("Follow symbolic links that lead out of the workspace.", False),
    "exclude": ("Which files are left out, as in a `.gitignore`.", ["drafts/"]),
    "gitignore": ("Leave out what the `.gitignore` files in it name.", False),
    "shared": ("It answers along with every other workspace.", False),
    "hooks_in": ("The workspaces whose hooks may tell of it when it is shared.", []),
    "project": ("A directory elsewhere whose memory it is.", "~/code/app"),
}
"""What a workspace may have in the config file: its meaning, and an example."""
