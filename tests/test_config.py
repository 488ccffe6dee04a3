"""The settings: every problem is told at once and in its place, and memd's edits leave the rest of the file alone."""

from __future__ import annotations

import multiprocessing
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from memd.config import edit, paths
from memd.config.declared import docs_of, fields_of
from memd.config.load import ENV_PREFIX, load
from memd.config.schema import SECTIONS, Settings
from memd.errors import AlreadyExists, ConfigError, Refused, UnsafePlace
from memd.models import DEFAULT_GLOBS, Workspace


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config file of a home of its own; not there yet."""
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMD_HOME", str(tmp_path))
    return tmp_path / "config.toml"


def problems(config: Path, text: str = "", **environ: str) -> list[str]:
    """What is wrong, one line each, with the file's own path shortened."""
    config.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(environ=environ)
    assert caught.value.hint
    head, *lines = caught.value.message.split("\n  ")
    assert head.startswith(f"{len(lines)} problem")
    return [line.replace(str(config), "config") for line in lines]


# --- reading ----------------------------------------------------------------------------------------------------


def test_without_a_file_the_defaults_hold(config: Path) -> None:
    assert load(environ={}) == Settings()
    config.write_text("")
    assert load(environ={}) == Settings()


def test_what_the_file_says_counts(config: Path) -> None:
    config.write_text('[watch]\nsettle_ms = 5\npoll_seconds = 3\n[log]\nlevel = "debug"\n')
    found = load(environ={})
    assert (found.watch.settle_ms, found.watch.poll_seconds, found.log.level) == (5, 3.0, "debug")
    assert isinstance(found.watch.poll_seconds, float)
    assert found.watch.scan_seconds == Settings().watch.scan_seconds


def test_all_problems_are_told_at_once_with_file_and_line(config: Path) -> None:
    text = """\
# comment
[watch]
settle_ms = "soon"
scan_secnods = 5

[serch]
limit = 3

[log]
level = "xyz"
files = 1000

[[workspace]]
ns = "a"
[[workspace]]
path = "relative/place"
ns = "two words"
globs = ["../*.md"]
"""
    assert problems(config, text, MEMD_SERVER__MAX_CLIENTS="none", MEMD_SERVR__X="1") == [
        "config:3: `watch.settle_ms` must be a whole number from 0 to 10000, not 'soon'",
        "config:4: unknown setting `watch.scan_secnods`; did you mean `scan_seconds`?",
        "config:10: `log.level` must be one of debug, info, warning, error, not 'xyz'",
        "config:11: `log.files` must be a whole number from 1 to 100, not 1000",
        "config:6: unknown section `serch`; did you mean `search`?",
        "config:13: a workspace needs a `path`",
        "config:16: `path` must be absolute or begin with ~, not 'relative/place'",
        "config:17: `ns` must be a name without spaces or slashes, not 'two words'",
        "config:18: `globs` must be a list of patterns inside the workspace, not ['../*.md']",
        "$MEMD_SERVER__MAX_CLIENTS: `server.max_clients` must be a whole number from 1 to 100000, not 'none'",
        "$MEMD_SERVR__X: unknown section `servr`; did you mean `server`?",
    ]


def test_a_file_that_is_not_toml_is_told_with_its_line(config: Path) -> None:
    (found,) = problems(config, "[watch]\nsettle_ms = = 5\n")
    assert found.startswith("config:2: this is not TOML")


