"""Java."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memd.outline.language import Imported, Language, Parts

QUERY = """
(package_declaration [(identifier) (scoped_identifier)] @package)
(class_declaration name: (identifier) @name body: (_) @body) @def.class
(record_declaration name: (identifier) @name body: (_) @body) @def.class
(enum_declaration name: (identifier) @name body: (_) @body) @def.class
(interface_declaration name: (identifier) @name body: (_) @body) @def.interface
(annotation_type_declaration name: (identifier) @name body: (_) @body) @def.interface
(method_declaration name: (identifier) @name body: (_)? @body) @def.function
(constructor_declaration name: (identifier) @name body: (_) @body) @def.function
(enum_constant name: (identifier) @name) @def.constant
(field_declaration (modifiers "static" "final")
  declarator: (variable_declarator name: (identifier) @name)) @def.constant
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @def.constant

(superclass (type_identifier) @ref.inherits)
(superclass (scoped_type_identifier) @ref.inherits)
(superclass (generic_type [(type_identifier) (scoped_type_identifier)] @ref.inherits))
(super_interfaces (type_list [(type_identifier) (scoped_type_identifier)] @ref.implements))
(super_interfaces (type_list (generic_type [(type_identifier) (scoped_type_identifier)] @ref.implements)))
(extends_interfaces (type_list [(type_identifier) (scoped_type_identifier)] @ref.inherits))
(extends_interfaces (type_list (generic_type [(type_identifier) (scoped_type_identifier)] @ref.inherits)))
(method_invocation !object name: (identifier) @ref.calls)
(method_invocation object: (_) @head name: (identifier) @tail) @ref.calls
(object_creation_expression type: [(type_identifier) (scoped_type_identifier)] @ref.calls)
(object_creation_expression type: (generic_type [(type_identifier) (scoped_type_identifier)] @ref.calls))
(type_identifier) @ref.uses_type
[(marker_annotation name: (_) @ref.decorates) (annotation name: (_) @ref.decorates)]

[(block) (lambda_expression) (for_statement) (enhanced_for_statement) (catch_clause)] @scope
(formal_parameter type: [(type_identifier) @type (generic_type (type_identifier) @type)] name: (identifier) @bind)
(formal_parameter name: (identifier) @bind)
(local_variable_declaration declarator: (variable_declarator name: (identifier) @bind))
(local_variable_declaration type: [(type_identifier) @type (generic_type (type_identifier) @type)]
  declarator: (variable_declarator name: (identifier) @bind))
(field_declaration type: [(type_identifier) @type (generic_type (type_identifier) @type)]
  declarator: (variable_declarator name: (identifier) @bind))
(field_declaration declarator: (variable_declarator name: (identifier) @bind))
(enhanced_for_statement type: (type_identifier) @type name: (identifier) @bind)
(enhanced_for_statement name: (identifier) @bind)
(catch_formal_parameter name: (identifier) @bind)
(inferred_parameters (identifier) @bind)
(lambda_expression parameters: (identifier) @bind)

(import_declaration) @import
"""

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


def imports(statement: str) -> Iterator[Imported]:
    if found := IMPORT.match(statement):
        whole, star = found[1], found[2]
        module, _, name = (whole, "", "*") if star else whole.rpartition(".")
        yield Imported(module, name, "")


def parts(path: str, package: str) -> Parts:
    return tuple("".join(package.split()).split(".")) if package else ()


TABLE = Language(
    name="java",
    grammars={".java": ("tree_sitter_java", "language")},
    query=QUERY,
    imports=imports,
    parts=parts,
    selves=frozenset({"this"}),
    supers=frozenset({"super"}),
    builtins=BUILTINS,
    methods=METHODS,
    native=lambda parts: bool(parts) and parts[0] in ("java", "javax", "jdk", "sun"),
    sees_package=True,
    open_classes=True,
)
