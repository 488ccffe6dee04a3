"""Parses sources with tree-sitter and tells, as plain values, what the language's query found."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from memd.errors import Refused
from memd.outline.language import Language

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

INSTALL = "install what it needs: pip install 'memd[outline]', then: memd restart"
SIGNATURE = 200
"""Characters of a signature that are kept."""


class Span(NamedTuple):
    """A node that was captured: bytes from `start` to `end`, and its lines."""

    start: int
    end: int
    line: int
    end_line: int
    text: str


class Definition(NamedTuple):
    """A definition, or for the kind `impl` a block whose parts belong to `owner`."""

    kind: str
    name: str
    node: Span
    body: Span | None
    owner: str


class Binding(NamedTuple):
    """A name that is given a value; `how` is empty, `outer` or `global`."""

    how: str
    name: str
    start: int
    type: str


class Findings(NamedTuple):
    """Everything that the query found in one file."""

    definitions: list[Definition]
    references: list[tuple[str, Span]]
    bindings: list[Binding]
    scopes: list[Span]
    imports: list[Span]
    package: str
    broken: int
    """The line of the first thing that could not be parsed; 0 for none."""


def require(language: Language) -> None:
    """Refused, with what to install, where a language cannot be parsed."""
    for suffix in language.grammars:
        _tools(language, suffix)


@cache
def _tools(language: Language, suffix: str) -> tuple[Parser, Query]:
    """The parser and the compiled query; tree-sitter is loaded when the first file is parsed, and not before."""
    package, function = language.grammars[suffix]
    try:
        import tree_sitter

        grammar = tree_sitter.Language(getattr(importlib.import_module(package), function)())
    except ImportError as error:
        raise Refused(f"the outline of {language.name} needs {error.name}, which is not installed", INSTALL) from None
    return tree_sitter.Parser(grammar), tree_sitter.Query(grammar, language.query)


def find(language: Language, suffix: str, source: bytes) -> Findings:
    """Parse UTF-8 bytes and gather what the query captured."""
    parser, query = _tools(language, suffix)
    import tree_sitter

    root = parser.parse(source).root_node
    found = Findings([], [], [], [], [], "", _first_error(root) if root.has_error else 0)
    package = ""
    for _, captured in tree_sitter.QueryCursor(query).matches(root):
        if "package" in captured:
            package = _text(source, captured["package"][0])
        else:
            _sort(found, source, {name: nodes[0] for name, nodes in captured.items()})
    return found._replace(package=package)


def _sort(found: Findings, source: bytes, captured: dict[str, Node]) -> None:
    """Put one match where it belongs."""
    for capture, node in captured.items():
        what, _, rest = capture.partition(".")
        if what in ("def", "impl"):
            body = captured.get("body")
            found.definitions.append(
                Definition(
                    rest or what,
                    _text(source, captured["name"]) if "name" in captured else "",
                    _span(source, node, body),
                    _span(source, body) if body is not None else None,
                    _text(source, captured["owner"]) if "owner" in captured else "",
                )
            )
        elif what == "ref":
            span = _tail(source, node)
            if "head" in captured:
                span = span._replace(text=f"{_tail(source, captured['head']).text}.{_text(source, captured['tail'])}")
            found.references.append((rest, span))
        elif what == "types":
            found.references.append((what, _span(source, node, whole=True)))
        elif what == "bind":
            kind = _text(source, captured["type"]) if "type" in captured else ""
            found.bindings.append(Binding(rest, _text(source, node), node.start_byte, kind))
        elif what == "scope":
            found.scopes.append(_span(source, node))
        elif what == "import":
            found.imports.append(_span(source, node, whole=True))


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _span(source: bytes, node: Node, body: Node | None = None, whole: bool = False) -> Span:
    """A node's place, with its text up to its body; long texts are cut."""
    start, end = node.start_byte, node.end_byte
    upto = body.start_byte if body is not None else end
    text = source[start : upto if whole else min(upto, start + 4 * SIGNATURE)].decode("utf-8", "replace")
    return Span(start, end, node.start_point[0] + 1, node.end_point[0] + 1, text)


def _tail(source: bytes, node: Node) -> Span:
    """A name; of a long chain of calls only the last part is one."""
    start, end = node.start_byte, node.end_byte
    text = source[max(start, end - SIGNATURE) : end].decode("utf-8", "replace")
    return Span(
        start, end, node.start_point[0] + 1, node.end_point[0] + 1, text if end - start <= SIGNATURE else f"?{text}"
    )


def _first_error(root: Node) -> int:
    """The line of the first node that is an error or missing."""
    node = root
    while True:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None or inner.is_error or inner.is_missing:
            return int((inner or node).start_point[0]) + 1
        node = inner
