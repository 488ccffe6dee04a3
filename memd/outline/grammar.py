"""Parses sources with tree-sitter and returns the captures of the language's query as plain values."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memd import installation
from memd.errors import Refused
from memd.outline.languages import ImportedName, Language, rust_imports

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

QUERIES = Path(__file__).parent / "captures"
BLANKS = re.compile(r"\\?\s+")
SIGNATURE = 200
"""Characters kept of a signature."""


class NodeSpan(NamedTuple):
    """A captured node: bytes from `start` to `end`, its lines, its text."""

    start: int
    end: int
    line: int
    end_line: int
    text: str


class Definition(NamedTuple):
    """A definition; of the kind `impl`, a block whose functions belong to `owner`."""

    kind: str
    name: str
    node: NodeSpan
    body: NodeSpan | None
    owner: str


class Binding(NamedTuple):
    """A name that gets a value; `how` is empty, `part`, `outer` or `global`."""

    how: str
    name: str
    start: int
    type: str


class Import(NamedTuple):
    """The imports of a statement, in the order of the query's patterns; `start` and `line` are the statement's."""

    start: int
    pattern: int
    place: int
    line: int
    names: list[ImportedName]


class Captures(NamedTuple):
    """Everything that the query captured in one file."""

    definitions: list[Definition]
    references: list[tuple[str, NodeSpan]]
    bindings: list[Binding]
    scopes: list[NodeSpan]
    imports: list[Import]
    package: str
    error_line: int
    """The line of the first syntax error; 0 for none."""


def require(language: Language) -> None:
    """Raise Refused, with what to install, if a language cannot be parsed."""
    for suffix in language.grammars:
        _tools(language, suffix)


@cache
def _tools(language: Language, suffix: str) -> tuple[Parser, Query]:
    """The parser and the compiled query; tree-sitter is imported with the first file."""
    package, function = language.grammars[suffix]
    try:
        import tree_sitter

        grammar = tree_sitter.Language(getattr(importlib.import_module(package), function)())
    except ImportError as error:
        how = f"install what it needs: {installation.extra('outline')}; then: memd restart"
        raise Refused(f"the outline of {language.name} needs {error.name}, which is not installed", how) from None
    query = "\n".join((QUERIES / f"{name}.scm").read_text(encoding="utf-8") for name in language.queries)
    return tree_sitter.Parser(grammar), tree_sitter.Query(grammar, query)


def capture(language: Language, suffix: str, source: bytes) -> Captures:
    """Parse UTF-8 bytes and collect what the query captures."""
    parser, query = _tools(language, suffix)
    import tree_sitter

    root = parser.parse(source).root_node
    captures = Captures([], [], [], [], [], "", _first_error(root) if root.has_error else 0)
    for pattern, captured in tree_sitter.QueryCursor(query).matches(root):
        nodes = {name: nodes[0] for name, nodes in captured.items()}
        if "package" in nodes:
            captures = captures._replace(package=_text(source, nodes["package"]))
        elif "import" in nodes:
            captures.imports.append(_import(source, nodes, pattern, query.pattern_settings(pattern)))
        else:
            _collect(captures, source, nodes)
    return captures._replace(imports=sorted(captures.imports))


def _import(source: bytes, nodes: dict[str, Node], pattern: int, settings: dict[str, str | None]) -> Import:
    statement, parts = nodes["import"], {name: setting or "" for name, setting in settings.items()}
    for name, node in nodes.items():
        text = _text(source, node)
        parts[name] = text if "string" in node.type else BLANKS.sub("", text)
    if "tree" in nodes:
        names = list(rust_imports(_text(source, nodes["tree"])))
    else:
        names = [ImportedName(parts.get("module", ""), parts.get("name", ""), parts.get("alias", ""))]
    place = next(nodes[name].start_byte for name in ("name", "alias", "module", "tree") if name in nodes)
    return Import(statement.start_byte, pattern, place, statement.start_point[0] + 1, names)


def _collect(captures: Captures, source: bytes, captured: dict[str, Node]) -> None:
    """Add one match of the query."""

    def text(capture: str) -> str:
        return _text(source, captured[capture]) if capture in captured else ""

    for name, node in captured.items():
        what, _, rest = name.partition(".")
        if what in ("def", "impl"):
            body = captured.get("body")
            body_span = _span(source, body) if body is not None else None
            span = _span(source, node, body)
            captures.definitions.append(Definition(rest or what, text("name"), span, body_span, text("owner")))
        elif what == "ref":
            span = _name(source, node)
            if "head" in captured:
                span = span._replace(text=f"{_name(source, captured['head']).text}.{text('tail')}")
            captures.references.append((rest, span))
        elif what == "types":
            captures.references.append((what, _span(source, node, whole=True)))
        elif what == "bind":
            captures.bindings.append(Binding(rest, _text(source, node), node.start_byte, text("type")))
        elif what == "scope":
            captures.scopes.append(_span(source, node))


def _text(source: bytes, node: Node) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _span(source: bytes, node: Node, body: Node | None = None, whole: bool = False) -> NodeSpan:
    """A node with its text up to the body; unless `whole`, a long text is cut."""
    start, end = node.start_byte, node.end_byte
    upto = body.start_byte if body is not None else end
    text = source[start : upto if whole else min(upto, start + 4 * SIGNATURE)].decode("utf-8", "replace")
    return NodeSpan(start, end, node.start_point[0] + 1, node.end_point[0] + 1, text)


def _name(source: bytes, node: Node) -> NodeSpan:
    """A name; of a long chain of calls only the last part."""
    start, end = node.start_byte, node.end_byte
    text = source[max(start, end - SIGNATURE) : end].decode("utf-8", "replace")
    shown = text if end - start <= SIGNATURE else f"?{text}"
    return NodeSpan(start, end, node.start_point[0] + 1, node.end_point[0] + 1, shown)


def _first_error(root: Node) -> int:
    """The line of the first node that is an error or missing."""
    node = root
    while True:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None or inner.is_error or inner.is_missing:
            return int((inner or node).start_point[0]) + 1
        node = inner
