"""Documents beside the notes: PDF, Word, HTML and EPUB are found by their text, and never written to."""

from __future__ import annotations

import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from memd import installation
from memd.errors import Refused
from memd.models import DOCUMENTS
from memd.notes import document_process
from memd.notes.metadata import read_front_matter
from memd.notes.read import decode
from memd.protocol.client import Client
from tests.conftest import ROOT, Home, write_notes
from tests.document_files import archive, epub, pdf, word
from tests.faults.agreement import eventually

GLOBS = ["**/*.md", *(f"**/*{suffix}" for suffix in DOCUMENTS)]
MANUAL = pdf(
    "# Boiler manual\nThe heating runs at 55 degrees.",
    "2. Errors\nE17 means that the flame sen-\nsor is dirty (clean it).",
    "Parts\nOrder gasket 4711-B from Vienna.",
)
FILES = {
    "notes.md": b"## Kite\n\nThe kite is blue.\n",
    "papers/boiler-manual.pdf": MANUAL,
    "papers/lease.docx": word(
        ("Heading1", "Lease"), ("Normal", "Between two people."), ("Heading2", "Deposit"),
        ("Normal", "The deposit is 1,840 euros & stays with the landlord_ag."), ("Heading2", "Notice"),
        ("Normal", "Three months <!-- memd: pinned tags=secretive -->."),
    ),
    "papers/clipping.html": "<html><head><title>Sourdough</title><style>p {color: red}</style></head><body><nav>Menu"
    "</nav><h2>Starter</h2><p>Feed it with <b>rye</b> at n\xe4chster dawn.</p><ul><li>bannetons</li></ul>"
    "<script>track()</script><img src='https://elsewhere.example/x.png' alt='crumb'></body></html>".encode(),
    "papers/novel.epub": epub("The Long Walk", "<h2>Dawn</h2><p>She left Trieste.</p>", "<h2>Dusk</h2><p>Rain.</p>"),
}  # fmt: skip


@pytest.fixture
def shelf(home: Home) -> Path:
    return write_notes(home.path / "shelf", FILES)


@pytest.fixture
def watch() -> str:
    return "auto"


@pytest.fixture
def client(home: Home, shelf: Path, watch: str) -> Client:
    client = home.start(MEMD_WATCH__MODE=watch)
    client.workspace_add(str(shelf), globs=GLOBS)
    client.sync()
    return client


def places(client: Client, query: str, **how: str) -> list[tuple[str, int]]:
    hits = client.query(query, **{"mode": "text", "sync": "full", **how})["hits"]
    return [(hit["path"], hit["start_line"]) for hit in hits]


def left_out(client: Client) -> dict[str, str]:
    (status,) = client.status()["workspaces"]
    return {one["path"]: one["why"] for one in status["skipped"]}


def test_they_are_found_and_a_line_of_a_pdf_is_a_page(client: Client) -> None:
    assert places(client, "gasket Vienna") == [("papers/boiler-manual.pdf", 3)]
    (hit,) = client.query("sensor dirty", mode="text")["hits"]
    assert (hit["start_line"], hit["end_line"], hit["key"]) == (2, 2, "boiler-manual")
    assert hit["heading"] == "boiler manual"
    assert hit["text"] == "2. Errors E17 means that the flame sensor is dirty (clean it)."
    (block,) = client.grep("4711-B")["blocks"]
    assert (block["path"], block["line"]) == ("papers/boiler-manual.pdf", 3)
    assert client.get(path="papers/boiler-manual.pdf", from_=3, lines=1)["text"].startswith("Parts Order gasket")
    assert client.query("walrus", mode="text")["checked"] and not left_out(client)
    # Sections of the others are memories.
    assert [hit["key"] for hit in client.query("deposit euros", mode="text")["hits"]] == ["lease#deposit"]
    deposit = client.get("lease#deposit")["text"]
    assert deposit == "## Deposit\n\nThe deposit is 1,840 euros & stays with the landlord_ag."
    page = client.get(path="papers/clipping.html")["text"]
    assert page == "# Sourdough\n\n## Starter\n\nFeed it with **rye** at nächster dawn.\n\n- bannetons\n"
    book = client.get(path="papers/novel.epub")["text"]
    assert book.index("# The Long Walk") < book.index("Trieste") < book.index("## Dusk")
    notice = client.get("lease#notice")
    assert "declared" in notice and not notice["tags"] and not notice["declared"], "a document declares nothing"


def test_characters_of_a_page_are_those_that_people_type() -> None:
    text = document_process.readable("\u2f49\ufb01ne sen-\nsor, well-known\n\u5e74\n\u2f49")
    assert text == "\u6708fine sensor, well-known \u5e74\u6708"


