"""Hints to install something name the command for the way memd was installed, and another `memd` is noticed."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from memd import installation

CHECKOUT = "/home/ann/src/mem d"


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of its own; no distribution is in it yet."""
    place = tmp_path / "venvs" / "memd-daemon"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").touch()
    monkeypatch.setattr(sys, "prefix", str(place))
    monkeypatch.setattr(sys, "executable", str(place / "bin" / "python"))
    monkeypatch.setattr(sys, "path", [str(place)])
    return place


def install(prefix: Path, name: str, direct_url: dict[str, object] | None = None) -> None:
    info = prefix / f"{name.replace('-', '_')}-0.5.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.5.0\n")
    if direct_url:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    assert Distribution.at(info).name == name


def test_pipx_and_uv_install_the_command_again_with_the_extra(prefix):
    install(prefix, "memd-daemon")
    (prefix / "pipx_metadata.json").touch()
    assert installation.extra("outline") == "pipx install --force 'memd-daemon[outline]'"
    assert installation.packages("onnx") == "pipx runpip memd-daemon install onnx"
    (prefix / "pipx_metadata.json").rename(prefix / "uv-receipt.toml")
    assert installation.extra("outline") == "uv tool install --force 'memd-daemon[outline]'"
    python = shlex.quote(sys.executable)
    assert installation.packages("onnx", again=True) == f"uv pip install --python {python} --force-reinstall onnx"


def test_pip_is_that_of_memds_own_environment(prefix):
    install(prefix, "memd-daemon")
    install(prefix, "pip")
    assert installation.extra("outline") == f"{sys.executable} -m pip install 'memd-daemon[outline]'"


@pytest.mark.parametrize(
    ("direct_url", "words"),
    [
        ({"url": "file:///home/ann/src/mem%20d", "dir_info": {"editable": True}}, ["--editable", f"{CHECKOUT}[all]"]),
        ({"url": "file:///home/ann/src/mem%20d", "dir_info": {}}, [f"{CHECKOUT}[all]"]),
        (
            {"url": "https://example.org/memd.git", "vcs_info": {"vcs": "git"}},
            ["memd-daemon[all] @ git+https://example.org/memd.git"],
        ),
    ],
)
def test_what_came_from_a_checkout_comes_from_there_again(prefix, direct_url, words):
    install(prefix, "memd-daemon", direct_url)
    install(prefix, "pip")
    assert shlex.split(installation.extra("all")) == [sys.executable, "-m", "pip", "install", *words]


def test_another_program_called_memd_is_noticed_and_ours_is_not(prefix, tmp_path):
    install(prefix, "memd-daemon")
    folder = tmp_path / "other"
    folder.mkdir()
    command, ours = folder / "memd", prefix / "bin" / "memd"
    path = f"{folder}:{prefix / 'bin'}"
    for program, interpreter in ((ours, sys.executable), (command, "/usr/bin/python3")):
        program.write_text(f"#!{interpreter}\n")
        program.chmod(0o755)
    ((what, how),) = installation.others(path)
    assert str(command) in what and str(prefix / "bin") in how
    command.write_text(f"#!/bin/sh\n'''exec' {sys.executable}3.11 \"$0\"\n")
    assert installation.others(path) == [], "a script that runs this Python is ours"
    command.unlink()
    command.symlink_to(ours)
    assert installation.others(path) == [] == installation.others("/nowhere")
    install(prefix, "memd")
    ((what, how),) = installation.others(path)
    assert "memd 0.5.0 is another project" in what and "pip uninstall" in how and " memd; then" in how
