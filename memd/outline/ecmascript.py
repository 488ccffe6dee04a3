"""What JavaScript and TypeScript share: the query's common part, imports, modules, built-in names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.language import Imported, Parts

COMMON = """
(function_declaration name: (identifier) @name body: (_) @body) @def.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @def.function
(method_definition name: [(property_identifier) (private_property_identifier)] @name body: (_) @body) @def.function
(lexical_declaration (variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.function)
(variable_declaration (variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.function)
(lexical_declaration kind: "const" (variable_declarator name: (identifier) @name
  (#match? @name "^[A-Z][A-Z0-9_]*$")) @def.constant)

(call_expression function: [(identifier) (member_expression)] @ref.calls)
(new_expression constructor: [(identifier) (member_expression)] @ref.calls)

[(arrow_function) (function_expression) (statement_block) (for_in_statement) (for_statement) (catch_clause)] @scope
(variable_declarator name: (identifier) @bind)
(variable_declarator name: (identifier) @bind
  value: (new_expression constructor: [(identifier) (member_expression)] @type))
(assignment_expression left: (member_expression object: (this) property: (property_identifier) @bind.part)
  right: [(identifier) @type (new_expression constructor: (identifier) @type)])
(object_pattern (shorthand_property_identifier_pattern) @bind)
(array_pattern (identifier) @bind)
(rest_pattern (identifier) @bind)
(for_in_statement left: (identifier) @bind)
(catch_clause parameter: (identifier) @bind)
(arrow_function parameter: (identifier) @bind)

(import_statement) @import
(export_statement source: (string)) @import
(variable_declarator value: (call_expression function: (identifier) @_require (#eq? @_require "require"))) @import
"""

SOURCE = re.compile(r"""(?:\bfrom|\bimport|\brequire\s*\()\s*["'`]([^"'`]+)["'`]""")
BRACES = re.compile(r"\{([^}]*)\}", re.DOTALL)
STAR = re.compile(r"\*(?:\s+as\s+([\w$]+))?")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
ENDINGS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".d")

NATIVE_MODULES = frozenset("""
assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain events
fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl stream
string_decoder sys test timers tls trace_events tty url util v8 vm wasi worker_threads zlib
""".split())  # fmt: skip
BUILTINS = frozenset("""
AbortController AbortSignal Array ArrayBuffer Atomics BigInt BigInt64Array Blob Boolean Buffer DataView Date Error
EvalError Event EventTarget Float32Array Float64Array FormData Function Headers Infinity Int16Array Int32Array
Int8Array Intl JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Request Response
Set SharedArrayBuffer String Symbol SyntaxError TextDecoder TextEncoder TypeError URL URLSearchParams Uint16Array
Uint32Array Uint8Array WeakMap WeakRef WeakSet WebAssembly WebSocket alert atob btoa clearImmediate clearInterval
clearTimeout console decodeURI decodeURIComponent document encodeURI encodeURIComponent escape eval exports fetch
global globalThis history isFinite isNaN localStorage location module navigator parseFloat parseInt performance
process queueMicrotask require sessionStorage setImmediate setInterval setTimeout structuredClone undefined window
Awaited Exclude Extract NonNullable Omit Parameters Partial Pick Readonly ReadonlyArray Record Required ReturnType any
boolean never number object string symbol unknown void
""".split())  # fmt: skip
METHODS = frozenset("""
add addEventListener all allSettled any apply assign at bind call catch charAt charCodeAt clear concat create delete
emit entries every exec fill filter finally find findIndex flat flatMap forEach freeze from get getTime has
hasOwnProperty includes indexOf isArray join json keys lastIndexOf log error warn map match max min next now off on
once parse pop push random race reduce reject replace replaceAll resolve reverse round set shift slice some sort
splice split startsWith endsWith stringify substring substr test text then toFixed toISOString toLowerCase toString
toUpperCase trim unshift values write end pipe
""".split())  # fmt: skip


def imports(statement: str) -> Iterator[Imported]:
    text = COMMENT.sub("", statement)
    source = SOURCE.search(text)
    if source is None:
        return
    module, head = source[1], text[: source.start()]
    if "require" in source[0]:
        yield from _required(module, head)
        return
    again = text.lstrip().startswith("export")
    braces = BRACES.search(head)
    for one in braces[1].split(",") if braces else ():
        name, _, alias = (part.strip() for part in one.strip().removeprefix("type ").partition(" as "))
        if name:
            yield Imported(module, name, alias)
    if star := STAR.search(head):
        yield Imported(module, "" if star[1] else "*", star[1] or "")
    plain = BRACES.sub("", head).replace("export", "").replace("import", "").replace("type ", "").strip(" ,\n")
    default = re.fullmatch(r"([\w$]+)\s*(?:,.*)?", plain, re.DOTALL)
    if default and not again:
        yield Imported(module, "default", default[1])
    elif not braces and not star:
        yield Imported(module, "", "")


def _required(module: str, head: str) -> Iterator[Imported]:
    braces = BRACES.search(head)
    for one in braces[1].split(",") if braces else ():
        name, _, alias = (part.strip() for part in one.partition(":"))
        if name:
            yield Imported(module, name, alias)
    if not braces:
        yield Imported(module, "", head.partition("=")[0].strip())


def parts(path: str, package: str) -> Parts:
    found = PurePosixPath(_bare(path)).parts
    return found[:-1] if len(found) > 1 and found[-1] == "index" else found


def absolute(module: str, path: str, package: str) -> Parts:
    """A path counts from the file; `@/` and `~/` stand for wherever the sources begin."""
    if module.startswith("."):
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), _bare(module)))
        found = tuple(part for part in place.split("/") if part not in (".", ".."))
    else:
        found = tuple(part for part in _bare(module).split("/") if part not in ("@", "~", ""))
    return found[:-1] if len(found) > 1 and found[-1] == "index" else found


def _bare(path: str) -> str:
    while path.endswith(ENDINGS):
        path = path.rpartition(".")[0]
    return path


def native(parts: Parts) -> bool:
    return bool(parts) and (parts[0] in NATIVE_MODULES or parts[0].startswith("node:"))


def called(module: str) -> str:
    """A module that is imported for what it does has no name here."""
    return ""
