"""Java."""

import re
from collections.abc import Iterator

from memd.outline.language import ImportedName, Language, Parts

IMPORT = re.compile(r"import\s+(?:static\s+)?([\w.]+?)(\s*\.\s*\*)?\s*;")
BUILTINS = frozenset("""
AbstractMethodError ArithmeticException ArrayIndexOutOfBoundsException AssertionError AutoCloseable Boolean Byte
CharSequence Character Class ClassCastException ClassLoader ClassNotFoundException Cloneable Comparable Deprecated
Double Enum Error Exception Float FunctionalInterface IllegalArgumentException IllegalStateException
IndexOutOfBoundsException Integer InterruptedException Iterable Long Math NullPointerException Number
NumberFormatException Object Override Process Record Runnable Runtime RuntimeException SafeVarargs SecurityException
Short StackTraceElement StrictMath String StringBuffer StringBuilder SuppressWarnings System Thread ThreadLocal
Throwable UnsupportedOperationException Void java javax var
""".split())  # fmt: skip
METHODS = frozenset("""
add addAll append charAt clear close collect compareTo contains containsKey equals filter findFirst flush forEach
format get getClass getMessage getName hashCode indexOf isEmpty isPresent iterator join keySet length map matches next
of orElse parseInt print printf println put putAll read remove replace run set size sort split startsWith stream
substring toArray toList toString trim valueOf values write
""".split())  # fmt: skip


def imports(statement: str) -> Iterator[ImportedName]:
    if match := IMPORT.match(statement):
        whole, star = match[1], match[2]
        module, _, name = (whole, "", "*") if star else whole.rpartition(".")
        yield ImportedName(module, name, "")


def module_name(path: str, package: str) -> Parts:
    return tuple("".join(package.split()).split(".")) if package else ()


TABLE = Language(
    name="java",
    grammars={".java": ("tree_sitter_java", "language")},
    imports=imports,
    module_name=module_name,
    self_words=frozenset({"this"}),
    super_words=frozenset({"super"}),
    builtins=BUILTINS,
    methods=METHODS,
    is_native=lambda parts: bool(parts) and parts[0] in ("java", "javax", "jdk", "sun"),
    package_scope=True,
    bare_members=True,
)