def test_a_file_that_cannot_be_read_is_told(config: Path) -> None:
    config.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(environ={})
    config.unlink()
    config.mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(environ={})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("watch = 3", "`watch` must be a section: [watch]"),
        ("workspace = 3", "workspaces are tables of their own: [[workspace]]"),
        ('[workspace]\npath = "/x"', "workspaces are tables of their own: [[workspace]]"),
        ("settle_ms = 3", "unknown section `settle_ms`"),
        ("[watch]\nsettle_ms = true", "`watch.settle_ms` must be a whole number from 0 to 10000, not True"),
        ("[watch]\nsettle_ms = 1.0", "`watch.settle_ms` must be a whole number from 0 to 10000, not 1.0"),
        ("[watch]\npoll_seconds = true", "`watch.poll_seconds` must be a number from 0.2 to 3600, not True"),
        ("[watch]\npoll_seconds = nan", "`watch.poll_seconds` must be a number from 0.2 to 3600, not nan"),
        ("[watch]\npoll_seconds = inf", "`watch.poll_seconds` must be a number from 0.2 to 3600, not inf"),
        ("[watch]\nmode = 1", "`watch.mode` must be one of auto, poll, not 1"),
        ('[watch]\nmode = "pol"', "; did you mean `poll`?"),
        ("[embedding]\nnormalize = 1", "`embedding.normalize` must be true or false, not 1"),
        ("[search]\nlimit = 0", "`search.limit` must be a whole number from 1 to 200, not 0"),
        ("[search]\nlimit = [1]", "`search.limit` must be a whole number from 1 to 200, not [1]"),
    ],
)
def test_each_kind_of_mistake_is_named(config: Path, line: str, expected: str) -> None:
    (found,) = problems(config, line + "\n")
    assert expected in found


@pytest.mark.parametrize(("section", "name"), [(s, f) for s, c in SECTIONS.items() for f in fields_of(c)])
def test_every_setting_takes_its_bounds_and_nothing_beyond(config: Path, section: str, name: str) -> None:
    spec = fields_of(SECTIONS[section])[name]
    low, high, choices = spec.low, spec.high, spec.choices
    assert docs_of(SECTIONS[section])[name].endswith(".")
    for value in [spec.default, *choices, *(bound for bound in (low, high) if bound is not None)]:
        config.write_text(f"[{section}]\n{name} = {edit.toml_value(value)}\n")
        assert getattr(getattr(load(environ={}), section), name) == value
    beyond: list[Any] = [low - 1, high + 1] if low is not None else ["no such choice"] if choices else []
    for value in beyond:
        (found,) = problems(config, f"[{section}]\n{name} = {edit.toml_value(value)}\n")
        assert found.startswith(f"config:2: `{section}.{name}` must be")


# --- precedence -------------------------------------------------------------------------------------------------


def test_the_environment_beats_the_file(config: Path) -> None:
    """The flags of `memd serve`, which beat both, have a test in test_hub.py."""
    config.write_text("[search]\nlimit = 10\nrrf_k = 10\n[log]\nfiles = 10\n")
    found = load({"MEMD_SEARCH__RRF_K": "20", "MEMD_LOG__FILES": "20", "MEMD_HOME": "/x", "HOME": "/y"})
    assert (found.search.limit, found.search.rrf_k, found.log.files) == (10, 20, 20)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("WATCH__SETTLE_MS", "7", 7),
        ("WATCH__POLL_SECONDS", "0.5", 0.5),
        ("WATCH__POLL_SECONDS", "3", 3.0),
        ("WATCH__MODE", "poll", "poll"),
        ("EMBEDDING__NORMALIZE", "no", False),
        ("EMBEDDING__NORMALIZE", "TRUE", True),
        ("EMBEDDING__MODEL", "/models/x", "/models/x"),
    ],
)
def test_the_environment_is_read_by_the_setting_s_type(config: Path, name: str, raw: str, value: Any) -> None:
    section, _, key = name.lower().partition("__")
    assert getattr(getattr(load(environ={ENV_PREFIX + name: raw}), section), key) == value


