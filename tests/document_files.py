"""Small real documents: PDF, Word and EPUB files, byte by byte."""

from __future__ import annotations

from io import BytesIO
from xml.sax.saxutils import escape
from zipfile import ZipFile

NS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
CONTENT = "http://schemas.openxmlformats.org/package/2006"


def pdf(*pages: str) -> bytes:
    """A PDF with the lines of each page in Helvetica."""
    numbers = range(4, 4 + 2 * len(pages), 2)
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{number} 0 R' for number in numbers)}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, page in zip(numbers, pages, strict=True):
        lines = "".join(f"({line}) Tj T* " for line in page.replace("(", r"\(").replace(")", r"\)").split("\n"))
        drawn = f"BT /F1 12 Tf 14 TL 72 720 Td {lines}ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{one}\nendobj\n".encode("cp1252")
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer\n<< /Size {len(places) + 1} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF\n"
    return made + (head + trailer).encode()


def word(*paragraphs: tuple[str, str]) -> bytes:
    """A Word file: the style and the text of each paragraph."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in (1, 2)
    )
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{CONTENT}/content-types"><Default Extension="xml" '
            'ContentType="application/xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{CONTENT}/relationships"><Relationship Id="r1" Type="{OFFICE}" '
            'Target="word/document.xml"/></Relationships>',
            "word/document.xml": f"<w:document {NS}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {NS}>{styles}</w:styles>",
        }
    )


def epub(title: str, *chapters: str) -> bytes:
    """A book whose chapters are the bodies of XHTML pages; they stand in the archive in another order."""
    names = [f"c{nth}.xhtml" for nth in range(len(chapters))]
    items = "".join(f'<item id="i{name}" href="text/{name}"/>' for name in names)
    spine = "".join(f'<itemref idref="i{name}"/>' for name in names)
    pages = {
        f"OEBPS/text/{name}": f"<html><head><title>x</title></head><body>{chapter}</body></html>"
        for name, chapter in reversed(list(zip(names, chapters, strict=True)))
    }
    return archive(
        {
            "mimetype": "application/epub+zip",
            **pages,
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<metadata><dc:title>{title}</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine>"
            "</package>",
        }
    )


def archive(files: dict[str, str]) -> bytes:
    made = BytesIO()
    with ZipFile(made, "w") as writing:
        for name, text in files.items():
            writing.writestr(name, text)
    return made.getvalue()
