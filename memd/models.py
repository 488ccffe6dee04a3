"""The frozen values that every floor speaks: workspaces, notes, memories, chunks; digests, and how rows are grouped."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from hashlib import blake2b
from os import stat_result
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_args

K = TypeVar("K")
V = TypeVar("V")

OWN, TEAM = "own", "team"
"""The layers of a workspace: the person's own notes, and those of the team below them, in a folder of that name."""
TEAM_GLOB = f"{TEAM}/**/*.md"
NEVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Folders in which no file is a note."""
DEFAULT_GLOBS = (
    "MEMORY.md",
    "memory/**/*.md",
    "daily/**/*.md",
    ".ai-knowledge/*.mdk",
    ".muxcode/memory/**/*.md",
    TEAM_GLOB,
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A directory that holds memory files; `ns` is its name."""

    ns: str
    root: Path
    globs: tuple[str, ...] = DEFAULT_GLOBS
    follow: bool = False
    exclude: tuple[str, ...] = ()
    """Files that are left out, as in a `.gitignore`."""
    gitignore: bool = False
    """Whether the rules of `.gitignore` files hold too."""
    shared: bool = False
    """Whether it answers along with every other workspace."""
    hooks_in: tuple[str, ...] = ()
    """The workspaces whose hooks may tell of it, too."""
    project: str = ""
    """A directory elsewhere that it is the memory of."""

    @property
    def places(self) -> tuple[Path, ...]:
        """The directories in which it is the one that is meant."""
        return (self.root, Path(self.project)) if self.project else (self.root,)

    def layer_of(self, path: str) -> str:
        """Whose note a path is; a folder that is called so is the team's only where the globs name it."""
        return TEAM if path.startswith(f"{TEAM}/") and TEAM_GLOB in self.globs else OWN


class FileStat(NamedTuple):
    """A file's stat: as long as it is the same, so are the bytes."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: stat_result) -> Self:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


DOCUMENTS = {".pdf": "pypdf", ".docx": "mammoth", ".html": "markdownify", ".htm": "markdownify", ".epub": "markdownify"}
"""The files beside notes of which memd reads the text and changes nothing, and the package that takes each out."""


def is_document(path: str) -> bool:
    return path[path.rfind(".") :].lower() in DOCUMENTS


def digest_of(data: bytes | str) -> str:
    """The digest of bytes or of a text: it changes when anything in them does."""
    plain = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return blake2b(plain, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Declared:
    """The facts that the Markdown itself declares about a memory."""

    title: str = ""
    summary: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    kind: str = ""
    pinned: bool = False
    priority: str = ""
    importance: float | None = None
    ttl: str = ""
    last_updated: str = ""
    links: tuple[str, ...] = ()
    """Other memories: `key`, `refines:key` or `refines(0.7):key`."""
    tier: str = ""
    """Where the memory begins; what was observed since decides where it is."""
    files: tuple[str, ...] = ()
    """Files that the memory is about, each with what was done to it: `src/app.py:modified`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of search: a contiguous piece of one memory."""

    text: str
    start_line: int
    end_line: int
    heading: tuple[str, ...]
    """The headings above it, outermost first."""
    context: str = ""
    """Words that belong to it without standing in its lines: tags, aliases, a summary."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The unit with a life: one `##` section, a preamble, or a whole file."""

    slug: str
    """Empty for a preamble and for a file that is one memory."""
    heading: str
    start_line: int
    end_line: int
    text: str
    kind: str
    date: str
    """YYYY-MM-DD, or empty when neither the name nor a timestamp line gives one."""
    declared: Declared = field(default_factory=Declared)
    chunks: tuple[Chunk, ...] = ()
    prose: tuple[tuple[int, int], ...] = ()
    """Where the blocks of the text begin and end that are not code."""


@dataclass(frozen=True, slots=True)
class Note:
    """One file, parsed."""

    path: str
    """Relative to the workspace, with forward slashes."""
    role: str
    memories: tuple[Memory, ...]
    warnings: tuple[str, ...] = ()


Kind = Literal["semantic", "episodic", "procedural"]
Tier = Literal["sensory", "stm", "ltm", "dormant"]
Priority = Literal["low", "normal", "high", "critical"]
Relation = Literal[
    "contradicts", "refines", "implies", "caused_by", "depends_on", "prevents", "contains", "relates_to", "merged_into"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
TIERS: tuple[Tier, ...] = get_args(Tier)
JsonObject = dict[str, Any]
"""An object of a result, as the wire has it."""
PINNED = "pinned"
"""A filter can name this instead of a tier: memories that never age, whatever their tier."""
RELATIONS: dict[str, float] = {
    "contradicts": 0.9, "refines": 0.8, "implies": 0.8, "caused_by": 0.75, "depends_on": 0.7, "prevents": 0.7,
    "contains": 0.6, "relates_to": 0.5, "merged_into": 0.0,
}  # fmt: skip
"""Every relation with the weight that an edge has unless someone gives another."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a hit; empty means anything."""

    kind: str = ""
    tags: tuple[str, ...] = ()
    role: str = ""
    path: str = ""
    since: str = ""
    until: str = ""
    tier: str = ""

    def __bool__(self) -> bool:
        return self != Filters()


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, checked and complete."""

    query: str
    ns: tuple[str, ...]
    limit: int = 8
    mode: str = "hybrid"
    filters: Filters = field(default_factory=Filters)
    explain: bool = False
    marks: bool = False
    fusion: str = "scores"
    rrf_k: int = 60
    today: date | None = None
    """The day that "last week" is counted from; None is the daemon's own."""
    as_of: str = ""
    """A moment of the past whose texts are asked."""
    all_tiers: bool = False
    """Also what rests, whatever is awake."""
    order: str = "best"

    @property
    def day(self) -> date:
        return self.today or date.today()


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that answers, with where it stands and why it came up."""

    id: int
    ns: str
    root: str
    key: str
    path: str
    start_line: int
    end_line: int
    title: str
    """The title of its memory."""
    heading: str
    """All headings above it."""
    text: str
    score: float
    kind: str
    tier: str
    role: str
    tags: list[str]
    date: str
    ranks: dict[str, int]
    layer: str = OWN
    also: list[dict[str, object]] = field(default_factory=list)
    marks: list[tuple[int, int]] | None = None
    explain: dict[str, object] | None = None
    version: int | None = None
    """Which version of its memory it is of, where the past was asked."""
    written_by: list[str] | None = None
    """Who wrote some of it, where that was not only a person."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a question."""

    hits: list[Hit]
    verdict: str
    confidence: float
    total: int
    corrected: dict[str, list[str]] = field(default_factory=dict)
    """Words that no note has, with the near spellings that were searched instead."""
    missing: tuple[str, ...] = ()
    """Words that no note has in any form."""
    near: list[Hit] = field(default_factory=list)
    """The closest passages besides the hits, which are no answer."""
    resting: int = 0
    """How many more would be hits if they did not rest."""
    expired: int = 0
    """How many would be found if their memories had not expired or been deleted; not counted where others are found."""
    unread: dict[str, list[str]] = field(default_factory=dict)
    """By workspace, the files that have what was asked for, but not as the index has taken them in."""
    outside: str = ""
    """A file that has what was asked for only where no question looks, as in its title; empty for none."""
    unheard: str = ""
    """Why it goes without the meaning of the question; empty where it does not."""


def pick(row: Any, *names: str) -> JsonObject:
    """Some columns of a row, or entries of an object."""
    return {name: row[name] for name in names}


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in the order in which they come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