@pytest.mark.parametrize(
    ("variable", "raw", "expected"),
    [
        ("MEMD_WATCH__SETTLE_MS", "fast", "must be a whole number from 0 to 10000, not 'fast'"),
        ("MEMD_WATCH__SETTLE_MS", "-1", "must be a whole number from 0 to 10000, not -1"),
        ("MEMD_EMBEDDING__NORMALIZE", "maybe", "must be true or false, not 'maybe'"),
        ("MEMD_WATCH__MOOD", "poll", "unknown setting `watch.mood`; did you mean `mode`?"),
        ("MEMD_WATHC__MODE", "poll", "unknown section `wathc`; did you mean `watch`?"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(config: Path, variable: str, raw: str, expected: str) -> None:
    (found,) = problems(config, "", **{variable: raw})
    assert found.startswith(f"${variable}: ") and expected in found


# --- workspaces -------------------------------------------------------------------------------------------------


def test_a_workspace_is_named_after_its_directory(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    config.write_text(
        '[[workspace]]\npath = "~/agent"\n\n[[workspace]]\npath = "/srv/x"\nns = "agent:x"\nfollow = true\n'
    )
    assert load(environ={}).workspaces == (
        Workspace("agent", Path("/home/me/agent"), DEFAULT_GLOBS, False),
        Workspace("agent:x", Path("/srv/x"), DEFAULT_GLOBS, True),
    )


def test_twins_are_refused(config: Path) -> None:
    text = "".join(
        f'[[workspace]]\npath = "{path}"\nns = "{ns}"\n' for path, ns in (("/a", "x"), ("/b", "x"), ("/a/", "z"))
    )
    assert problems(config, text) == ["config:6: two workspaces are called `x`", "config:8: /a is listed twice"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('path = ""', "a workspace needs a `path`"),
        ("path = 7", "a workspace needs a `path`"),
        ('path = "./notes"', "`path` must be absolute or begin with ~"),
        ('path = "/a"\nns = ""', "`ns` must be a name"),
        ('path = "/a"\nns = "a/b"', "`ns` must be a name"),
        ('path = "/a"\nns = "a\\\\b"', "`ns` must be a name"),
        ('path = "/a"\nns = "a\\u0007b"', "`ns` must be a name"),
        ('path = "/a"\nns = 5', "`ns` must be a name"),
        (f'path = "/a"\nns = "{"x" * 101}"', "`ns` must be a name"),
        ('path = "/"', "`ns` must be a name"),
        ('path = "/a"\nglobs = []', "`globs` must be a list"),
        ('path = "/a"\nglobs = "*.md"', "`globs` must be a list"),
        ('path = "/a"\nglobs = [""]', "`globs` must be a list"),
        ('path = "/a"\nglobs = [7]', "`globs` must be a list"),
        ('path = "/a"\nglobs = ["/etc/*.md"]', "`globs` must be a list"),
        ('path = "/a"\nglobs = ["x/../../*.md"]', "`globs` must be a list"),
        ('path = "/a"\nfollow = "yes"', "`follow` must be true or false"),
        ('path = "/a"\nshared = 1', "`shared` must be true or false"),
        ('path = "/a"\nhooks_in = "b"', "`hooks_in` must be a list of workspaces"),
        ('path = "/a"\nproject = "b"', "`project` must be absolute or begin with ~"),
        ('path = "/a"\nproject = 7', "`project` must be absolute or begin with ~"),
        ('path = "/a"\nglob = ["*.md"]', "unknown key `glob`; did you mean `globs`?"),
    ],
)
def test_each_mistake_in_a_workspace_is_named(config: Path, line: str, expected: str) -> None:
    first, *_ = problems(config, f"[[workspace]]\n{line}\n")
    assert expected in first


# --- writing ----------------------------------------------------------------------------------------------------

MINE = """\
# My settings, with care.
[watch]   # watch this
settle_ms   =   120     # slow disk

# ---- notes ----
[[workspace]]
path = '/srv/one'   # the first
ns = "one"

[[workspace]]
# why this one is here
path = "/srv/two"
globs = [
  "**/*.md",   # all of it
]

[log]
level = "debug"
"""


def test_the_sample_shows_every_setting_and_changes_nothing(config: Path) -> None:
    assert edit.write_sample() == config
    assert load(environ={}) == Settings()
    lines = config.read_text().splitlines()
    uncommented = [line.removeprefix("# ") if " = " in line else line for line in lines]
    parsed = tomllib.loads("\n".join(line for line in uncommented if not line.startswith("#")).partition("[[")[0])
    for section, kind in SECTIONS.items():
        known = {name: spec.default for name, spec in fields_of(kind).items()}
        assert {name: parsed[section].get(name) for name in known} == known


def test_the_sample_does_not_replace_a_file_unless_forced(config: Path) -> None:
    config.write_text(MINE)
    with pytest.raises(AlreadyExists):
        edit.write_sample()
    assert config.read_text() == MINE
    edit.write_sample(force=True)
    assert config.read_text() == edit.sample()


@pytest.mark.parametrize(
    "before", ["", "# only a comment", MINE, MINE.rstrip("\n"), edit.sample(), "[log]\r\nfiles = 1\r\n"]
)
def test_adding_appends_and_keeps_every_byte(config: Path, before: str) -> None:
    config.write_bytes(before.encode())
    edit.add_workspace(
        Workspace('odd "name"'.replace(" ", "-"), Path('/srv/with "quotes" and \\ and ü'), ("*.md",), True)
    )
    assert config.read_bytes().startswith(before.encode())
    found = load(environ={}).workspaces[-1]
    assert found == Workspace('odd-"name"', Path('/srv/with "quotes" and \\ and ü'), ("*.md",), True)


def test_adding_to_no_file_makes_one_that_is_private(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MEMD_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "deep" / "config"))
    edit.add_workspace(Workspace("a", Path("/srv/a")))
    file = tmp_path / "deep" / "config" / "memd" / "config.toml"
    assert file.read_text() == '[[workspace]]\npath = "/srv/a"\nns = "a"\n'
    assert file.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("gone", "left"), [("one", "two"), ("two", "one")])
def test_removing_keeps_comments_and_settings(config: Path, gone: str, left: str) -> None:
    config.write_text(MINE)
    edit.remove_workspace(gone)
    text = config.read_text()
    found = load(environ={})
    assert [workspace.ns for workspace in found.workspaces] == [left]
    assert (found.watch.settle_ms, found.log.level) == (120, "debug")
    for kept in ("# My settings, with care.\n[watch]   # watch this\nsettle_ms   =   120     # slow disk\n", "[log]\n"):
        assert kept in text
    assert f"/srv/{gone}" not in text


def test_adding_and_removing_again_changes_no_other_line(config: Path) -> None:
    config.write_text(MINE)
    edit.add_workspace(Workspace("three", Path("/srv/three")))
    edit.remove_workspace("three")
    assert config.read_text().split() == MINE.split()
    edit.remove_workspace("one")
    edit.remove_workspace("two")
    assert load(environ={}).workspaces == ()
    edit.remove_workspace("never was")
    assert load(environ={}).watch.settle_ms == 120


def test_a_removed_workspace_leaves_no_permission_behind(config: Path) -> None:
    for ns in ("team", "app", "site"):
        edit.add_workspace(Workspace(ns, Path("/srv") / ns))
    edit.share_workspace("team", ["app", "site"])
    edit.remove_workspace("app")
    edit.add_workspace(Workspace("app", Path("/srv/another")))
    assert {one.ns: one.hooks_in for one in load(environ={}).workspaces} == {"team": ("site",), "site": (), "app": ()}


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="/\\"), min_size=1, max_size=20
).filter(lambda name: name != "..")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(added=st.lists(names, unique=True, min_size=1, max_size=5), data=st.data())
def test_whatever_is_added_is_read_back_and_removed(config: Path, added: list[str], data: st.DataObject) -> None:
    config.write_text("# mine\n[log]\nfiles = 7 # seven\n")
    made = [Workspace(name, Path("/srv") / f"{nth}-{name}", (f"{name}/*.md",)) for nth, name in enumerate(added)]
    for workspace in made:
        edit.add_workspace(workspace)
    assert load(environ={}).workspaces == tuple(made)
    gone = data.draw(st.sampled_from(made))
    edit.remove_workspace(gone.ns)
    assert load(environ={}).workspaces == tuple(one for one in made if one != gone)
    assert config.read_text().startswith("# mine\n[log]\nfiles = 7 # seven\n")


