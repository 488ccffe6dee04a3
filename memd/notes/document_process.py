"""A process that takes the text out of one document after the other; only it loads the libraries that do so."""

import logging
import re
import resource
import socket
from collections.abc import Callable
from io import BytesIO
from os.path import normpath
from pathlib import PurePosixPath
from unicodedata import normalize
from urllib.parse import unquote
from xml.etree import ElementTree
from zipfile import ZipFile

from memd.child import ending_with_parent, serve
from memd.notes.read import SkippedFile, is_binary
from memd.prose import flat_line

LIMITS = {resource.RLIMIT_CPU: 120, resource.RLIMIT_AS: 1 << 31}
"""Seconds of processor time, and bytes of memory."""
MOST_SAID = 200
"""Characters of a library's message."""
HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")
"""Where a word was broken at the end of a line."""
WIDE = re.compile(r"(?<=[\u2e80-\u9fff\uff00-\uffef])\s+(?=[\u2e80-\u9fff\uff00-\uffef])")
"""The end of a line between two characters of a script without blanks."""
DRAWN = re.compile(r"[\u2e80-\u2fdf\ufb00-\ufb06]")
"""Shapes that fonts have for letters and characters: ligatures, radicals."""
FRONT = re.compile(r"\A\ufeff*(?:-+(?=[^\S\n]*\n))?")
"""What would make the beginning of a text front matter; a reader of notes drops the mark before it."""
NOT_TEXT = ("head", "script", "style", "nav", "noscript", "template", "svg")


def text_of(suffix: str, data: bytes, max_bytes: int) -> bytes | SkippedFile:
    """The text of a document, with nothing in it that would declare facts about a memory; or why there is none.

    One that is too long ends here: a small archive can hold more than the daemon has memory for.
    """
    try:
        text = READERS[suffix](data)
    except Exception as error:  # noqa: BLE001 - libraries raise anything where a file is broken
        return SkippedFile(f"it cannot be read: {str(error)[:MOST_SAID] or type(error).__name__}")
    if not text.strip():
        return SkippedFile("it has no text; scanned pages must be recognised by another program first")
    if is_binary(text.encode("utf-8", "replace")):
        return SkippedFile("it is binary")
    found = FRONT.sub("", text.replace("\0", " ").replace("<!--", "< !--")).encode("utf-8", "replace")
    if len(found) > max_bytes:
        return SkippedFile(f"its text is over index.max_file_kb = {max_bytes // 1024:,}")
    return found


def _pdf(data: bytes) -> str:
    """A line a page."""
    from pypdf import PdfReader

    return "\n".join(readable(page.extract_text()) for page in PdfReader(BytesIO(data)).pages)


def readable(page: str) -> str:
    """The text of a page in one line, with the words and characters that people type."""
    typed = DRAWN.sub(lambda found: normalize("NFKC", found[0]), page)
    return WIDE.sub("", flat_line(HYPHEN.sub("", typed)))


def _word(data: bytes) -> str:
    import mammoth

    # Pictures would come along as text.
    return _html(mammoth.convert_to_html(BytesIO(data), convert_image=lambda image: []).value.encode())


def _html(data: bytes) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page = BeautifulSoup(data, "html.parser")
    title = page.title.get_text(strip=True) if page.title and not page.h1 else ""
    for part in page(NOT_TEXT):
        part.decompose()
    plain = MarkdownConverter(
        heading_style="ATX", bullets="-", strip=["a", "img"], escape_asterisks=False, escape_underscores=False
    )
    return (f"# {title}\n\n" if title else "") + plain.convert_soup(page).strip() + "\n"


def _epub(data: bytes) -> str:
    """The chapters in their order, below the title of the book."""
    with ZipFile(BytesIO(data)) as book:
        container = ElementTree.fromstring(book.read("META-INF/container.xml"))
        place = PurePosixPath(container.findall(".//{*}rootfile")[0].attrib["full-path"])
        package = ElementTree.fromstring(book.read(str(place)))
        hrefs = {item.get("id"): item.get("href", "") for item in package.findall(".//{*}item")}
        title = (package.findtext(".//{*}title") or "").strip()
        names = [unquote(hrefs[one.get("idref")]) for one in package.findall(".//{*}itemref")]
        chapters = [_html(book.read(normpath(place.parent / name))) for name in names]
    return "\n\n".join([f"# {title}", *chapters] if title else chapters)


READERS: dict[str, Callable[[bytes], str]] = {
    ".pdf": _pdf, ".docx": _word, ".html": _html, ".htm": _html, ".epub": _epub,
}  # fmt: skip


def main(link: socket.socket) -> None:
    """Answer until the other end is closed."""
    # What libraries say of a file that is broken.
    logging.disable()
    for what, most in LIMITS.items():
        resource.setrlimit(what, (most, most))
    serve(ending_with_parent(link), text_of)
