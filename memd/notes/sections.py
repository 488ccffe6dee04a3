"""Edits one memory in the bytes of its file: whatever stands around it stays, byte for byte. Pure."""

from __future__ import annotations

from memd.errors import Conflict
from memd.models import Memory, Note
from memd.notes.declared import front_matter_span
from memd.notes.parse import parse
from memd.notes.read import decode

BOM = b"\xef\xbb\xbf"


def note_of(path: str, data: bytes) -> Note:
    return parse(path, decode(data))


def span_of(data: bytes, memory: Memory) -> tuple[int, int]:
    """Where a memory's first byte is, and the one behind its last.

    By lines, since bytes that are no UTF-8 have another length when they are decoded.
    """
    lines = data.split(b"\n")
    start = sum(len(line) + 1 for line in lines[: memory.start_line - 1])
    last = sum(len(line) + 1 for line in lines[: memory.end_line - 1])
    shown = lines[memory.end_line - 1].decode(errors="replace")
    blank = shown[len(shown.rstrip()) :]
    end = last + len(lines[memory.end_line - 1]) - len(blank.encode())
    return (len(BOM) if start == 0 and data.startswith(BOM) else start), end


def with_text(path: str, data: bytes, slug: str, text: str) -> bytes:
    """The file with one memory's text replaced."""
    memory = next((memory for memory in note_of(path, data).memories if memory.slug == slug), None)
    if memory is None:
        raise Conflict(f"{path} has no such memory any more", "memd sync, then try again")
    start, end = span_of(data, memory)
    return data[:start] + encoded(text) + data[end:]


def with_section(data: bytes, text: str) -> bytes:
    """The file with a section at its end, a blank line before it."""
    newline = ending(data)
    kept = data if not data or data.endswith(b"\n") else data + newline
    gap = b"" if not kept or kept.endswith(newline * 2) else newline
    return kept + gap + encoded(text) + newline


def with_preamble(path: str, data: bytes, text: str) -> bytes:
    """The file with a text before its first section; a title that stands there alone is taken as the text's own."""
    memories = note_of(path, data).memories
    if any(not memory.slug for memory in memories):
        raise Conflict(f"{path} begins with another text now", "look at it: memd get; the old text: memd diff")
    front = head(data)
    rest = span_of(data, memories[0])[0] if memories else len(data)
    newline = ending(data)
    return front + encoded(text) + newline + (newline + data[rest:] if rest < len(data) else b"")


def head(data: bytes) -> bytes:
    """What declares facts about the whole file: a byte order mark, front matter and the blank lines behind it."""
    text = decode(data)
    end = front_matter_span(text)
    if not end:
        return BOM if data.startswith(BOM) else b""
    while end < len(text) and text[end] in "\r\n":
        end += 1
    lines = data.split(b"\n", text.count("\n", 0, end))
    return data[: len(data) - len(lines[-1])] if end < len(text) else data


def before_sections(path: str, data: bytes) -> bytes:
    """All that stands before a file's first `##` section and is no memory: front matter, a title."""
    memories = note_of(path, data).memories
    if not memories or not memories[0].slug:
        return head(data)
    return data[: span_of(data, memories[0])[0]]


def ending(data: bytes) -> bytes:
    first = data.find(b"\n")
    return b"\r\n" if first > 0 and data[first - 1 : first] == b"\r" else b"\n"


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
