"""The parts of a declaration: a request class per method, fields that several methods share, the registry, and the
parameters as plain values.

A request is a declaration as in `config/declared.py`: its fields are the parameters, its docstring is the method's
sentence. msgspec validates while it converts.
"""

import inspect
import re
import runpy
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, dataclass_transform

import msgspec
from msgspec import Meta

from memd.config.declared import (
    Parameter,
    between as between,
    checked,
    docs_of,
    fields_of,
    is_unicode,
    python_name,
    wire_name,
)
from memd.errors import UsageError, did_you_mean
from memd.models import Filters, Kind, Tier

MAX_HITS = 200
MAX_QUERY = 10_000
"""Characters of a question. A longer one is a document, and takes seconds from everyone else."""
MAX_ID = 200
MAX_TOKENS = 200_000
MAX_ROWS = 1_000
MAX_NUMBER = 10**9
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
WITH_TIME = re.compile(r"\d+(?:-\d+)*T[\d:.,+Zz-]*")
"""No date, and no words for a time."""
DATE_FORMS = ("%Y", "%Y-%m", "%Y-%m-%d")


def doc(about: str, *, unset: str = "", **bounds: Any) -> Meta:
    """The meaning of a shared type wherever it is a parameter; a docstring under the parameter itself counts more."""
    return Meta(description=about, extra={"unset": unset} if unset else None, **bounds)


def unset(about: str) -> Meta:
    """The value that holds when a parameter is left out, where that is no plain one."""
    return Meta(extra={"unset": about})


def place(*, opened: bool = False, unset: str = "") -> Meta:
    """A path on this machine, as the caller's system spells it; `opened` if the daemon opens it wherever it is."""
    return Meta(extra={"place": True, "local": True, "opened": opened, **({"unset": unset} if unset else {})})


def local() -> Meta:
    """Only for callers on this machine: the hub refuses a call that sets it."""
    return Meta(extra={"local": True})


NOT_BLANK = r"\S"

# --- types that several methods share -----------------------------------------------------------------------------

Text = Annotated[str, Meta(min_length=1, pattern=NOT_BLANK)]
"""A text that must be given and must not be blank."""
Texts = tuple[Annotated[str, Meta(min_length=1)], ...]
"""A list of texts; a caller may give a single one as it is."""
Key = Annotated[Text, doc("the key of the memory, such as `2026-02-15#ersatztv`")]
Words = Annotated[Text, Meta(max_length=MAX_QUERY)]
Question = Annotated[Words, doc("the question; it may hold [operators](#operators-in-a-question)")]
Sync = Annotated[Literal["auto", "none", "full"], doc("`auto`, `none` or `full`; see [Promises](#promises)")]
Mode = Literal["hybrid", "text", "vector", "exact"]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Version = Count | None
Rows = Annotated[int, doc("at most this many, up to 1,000", ge=1, le=MAX_ROWS)]
Offset = Annotated[int, doc("skip this many, for the next page", ge=0, le=MAX_NUMBER)]


@dataclass_transform(kw_only_default=True)
class Request:
    """The parameters of one call, checked. Every subclass is a dataclass whose fields are given by name; one that names
    a `method` declares it, with its result and the facts of `Method`."""

    def __init_subclass__(cls, method: str = "", args: str = "", result: Any = None, **facts: bool) -> None:
        # Nobody compares or prints requests, and making the functions for it would take time at every start.
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        if method:
            facts.setdefault("slow", issubclass(cls, Progressing))
            METHODS[method] = Method(method, cls, result, tuple(args.split()), **facts)

    def __post_init__(self) -> None:
        """Check what types cannot say, such as whether a date exists."""
        for name in ("since", "until"):
            value = getattr(self, name, "")
            # Words for a time are read by the daemon, which knows them; a date that does not exist is none of them.
            if DATE.fullmatch(value) or not any(char.isalpha() for char in value) or WITH_TIME.fullmatch(value):
                check_date(name, value)
        since, until = getattr(self, "since", ""), getattr(self, "until", "")
        # "2026-02" takes in its days, so dates are compared as far as both go.
        if (since + until).replace("-", "").isdigit() and since[: len(until)] > until[: len(since)]:
            raise UsageError(f"`since` {since} is later than `until` {until}", "the range is empty: swap the dates")
        self.check()

    def check(self) -> None:
        """Refuse parameters that do not go together: for the methods themselves."""


class Scoped(Request):
    """About some workspaces: those that are named, else the one around `cwd`, else all."""

    ns: Annotated[Texts, unset("see `cwd`")] = ()
    """The workspaces, by name."""
    cwd: Annotated[str, place()] = ""
    """Without `ns`: the innermost workspace around this directory; outside of all of them, or without `cwd`, all."""


class Asking(Scoped):
    """A question: unless `ns` names workspaces, those that are shared answer along with the one around `cwd`."""


class InPath(Scoped):
    """Only what is in some files."""

    path: Annotated[str, unset("any")] = ""
    """A file, a folder, or a pattern such as `memory/2026-*`."""


