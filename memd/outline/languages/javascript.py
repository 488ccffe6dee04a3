"""JavaScript."""

from __future__ import annotations

from memd.outline import ecmascript
from memd.outline.language import Language

QUERY = (
    ecmascript.COMMON
    + """
(class_declaration name: (identifier) @name body: (_) @body) @def.class
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @def.class
(class_heritage [(identifier) (member_expression)] @ref.inherits)
(formal_parameters (identifier) @bind)
(assignment_pattern left: (identifier) @bind)
(decorator [(identifier) (member_expression)] @ref.decorates)
(decorator (call_expression function: [(identifier) (member_expression)] @ref.decorates))
"""
)
GRAMMAR = ("tree_sitter_javascript", "language")

TABLE = Language(
    name="javascript",
    aliases=("js", "jsx", "node"),
    family="ecmascript",
    grammars={".js": GRAMMAR, ".jsx": GRAMMAR, ".mjs": GRAMMAR, ".cjs": GRAMMAR},
    query=QUERY,
    imports=ecmascript.imports,
    parts=ecmascript.parts,
    absolute=ecmascript.absolute,
    selves=frozenset({"this"}),
    supers=frozenset({"super"}),
    builtins=ecmascript.BUILTINS,
    methods=ecmascript.METHODS,
    native=ecmascript.native,
    names_module=ecmascript.called,
)
