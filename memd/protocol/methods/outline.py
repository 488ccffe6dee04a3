"""The source code around the notes: `outline.symbol`, `outline.file`, `outline.project` and `outline.map`."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from memd.protocol.methods import base

LANGUAGES = "`python`, `go`, `javascript`, `typescript`, `rust`, `java`, `c`, `cpp`"


class SkippedSource(TypedDict):
    """A source that was not read, or not wholly."""

    path: str
    """Of a source that was not read, or not wholly."""
    why: str
    """The reason, in words."""


class OutlineResult(base.WithinWorkspace):
    """The answer of the outline's methods."""

    skipped: list[SkippedSource]
    took_ms: float
    language: NotRequired[str]
    format: NotRequired[str]
    """`text` or `json`, of a tree."""
    text: NotRequired[str]
    """A tree, or the map; not where the format is json."""
    symbols: NotRequired[list[dict[str, Any]]]
    """The symbols of a tree in json, as docs/outline.md has it; always those of the map."""
    tokens: NotRequired[int]
    """What the map takes."""
    left_out: NotRequired[int]
    """Symbols for which the budget did not suffice."""
    languages: NotRequired[dict[str, int]]
    """How many files there are in each."""


class OutlineTree(base.OneWorkspace, base.Progressing):
    """The parameters of the methods that return a tree."""

    language: Annotated[str, base.doc(LANGUAGES, unset="the only one there is")] = ""
    depth: Annotated[int, base.between(1, 8)] = 2
    """How many relations are followed one after the other, 1 to 8."""
    relations: Annotated[base.Texts, base.unset("all")] = ()
    """Only these: `contains`, `calls`, `called_by`, `imports`, `imported_by`, `inherits`, `inherited_by`,
    `implements`, `uses_type`, `decorates`, `mentioned_in`."""
    omit_native: bool = False
    """Leave out what comes with the language."""
    format: Literal["text", "json"] = "text"
    """`text`, a tree in `text`; `json`, the same in `symbols`, whole."""


class OutlineSymbolRequest(OutlineTree, method="outline.symbol", args="symbol", result=OutlineResult, reads=True):
    """Returns how a symbol of the source code relates to the others."""

    symbol: base.Text
    """The whole name, or any end of it that only one symbol has."""
    file: Annotated[str, base.unset("any")] = ""
    """Only in this file, relative to the workspace or to `cwd`."""


class OutlineFileRequest(OutlineTree, method="outline.file", args="file", result=OutlineResult, reads=True):
    """Returns the same for every symbol of a source file."""

    file: base.Text
    """Relative to the workspace or to `cwd`."""


class OutlineProjectRequest(OutlineTree, method="outline.project", result=OutlineResult, reads=True):
    """Returns the same for every symbol of a language."""


class OutlineMapRequest(base.OneWorkspace, base.Progressing, method="outline.map", result=OutlineResult, reads=True):
    """Returns the most important symbols of the source code, within a budget of tokens."""

    language: Annotated[str, base.doc(LANGUAGES, unset="all")] = ""
    budget: Annotated[int, base.between(1, base.MAX_TOKENS)] = 1_000
    """Tokens, 1 to 200,000."""
