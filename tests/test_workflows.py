"""The workflow of the forge runs make targets only, on every Python that memd promises; its forms are whole."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT

GITHUB = ROOT / ".github"
FORMS = sorted(file for file in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if file.name != "config.yml")


def read(file: Path) -> Any:
    return YAML(typ="safe").load(file)


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    (workflow,) = (GITHUB / "workflows").glob("*.yml")
    return dict(read(workflow)["jobs"])


def test_every_step_is_a_make_target_or_a_pinned_action(jobs: dict[str, Any]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for step in [step for job in jobs.values() for step in job["steps"]]:
        if "run" in step:
            make, target = step["run"].split()
            assert make == "make" and target in targets, step
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", step["uses"]), step


def test_it_tests_every_python_that_is_promised_on_two_architectures(jobs: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert matrix["python"] == promised and len(promised) == 4
    assert f"**Python** {promised[0]} to {promised[-1]}." in (ROOT / "docs/stability.md").read_text(encoding="utf-8")
    assert [one.endswith("-arm") for one in matrix["os"]] == [False, True]
    assert {"run": "make test"} in jobs["test"]["steps"] and "make test" in (ROOT / ".ci/run").read_text()


def test_only_the_job_that_publishes_may_and_only_after_the_others(jobs: dict[str, Any]) -> None:
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"} and sorted(publish["needs"]) == ["release", "test"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_asks_for_something_and_names_commands_that_exist(form: Path) -> None:
    from tests.test_docs import commands

    asked = read(form)
    fields = [field for field in asked["body"] if field["type"] != "markdown"]
    assert asked["name"] and asked["description"] and any(field["validations"]["required"] for field in fields[:1])
    assert len({field["id"] for field in fields}) == len(fields)
    named = re.findall(r"`memd ([a-z][a-z-]*)", form.read_text(encoding="utf-8"))
    assert set(named) <= commands().keys()