def test_an_edit_keeps_the_file_s_mode(config: Path) -> None:
    config.write_text(MINE)
    config.chmod(0o600)
    edit.add_workspace(Workspace("three", Path("/srv/three")))
    assert config.stat().st_mode & 0o777 == 0o600


def test_removing_without_a_file_is_nothing_to_do(config: Path) -> None:
    edit.remove_workspace("any")
    assert not config.exists()


def test_workspaces_in_one_line_are_read_and_not_edited(config: Path) -> None:
    """Appending a table to such a file would make it no TOML any more, and the next start would fail."""
    text = 'workspace = [{ path = "/srv/one" }]\n'
    config.write_text(text)
    assert [workspace.ns for workspace in load(environ={}).workspaces] == ["one"]
    for change in (
        lambda: edit.add_workspace(Workspace("two", Path("/srv/two"))),
        lambda: edit.remove_workspace("one"),
    ):
        with pytest.raises(Refused):
            change()
    assert config.read_text() == text


def test_a_broken_file_is_not_edited(config: Path) -> None:
    config.write_text("[watch\n")
    with pytest.raises(ConfigError):
        edit.add_workspace(Workspace("two", Path("/srv/two")))
    with pytest.raises(ConfigError):
        edit.remove_workspace("one")
    assert config.read_text() == "[watch\n"


