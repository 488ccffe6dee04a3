"""What an installation of memd takes, by package: python release/sizes.py [--top N]

For each package that memd asks for: its own size, and what would go with it, as nothing else needs that.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import Distribution
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from release.dependencies import asked_for, installed, name_of, reached


def size_of(package: Distribution) -> int:
    """The bytes of its files, without what Python compiles from them."""
    files = (Path(str(package.locate_file(file))) for file in package.files or () if file.suffix != ".pyc")
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--top", type=int, default=12)
    top = parser.parse_args().top
    there = installed()
    roots = asked_for()
    sizes = {name: size_of(there[name]) / 1e6 for name in reached(roots, there) & there.keys()}
    print(f"{sum(sizes.values()):.0f} MB in {len(sizes)} packages, without compiled bytecode\n")
    print("| asked for | MB | goes with it | MB |\n|---|---|---|---|")
    rows = []
    for root in roots:
        alone = sizes.keys() - reached([one for one in roots if one is not root], there)
        brought = sorted(alone - {name_of(root.name)}, key=lambda name: -sizes[name])
        rows.append((sum(sizes[name] for name in alone), name_of(root.name), brought))
    for total, name, brought in sorted(rows, reverse=True)[:top]:
        largest = ", ".join(f"{one} {sizes[one]:.0f}" for one in brought[:5])
        more = f", {len(brought) - 5} more" if len(brought) > 5 else ""
        print(f"| {name} | {sizes[name]:.0f} | {largest}{more} | {total:.0f} |")


if __name__ == "__main__":
    main()
