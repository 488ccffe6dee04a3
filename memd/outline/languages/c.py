"""C, and what C++ shares with it: includes, modules, the names of the standard library."""

import posixpath
import re
from collections.abc import Iterator

from memd.outline.language import ImportedName, Language, Parts

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


def imports(statement: str) -> Iterator[ImportedName]:
    if match := INCLUDE.match(statement):
        yield ImportedName(f"<{match[2]}>" if match[1] == "<" else match[2], "", "")


def module_name(path: str, package: str) -> Parts:
    """A file is included by its path, with its suffix."""
    return tuple(path.split("/"))


def import_target(module: str, path: str, package: str) -> Parts:
    """An include is relative to its file; one that is not there is found by the end of its path."""
    if module.startswith("<"):
        return tuple(module.strip("<>").split("/"))
    return tuple(part for part in posixpath.normpath(module).split("/") if part not in (".", ".."))


def is_native(parts: Parts) -> bool:
    """Headers of the standard library have no folder; those of C++ have no suffix either."""
    return len(parts) == 1 and (parts[0].removesuffix(".h") in STANDARD or "." not in parts[0])


TABLE = Language(
    name="c",
    aliases=("h",),
    queries=("c_family", "c"),
    grammars={".c": ("tree_sitter_c", "language"), ".h": ("tree_sitter_c", "language")},
    imports=imports,
    module_name=module_name,
    import_target=import_target,
    builtins=BUILTINS,
    is_native=is_native,
    includes_names=True,
    module_alias=lambda module: "",
)
