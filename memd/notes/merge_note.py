"""git's merge driver for notes, `python -m memd.notes.merge_note BASE OURS THEIRS [PATH]`; it needs no daemon.

The merged note replaces OURS, as git wants it. The exit code is 1 where both sides changed the same lines: these
stand between markers, which memd shows to nobody.
"""

import sys
from pathlib import Path

from memd.notes.merging import Base, in_markers, merge
from memd.notes.read import UTF_16
from memd.notes.sections import BOM, in_bytes


def main(arguments: list[str]) -> int:
    base, ours, theirs = map(Path, arguments[:3])
    path = arguments[3] if len(arguments) > 3 else arguments[1]
    if any(file.read_bytes().startswith(UTF_16) for file in (ours, theirs)):
        print(f"{path}: UTF-16 is not merged", file=sys.stderr)
        return 1
    began, other = (file.read_bytes().removeprefix(BOM).decode(errors="surrogateescape") for file in (base, theirs))
    clashes: tuple[str, ...] = ()

    def merged(text: str | None) -> str:
        nonlocal clashes
        result = merge(path, text or "", other, Base(began), both=in_markers)
        clashes = tuple(clash.heading for clash in result.clashes)
        return result.text

    ours.write_bytes(in_bytes(merged)(ours.read_bytes()) or b"")
    if clashes:
        print(f"{path}: both sides changed: {', '.join(clashes)}; to settle it: memd conflict list", file=sys.stderr)
    return 1 if clashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
