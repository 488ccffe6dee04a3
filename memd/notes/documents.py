"""Documents beside the notes (PDF, Word, HTML, EPUB): their text is taken out once, by a child, and kept in the state.

memd never writes to them. A line of a PDF's text is a page; the text of the others is Markdown.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memd import installation
from memd.child import Child, ChildGone
from memd.config import paths
from memd.models import DOCUMENTS, FileStat, digest_of, is_document
from memd.notes.blocks import Pieces, in_one_go
from memd.notes.read import FileContent, SkippedFile, read_file

FORMAT = 1
"""Version of the text that is taken out; a new number takes it out again."""
MAX_BYTES = 64 << 20
"""Of a document. Pictures are most of a large one; its text may have as much as a note."""
REST_SECONDS = 0.5
"""After so long without a change the next one has another stat."""
PIECE_SECONDS = 0.05
NICE = 10
HANG_SECONDS = 900.0
"""For one document; its processor time is limited, too, so this is for a machine that is busy or was asleep."""


def lacking(path: str) -> str:
    """Why a document cannot be read here; empty for one that can, and for a note."""
    return _lacking(path[path.rfind(".") :].lower()) if is_document(path) else ""


@cache
def _lacking(suffix: str) -> str:
    if find_spec(DOCUMENTS[suffix]) is not None:
        return ""
    return f"to read {suffix} files: {installation.extra('documents')}; then: memd restart"


def read_note(path: Path, max_bytes: int) -> FileContent:
    """A file as it is, or the text of a document."""
    return in_one_go(read_in_pieces(path, max_bytes))


def read_in_pieces(path: Path, max_bytes: int) -> Pieces[FileContent]:
    """The same; a document whose text is not known yet takes seconds, and others may go in between."""
    if not is_document(path.name):
        return read_file(path, max_bytes)
    if (known := text_of(path, max_bytes)) is not None:
        return _readable(known)
    # A time that is still to come is that of a clock which was set back since.
    while 0 <= time.time() - path.stat().st_ctime < REST_SECONDS:
        time.sleep(PIECE_SECONDS)
        yield
    if path.stat().st_size > MAX_BYTES:
        raise SkippedFile(f"a document may have {MAX_BYTES >> 20} MB")
    content = read_file(path, MAX_BYTES, binary=True)
    found: FileContent | SkippedFile
    try:
        text = yield from _taken_out(path.suffix.lower(), content.data, max_bytes)
        found = replace(content, data=text)
    except SkippedFile as error:
        found = error
    _keep(path, max_bytes, content.stat, found)
    return _readable(found)


def _readable(found: FileContent | SkippedFile) -> FileContent:
    if isinstance(found, SkippedFile):
        raise found
    return found


def _taken_out(suffix: str, data: bytes, max_bytes: int) -> Pieces[bytes]:
    """The text of a document, from a process whose time and memory are limited: what it reads may be hostile."""
    child = Child("memd-document", "memd.notes.document_process", nice=NICE)
    try:
        yield from _until(child.ready)
        answer = child.call(suffix, data, max_bytes)
        yield from _until(answer)
        text: bytes = answer.result()
        return text
    except (ChildGone, TimeoutError) as error:
        raise SkippedFile("to read it takes too much time or memory") from error
    finally:
        child.close()


def _until(answer: Future[Any]) -> Pieces[None]:
    until = time.monotonic() + HANG_SECONDS
    while not answer.done():
        if time.monotonic() > until:
            raise TimeoutError
        wait([answer], PIECE_SECONDS)
        yield


# --- texts that were taken out --------------------------------------------------------------------------------


def text_of(path: Path, max_bytes: int) -> FileContent | SkippedFile | None:
    """The text that was taken out of a document as it is now, or why it has none; None where that is still to be done.

    What cannot be read takes as long as what can: without this, every `memd grep` would try it again.
    """
    try:
        seen = FileStat.of(path.stat())
        head, _, text = _place(path).read_bytes().partition(b"\n")
    except OSError:
        return None
    stamp, _, digest = head.decode("utf-8", "replace").rpartition(" ")
    if stamp != _stamp(seen, max_bytes):
        return None
    return FileContent(text, seen, digest) if digest else SkippedFile(text.decode("utf-8", "replace"))


def _keep(path: Path, max_bytes: int, seen: FileStat, found: FileContent | SkippedFile) -> None:
    digest, text = ("", str(found).encode()) if isinstance(found, SkippedFile) else (found.digest, found.data)
    # On a full disk it is taken out again.
    with suppress(OSError):
        _folder().mkdir(mode=0o700, exist_ok=True)
        paths.replace_file(_place(path), f"{_stamp(seen, max_bytes)} {digest}\n".encode() + text, 0o600)


def keep_only(documents: Iterable[Path]) -> None:
    """Remove the texts of all other documents."""
    if texts := set(_folder().glob("*")):
        for place in texts.difference(map(_place, documents)):
            place.unlink(missing_ok=True)


def forget(path: Path) -> None:
    """Remove the text of a document that is gone."""
    _place(path).unlink(missing_ok=True)


def _folder() -> Path:
    return paths.state_dir() / "documents"


def _place(path: Path) -> Path:
    return _folder() / digest_of(str(path))


def _stamp(seen: FileStat, max_bytes: int) -> str:
    return " ".join(map(str, (FORMAT, max_bytes, *seen)))
