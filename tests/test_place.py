"""The suite passes wherever the checkout stands, for whoever follows the README: `git clone … memd && make test`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE, ROOT

NAMES_A_PATH = (
    "unit/test_installation.py",
    "test_outline_daemon.py::test_without_the_extra_it_says_what_to_install[tree_sitter]",
    "test_cli.py::test_bash_completes_commands_flags_workspaces_keys_agents_and_jobs[memd connect claude--offered4]",
    "test_connect.py::test_a_hook_as_it_was_written_runs",
    "test_service.py::test_print_shows_the_units_and_writes_nothing",
    "test_docs.py::test_the_shell_examples_work",
    "test_docs.py::test_the_python_examples_work",
    "test_mcp_bridge.py::test_the_example_of_the_manual_works",
    "test_light_imports.py",
)
"""Tests that hand the place of the checkout, or of its Python, to a shell, a unit, an installer or another process."""

READ_ONLY_PARENT = """
mount --bind "$0" "$0" && mount --bind "$0/memd" "$0/memd" && mount -o remount,bind,ro "$0" || exit 99
! touch "$0/probe" 2>/dev/null && cd "$0/memd" && exec "$@"
"""
"""For root, whom no mode keeps from writing; in a mount namespace of its own."""


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A copy of this one, with an environment of its own that has the packages of the present one."""
    place = tmp_path / "a ü [x]" / "memd"
    left_out = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".demo", "dist", "build")
    shutil.copytree(ROOT, place, ignore=left_out)
    venv.create(place / ".venv", symlinks=True)
    (site,) = (place / ".venv" / "lib").glob("python*/site-packages")
    (info,) = Path(sysconfig.get_path("purelib")).glob("memd_daemon-*.dist-info")
    shutil.copytree(info, site / info.name)
    (site / "the-others.pth").write_text(f"{place}\n{info.parent}\n", encoding="utf-8")
    (site / info.name / "direct_url.json").write_text(
        f'{{"url": "{place.as_uri()}", "dir_info": {{"editable": true}}}}', encoding="utf-8"
    )
    (place / ".venv" / ".installed").touch()
    place.parent.chmod(0o555)
    yield place
    place.parent.chmod(0o755)


def test_the_suite_does_not_depend_on_where_it_stands(checkout: Path) -> None:
    """A folder called memd, in one with a space, an umlaut and a bracket, that is read-only, without HOME."""
    given = " ".join(f"'tests/{name}'" for name in NAMES_A_PATH)
    command = ["make", "tests", f"ARGS=-n 0 {given}"]
    if os.getuid() == 0:
        command = ["unshare", "--mount", "sh", "-c", READ_ONLY_PARENT, str(checkout.parent), *command]
    env = {name: value for name, value in os.environ.items() if name != "HOME" and not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
