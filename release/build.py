"""Builds what is given away, into dist/: sdist and wheel, the SBOM, checksums, and signatures where a key is given.

python release/build.py              sdist and wheel in dist/pypi, built twice from the last commit, with the same bytes
python release/build.py --deb 3.13   also a Debian package for the system's Python of that version
python release/build.py --sign KEY   with a signature of SHA256SUMS by that key of gpg

Only the last commit is built: SOURCE_DATE_EPOCH is its time, so whoever builds it again gets the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
sys.path.insert(0, str(ROOT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deb", metavar="PYTHON", action="append", default=[])
    parser.add_argument("--sign", metavar="KEY")
    options = parser.parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    (DIST / "pypi").mkdir(parents=True)
    os.environ["SOURCE_DATE_EPOCH"] = _git("log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory(prefix="memd-build-") as place:
        for file in _build_twice(Path(place)):
            shutil.move(file, DIST / "pypi")
    (wheel,) = DIST.rglob("*.whl")
    with (DIST / f"{wheel.name.split('-py3')[0]}.cdx.json").open("wb") as sbom:
        subprocess.run([sys.executable, ROOT / "release/dependencies.py", "sbom"], stdout=sbom, check=True)
    for python in options.deb:
        from release import deb

        deb.build(wheel, python, DIST)
    _write_checksums(options.sign)
    return 0


def _build_twice(place: Path) -> list[Path]:
    """Two builds, each from its own copy of the last commit; they stop the release where they differ."""
    made = [_build(place / nth) for nth in ("first", "second")]
    first, second = ({file.name: digest(file) for file in files} for files in made)
    if first != second:
        sys.exit(f"two builds differ: {first} and {second}")
    for name, found in first.items():
        print(f"{found}  {name}: both builds")
    return made[0]


def _build(place: Path) -> list[Path]:
    place.mkdir()
    archive = place / "source.tar"
    _git("archive", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as source:
        source.extractall(place / "source", filter="data")
    command = [sys.executable, "-m", "build", "--outdir", str(place / "made"), str(place / "source")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted((place / "made").iterdir())


def _write_checksums(key: str | None) -> None:
    sums = DIST / "SHA256SUMS"
    files = sorted(file for file in DIST.rglob("*") if file.is_file() and file != sums)
    sums.write_text("".join(f"{digest(file)}  {file.relative_to(DIST)}\n" for file in files), encoding="utf-8")
    if key:
        command = ["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", str(sums)]
        subprocess.run(command, check=True)
    print(sums.read_text(encoding="utf-8"), end="")


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
