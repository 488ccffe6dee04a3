"""Python."""

from __future__ import annotations

import builtins
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.annotations import types
from memd.outline.language import Imported, Language, Parts

QUERY = """
(class_definition name: (identifier) @name body: (_) @body) @def.class
(class_definition superclasses: (argument_list [(identifier) (attribute)] @ref.inherits))
(class_definition superclasses: (argument_list (subscript value: [(identifier) (attribute)] @ref.inherits)))
(function_definition name: (identifier) @name body: (_) @body) @def.function
(type_alias_statement left: (type [(identifier) @name (generic_type . (identifier) @name)])) @def.type
(assignment left: (identifier) @name (#match? @name "^_*[A-Z][A-Z0-9_]*$")) @def.constant
(assignment left: (pattern_list (identifier) @name (#match? @name "^_*[A-Z][A-Z0-9_]*$"))) @def.constant
(assignment left: (tuple_pattern (identifier) @name (#match? @name "^_*[A-Z][A-Z0-9_]*$"))) @def.constant

(call function: [(identifier) (attribute)] @ref.calls)
(decorator [(identifier) (attribute)] @ref.decorates)
(decorator (call function: [(identifier) (attribute)] @ref.decorates))
(type) @types

[(lambda) (list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @scope
(assignment left: (identifier) @bind)
(assignment left: (identifier) @bind right: (call function: [(identifier) (attribute)] @type))
(assignment left: (identifier) @bind type: (type [(identifier) (attribute) (string)] @type))
(assignment left: (attribute object: (identifier) @_self attribute: (identifier) @bind.part)
  right: [(identifier) @type (call function: [(identifier) (attribute)] @type)] (#eq? @_self "self"))
(assignment left: (attribute object: (identifier) @_self attribute: (identifier) @bind.part)
  type: (type [(identifier) (attribute) (string)] @type) (#eq? @_self "self"))
(pattern_list (identifier) @bind)
(tuple_pattern (identifier) @bind)
(list_pattern (identifier) @bind)
(list_splat_pattern (identifier) @bind)
(dictionary_splat_pattern (identifier) @bind)
(augmented_assignment left: (identifier) @bind)
(named_expression name: (identifier) @bind.outer)
(for_statement left: (identifier) @bind)
(for_in_clause left: (identifier) @bind)
(as_pattern_target (identifier) @bind)
(with_item value: (as_pattern (call function: [(identifier) (attribute)] @type)
  alias: (as_pattern_target (identifier) @bind)))
(parameters (identifier) @bind)
(lambda_parameters (identifier) @bind)
(default_parameter name: (identifier) @bind)
(typed_parameter (identifier) @bind)
(typed_parameter (identifier) @bind type: (type [(identifier) (attribute) (string)] @type))
(typed_default_parameter name: (identifier) @bind)
(typed_default_parameter name: (identifier) @bind type: (type [(identifier) (attribute) (string)] @type))
(case_pattern (dotted_name . (identifier) @bind .))
(delete_statement (identifier) @bind)
(global_statement (identifier) @bind.global)
(nonlocal_statement (identifier) @bind.global)

[(import_statement) (import_from_statement) (future_import_statement)] @import
(ERROR "from" "__future__" "import" "*") @import
"""

COMMENT = re.compile(r"#[^\n]*")
FROM = re.compile(r"from\b(.*?)\bimport\b(.*)", re.DOTALL)
METHODS = frozenset(
    name
    for kind in (
        str,
        bytes,
        bytearray,
        list,
        dict,
        set,
        frozenset,
        tuple,
        int,
        float,
        object,
        type(iter("")),
        Exception,
    )
    for name in dir(kind)
)
FILE_METHODS = frozenset("read write close flush readline readlines seek tell open fileno writelines".split())


def imports(statement: str) -> Iterator[Imported]:
    text = COMMENT.sub("", statement).replace("\\\n", " ").replace("\\\r\n", " ")
    whence = FROM.match(text)
    if whence is None:
        for one in text.removeprefix("import").split(","):
            module, _, alias = (piece.strip() for piece in _squeezed(one).partition(" as "))
            yield Imported(module.replace(" ", ""), "", alias)
        return
    module = "".join(whence[1].split())
    for one in whence[2].strip().strip("()").split(","):
        name, _, alias = (piece.strip() for piece in _squeezed(one).partition(" as "))
        if name:
            yield Imported(module, name, alias)


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def mend(source: bytes) -> bytes:
    """The lines within brackets moved far to the right: the grammar ends a block at one that stands too far left."""
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


def parts(path: str, package: str) -> Parts:
    found = PurePosixPath(path).with_suffix("").parts
    return found[:-1] if found[-1] == "__init__" else found


def absolute(module: str, path: str, package: str) -> Parts:
    """`..a.b` counts its dots from the folder of the file."""
    name = module.lstrip(".")
    dots, named = len(module) - len(name), tuple(name.split(".")) if name else ()
    if not dots:
        return named
    folder = PurePosixPath(path).parent.parts
    return folder[: len(folder) - dots + 1] + named


TABLE = Language(
    name="python",
    aliases=("py", "python3"),
    grammars={".py": ("tree_sitter_python", "language"), ".pyi": ("tree_sitter_python", "language")},
    query=QUERY,
    imports=imports,
    parts=parts,
    absolute=absolute,
    mend=mend,
    types=types,
    selves=frozenset({"self", "cls"}),
    supers=frozenset({"super()"}),
    builtins=frozenset(dir(builtins)),
    methods=METHODS | FILE_METHODS,
    native=lambda parts: bool(parts) and parts[0] in sys.stdlib_module_names,
)
