"""JavaScript, and what TypeScript shares with it: imports, modules, built-in names."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from memd.outline.language import ImportedName, Language, Parts

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


def imports(statement: str) -> Iterator[ImportedName]:
    text = COMMENT.sub("", statement)
    source = SOURCE.search(text)
    if source is None:
        return
    module, head = source[1], text[: source.start()]
    if "require" in source[0]:
        yield from _required(module, head)
        return
    exported = text.lstrip().startswith("export")
    braces = BRACES.search(head)
    for clause in braces[1].split(",") if braces else ():
        name, _, alias = (part.strip() for part in clause.strip().removeprefix("type ").partition(" as "))
        if name:
            yield ImportedName(module, name, alias)
    if star := STAR.search(head):
        yield ImportedName(module, "" if star[1] else "*", star[1] or "")
    plain = BRACES.sub("", head).replace("export", "").replace("import", "").replace("type ", "").strip(" ,\n")
    default = re.fullmatch(r"([\w$]+)\s*(?:,.*)?", plain, re.DOTALL)
    if default and not exported:
        yield ImportedName(module, "default", default[1])
    elif not braces and not star:
        yield ImportedName(module, "", "")


def _required(module: str, head: str) -> Iterator[ImportedName]:
    braces = BRACES.search(head)
    for clause in braces[1].split(",") if braces else ():
        name, _, alias = (part.strip() for part in clause.partition(":"))
        if name:
            yield ImportedName(module, name, alias)
    if not braces:
        yield ImportedName(module, "", head.partition("=")[0].strip())


def module_name(path: str, package: str) -> Parts:
    return _without_index(PurePosixPath(_bare(path)).parts)


def import_target(module: str, path: str, package: str) -> Parts:
    """A path is relative to the file; `@/` and `~/` stand for the root of the sources."""
    if module.startswith("."):
        absolute = posixpath.normpath(posixpath.join(posixpath.dirname(path), _bare(module)))
        return _without_index(tuple(part for part in absolute.split("/") if part not in (".", "..")))
    return _without_index(tuple(part for part in _bare(module).split("/") if part not in ("@", "~", "")))


def _without_index(parts: Parts) -> Parts:
    return parts[:-1] if len(parts) > 1 and parts[-1] == "index" else parts


def _bare(path: str) -> str:
    while path.endswith(ENDINGS):
        path = path.rpartition(".")[0]
    return path


def is_native(parts: Parts) -> bool:
    return bool(parts) and (parts[0] in NATIVE_MODULES or parts[0].startswith("node:"))


GRAMMAR = ("tree_sitter_javascript", "language")

TABLE = Language(
    name="javascript",
    aliases=("js", "jsx", "node"),
    queries=("ecmascript", "javascript"),
    grammars={".js": GRAMMAR, ".jsx": GRAMMAR, ".mjs": GRAMMAR, ".cjs": GRAMMAR},
    imports=imports,
    module_name=module_name,
    import_target=import_target,
    self_words=frozenset({"this"}),
    super_words=frozenset({"super"}),
    builtins=BUILTINS,
    methods=METHODS,
    is_native=is_native,
    # A module imported for its side effects has no name here.
    module_alias=lambda module: "",
)
