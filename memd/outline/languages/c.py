"""C."""

from __future__ import annotations

from memd.outline import clike
from memd.outline.language import Language

QUERY = (
    clike.COMMON
    + """
(function_definition declarator: (function_declarator declarator: (identifier) @name) body: (_) @body) @def.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
  body: (_) @body) @def.function
"""
)

TABLE = Language(
    name="c",
    aliases=("h",),
    family="clike",
    grammars={".c": ("tree_sitter_c", "language"), ".h": ("tree_sitter_c", "language")},
    query=QUERY,
    imports=clike.imports,
    parts=clike.parts,
    absolute=clike.absolute,
    builtins=clike.BUILTINS,
    native=clike.native,
    sees_imports=True,
    names_module=clike.called,
)
