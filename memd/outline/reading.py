"""Reads a source file into facts; one that is broken, huge, binary or oddly encoded is told and stops nothing."""

from __future__ import annotations

import codecs
import io
import os
import stat
import tokenize
from pathlib import Path, PurePosixPath

from memd.outline import languages
from memd.outline.extract import extract
from memd.outline.facts import Facts, nothing

LONGEST_LINE = 20_000
"""A file with a longer line was made by a machine, for one: minified, or data."""


def facts_at(place: Path, max_bytes: int) -> tuple[bytes, Facts]:
    """A file's bytes and facts. OSError when it cannot be read at all."""
    data = bytes_at(place, max_bytes)
    return data, facts_of(PurePosixPath(place.name).suffix.lower(), data, max_bytes)


def bytes_at(place: Path, max_bytes: int) -> bytes:
    """A file's bytes, one more than `max_bytes` if it is larger; a pipe or a link in its place is an OSError."""
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        return file.read(max_bytes + 1)


def facts_of(suffix: str, data: bytes, max_bytes: int) -> Facts:
    """The facts of a file's bytes; the ending says which language it is."""
    language = languages.of_source(suffix, data)
    if len(data) > max_bytes:
        return nothing(language.name, f"it is larger than outline.max_file_kb = {max_bytes // 1024:,}")
    if b"\0" in data:
        return nothing(language.name, "it is binary")
    source, problem = _as_utf8(data, language.name)
    if any(len(line) > LONGEST_LINE for line in source.splitlines()):
        return nothing(language.name, f"it has a line of more than {LONGEST_LINE:,} bytes")
    found = extract(language, suffix, source)
    return found._replace(problem="; ".join(filter(None, (problem, found.problem))))


def _as_utf8(data: bytes, language: str) -> tuple[bytes, str]:
    """The source as UTF-8, and what was wrong with it."""
    plain = data.removeprefix(codecs.BOM_UTF8)
    encoding = _declared(data) if language == "python" else "utf-8"
    try:
        text = plain.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return plain.decode("latin-1").encode(), "it is not UTF-8 and was read as Latin-1"
    if encoding.lower().replace("_", "-") in ("utf-8", "utf-8-sig", "ascii"):
        return plain, ""
    return text.encode("utf-8", "replace"), f"it is not UTF-8 but says so: {encoding}"


def _declared(data: bytes) -> str:
    """What a Python file says of its encoding."""
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError:
        return "utf-8"