class OfSort(InPath):
    """Only memories of one sort."""

    kind: Annotated[Kind | None, unset("any")] = None
    """Only this kind of memory."""
    tags: Annotated[Texts, unset("any")] = ()
    """Only memories that have all of these tags."""
    role: Annotated[str, unset("any")] = ""
    """`daily`, `memory`, `topic`, or a role file's name without its ending."""

    @property
    def filters(self) -> Filters:
        """As given; a handler takes `filters_of`, which reads words for a time."""
        given = {one.name: getattr(self, one.name, None) for one in fields(Filters)}
        return Filters(**{name: value for name, value in given.items() if value})


class Timed(Request):
    """Is asked, or happens, at a time of the caller's own clock."""

    now: Annotated[str, unset("the daemon's")] = ""
    """The caller's local time, `2026-02-07T14:27`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.local_time()

    def local_time(self) -> datetime:
        """The caller's local time, to the minute; the daemon's own where none is given."""
        try:
            time = datetime.fromisoformat(self.now) if self.now else datetime.now()
        except ValueError:
            raise UsageError(f"`now` must be a local time such as 2026-02-07T14:27, not {self.now!r}") from None
        return time.replace(second=0, microsecond=0, tzinfo=None)


class Filtered(OfSort, Timed):
    """Only memories that fit."""

    since: Annotated[str, unset("any")] = ""
    """`YYYY`, `YYYY-MM` or `YYYY-MM-DD`, or words such as `yesterday` or `last week`: notes of that time or later."""
    until: Annotated[str, unset("any")] = ""
    """The same: notes of that time or earlier."""
    tier: Annotated[Tier | Literal["pinned"] | None, unset("any")] = None
    """Only memories of this tier; `pinned`: those that never age."""


class AllTiers(Asking):
    """Looks at what is awake, unless asked for all."""

    all: bool = False
    """Also what rests (dormant memories, raw captures); otherwise that is left out unless it answers better."""


class Observed(Request):
    """Shows memories to someone, which counts as an access."""

    who: str = "socket"
    """Who is shown the answer: an access counts once per memory, client and hour."""
    observe: bool = True
    """`false`: no access is counted (a probe, a test)."""

    @property
    def observer(self) -> str:
        """Who sees the answer; empty when no access is to be counted."""
        return (self.who or "socket") if self.observe else ""


class Signed(Request):
    """Names an author."""

    who: str = "socket"
    """The author, as the history names them."""

    @property
    def author(self) -> str:
        """Who did it, also where no name is given."""
        return self.who or "socket"

    @property
    def changes(self) -> bool:
        """Whether it changes anything: some methods only look, as they are called."""
        return not getattr(self, "dry_run", False)


class OneWorkspace(Request):
    """About one workspace."""

    ns: Annotated[Texts, unset("see `cwd`")] = ()
    """The workspace, by name; it must be one."""
    cwd: Annotated[str, place()] = ""
    """Without `ns`: the innermost workspace around this directory; exactly one must be meant."""


class Numbered(Request):
    """Changes something; a repeated `request_id` is carried out once."""

    request_id: Annotated[str, Meta(max_length=MAX_ID), unset("none")] = ""
    """An id of your own; a call that repeats it is not carried out again."""


class Writing(OneWorkspace, Signed, Numbered):
    """Changes one workspace."""

    allow_secret: Annotated[bool, local()] = False
    """Write it even if it seems to hold a key, a token or a password."""


class Progressing(Request):
    """Tells how far it is while it runs."""

    progress: bool = False
    """Send notifications while it runs; see [Progress](#progress)."""


# --- results ------------------------------------------------------------------------------------------------------


class Shown(TypedDict):
    """Text of memories that someone is shown."""

    written_by: NotRequired[list[str]]
    """Who wrote some of it, where that was not only a person: `mcp:claude-code`, `hook:stop`, …."""


class NamedMemory(TypedDict):
    """A memory without its text: what it is called and where it stands."""

    key: str
    path: str
    start_line: int
    heading: str
    tier: str


class Fresh(TypedDict):
    """The fields of every result: how new it is and what is missing from it."""

    clock: str
    """`c:<ledger>:<number>`; the number grows with each change of the index."""
    lag_ms: float
    """How long the oldest change that is not yet searchable has waited."""
    pending: int
    """Files and vectors that are still to be made."""
    degraded: list[str]
    """Empty when all is well."""
    unheard: NotRequired[str]
    """Why meaning was not asked, where `vectors` is degraded and nothing is to be repaired."""


class AcrossWorkspaces(Fresh):
    """A result about one or several workspaces."""

    ns: list[str]


class WithinWorkspace(Fresh):
    """A result about one workspace, and where that is."""

    ns: str
    root: str


class Written(WithinWorkspace):
    """The result of everything that changes files."""

    action: int | None
    """The number by which it can be undone; None when nothing was written."""
    paths: list[str]
    conflicts: list[str]
    """Copies that were put aside because someone else wrote at the same moment."""
    repeated: bool
    """The same request had been carried out before."""
    key: str
    visible: str
    """The clock at which questions see it."""


# --- the registry -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the socket."""

    name: str
    request: type[Request]
    result: Any
    """A TypedDict of what is answered."""
    args: tuple[str, ...]
    """The parameters that clients and the command line take by position."""
    reads: bool = False
    """It changes nothing, so a client may send it twice."""
    for_bound: bool = False
    """It is about the daemon, and a connection bound to a workspace may call it too."""
    slow: bool = False
    """It may take minutes; so may everything that tells how far it is."""
    notifies: bool = False
    """Notifications follow its answer for as long as the connection lasts."""
    local: bool = False
    """It is left to callers on this machine, although it is about a workspace."""

    @property
    def sentence(self) -> str:
        return inspect.getdoc(self.request) or ""

    @property
    def python_name(self) -> str:
        """`edge.add` as the clients call it: `edge_add`."""
        return python_name(self.name.replace(".", "_"))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Their names on the wire."""
        return tuple(map(wire_name, self.request.__dataclass_fields__))  # type: ignore[attr-defined]

    @property
    def about_daemon(self) -> bool:
        """It is about the daemon or the list of workspaces, not about what a workspace holds."""
        return not issubclass(self.request, Scoped | OneWorkspace)

    @property
    def writes(self) -> bool:
        """It carries a `request_id`, so a repeated call is carried out once."""
        return "request_id" in self.parameters

    @property
    def signed(self) -> bool:
        """It names who writes, or who is shown the answer."""
        return issubclass(self.request, Signed | Observed)


METHODS: dict[str, Method] = {}
"""Every method by its name, in the order of the documentation."""


def check_date(name: str, value: str) -> None:
    """Refuse what is no day, month or year of the calendar."""
    with suppress(ValueError):
        if not value or (DATE.fullmatch(value) and datetime.strptime(value, DATE_FORMS[value.count("-")])):
            return
    raise UsageError(f"`{name}` must be a date such as 2026-02-15 or 2026-02, not {value!r}")


# --- parameters as plain values: for error messages, docs, options, flags and schemas --------------------------------

SHARED = ("ns", "cwd", "now", "sync", "who", "observe", "request_id", "allow_secret", "progress")
"""Parameters that many methods have; they come last wherever parameters are listed."""


@cache
def parameters_of(method: str) -> dict[str, Parameter]:
    """The parameters of a method by name: first those that are its own, positional ones before the others."""
    declared = METHODS[method]
    docs = {wire_name(name): _inline(text) for name, text in docs_of(declared.request).items()}
    found = {name: replace(one, about=docs.get(name) or one.about) for name, one in fields_of(declared.request).items()}
    first = [wire_name(name) for name in declared.args]
    order = [*first, *(name for name in found if name not in (*first, *SHARED)), *(n for n in SHARED if n in found)]
    return {name: found[name] for name in order}


def _inline(text: str) -> str:
    """A docstring for tables and options, which go on in the middle of a line: no capital, no full stop."""
    plain = text.removesuffix(".")
    return plain if plain[1:2].isupper() else plain[0].lower() + plain[1:]


def parse(method: Method, params: dict[str, Any]) -> Any:
    """The request that a call makes; UsageError says which parameter is wrong and what it must be."""
    known = parameters_of(method.name)
    for name, value in params.items():
        if name not in known:
            raise UsageError(f"`{method.name}` has no parameter `{name}`{did_you_mean(name, sorted(known))}")
        if not known[name].place and not is_unicode(value):
            raise UsageError(f"`{name}` is not valid Unicode")
    # A caller may give a single text where a list is asked for.
    listed = {name: [one] if known[name].is_list and isinstance(one, str) else one for name, one in params.items()}
    given = {known[name].python_name: value for name, value in listed.items() if value is not None}
    try:
        return msgspec.convert(given, method.request)
    except msgspec.ValidationError:
        # One parameter at a time, to say which is wrong; it would take too long for every call.
        checked(method.name, known, listed)
        raise


# --- signatures and help of the clients' methods --------------------------------------------------------------


@cache
def _client_stub() -> Any:
    """The methods of a client as type checkers see them."""
    return runpy.run_path(str(Path(__file__).parents[1] / "remote_methods.pyi"))["RemoteMethods"]


def signature(method: str) -> inspect.Signature:
    """The signature of a client's method, as `help()` shows it."""
    return inspect.signature(getattr(_client_stub(), METHODS[method].python_name))


def client_parameters(method: str) -> list[Parameter]:
    """The parameters of a client's method; progress is a callback there."""
    return [one for one in parameters_of(method).values() if one.name != "progress"]


def help_text(method: str) -> str:
    """The method's sentence and a line for each parameter."""
    lines = [f"`{one.python_name}`: {one.about}" for one in client_parameters(method)]
    return "\n".join([METHODS[method].sentence, *([""] if lines else []), *lines])
