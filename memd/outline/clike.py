"""What C and C++ share: includes, modules, and the names of their standard library."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from memd.outline.language import Imported, Parts

COMMON = """
(struct_specifier name: (type_identifier) @name body: (_) @body) @def.class
(union_specifier name: (type_identifier) @name body: (_) @body) @def.class
(enum_specifier name: (type_identifier) @name body: (_)) @def.type
(type_definition declarator: (type_identifier) @name) @def.type
(preproc_def name: (identifier) @name value: (_)) @def.constant
(preproc_function_def name: (identifier) @name) @def.function
(enumerator name: (identifier) @name) @def.constant

(call_expression function: [(identifier) (field_expression)] @ref.calls)
(type_identifier) @ref.uses_type

[(compound_statement) (for_statement)] @scope
(parameter_declaration declarator: (identifier) @bind)
(parameter_declaration type: (type_identifier) @type
  declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)])
(declaration declarator: (identifier) @bind)
(declaration type: (type_identifier) @type declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)])
(init_declarator declarator: (identifier) @bind)
(declaration type: (type_identifier) @type
  declarator: (init_declarator declarator: [(identifier) @bind (pointer_declarator (identifier) @bind)]))

(preproc_include) @import
"""

INCLUDE = re.compile(r"""#\s*include\s*([<"])([^">]+)[">]""")
STANDARD = frozenset("""
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype unistd fcntl pthread
dirent
""".split())  # fmt: skip
BUILTINS = frozenset("""
abort abs access atexit atof atoi atol assert bsearch calloc ceil clock close cos dup errno exit exp fabs fclose feof
ferror fflush fgetc fgets floor fmod fopen fprintf fputc fputs fread free freopen fscanf fseek ftell fwrite getc
getchar getenv isalnum isalpha isdigit isspace isupper islower localtime log longjmp lseek malloc memchr memcmp memcpy
memmove memset mkdir mktime offsetof open perror pow printf putc putchar puts qsort raise rand read realloc remove
rename rewind scanf setjmp setvbuf signal sin sizeof snprintf sprintf sqrt srand sscanf stat strcat strchr strcmp
strcpy strcspn strdup strerror strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtok
strtol strtoul system tan time tolower toupper ungetc unlink va_arg va_copy va_end va_start vfprintf vprintf vsnprintf
vsprintf write FILE NULL bool char double float int int16_t int32_t int64_t int8_t intptr_t long off_t pid_t ptrdiff_t
short size_t ssize_t time_t uint16_t uint32_t uint64_t uint8_t uintptr_t va_list void wchar_t
""".split())  # fmt: skip


def imports(statement: str) -> Iterator[Imported]:
    if found := INCLUDE.match(statement):
        yield Imported(f"<{found[2]}>" if found[1] == "<" else found[2], "", "")


def parts(path: str, package: str) -> Parts:
    """A file is included by its path, ending and all."""
    return tuple(path.split("/"))


def absolute(module: str, path: str, package: str) -> Parts:
    """An include counts from the file that has it; one that is not there is found by the end of its path."""
    if module.startswith("<"):
        return tuple(module.strip("<>").split("/"))
    place = posixpath.normpath(module)
    return tuple(part for part in place.split("/") if part not in (".", ".."))


def native(parts: Parts) -> bool:
    """Headers of the standard library have no folder; those of C++ no ending either."""
    return len(parts) == 1 and (parts[0].removesuffix(".h") in STANDARD or "." not in parts[0])


def called(module: str) -> str:
    """An include brings names, and has none."""
    return ""
