"""What the methods take by name, as types; for type checkers and readers, never loaded by `memd query`.

docs/protocol.md says what each means. None is the same as leaving it out.
"""

from typing import TypedDict


class Around(TypedDict, total=False):
    """Which workspace is meant: the one around a directory."""

    cwd: str | None


class Where(Around, total=False):
    """Or the one of a name."""

    ns: str | list[str] | None


class Filters(TypedDict, total=False):
    """Which memories count."""

    cwd: str | None
    kind: str | None
    tags: str | list[str] | None
    role: str | None
    path: str | None
    since: str | None
    until: str | None
    tier: str | None


class Seeing(TypedDict, total=False):
    """Who is shown the answer, and whether that counts."""

    who: str | None
    observe: bool | None


class Question(Filters, Seeing, total=False):
    """How a question is answered."""

    as_of: str | None
    sync: str | None
    explain: bool | None
    marks: bool | None


class Task(Filters, Seeing, total=False):
    """What is gathered for a task."""

    min_score: float | None
    min_spread: float | None
    sync: str | None


class Passage(Filters, total=False):
    """How the question was asked for which a passage did not come up."""

    limit: int | None
    mode: str | None
    explain: bool | None
    marks: bool | None


class Page(Filters, total=False):
    """A page of a list."""

    offset: int | None


class Ranking(Page, total=False):
    """A page of ranked entries."""

    sync: str | None


class Sorting(Page, total=False):
    """A page of memories in some order."""

    sort: str | None


class Grepping(TypedDict, total=False):
    """Where a pattern is looked for, and how."""

    cwd: str | None
    path: str | None
    regex: bool | None
    case: bool | None
    context: int | None
    max_results: int | None
    after: str | None


class Waiting(TypedDict, total=False):
    """What a subscription waits for."""

    cwd: str | None
    kind: str | None
    tags: str | list[str] | None
    role: str | None
    path: str | None
    match: str | None
    marks: bool | None


class Exam(TypedDict, total=False):
    """How questions are asked in an exam."""

    mode: str | None
    limit: int | None
    cwd: str | None


class Signed(TypedDict, total=False):
    """Who writes, and where."""

    ns: str | None
    cwd: str | None
    who: str | None
    request_id: str | None
    allow_secret: bool | None


class Noted(Signed, total=False):
    """And when, by the writer's clock: 2026-02-07T14:27."""

    now: str | None


class Saving(Noted, total=False):
    """And what it is about."""

    tags: str | list[str] | None


class Declared(Saving, total=False):
    """What a memory declares of itself."""

    kind: str | None
    priority: str | None
    importance: float | None
    pinned: bool | None
    ttl: str | None
    tier: str | None
    files: str | list[str] | None
    on_similar: str | None


class Carried(TypedDict, total=False):
    """How an export or another tool's memory is taken in."""

    cwd: str | None
    dry_run: bool | None
    overwrite: bool | None
    allow_secret: bool | None
    request_id: str | None


class Reading(TypedDict, total=False):
    """Where a role's file is, and when it is read."""

    ns: str | None
    cwd: str | None
    now: str | None


class Collecting(Where, total=False):
    """What has run out, and whether to do more than list it."""

    dry_run: bool | None


class Looking(Around, total=False):
    """Where to look, and how much of it to tell."""

    limit: int | None


class Trashed(Looking, total=False):
    """Which part of what is gone."""


class Reflecting(Around, total=False):
    """Whose memories age, and who has it done."""

    who: str | None


class Days(Where, total=False):
    """How many days."""

    limit: int | None


class Leaves(Days, total=False):
    """A page of the tree."""

    offset: int | None


class Strong(Where, total=False):
    """Which edges count, and how many."""

    min_weight: float | None
    limit: int | None


class Grouping(Where, total=False):
    """What makes a group: so many memories, held together so strongly."""

    min: int | None
    min_weight: float | None


class Outlining(Around, total=False):
    """What of the source code, and how it is told."""

    ns: str | None
    symbol: str | None
    file: str | None
    language: str | None
    depth: int | None
    relations: str | list[str] | None
    omit_native: bool | None
    format: str | None
    budget: int | None


class Logged(TypedDict, total=False):
    """Which entries of the log."""

    who: str | None
    what: str | None
    since: str | None
    key: str | None
    limit: int | None
    cwd: str | None
