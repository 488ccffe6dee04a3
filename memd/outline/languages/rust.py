"""Rust."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.language import ImportedName, Language, Parts

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
RELATIVE = (("self",), ("super",))
USE = re.compile(r"(?:pub(?:\s*\([^)]*\))?\s+)?(use|mod)\s+(.*?)\s*;", re.DOTALL)


def imports(statement: str) -> Iterator[ImportedName]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", statement, flags=re.DOTALL)
    match = USE.search(text)
    if match is None:
        return
    kind, tree = match.groups()
    if kind == "mod":
        yield ImportedName("self", tree, "")
        return
    yield from _tree("", "".join(tree.split(" ")).replace("\n", "") if " as " not in tree else tree)


def _tree(prefix: str, text: str) -> Iterator[ImportedName]:
    """`a::{b, c::*}`, branch by branch."""
    text = text.strip()
    if text.endswith("}") and "{" in text:
        head, _, inner = text[:-1].partition("{")
        for branch in _branches(inner):
            yield from _tree(f"{prefix}{head.strip()}", branch)
        return
    path, _, alias = (part.strip() for part in re.sub(r"\s+", " ", text).partition(" as "))
    module, _, name = f"{prefix}{path}".replace(" ", "").rpartition("::")
    if name == "self":
        module, _, name = module.rpartition("::")
    if name:
        yield ImportedName(module, name, alias)


def _branches(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def module_name(path: str, package: str) -> Parts:
    """A crate is named after the folder above `src`, its modules after their paths in `src`."""
    crate, inside = _crate(PurePosixPath(path).with_suffix("").parts)
    return (*crate, *(inside[:-1] if inside[-1] in ("mod", "lib", "main") else inside))


def _crate(parts: Parts) -> tuple[Parts, Parts]:
    """The crate of a path, and the rest of the path."""
    if "src" in parts[:-1]:
        at = len(parts) - 2 - parts[:-1][::-1].index("src")
        return parts[max(at - 1, 0) : at], parts[at + 1 :]
    return (), parts


def import_target(module: str, path: str, package: str) -> Parts:
    crate, _ = _crate(PurePosixPath(path).with_suffix("").parts)
    here = module_name(path, package)
    named = tuple(part for part in module.split("::") if part)
    if named[:1] == ("crate",):
        return (*crate, *named[1:])
    if named[:1] not in RELATIVE:
        return named
    while named[:1] in RELATIVE:
        here = here if named[0] == "self" else here[:-1]
        named = named[1:]
    return (*here, *named)


TABLE = Language(
    name="rust",
    aliases=("rs",),
    grammars={".rs": ("tree_sitter_rust", "language")},
    imports=imports,
    module_name=module_name,
    import_target=import_target,
    separator="::",
    self_words=frozenset({"self", "Self"}),
    builtins=BUILTINS,
    methods=METHODS,
    is_native=lambda parts: bool(parts) and parts[0] in ("std", "core", "alloc", "proc_macro"),
)
