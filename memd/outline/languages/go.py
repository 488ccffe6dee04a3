"""Go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.language import Imported, Language, Parts

QUERY = """
(package_clause (package_identifier) @package)
(function_declaration name: (identifier) @name body: (block)? @body) @def.function
(method_declaration
  receiver: (parameter_list (parameter_declaration
    type: [(type_identifier) (pointer_type) (generic_type)] @owner))
  name: (field_identifier) @name body: (block)? @body) @def.function
(method_declaration receiver: (parameter_list (parameter_declaration
  name: (identifier) @bind type: [(type_identifier) @type (pointer_type (type_identifier) @type)])))
(type_spec name: (type_identifier) @name type: (interface_type) @body) @def.interface
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.class
(type_spec name: (type_identifier) @name
  type: [(type_identifier) (qualified_type) (pointer_type) (slice_type) (array_type) (map_type) (channel_type)
         (function_type) (generic_type) (parenthesized_type)]) @def.type
(type_alias name: (type_identifier) @name) @def.type
(const_spec name: (identifier) @name) @def.constant
(interface_type (method_elem name: (field_identifier) @name) @def.function)

(call_expression function: [(identifier) (selector_expression)] @ref.calls)
(struct_type (field_declaration_list
  (field_declaration !name type: [(type_identifier) (qualified_type)] @ref.inherits)))
(struct_type (field_declaration_list
  (field_declaration !name type: (pointer_type [(type_identifier) (qualified_type)] @ref.inherits))))
(interface_type (type_elem [(type_identifier) (qualified_type)] @ref.inherits))
(type_identifier) @ref.uses_type
(qualified_type) @ref.uses_type

[(func_literal) (block)] @scope
(parameter_declaration name: (identifier) @bind)
(parameter_declaration name: (identifier) @bind type: [(type_identifier) @type (qualified_type) @type
  (pointer_type [(type_identifier) (qualified_type)] @type)])
(short_var_declaration left: (expression_list (identifier) @bind))
(short_var_declaration left: (expression_list . (identifier) @bind)
  right: (expression_list . [(composite_literal type: [(type_identifier) (qualified_type)] @type)
    (unary_expression operand: (composite_literal type: [(type_identifier) (qualified_type)] @type))]))
(var_spec name: (identifier) @bind)
(var_spec name: (identifier) @bind type: [(type_identifier) @type (qualified_type) @type
  (pointer_type [(type_identifier) (qualified_type)] @type)])
(range_clause left: (expression_list (identifier) @bind))

(import_spec) @import
"""

SPEC = re.compile(r"""(?:(?P<alias>[\w.]+)\s+)?["`](?P<path>[^"`]+)["`]""")
BUILTINS = """
append cap clear close complex copy delete imag len make max min new panic print println real recover any bool byte
comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32
uint64 uintptr true false iota nil
""".split()
METHODS = "Error String Lock Unlock RLock RUnlock Done Add Wait Close Read Write Len Less Swap".split()


def imports(statement: str) -> Iterator[Imported]:
    if found := SPEC.search(statement):
        alias = found["alias"] or ""
        yield Imported(found["path"], "*" if alias == "." else "", "" if alias == "." else alias)


def parts(path: str, package: str) -> Parts:
    """A package is a folder; the one at the root has only its clause."""
    return PurePosixPath(path).parent.parts or (package,)


def absolute(module: str, path: str, package: str) -> Parts:
    return tuple(module.split("/"))


def native(parts: Parts) -> bool:
    """The first part of a path from elsewhere is a host, with a dot."""
    return bool(parts) and "." not in parts[0]


def called(module: str) -> str:
    """The last part that is no version."""
    named = [part for part in module.split("/") if not re.fullmatch(r"v\d+", part)]
    return (named or [module])[-1].partition(".")[0].replace("-", "")


TABLE = Language(
    name="go",
    aliases=("golang",),
    grammars={".go": ("tree_sitter_go", "language")},
    query=QUERY,
    imports=imports,
    parts=parts,
    absolute=absolute,
    builtins=frozenset(BUILTINS),
    methods=frozenset(METHODS),
    native=native,
    names_module=called,
    sees_package=True,
    named_by_package=True,
    pointer=True,
)
