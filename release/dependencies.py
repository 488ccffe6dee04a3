"""memd's dependencies: compares what is installed with release/requirements.lock, and writes it down as an SBOM.

python release/dependencies.py check    every version is the locked one, and every file is as its package recorded it
python release/dependencies.py sbom     CycloneDX 1.6 on standard output, the same bytes for the same packages
python release/dependencies.py needed   the lines of the lock that memd needs to run, without what only its tests need
None of them needs a network.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, distributions, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
LOCK = Path(__file__).with_name("requirements.lock")
OWN = "memd-daemon"
TOOLS = {"pip", "setuptools", "wheel"}
"""The packages that make an environment, and are not in the lock."""


def name_of(text: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", text).lower()


def lines_of_lock() -> dict[str, Requirement]:
    """The lines, each with what it asks for."""
    lines = LOCK.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return {line: Requirement(line.partition(" --hash")[0]) for line in lines if line and not line.startswith("#")}


def locked() -> dict[str, str]:
    """The version of every package that this Python needs."""
    fitting = [one for one in lines_of_lock().values() if one.marker is None or one.marker.evaluate()]
    return {name_of(one.name): str(one.specifier).removeprefix("==") for one in fitting}


def installed() -> dict[str, Distribution]:
    found = {name_of(one.metadata["Name"]): one for one in distributions()}
    return {name: one for name, one in sorted(found.items()) if name not in TOOLS}


def asked_for(*extras: str) -> list[Requirement]:
    """What pyproject.toml says that memd needs, and what these extras add."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    optional = [text for extra in extras for text in project["optional-dependencies"][extra]]
    return [Requirement(text) for text in [*project["dependencies"], *optional]]


def reached(roots: Iterable[Requirement], there: dict[str, Distribution]) -> set[str]:
    """The packages that these ask for, with all that those ask for."""
    found: set[tuple[str, frozenset[str]]] = set()
    ahead = list(roots)
    while ahead:
        need = ahead.pop()
        one = (name_of(need.name), frozenset(need.extras))
        if one not in found:
            found.add(one)
            ahead += requirements_of(there[one[0]], need.extras) if one[0] in there else []
    return {name for name, _ in found}


def needed() -> set[str]:
    """The packages that memd needs to run, with everything that is optional."""
    return reached(asked_for("outline"), installed())


def requirements_of(package: Distribution, extras: Iterable[str] = ()) -> list[Requirement]:
    """What a package asks for here, with these extras."""
    wanted = (Requirement(text) for text in package.requires or ())
    return [one for one in wanted if not one.marker or any(one.marker.evaluate({"extra": it}) for it in ("", *extras))]


# --- checking -----------------------------------------------------------------------------------------------------


def problems() -> Iterator[str]:
    wanted, there = locked(), installed()
    for name, one in there.items():
        if name != OWN and one.version != wanted.get(name):
            yield f"{name} {one.version} is installed, the lock has {wanted.get(name, 'none')}"
        yield from (f"{name}: {file} is not as it was installed" for file in _changed(one))
    yield from (f"{name} {wanted[name]} is not installed" for name in sorted(wanted.keys() - there.keys()))


def _changed(package: Distribution) -> Iterator[str]:
    """The files that are not as their package recorded them; `files` would leave out those that are gone."""
    for path, recorded, _ in csv.reader((package.read_text("RECORD") or "").splitlines()):
        kind, _, value = recorded.partition("=")
        if kind == "sha256" and _digest(Path(str(package.locate_file(path)))) != value:
            yield path


def _digest(file: Path) -> str:
    """As a package records it; empty when the file cannot be read."""
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# --- the bill of materials ----------------------------------------------------------------------------------------


def sbom() -> dict[str, Any]:
    wanted = needed()
    there = {name: one for name, one in installed().items() if name in wanted or name == OWN}
    needs = [{"ref": _ref(name, one), "dependsOn": _needs(one, there)} for name, one in there.items()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(OWN, distribution(OWN), "application")},
        "components": [_component(name, one, "library") for name, one in there.items() if name != OWN],
        "dependencies": needs,
    }


def _component(name: str, one: Distribution, kind: str) -> dict[str, Any]:
    license_text = one.metadata.get("License-Expression") or one.metadata.get("License") or ""
    known = {"licenses": [{"license": {"name": license_text}}]} if license_text and "\n" not in license_text else {}
    ref = _ref(name, one)
    return {"type": kind, "bom-ref": ref, "name": name, "version": one.version, "purl": ref, **known}


def _ref(name: str, one: Distribution) -> str:
    return f"pkg:pypi/{name}@{one.version}"


def _needs(one: Distribution, there: dict[str, Distribution]) -> list[str]:
    fitting = {name_of(need.name) for need in requirements_of(one)}
    return sorted(_ref(name, there[name]) for name in fitting if name in there)


def main(command: str) -> int:
    if command == "sbom":
        print(json.dumps(sbom(), indent=2, ensure_ascii=False))
        return 0
    if command == "needed":
        wanted = needed()
        print("\n".join(line for line, need in lines_of_lock().items() if name_of(need.name) in wanted))
        return 0
    found = list(problems())
    print("\n".join(found) or f"memd {version(OWN)}: {len(locked())} packages are as the lock says")
    return 1 if found else 0


if __name__ == "__main__":
    if sys.argv[1:] not in (["check"], ["sbom"], ["needed"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
