"""The types that a Python annotation names; its strings are types only where Python would read them as such."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

CONTINUED = re.compile(r"\\\r?\n")
ESCAPE = re.compile(r"\\.", re.DOTALL)
NESTED = 8
"""Strings within strings that are followed."""
PARTS = (ast.Tuple, ast.List, ast.Starred)
"""What may stand around types: arguments of a generic, and those of a callable."""


@lru_cache(maxsize=4_096)
def types(text: str) -> tuple[str, ...] | None:
    """The names of types in an annotation, each once and dotted; None for what is no expression, as `T: int`."""
    # An escape is never part of a type, and an unknown one would make the parser warn.
    plain = ESCAPE.sub("$", CONTINUED.sub(" ", text))
    try:
        root = _parsed(plain.strip().lstrip("*"))
        return None if root is None else tuple(dict.fromkeys(_named(root, NESTED)))
    except RecursionError:
        return None


def _parsed(text: str) -> ast.expr | None:
    try:
        # Brackets, because lines end within an annotation as they like.
        return ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        return None


def _named(node: ast.AST, strings: int) -> Iterator[str]:
    """The names below a node; `strings` says how deep strings count as types, 0 for not at all."""
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
        # As in `conlist(Item, title="Save")`: names may be types, but the words of a call are words.
        for child in ast.iter_child_nodes(node):
            yield from _named(child, 0)


def _of_constant(value: object, strings: int) -> Iterator[str]:
    if value is None:
        yield "None"
    elif isinstance(value, str) and strings:
        inner = _parsed(value.strip())
        # Prose can be an expression too: `Save, or not`.
        if inner is not None and (_dotted(inner) or isinstance(inner, ast.Subscript) or _is_union(inner)):
            yield from _named(inner, strings - 1)


def _of_generic(node: ast.Subscript, strings: int) -> Iterator[str]:
    yield from _named(node.value, 0)
    called, inside = _dotted(node.value).rpartition(".")[2], node.slice
    if called == "Annotated" and isinstance(inside, ast.Tuple) and inside.elts:
        # What follows the type is for whoever reads it at run time.
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
