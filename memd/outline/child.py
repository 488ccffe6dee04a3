"""Parses files in processes of their own: two cores at work, and a parser that crashes or hangs takes nobody along."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from memd.errors import Refused
from memd.failpoints import failpoint
from memd.outline import facts as forms
from memd.outline import languages
from memd.outline.reading import facts_at

CHILDREN = 2
GENTLE = 2
SECONDS = 20
"""The longest that one file may take."""
CRASHED = f"the parser crashed on it, or took more than {SECONDS} seconds"
FEW = 8
SMALL = 512 * 1024
"""A handful of files that are not large together is parsed here and now; more goes to children."""


class Parsed(NamedTuple):
    """What became of one file: the hash of its bytes and its facts as text; `gone` when it could not be read."""

    path: str
    digest: str
    body: str
    gone: str = ""


def parsed(root: Path, sizes: dict[str, int], max_bytes: int) -> Iterator[Parsed]:
    """Parse files, given with their sizes, in any order."""
    if len(sizes) <= FEW and sum(sizes.values()) <= SMALL:
        yield from (_one(root, path, max_bytes) for path in sizes)
        return
    # Large ones first, so that no child is left with one at the end.
    ordered = sorted(sizes, key=lambda path: (-sizes[path], path))
    done: queue.Queue[Parsed | None] = queue.Queue()
    shares = [ordered[nth::CHILDREN] for nth in range(CHILDREN)]
    for share in shares:
        threading.Thread(target=_follow, args=(root, share, max_bytes, done), daemon=True).start()
    ended = 0
    while ended < len(shares):
        one = done.get()
        if one is None:
            ended += 1
        else:
            yield one


def _one(root: Path, path: str, max_bytes: int) -> Parsed:
    try:
        data, found = facts_at(root / path, max_bytes)
    except OSError as error:
        return Parsed(path, "", "", f"it cannot be read: {error.strerror or error}")
    except RecursionError:
        return Parsed(path, "", "", "it is nested too deep")
    except Refused as error:
        # Without a hash it is not kept, and read again once the grammar is there.
        return Parsed(path, "", "", error.message)
    # What depends on a setting rather than on the bytes is not kept.
    return Parsed(path, digest_of(data) if len(data) <= max_bytes else "", forms.encode(found))


def digest_of(data: bytes) -> str:
    """The name under which the facts of these bytes are kept."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _follow(root: Path, share: list[str], max_bytes: int, done: queue.Queue[Parsed | None]) -> None:
    """Have a share of the files parsed; a file that ends its child is told, and another child goes on after it."""
    try:
        while share:
            answered = 0
            for one in _answers(root, share, max_bytes):
                done.put(one)
                answered += 1
            share = share[answered:]
            if share:
                lost = forms.nothing(languages.of_path(share[0])[-1].name, CRASHED)
                done.put(Parsed(share[0], "", forms.encode(lost), CRASHED))
                share = share[1:]
    finally:
        done.put(None)


def _answers(root: Path, share: list[str], max_bytes: int) -> Iterator[Parsed]:
    command = [sys.executable, "-P", "-W", "ignore", "-m", "memd.outline.child", os.fspath(root), str(max_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps(share).encode())
            child.stdin.close()
        except BrokenPipeError:
            return
        for line in child.stdout:
            if line.endswith(b"\n"):
                yield Parsed(*json.loads(line))


def main(root: str, max_bytes: str) -> None:
    """The child: reads all paths, then answers a line each; it ends with its parent, whose end of the pipe closes."""
    os.nice(GENTLE)
    # Its default is to end the process, also in the middle of the parser.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for path in json.load(sys.stdin):
        signal.alarm(SECONDS)
        failpoint("outline-parse")
        told = json.dumps(_one(Path(root), path, int(max_bytes)))
        signal.alarm(0)
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
