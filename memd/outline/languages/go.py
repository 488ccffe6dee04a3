"""Go."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.language import ImportedName, Language, Parts

SPEC = re.compile(r"""(?:(?P<alias>[\w.]+)\s+)?["`](?P<path>[^"`]+)["`]""")
BUILTINS = """
append cap clear close complex copy delete imag len make max min new panic print println real recover any bool byte
comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32
uint64 uintptr true false iota nil
""".split()
METHODS = "Error String Lock Unlock RLock RUnlock Done Add Wait Close Read Write Len Less Swap".split()


def imports(statement: str) -> Iterator[ImportedName]:
    if match := SPEC.search(statement):
        alias = match["alias"] or ""
        yield ImportedName(match["path"], "*" if alias == "." else "", "" if alias == "." else alias)


def module_name(path: str, package: str) -> Parts:
    """A package is a folder; at the root, it is what the package clause says."""
    return PurePosixPath(path).parent.parts or (package,)


def import_target(module: str, path: str, package: str) -> Parts:
    return tuple(module.split("/"))


def is_native(parts: Parts) -> bool:
    """Paths of other packages begin with a host, which has a dot."""
    return bool(parts) and "." not in parts[0]


def module_alias(module: str) -> str:
    """The last part that is not a version."""
    named = [part for part in module.split("/") if not re.fullmatch(r"v\d+", part)]
    return (named or [module])[-1].partition(".")[0].replace("-", "")


TABLE = Language(
    name="go",
    aliases=("golang",),
    grammars={".go": ("tree_sitter_go", "language")},
    imports=imports,
    module_name=module_name,
    import_target=import_target,
    builtins=frozenset(BUILTINS),
    methods=frozenset(METHODS),
    is_native=is_native,
    module_alias=module_alias,
    package_scope=True,
    named_by_package=True,
    pointer_receivers=True,
)
