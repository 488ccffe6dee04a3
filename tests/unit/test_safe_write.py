"""The pen on real files: what it writes, what it leaves alone, and what happens when others write too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memd.errors import Conflict, Refused
from memd.models import digest_of
from memd.notes import safe_write
from memd.notes.safe_write import sweep
from tests.conftest import ROOT
from tests.faults.agreement import rounds

APPENDER = """
import os, sys
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for nth in range(count):
    with open(path, "ab", buffering=0) as file:
        file.write(f"{name}-{nth}\\n".encode())
"""

KILLED = """
import os, sys
from pathlib import Path
from memd.notes import safe_write
safe_write.rewrite(Path(sys.argv[1]), lambda data: b"new text\\n")
"""


# --- what it writes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["\nthree\n", "\r\nthree\r\n", "\nthree\r\n"])
def test_an_append_follows_the_file_it_is_made_to(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    written = safe_write.append(file, text)
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\ntwo\r\n\r\nthree\r\n"
    assert (written.before, written.after) == (b"\xef\xbb\xbfone\r\ntwo", file.read_bytes())


def test_a_new_file_begins_with_its_head(tmp_path: Path) -> None:
    safe_write.append(tmp_path / "deep" / "er" / "a.md", "text\n", "# Head\n")
    assert (tmp_path / "deep" / "er" / "a.md").read_bytes() == b"# Head\ntext\n"


def test_a_rewrite_keeps_mode_and_owner_and_leaves_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"old\n")
    file.chmod(0o640)
    told: list[tuple[bytes | None, bytes | None]] = []
    written = safe_write.rewrite(file, lambda data: b"new\n", lambda old, new: told.append((old, file.read_bytes())))
    assert file.read_bytes() == b"new\n" and file.stat().st_mode & 0o777 == 0o640
    assert told == [(b"old\n", b"old\n")], "the intent is told before the file changes"
    assert not written.conflict and os.listdir(tmp_path) == ["a.md"]


def test_a_rewrite_to_nothing_removes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"old\n")
    assert safe_write.rewrite(file, lambda data: None).before == b"old\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("write", [
    lambda file: safe_write.append(file, "new\n"),
    lambda file: safe_write.rewrite(file, lambda data: b"new\n"),
])  # fmt: skip
def test_a_new_file_has_the_mode_of_its_neighbours(tmp_path: Path, write: Callable[[Path], object]) -> None:
    """Whatever the umask: that of the service is 077, and a file that comes back would be hidden from others."""
    for name, mode in {"a.md": 0o644, "b.md": 0o644, "c.md": 0o600, ".hidden": 0o666, ".other": 0o666}.items():
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    before = os.umask(0o077)
    try:
        write(tmp_path / "new.md")
        (tmp_path / "alone").mkdir()
        write(tmp_path / "alone" / "new.md")
    finally:
        os.umask(before)
    assert (tmp_path / "new.md").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "alone" / "new.md").stat().st_mode & 0o777 == 0o600, "nobody to be like"


def test_what_is_not_changed_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"old\n")
    before = file.stat()
    safe_write.rewrite(file, lambda data: data)
    assert file.stat().st_mtime_ns == before.st_mtime_ns and file.stat().st_ino == before.st_ino


@pytest.mark.parametrize("odd", ["hard", "out", "folder"])
def test_odd_places_are_refused(tmp_path: Path, odd: str) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "outside.md").write_text("x")
    if odd == "hard":
        (root / "a.md").hardlink_to(tmp_path / "outside.md")
    elif odd == "out":
        (root / "a.md").symlink_to(tmp_path / "outside.md")
    else:
        (root / "a.md").mkdir()
    with pytest.raises(Refused):
        safe_write.place_of(root, "a.md")
    assert (tmp_path / "outside.md").read_text() == "x"


def test_a_link_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old\n")
    (tmp_path / "a.md").symlink_to("real.md")
    safe_write.rewrite(safe_write.place_of(tmp_path, "a.md"), lambda data: b"new\n")
    assert (tmp_path / "a.md").is_symlink() and (tmp_path / "real.md").read_text() == "new\n"


# --- on the disk ------------------------------------------------------------------------------------------------


def test_an_append_is_on_the_disk_when_it_returns(tmp_path: Path, synced: list[tuple[str, bytes]]) -> None:
    """The file with the text; and the folder, where the name is new."""
    file = tmp_path / "a.md"
    safe_write.append(file, "one\n")
    assert synced == [("a.md", b"one\n"), (tmp_path.name, b"")]
    synced.clear()
    safe_write.append(file, "two\n")
    assert synced == [("a.md", b"one\ntwo\n")]


def test_a_rewrite_is_on_the_disk_before_it_takes_the_name_and_the_name_is_when_it_returns(
    tmp_path: Path, synced: list[tuple[str, bytes]]
) -> None:
    file = tmp_path / "a.md"
    safe_write.rewrite(file, lambda data: b"one\n")
    (fresh, text), folder = synced
    assert fresh.endswith(safe_write.ASIDE) and text == b"one\n" and folder == (tmp_path.name, b"")
    synced.clear()
    safe_write.rewrite(file, lambda data: b"two\n")
    (fresh, text), *_, folder = synced
    assert fresh.endswith(safe_write.ASIDE) and text == b"two\n" and folder == (tmp_path.name, b"")
    synced.clear()
    safe_write.rewrite(file, lambda data: None)
    assert synced == [(tmp_path.name, b"")], "a removal"


# --- others write too -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "tried"), [(3_600.0, safe_write.ATTEMPTS), (0.0, 1)])
def test_a_file_that_keeps_changing_is_a_conflict_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, tried: int
) -> None:
    monkeypatch.setattr(safe_write, "PATIENT_SECONDS", seconds)
    file = tmp_path / "a.md"
    file.write_bytes(b"0")

    def edit(data: bytes | None) -> bytes:
        file.write_bytes(str(int(data or b"0") + 1).encode())
        return b"mine"

    with pytest.raises(Conflict):
        safe_write.rewrite(file, edit)
    assert file.read_bytes() == str(tried).encode() and os.listdir(tmp_path) == ["a.md"]


@pytest.mark.linux  # only a lease tells that somebody has the old file open
def test_a_line_that_is_written_to_the_old_file_is_carried_over(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"old\n")
    other = file.open("ab", buffering=0)

    def intend(old: bytes | None, new: bytes | None) -> None:
        # Held open over the exchange, written a moment later.
        subprocess.Popen(
            [sys.executable, "-c", "import sys, time; time.sleep(0.1); sys.stdout.buffer.write(b'late\\n')"],
            stdout=other.fileno(),
        )
        other.close()

    safe_write.rewrite(file, lambda data: b"new\n", intend)
    assert file.read_bytes() == b"new\nlate\n" and os.listdir(tmp_path) == ["a.md"]


def test_two_appenders_and_a_rewriter_lose_no_line(tmp_path: Path) -> None:
    """The counts of a soak are the ones at which check-and-replace lost lines."""
    file, lines = tmp_path / "a.md", rounds(300, 20_000)
    file.write_bytes(b"top 0\n")
    appenders = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(file), name, str(lines)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    for appender in appenders:
        assert appender.stdout is not None and appender.stdin is not None
        assert appender.stdout.readline() == "ready\n"
    for appender in appenders:
        assert appender.stdin is not None
        appender.stdin.write("go\n")
        appender.stdin.flush()
    rewrites = conflicts = 0
    while any(appender.poll() is None for appender in appenders) or rewrites < 20:
        try:
            safe_write.rewrite(file, _count_up)
            rewrites += 1
        except Conflict:
            conflicts += 1
    found = file.read_text().splitlines()
    for copy in tmp_path.glob("*.conflict-*"):
        found += copy.read_text().splitlines()
    for name in ("one", "two"):
        assert not {f"{name}-{nth}" for nth in range(lines)} - set(found), f"{rewrites} rewrites, {conflicts} conflicts"
    assert found[0] == f"top {rewrites}"


def _count_up(data: bytes | None) -> bytes:
    first, _, rest = (data or b"").partition(b"\n")
    return b"top %d\n" % (int(first.split()[1]) + 1) + rest


# --- killed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "stands"), [("safe-write-before-exchange", b"old\n"), ("safe-write-exchanged", b"new text\n")]
)
def test_a_killed_rewrite_is_before_or_after_and_is_swept(tmp_path: Path, place: str, stands: bytes) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"old\n")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "MEMD_FAILPOINT": place}, check=False,
    )  # fmt: skip
    assert done.returncode == -9 and file.read_bytes() == stands
    assert len(os.listdir(tmp_path)) == 2
    assert sweep(tmp_path, lambda data: data == b"new text\n") == []
    assert os.listdir(tmp_path) == ["a.md"] and file.read_bytes() == stands


def test_a_late_line_in_a_leftover_is_kept_in_a_copy(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"new\n")
    (tmp_path / f".a.md.{digest_of(b'old')}.0000{safe_write.ASIDE}").write_bytes(b"old, and a late line")
    (copy,) = sweep(tmp_path)
    assert (tmp_path / copy).read_bytes() == b"old, and a late line"
    assert sorted(os.listdir(tmp_path)) == sorted(["a.md", copy])
