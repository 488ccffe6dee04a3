"""Notes on a file system where the case of a name does not matter, as on macOS: exFAT, mounted for the test.

Needs root, `exfat-fuse` and `exfatprogs`; without them it is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memd.indexer.indexing.scan import NamesOnDisk
from memd.models import Workspace
from tests.conftest import Home, write_notes

TOOLS = ("losetup", "mkfs.exfat", "mount.exfat-fuse", "umount")
NOTES = {
    "memory/Notes.md": "# Notes\n\n## Heron\n\nThe heron nests by the pond.\n",
    "memory/Topics/Kettle.md": "# Kettle\n\nThe kettle whistles at nine.\n",
}


@pytest.fixture
def caseless(home: Home) -> Iterator[Path]:
    """A folder of notes in which `NOTES.md` is `Notes.md`."""
    folder, image = home.path.parent / "agent", home.path.parent / "exfat"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"no {', '.join(missing)}")
    subprocess.run(["mkfs.exfat", image], check=True, capture_output=True)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    device = made.stdout.strip()
    mounted = subprocess.run(["mount.exfat-fuse", device, folder], capture_output=True, text=True, check=False)
    if made.returncode or mounted.returncode:
        subprocess.run(["losetup", "--detach", device], capture_output=True, check=False)
        pytest.skip(f"a file system cannot be mounted here: {made.stderr or mounted.stderr}")
    yield write_notes(folder, NOTES)
    home.close()
    subprocess.run(["umount", folder], check=True)
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.mark.parametrize("watch", ["auto", "poll"])
def test_a_file_and_a_folder_renamed_by_case_alone_are_found_once_and_keep_their_lives(
    home: Home, caseless: Path, watch: str
) -> None:
    assert (caseless / "MEMORY/notes.md").exists()
    home.configure(f'[watch]\nmode = "{watch}"\n')
    with home.start() as client:
        client.workspace_add(str(caseless))
        client.sync()
        (caseless / "memory/Notes.md").rename(caseless / "memory/notes.md")
        (caseless / "memory/Topics").rename(caseless / "memory/topics")
        client.sync()
        found = {memory["path"]: memory["key"] for memory in client.list()["memories"]}
        assert found == {"memory/notes.md": "notes#heron", "memory/topics/Kettle.md": "Kettle"}
        for key, word, former in (("notes#heron", "heron", "Notes.md"), ("Kettle", "whistles", "Topics/Kettle.md")):
            (hit,) = client.query(word, mode="text")["hits"]
            assert hit["key"] == key and client.get(key)["path"] == hit["path"]
            assert [version["path"] for version in client.history(key)["versions"]] == [f"memory/{former}"]
        # Another text in the same file is a version of the same memory.
        (caseless / "memory/notes.md").write_text("# Notes\n\n## Heron\n\nThe heron has left the pond.\n")
        client.sync()
        (hit,) = client.query("heron", mode="text")["hits"]
        assert (hit["path"], client.get("notes#heron")["version"]) == ("memory/notes.md", 2)


def test_memories_are_written_without_hard_links(home: Home, caseless: Path) -> None:
    with home.start() as client:
        client.workspace_add(str(caseless))
        client.sync()
        client.put("Kettle", "The kettle is broken.")
        client.put("lamp", "Forty watts.")
        client.sync()
        for key, word, name in (("Kettle", "broken", "Kettle.md"), ("lamp", "watts", "lamp.md")):
            assert word in (caseless / "memory/Topics" / name).read_text()
            assert [hit["key"] for hit in client.query(word, mode="text")["hits"]] == [key]
        assert sorted(file.name for file in caseless.rglob("*.*")) == ["Kettle.md", "Notes.md", "lamp.md"]


def test_what_is_written_into_a_folder_of_another_case_is_found_and_undone_at_once(home: Home, caseless: Path) -> None:
    home.configure('[watch]\nmode = "poll"\npoll_seconds = 3600\n')
    with home.start() as client:
        client.workspace_add(str(caseless))
        client.sync()
        done = client.put("lamp", "Forty watts.")
        assert client.get("lamp")["path"] == "memory/Topics/lamp.md"
        client.undo(done["action"])
        assert [memory["key"] for memory in client.list()["memories"]] == ["Notes#heron", "Kettle"]


def test_a_folder_that_a_glob_names_in_another_case_is_read_and_written(home: Home, caseless: Path) -> None:
    (caseless / "memory").rename(caseless / "Memory")
    with home.start() as client:
        client.workspace_add(str(caseless))
        client.sync()
        client.put("lamp", "Forty watts.")
        paths = {memory["path"] for memory in client.list()["memories"]}
        assert paths == {"memory/Notes.md", "memory/Topics/Kettle.md", "memory/Topics/lamp.md"}


def test_each_folder_is_listed_once(caseless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (caseless / "memory/Topics/Café.md").write_text("Black.\n")
    names, listed, scandir = NamesOnDisk(Workspace("agent", caseless)), list[Path](), os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: listed.append(folder) or scandir(folder))
    wanted = {
        "memory/NOTES.MD": "memory/Notes.md",
        "memory/topics/kettle.md": "memory/Topics/Kettle.md",
        "memory/topics/CAFÉ.md": "memory/Topics/Café.md",
        "memory/topics/new.md": "memory/Topics/new.md",
        "memory/new/Note.md": "memory/new/Note.md",
    }
    assert {path: names.spelled(path) for path in wanted} == wanted
    assert len(listed) == len(set(listed)) == 2
