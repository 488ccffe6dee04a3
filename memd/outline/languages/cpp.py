"""C++."""

from __future__ import annotations

import re

from memd.outline import clike
from memd.outline.language import Language

QUERY = (
    clike.COMMON
    + """
(class_specifier name: (type_identifier) @name body: (_) @body) @def.class
(namespace_definition name: (namespace_identifier) @name body: (_) @body) @def.module
(alias_declaration name: (type_identifier) @name) @def.type
(function_definition declarator: (function_declarator
  declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name) body: (_) @body) @def.function
(function_definition declarator: (pointer_declarator (function_declarator
  declarator: [(identifier) (field_identifier)] @name)) body: (_) @body) @def.function
(function_definition declarator: (reference_declarator (function_declarator
  declarator: [(identifier) (field_identifier) (operator_name)] @name)) body: (_) @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: [(identifier) (destructor_name) (operator_name)] @name)) body: (_) @body) @def.function
(function_definition declarator: (pointer_declarator (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (identifier) @name))) body: (_) @body) @def.function
(function_definition declarator: (reference_declarator (function_declarator declarator: (qualified_identifier
  scope: (_) @owner name: (identifier) @name))) body: (_) @body) @def.function

(base_class_clause [(type_identifier) (qualified_identifier)] @ref.inherits)
(base_class_clause (template_type name: (type_identifier) @ref.inherits))
(call_expression function: (qualified_identifier) @ref.calls)
(call_expression function: (template_function name: (identifier) @ref.calls))
(new_expression type: [(type_identifier) (qualified_identifier)] @ref.calls)
(lambda_expression) @scope
"""
)
GRAMMAR = ("tree_sitter_cpp", "language")
ENDINGS = (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".ipp", ".inl", ".h")
METHODS = frozenset("""
append at back begin c_str clear count data emplace emplace_back empty end erase find first front get insert join
length lock pop_back push_back reserve reset resize second size str substr unlock
""".split())  # fmt: skip
BUILTINS = frozenset("""
static_cast dynamic_cast const_cast reinterpret_cast std string vector map unordered_map set unique_ptr shared_ptr
make_unique make_shared move forward pair tuple optional function cout cerr endl
""".split())  # fmt: skip

TABLE = Language(
    name="cpp",
    aliases=("c++", "cxx", "cc"),
    family="clike",
    grammars=dict.fromkeys(ENDINGS, GRAMMAR),
    query=QUERY,
    imports=clike.imports,
    parts=clike.parts,
    absolute=clike.absolute,
    separator="::",
    selves=frozenset({"this"}),
    builtins=clike.BUILTINS | BUILTINS,
    methods=METHODS,
    native=lambda parts: clike.native(parts) or parts[:1] == ("std",),
    sees_imports=True,
    open_classes=True,
    names_module=clike.called,
    sniff=re.compile(rb"^\s*(?:class\s+\w+[^;()]*\{|namespace\b|template\s*<|public:|private:|using\s)", re.MULTILINE),
)
