"""Rust."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.language import Imported, Language, Parts

QUERY = """
(struct_item name: (type_identifier) @name body: (_)? @body) @def.class
(enum_item name: (type_identifier) @name body: (_) @body) @def.class
(union_item name: (type_identifier) @name body: (_) @body) @def.class
(trait_item name: (type_identifier) @name body: (_) @body) @def.interface
(type_item name: (type_identifier) @name) @def.type
(function_item name: (identifier) @name body: (_) @body) @def.function
(function_signature_item name: (identifier) @name) @def.function
(macro_definition name: (identifier) @name) @def.function
(const_item name: (identifier) @name) @def.constant
(static_item name: (identifier) @name) @def.constant
(mod_item name: (identifier) @name body: (_) @body) @def.module
(impl_item type: (_) @owner body: (_) @body) @impl

(impl_item trait: [(type_identifier) (scoped_type_identifier)] @ref.implements)
(impl_item trait: (generic_type type: [(type_identifier) (scoped_type_identifier)] @ref.implements))
(trait_bounds [(type_identifier) (scoped_type_identifier)] @ref.inherits)
(call_expression function: [(identifier) (scoped_identifier) (field_expression)] @ref.calls)
(call_expression
  function: (generic_function function: [(identifier) (scoped_identifier) (field_expression)] @ref.calls))
(macro_invocation macro: [(identifier) (scoped_identifier)] @ref.calls)
(struct_expression name: [(type_identifier) (scoped_type_identifier)] @ref.calls)
(attribute [(identifier) (scoped_identifier)] @ref.decorates)
(type_identifier) @ref.uses_type

[(closure_expression) (block) (match_arm)] @scope
(parameter pattern: (identifier) @bind)
(parameter pattern: (identifier) @bind type: [(type_identifier) @type (reference_type type: (type_identifier) @type)])
(let_declaration pattern: (identifier) @bind)
(let_declaration pattern: (identifier) @bind type: (type_identifier) @type)
(let_declaration pattern: (identifier) @bind value: (struct_expression name: (type_identifier) @type))
(let_declaration pattern: (identifier) @bind
  value: (call_expression function: (scoped_identifier path: (identifier) @type (#match? @type "^[A-Z]"))))
(tuple_pattern (identifier) @bind)
(closure_parameters (identifier) @bind)
(for_expression pattern: (identifier) @bind)
(match_pattern (identifier) @bind)
(tuple_struct_pattern type: (_) (identifier) @bind)

(use_declaration) @import
(mod_item !body) @import
"""

BUILTINS = frozenset("""
Box Clone Copy Debug Default Drop Eq Err Fn FnMut FnOnce From Into IntoIterator Iterator None Ok Option Ord PartialEq
PartialOrd Result Self Send Sized Some String Sync ToOwned ToString Vec assert assert_eq assert_ne bool char cfg
column compile_error concat dbg debug_assert debug_assert_eq drop env eprint eprintln f32 f64 file format format_args
i128 i16 i32 i64 i8 include include_bytes include_str isize line matches module_path option_env panic print println
str stringify test todo u128 u16 u32 u64 u8 unimplemented unreachable usize vec write writeln derive allow inline std
core alloc
""".split())  # fmt: skip
METHODS = frozenset("""
and_then as_bytes as_mut as_ref as_str borrow borrow_mut bytes chain chars clear clone cloned cmp collect contains
contains_key copied count drain enumerate entry eq expect extend filter filter_map find first flat_map flush fmt fold
for_each from get get_mut hash insert into into_iter is_empty is_err is_none is_ok is_some iter iter_mut join keys
last len lines lock map map_err max min new next ok ok_or ok_or_else or_else parse pop position push push_str read
remove replace rev skip sort split starts_with sum take to_owned to_string to_vec trim unwrap unwrap_or
unwrap_or_default unwrap_or_else values with_capacity write zip
""".split())  # fmt: skip
USE = re.compile(r"(?:pub(?:\s*\([^)]*\))?\s+)?(use|mod)\s+(.*?)\s*;", re.DOTALL)


def imports(statement: str) -> Iterator[Imported]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", statement, flags=re.DOTALL)
    found = USE.search(text)
    if found is None:
        return
    if found[1] == "mod":
        yield Imported("self", found[2], "")
        return
    yield from _tree("", "".join(found[2].split(" ")).replace("\n", "") if " as " not in found[2] else found[2])


def _tree(prefix: str, text: str) -> Iterator[Imported]:
    """`a::{b, c::*}`, branch by branch."""
    text = text.strip()
    if text.endswith("}") and "{" in text:
        head, _, inner = text[:-1].partition("{")
        for one in _branches(inner):
            yield from _tree(f"{prefix}{head.strip()}", one)
        return
    path, _, alias = (part.strip() for part in re.sub(r"\s+", " ", text).partition(" as "))
    module, _, name = f"{prefix}{path}".replace(" ", "").rpartition("::")
    if name == "self":
        module, _, name = module.rpartition("::")
    if name:
        yield Imported(module, name, alias)


def _branches(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def parts(path: str, package: str) -> Parts:
    """A crate is named after the folder around `src`, and its modules after their paths in there."""
    found = PurePosixPath(path).with_suffix("").parts
    crate, inside = _crate(found)
    return (*crate, *(inside[:-1] if inside[-1] in ("mod", "lib", "main") else inside))


def _crate(found: Parts) -> tuple[Parts, Parts]:
    if "src" in found[:-1]:
        at = len(found) - 2 - found[:-1][::-1].index("src")
        return found[max(at - 1, 0) : at], found[at + 1 :]
    return (), found


def absolute(module: str, path: str, package: str) -> Parts:
    crate, _ = _crate(PurePosixPath(path).with_suffix("").parts)
    here = parts(path, package)
    found = tuple(part for part in module.split("::") if part)
    if found[:1] == ("crate",):
        return (*crate, *found[1:])
    while found[:1] in (("self",), ("super",)):
        here = here if found[0] == "self" else here[:-1]
        found = found[1:]
        if found[:1] not in (("self",), ("super",)):
            return (*here, *found)
    return found


TABLE = Language(
    name="rust",
    aliases=("rs",),
    grammars={".rs": ("tree_sitter_rust", "language")},
    query=QUERY,
    imports=imports,
    parts=parts,
    absolute=absolute,
    separator="::",
    selves=frozenset({"self", "Self"}),
    builtins=BUILTINS,
    methods=METHODS,
    native=lambda parts: bool(parts) and parts[0] in ("std", "core", "alloc", "proc_macro"),
)
