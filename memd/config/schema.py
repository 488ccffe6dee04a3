"""Every setting, once: its type, default, bounds and the sentence that explains it.

The loader validates against this, `memd config init` writes it as a sample, docs/configuration.md is
generated from it. Precedence: defaults < config file < `MEMD_SECTION__NAME` environment < flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any

from memd.config import addresses, schedules
from memd.config.hooks import BOUNDS, DEFAULTS
from memd.models import FUSIONS, Workspace


def setting(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    problem: Callable[[str], str] | None = None,
    allowed: str = "",
    private: bool = False,
) -> Any:
    """A field that can explain and check itself; `problem` returns what a text must be, or nothing if it is right.

    `private`: a wrong value is not repeated in the message, since it may hold a key or a password.
    """
    checks = {
        "low": low, "high": high, "choices": choices, "problem": problem, "allowed": allowed, "private": private
    }  # fmt: skip
    return field(default=default, metadata={"doc": doc, **checks})


def schedule(default: str, doc: str) -> Any:
    """A setting that says when a job runs."""
    return setting(default, doc, problem=schedules.problem, allowed='`"1h"`, `"15 3 * * *"`, `"off"`')


def server_url(default: str, doc: str) -> Any:
    """The address of a server."""
    return setting(default, doc, problem=addresses.url_problem, allowed="`http://…`, `https://…`", private=True)


def variable_name(doc: str) -> Any:
    """The name of an environment variable, never what it holds."""
    return setting("", doc, problem=addresses.variable_problem, allowed="a name", private=True)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How changes are noticed."""

    mode: str = setting(
        "auto",
        "`auto` uses inotify and falls back to polling where it cannot; `poll` never uses inotify.",
        choices=("auto", "poll"),
    )
    settle_ms: int = setting(50, "A file is read when it has been quiet this long.", low=0, high=10_000)
    scan_seconds: int = setting(
        60, "How often every file is compared with the index, whatever the events said.", low=1, high=86_400
    )
    poll_seconds: float = setting(2.0, "How often files are compared while polling.", low=0.2, high=3_600)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What is indexed."""

    max_file_kb: int = setting(4_096, "Larger files are left out and listed in `memd status`.", low=1, high=1_000_000)
    max_open: int = setting(
        128, "Workspaces whose index is kept open; others are opened when they are asked.", low=1, high=100_000
    )
    max_open_mb: int = setting(
        1_024, "Memory that open indexes may take before the least recently used are closed.", low=1, high=1_000_000
    )


SERVERS = ("ollama", "openai")
"""The providers of vectors that are asked over the network."""


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """How texts become vectors."""

    provider: str = setting(
        "local",
        "`local` runs a model on this machine; `ollama` and `openai` ask a server, which then gets the text of the"
        " notes; `none` leaves vectors out.",
        choices=("local", *SERVERS, "none"),
    )
    model: str = setting(
        "",
        "`local`: a folder with `model.onnx` and `tokenizer.json`, empty for the model that comes with memd. A server:"
        " its name there, empty for `nomic-embed-text` of Ollama and `text-embedding-3-small` of OpenAI.",
    )
    url: str = server_url(
        "",
        "The server; empty means `http://localhost:11434` for `ollama` and `https://api.openai.com/v1` for `openai`,"
        " which may be any server that has `/v1/embeddings`.",
    )
    dimensions: int = setting(
        0, "The length of the vectors to ask a server for; 0 means what its model gives.", low=0, high=65_536
    )
    key_env: str = variable_name(
        "The environment variable that holds the server's key; with neither this nor `key_file`, `OPENAI_API_KEY` for"
        " OpenAI itself and no key for others."
    )
    key_file: str = setting("", "A file that holds the server's key and that nobody but you can read (mode 0600).")
    plain_http: bool = setting(
        False, "Send notes, questions and the key to another machine over `http://`, where others can read them."
    )
    timeout_s: float = setting(60.0, "How long a server may take for a batch of notes.", low=0.1, high=3_600)
    question_ms: int = setting(
        1_000, "How long a question waits for a server; then it is answered by its words, and `degraded` says so.",
        low=10, high=60_000,
    )  # fmt: skip
    batch: int = setting(32, "Texts that a server gets at a time.", low=1, high=2_048)
    pooling: str = setting("cls", "How a model of your own is pooled.", choices=("cls", "mean"))
    normalize: bool = setting(True, "Scale the vectors of a model of your own to length one.")
    threads: int = setting(2, "Threads the model may use.", low=1, high=64)
    multilingual: bool = setting(
        True,
        "Beside the model that comes with memd, which is English, load another one where notes or questions are in"
        " other languages.",
    )


@dataclass(frozen=True, slots=True)
class VectorsSettings:
    """Where the collections of vectors are kept; the ledger has all vectors in any case."""

    engine: str = setting(
        "embedded",
        "`embedded` keeps them in the state directory; `server` in a Chroma server, for what outgrows a machine.",
        choices=("embedded", "server"),
    )
    url: str = server_url("http://localhost:8000", "The Chroma server.")
    tenant: str = setting("default_tenant", "The tenant there.")
    database: str = setting("default_database", "The database there, which must exist.")
    headers_env: str = variable_name(
        "The environment variable that holds headers for the server, one a line: `Authorization: Bearer …`."
    )
    plain_http: bool = setting(
        False, "Send vectors and headers to another machine over `http://`, where others can read them."
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How queries are answered."""

    limit: int = setting(8, "Hits when the caller does not say how many.", low=1, high=200)
    fusion: str = setting(
        "scores", "How words and meaning are heard together: `scores` adds what each found, `rrf` their ranks only.",
        choices=FUSIONS,
    )  # fmt: skip
    rrf_k: int = setting(60, "The constant of reciprocal rank fusion.", low=1, high=1_000)
    include_all: bool = setting(False, "Search what rests (dormant memories, raw captures) as what is awake, always.")


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How a context is filled."""

    memory_tokens: int = setting(400, "The most tokens of one memory; -1 means no limit.", low=-1, high=200_000)
    edges: bool = setting(True, "Follow the edges of what was found.")
    damping: float = setting(
        0.3, "The share of a memory's score, times the edge's weight, that a neighbour gains.", low=0, high=1
    )
    edges_per_memory: int = setting(5, "Edges that are followed from one memory, the heaviest first.", low=1, high=100)
    min_edge_weight: float = setting(0.1, "A lighter edge is not followed.", low=0, high=1)
    max_from_edges: int = setting(50, "The most memories that edges add.", low=0, high=1_000)
    max_boost: float = setting(
        0.5, "The most that a memory gains from its edges, as a share of its own score.", low=0, high=10
    )


@dataclass(frozen=True, slots=True)
class LinksSettings:
    """Which memories are linked by themselves."""

    similarity: float = setting(
        0.8, "How much alike two memories must be, from 0.5 to 1; see docs/lifecycle.md.", low=0.5, high=1
    )


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What is kept of the past."""

    keep_days: int = setting(
        0,
        "Days after which a former text of a memory is dropped, and a change can no longer be undone; the current and"
        " the previous text always stay. 0 keeps all: a note that is edited every day is some hundred KB a year.",
        low=0, high=36_500,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobsSettings:
    """What runs by the clock: an interval, five cron fields in local time, or `off`."""

    reflect: str = schedule("1h", "Counts accesses, applies the rules, lets links age.")
    decay: str = schedule("20 0 * * *", "Lets the importance of memories fade that nobody asks for.")
    link: str = schedule("15m", "Links memories that name each other or say the same: what no write has linked.")
    backup: str = schedule("30 3 * * *", "Copies the ledger; seven copies are kept.")
    selfexam: str = schedule("0 4 * * *", "Asks probes made from your notes, whose trend `status` shows.")
    reconcile: str = schedule("30 4 * * *", "Compares text index and vectors with the ledger, and mends them.")
    compact: str = schedule("0 5 * * 0", "Sweeps up, drops what `history.keep_days` lets go, gives free room back.")
    jitter_s: int = setting(
        60, "Seconds by which a run is put off at random, and never more than a tenth of its interval.",
        low=0, high=3_600,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutlineSettings:
    """The outline of the source code around the notes."""

    enabled: bool = setting(False, "Read the sources of each workspace, for `memd outline`; needs the extra `outline`.")
    max_file_kb: int = setting(
        1_024, "Larger sources are left out and listed by `memd outline project`.", low=1, high=100_000
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The socket."""

    max_clients: int = setting(1_024, "Connections beyond this are told `busy`.", low=1, high=100_000)
    line_timeout_s: float = setting(
        30.0, "A line, or a request to the hub, that has begun must end within this time.", low=0.1, high=3_600
    )
    calls_per_second: int = setting(
        1_000, "Calls that one connection may make; those beyond are told `busy`.", low=1, high=1_000_000
    )
    cross_workspace: bool = setting(
        False, "Let a connection that is bound to one workspace, as an agent's is, name others."
    )
    trust: str = setting(
        "write",
        "What becomes of writes by others than a person: `write` carries them out at once; `propose` keeps them until a"
        " person says `memd proposal accept`.",
        choices=("write", "propose"),
    )
    trusted: str = setting(
        "", "With `propose`: authors whose writes are carried out at once, with spaces between: `mcp:codex hook:*`."
    )
    mask_secrets: bool = setting(
        True, "Mask what looks like a key, a token or a password in everything that agents are shown, by MCP and hooks."
    )
    structured_content: bool = setting(
        False,
        "Send the answer of each MCP tool also as data (`structuredContent`). Most clients then show the model the data"
        " instead of the text.",
    )


@dataclass(frozen=True, slots=True)
class HubSettings:
    """The hub, `memd serve`: how other machines reach this memory. Flags of the command count more."""

    listen: str = setting(
        "127.0.0.1:8428",
        "Where it listens: an address and a port. Other machines reach it only with TLS, or by a proxy.",
    )
    hosts: str = setting("", "Names under which it is reached, with spaces between: `memory.example.org`.")
    cert: str = setting("", "The certificate for TLS, a PEM file with its chain.")
    key: str = setting("", "The certificate's private key.")
    behind_proxy: bool = setting(False, "A proxy in front of it does TLS.")
    calls_per_second: int = setting(
        50, "Requests that may come with one token; those beyond are told `busy`.", low=1, high=100_000
    )
    max_request_kb: int = setting(1_024, "Larger requests are refused.", low=1, high=1_024)
    max_clients: int = setting(1_024, "Connections beyond this are refused.", low=1, high=100_000)


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """The daemon's processes."""

    readers: int = setting(
        -1,
        "Processes that answer questions, so that no import and no job holds them up; 0 answers in the daemon itself,"
        " -1 means one, and more while it is busy: one for each core, four at the most.",
        low=-1,
        high=64,
    )


def hook_setting(name: str, doc: str) -> Any:
    """A setting that hooks read without loading this module; its default and bounds are theirs."""
    low, high = BOUNDS.get(name, (None, None))
    return setting(DEFAULTS[name], doc, low=low, high=high)


@dataclass(frozen=True, slots=True)
class HooksSettings:
    """What `memd hook` does inside an agent; read by each hook anew, so that no restart is needed."""

    timeout_ms: int = hook_setting("timeout_ms", "The longest that a prompt waits for memd.")
    start_ms: int = hook_setting("start_ms", "The longest that the start of a session waits for memd.")
    limit: int = hook_setting("limit", "The most memories that a prompt gets; 0 means none.")
    confidence: float = hook_setting(
        "confidence", "A prompt gets memories only from an answer that is at least this sure."
    )
    capture: bool = hook_setting(
        "capture", "Save what was learned to the note of the day, before a compaction and at the end of each turn."
    )
    extract: str = hook_setting(
        "extract", "Your own command that finds what was learned: it gets the last lines of the transcript on standard"
        " input and prints one thing a line. Empty means memd's own rules.",
    )  # fmt: skip
    extract_s: int = hook_setting("extract_s", "Seconds after which that command is stopped.")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is written down. Never the text of a memory or a query."""

    level: str = setting("info", "The least that is logged.", choices=("debug", "info", "warning", "error"))
    format: str = setting("text", "`text` for people, `json` for machines: one line each.", choices=("text", "json"))
    file_kb: int = setting(1_024, "The log file is rotated at this size.", low=16, high=1_000_000)
    files: int = setting(3, "Rotated log files that are kept.", low=1, high=100)


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

WORKSPACE_KEYS = {
    "path": "The directory. `~` is your home.",
    "ns": "Its name; the directory's name when left out.",
    "globs": "Which files are memory; see docs/configuration.md for the default.",
    "follow": "Follow symbolic links that lead out of the workspace.",
}


def settings_of(section: type[Any]) -> Iterator[Field[Any]]:
    """The settings of one section, in the order they are written."""
    return iter(fields(section))