def test_a_link_to_the_config_stays_a_link(config: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "memd.toml"
    real.parent.mkdir()
    real.write_text(MINE)
    config.symlink_to(real)
    edit.add_workspace(Workspace("three", Path("/srv/three")))
    assert config.is_symlink() and real.read_text().startswith(MINE)
    assert sorted(file.name for file in real.parent.iterdir()) == ["memd.toml"]


def _write_again_and_again(home: str) -> None:
    os.environ["MEMD_HOME"] = home
    while True:
        edit.write_sample(force=True)


def test_a_reader_sees_the_old_file_or_the_new_one(config: Path) -> None:
    """Also when the writer is killed in the middle."""
    edit.write_sample()
    whole = edit.sample()
    for _ in range(5):
        writer = multiprocessing.get_context("spawn").Process(target=_write_again_and_again, args=(str(config.parent),))
        writer.start()
        for _ in range(300):
            assert config.read_text() == whole
        writer.kill()
        writer.join()
        assert config.read_text() == whole


# --- places -----------------------------------------------------------------------------------------------------


def test_memd_home_holds_everything(config: Path, tmp_path: Path) -> None:
    assert paths.config_file() == tmp_path / "config.toml"
    assert paths.state_dir() == tmp_path / "state"
    assert paths.socket_path() == tmp_path / "run" / "memd.sock"


def test_xdg_decides_where_things_are_and_relative_paths_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMD_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    usual = (
        "/home/me/.config/memd/config.toml",
        "/home/me/.local/state/memd",
        "/home/me/.local/state/memd/run/memd.sock",
    )
    assert tuple(map(str, (paths.config_file(), paths.state_dir(), paths.socket_path()))) == usual
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, "relative")
    assert tuple(map(str, (paths.config_file(), paths.state_dir(), paths.socket_path()))) == usual
    for name, place in (("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/r")):
        monkeypatch.setenv(name, place)
    assert tuple(map(str, (paths.config_file(), paths.state_dir(), paths.socket_path()))) == (
        "/c/memd/config.toml", "/s/memd", "/r/memd/memd.sock",
    )  # fmt: skip


def test_a_directory_that_others_can_use_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    made = paths.private_dir(tmp_path / "new" / "state")
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o755)
    with pytest.raises(UnsafePlace) as caught:
        paths.private_dir(made)
    assert caught.value.hint == f"close it: chmod 700 {made}"
    (tmp_path / "link").symlink_to(made)
    with pytest.raises(UnsafePlace, match="symbolic link"):
        paths.private_dir(tmp_path / "link")


def test_a_socket_path_that_the_kernel_would_cut_is_refused() -> None:
    paths.check_socket_length(Path("/" + "x" * 106))
    with pytest.raises(UnsafePlace, match="108 bytes"):
        paths.check_socket_length(Path("/" + "x" * 107))
