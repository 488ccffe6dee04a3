"""Python sources: the types in an annotation, and a source that the grammar cannot parse, rewritten."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache

CONTINUED = re.compile(r"\\\r?\n")
ESCAPE = re.compile(r"\\.", re.DOTALL)
MAX_NESTED = 8
"""How deep strings within strings are followed."""
PARTS = (ast.Tuple, ast.List, ast.Starred)
"""Nodes that group types: arguments of a generic or of a callable."""


def repair(source: bytes) -> bytes:
    """The source with lines inside brackets indented: the grammar ends a block at one that is indented too little."""
    lines, within, depth, last = source.splitlines(keepends=True), set(), 0, 0
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if depth and token.start[0] > last:
                within.add(token.start[0] - 1)
            last = max(last, token.end[0])
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except (tokenize.TokenError, SyntaxError):
        return source
    return b"".join(b" " * 80 + line if nth in within else line for nth, line in enumerate(lines))


# --- annotations --------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def annotation_types(text: str) -> tuple[str, ...] | None:
    """The names of types in an annotation, dotted, each once; None if it is no expression, such as `T: int`.

    Its strings are types only where Python would read them as such.
    """
    # An escape is never part of a type, and the parser warns about unknown ones.
    plain = ESCAPE.sub("$", CONTINUED.sub(" ", text))
    try:
        root = _parsed(plain.strip().lstrip("*"))
        return None if root is None else tuple(dict.fromkeys(_named(root, MAX_NESTED)))
    except RecursionError:
        return None


def _parsed(text: str) -> ast.expr | None:
    try:
        # In brackets, since an annotation may span lines.
        return ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return None


def _named(node: ast.AST, strings: int) -> Iterator[str]:
    """The names below a node; `strings` is how deep strings count as types (0: not at all)."""
    if isinstance(node, ast.Constant):
        yield from _of_constant(node.value, strings)
    elif name := _dotted(node):
        yield name
    elif isinstance(node, ast.Subscript):
        yield from _of_generic(node, strings)
    elif isinstance(node, PARTS) or _is_union(node):
        for child in ast.iter_child_nodes(node):
            yield from _named(child, strings)
    elif not isinstance(node, (ast.Lambda, ast.JoinedStr)):
        # `conlist(Item, title="Save")`: names may be types, but strings are just strings.
        for child in ast.iter_child_nodes(node):
            yield from _named(child, 0)


def _of_constant(value: object, strings: int) -> Iterator[str]:
    if value is None:
        yield "None"
    elif isinstance(value, str) and strings:
        inner = _parsed(value.strip())
        # Prose can parse as an expression too: `Save, or not`.
        if inner is not None and (_dotted(inner) or isinstance(inner, ast.Subscript) or _is_union(inner)):
            yield from _named(inner, strings - 1)


def _of_generic(node: ast.Subscript, strings: int) -> Iterator[str]:
    yield from _named(node.value, 0)
    called, inside = _dotted(node.value).rpartition(".")[2], node.slice
    if called == "Annotated" and isinstance(inside, ast.Tuple) and inside.elts:
        # Only the first argument is a type.
        yield from _named(inside.elts[0], strings)
    else:
        yield from _named(inside, 0 if called == "Literal" else strings)


def _is_union(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _dotted(node: ast.AST) -> str:
    """`a.b.C`; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""