@pytest.mark.parametrize("begin", ["---", "\ufeff---", "\ufeff\ufeff---", "--- \t"])
def test_a_document_has_no_front_matter(begin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(document_process.READERS, ".pdf", lambda data: data.decode())
    text = document_process.text_of(".pdf", f"{begin}\npinned: true\n---\n".encode(), 1_000)
    assert isinstance(text, bytes) and not read_front_matter(decode(text))[0].pinned and b"pinned: true" in text


def test_nothing_is_written_to_them(client: Client, shelf: Path) -> None:
    for name, refused in {
        "put": lambda: client.put("lease#deposit", text="None."),
        "rm": lambda: client.rm("lease#deposit"),
        "pin": lambda: client.curate("boiler-manual", "pin"),
        "tags": lambda: client.put("lease#notice", tags=["home"]),
    }.items():
        with pytest.raises(Refused, match="only reads"):
            refused()
        assert {path: (shelf / path).read_bytes() for path in FILES} == FILES, name
    assert client.curate("boiler-manual", "demote")["key"] == "boiler-manual", "what is observed is not in the file"
    done = client.export()
    assert "kite" in str(done) and "gasket" not in str(done)


def test_a_change_is_followed_and_a_text_goes_with_its_document(client: Client, home: Home, shelf: Path) -> None:
    manual = shelf / "papers/boiler-manual.pdf"
    manual.write_bytes(pdf("Only walruses remain."))
    eventually(lambda: places(client, "walruses", sync="none") == [("papers/boiler-manual.pdf", 1)])
    assert places(client, "gasket") == []
    manual.rename(shelf / "papers/second.pdf")
    assert places(client, "walruses") == [("papers/second.pdf", 1)]
    (shelf / "papers/second.pdf").unlink()
    assert places(client, "walruses") == []
    assert [one["what"] for one in client.log()["entries"] if one["what"] == "file-removed"] == []
    assert len(list((home.state / "documents").iterdir())) == len(FILES) - 2
    client.workspace_rm(path=shelf)
    assert list((home.state / "documents").iterdir()) == []


HOSTILE = {
    "garbage.pdf": os.urandom(5_000),
    "empty.pdf": b"",
    "scanned.pdf": pdf("", ""),
    "torn.docx": FILES["papers/lease.docx"][:-200],
    "other.docx": archive({"notes.txt": "no Word file"}),
    "circle.epub": archive({"META-INF/container.xml": "<a/>"}),
    "laughs.epub": archive({
        "META-INF/container.xml": '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "'
        + "&a;" * 3_000 + '"><!ENTITY c "' + "&b;" * 3_000 + '">]><l>&c;</l>',
    }),
    "binary.html": bytes(range(256)) * 40,
    "deep.html": b"<div>" * 5_000 + b"deep",
}  # fmt: skip


def test_what_cannot_be_read_is_listed_and_holds_up_nothing(client: Client, shelf: Path) -> None:
    for name, data in HOSTILE.items():
        (shelf / name).write_bytes(data)
    client.sync()
    told = left_out(client)
    assert set(told) == set(HOSTILE), told
    assert "no text" in told["scanned.pdf"]
    assert places(client, "kite") and places(client, "gasket"), "everything else goes on"


def test_what_could_not_be_read_is_not_tried_again_by_a_question(client: Client, home: Home, shelf: Path) -> None:
    big = archive({"META-INF/container.xml": '<a><rootfile full-path="p.opf"/></a>'} | {
        "p.opf": '<p><item id="a" href="a.html"/><itemref idref="a"/></p>', "a.html": "walrus " * 5_000_000,
    })  # fmt: skip
    (shelf / "scanned.pdf").write_bytes(HOSTILE["scanned.pdf"])
    (shelf / "big.epub").write_bytes(big)
    with (shelf / "large.pdf").open("wb") as large:
        large.truncate(65 << 20)
    client.sync()
    told = left_out(client)
    assert "index.max_file_kb" in told["big.epub"] and told["large.pdf"] == "a document may have 64 MB"
    kept = {place: place.stat().st_mtime_ns for place in (home.state / "documents").iterdir()}
    assert len(kept) == len(FILES) - 1 + 2 and max(place.stat().st_size for place in kept) < 10_000
    skipped = {one["path"]: one["why"] for one in client.grep("kite")["skipped"]}
    assert skipped == told
    assert {place: place.stat().st_mtime_ns for place in (home.state / "documents").iterdir()} == kept


@pytest.mark.parametrize("watch", ["auto", "poll"])
def test_a_note_does_not_wait_for_a_document_and_a_reader_may_die(client: Client, shelf: Path) -> None:
    (shelf / "long.pdf").write_bytes(pdf(*(f"Page {nth} about herons." for nth in range(300))))
    eventually(lambda: bool(readers(shelf)))
    (reader,) = readers(shelf)
    os.kill(reader, signal.SIGSTOP)
    (shelf / "notes.md").write_text("## Kite\n\nThe kite is green.\n")
    eventually(lambda: places(client, "green", sync="none") == [("notes.md", 1)])
    assert client.status()["pending_files"] >= 1
    os.kill(reader, signal.SIGKILL)
    eventually(lambda: "too much time or memory" in left_out(client).get("long.pdf", ""))
    os.utime(shelf / "long.pdf")
    assert places(client, "herons 299")[0] == ("long.pdf", 300)


def readers(shelf: Path) -> list[int]:
    """The processes of the daemon that read documents."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and b"document_process" in (entry / "cmdline").read_bytes():
                home = f"MEMD_HOME={shelf.parent}\0".encode()
                found += [int(entry.name)] if home in (entry / "environ").read_bytes() else []
    return found


def test_without_the_extra_they_are_left_out_with_the_command(home: Home, shelf: Path, tmp_path: Path) -> None:
    missing = "".join(f"sys.modules[{name!r}] = None\n" for name in set(DOCUMENTS.values()))
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n{missing}")
    home.from_nothing = True
    with home.start(PYTHONPATH=f"{tmp_path}:{ROOT}") as client:
        client.workspace_add(str(shelf), globs=GLOBS)
        client.sync()
        told = left_out(client)
        assert set(told) == set(FILES) - {"notes.md"}
        command = installation.extra("documents")
        assert all(command in why and "memd restart" in why for why in told.values())
        assert "memd[documents]" not in shlex.split(command)
        assert places(client, "kite")
    home.stop()
    with home.start() as client:
        assert client.sync()["files"] == len(FILES)
        assert places(client, "gasket"), "after it was installed they are read"
