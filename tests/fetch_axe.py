"""Fetches axe-core, which looks for faults of accessibility, for the tests of the page: `make axe`."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.0"
SHA512 = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
"""Of the package, as the registry names it."""
FILE = Path(__file__).parent.parent / ".axe" / f"axe-{VERSION}.min.js"


def fetch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"axe-core@{VERSION}"], cwd=folder, check=True, stdout=sys.stderr)
        (package,) = Path(folder).glob("*.tgz")
        if base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() != SHA512:
            raise SystemExit("the package is not the one that is expected")
        with tarfile.open(package) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            FILE.parent.mkdir(exist_ok=True)
            FILE.write_bytes(script.read())


if __name__ == "__main__":
    fetch()
