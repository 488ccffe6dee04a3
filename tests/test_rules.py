"""Rules on a real daemon: listed, set, switched, tried and taken away; the config file keeps every other byte."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memd import Client
from memd.config import edit, paths
from memd.config.load import load, placed_rules, written_rules
from memd.errors import ConfigError, NotFound, Refused, UsageError
from memd.lifecycle.rule_book import BUILT_IN, FIELDS, body
from tests.conftest import ROOT, Home

CONFIG = """\
# my settings
[rules]
# quiet
decay-sensory = "off"   # for now

[log]
level = "info"          # enough
"""
BUILT_IN_NAMES = [rule.name for rule in BUILT_IN]


def by_name(memory: Client) -> dict[str, dict[str, object]]:
    return {rule["name"]: rule for rule in memory.rule_list()["rules"]}


def age(home: Home, hours: float, where: str = "role <> 'memory'", **also: object) -> None:
    """Make memories older than a test can wait; the daemon must not run."""
    seen = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="milliseconds")
    named = "".join(f", {name} = :{name}" for name in also)
    with sqlite3.connect(home.state / "state.db") as ledger:
        changed = ledger.execute(f"UPDATE memories SET first_seen = :seen{named} WHERE {where}", {"seen": seen, **also})
        assert changed.rowcount
    ledger.close()


# --- listing and changing ---------------------------------------------------------------------------------------


def test_the_built_in_rules_are_listed_in_order(memory: Client, home: Home) -> None:
    listed = memory.rule_list()["rules"]
    assert [rule["name"] for rule in listed] == BUILT_IN_NAMES
    assert {rule["origin"] for rule in listed} == {"built-in"}
    shown = home.run("rule", "list")
    assert shown.returncode == 0
    assert [line.split()[0] for line in shown.stdout.splitlines()] == BUILT_IN_NAMES
    assert re.search(r"^wake +on +built-in +tier=dormant returned=yes → promote home$", shown.stdout, re.MULTILINE)


def test_a_rule_is_set_switched_and_removed_without_a_restart(memory: Client, home: Home) -> None:
    (home.path / "config.toml").write_text(CONFIG + (home.path / "config.toml").read_text())
    before = (home.path / "config.toml").read_bytes()
    made = home.run("rule", "set", "chatter", "tag=chat idle>30d -> archive")
    assert (made.returncode, made.stdout) == (0, "chatter is on: tag=chat idle>30d → archive\n")
    assert memory.rule_list()["rules"][0] == {
        "name": "chatter", "enabled": True, "rule": "tag=chat idle>30d → archive", "origin": "own", "of_pairs": False,
        "doc": "",
    }  # fmt: skip
    # What was changed by hand since the start holds as well from then on.
    assert by_name(memory)["decay-sensory"]["enabled"] is False
    assert home.run("rule", "set", "chatter", "off").stdout == "chatter is off: tag=chat idle>30d → archive\n"
    assert home.run("rule", "set", "chatter", "on").returncode == 0
    assert by_name(memory)["chatter"]["enabled"] is True
    after = (home.path / "config.toml").read_bytes()
    assert after.replace('chatter = "tag=chat idle>30d → archive"\n'.encode(), b"") == before
    gone = home.run("rule", "rm", "chatter")
    assert (gone.returncode, gone.stdout) == (0, "chatter is gone\n")
    assert (home.path / "config.toml").read_bytes() == before
    assert "chatter" not in by_name(memory)


def test_a_built_in_rule_is_changed_and_gets_its_own_text_back(memory: Client, home: Home) -> None:
    changed = memory.rule_set("sys-decay-unaccessed", "tier=stm age>72h => decay 0.9")["rule"]
    assert (changed["name"], changed["origin"]) == ("decay-unaccessed", "changed")
    assert changed["rule"] == "tier=stm age>72h → decay 0.9 floor 0.1" and changed["doc"]
    assert [rule["name"] for rule in memory.rule_list()["rules"]] == BUILT_IN_NAMES
    assert memory.rule_set("decay-unaccessed", "off")["rule"]["rule"] == changed["rule"]
    assert memory.rule_set("decay-unaccessed", "on")["rule"] == changed
    back = memory.rule_rm("sys-decay-unaccessed")
    assert (back["removed"], back["rule"]["origin"]) == (True, "built-in")
    assert load_in(home) == ()


def test_a_built_in_rule_cannot_be_removed_and_the_way_to_be_rid_of_it_is_told(memory: Client, home: Home) -> None:
    done = home.run("rule", "rm", "wake")
    assert done.returncode == 5 and "memd rule set wake off" in done.stderr
    with pytest.raises(Refused):
        memory.rule_rm("sys-wake")
    assert memory.rule_set("wake", "off")["rule"] == {**by_name(memory)["wake"], "enabled": False}
    assert home.run("rule", "rm", "wake").returncode == 0
    assert by_name(memory)["wake"]["enabled"] is True


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("set", "x", "teir=stm -> archive"), 2, "character 1: `teir` is no field; did you mean `tier`?"),
        (("set", "x", "tier=stm -> decay 7"), 2, "`7` is not from 0 to 1"),
        (("set", "x", "tier=stm tier=ltm -> archive"), 2, "no memory can meet"),
        (("set", "Big Name", "tier=stm -> archive"), 2, "cannot be the name of a rule"),
        (("set", "wakey", "off"), 1, "did you mean `wake`?"),
        (("rm", "nothing"), 1, "there is none of this name"),
        (("test", "wakey"), 1, "did you mean `wake`?"),
        (("test", "tier=smt -> archive"), 2, "did you mean `stm`?"),
    ],
)
def test_a_mistake_is_explained_and_changes_nothing(
    memory: Client, home: Home, arguments: tuple[str, ...], code: int, said: str
) -> None:
    before = (home.path / "config.toml").read_bytes()
    done = home.run("rule", *arguments)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert (home.path / "config.toml").read_bytes() == before
    assert list(by_name(memory)) == BUILT_IN_NAMES


# --- trying -----------------------------------------------------------------------------------------------------


def test_a_test_shows_what_would_move_and_fade_and_changes_nothing(memory: Client, home: Home) -> None:
    for name in ("decay-unaccessed", "dedup-all"):
        memory.rule_set(name, "on")
    home.stop()
    age(home, 24 * 12 + 1)
    age(home, 1, "slug = 'garden'")
    memory = home.start()
    with sqlite3.connect(home.state / "state.db") as ledger:
        before = ledger.execute("SELECT * FROM memories").fetchall()
    result = memory.rule_test(ns="agent")
    told = {match["key"]: match for match in result["matches"]}
    assert set(told) == {"2026-02-15#ersatztv", "2026-02-16#backup", "sourdough"}
    assert (result["moved"], result["faded"]) == (1, 2)
    on = [rule.name for rule in BUILT_IN if rule.enabled]
    assert result["rules"] == [name for name in on if name not in result["of_pairs"]]
    assert result["of_pairs"] == ["dedup-all", "renew", "merge-similar"]
    stale, faint = told["sourdough"], told["2026-02-16#backup"]
    assert (stale["rule"], stale["from"], stale["to"]) == ("demote-stale-ltm", "ltm", "dormant")
    assert stale["why"] == "ltm, unused for 289 h"
    assert (faint["rule"], faint["from"], faint["to"]) == ("decay-unaccessed", "stm", "stm")
    assert faint["faded"] == pytest.approx(0.5 * 0.95**10, abs=1e-6) and faint["importance"] == 0.5
    with sqlite3.connect(home.state / "state.db") as ledger:
        assert ledger.execute("SELECT * FROM memories").fetchall() == before
    ledger.close()


def test_one_rule_can_be_tried_alone_by_name_or_by_text(memory: Client, home: Home) -> None:
    memory.rule_set("bread", "off tag=baking → archive")
    assert memory.rule_test()["matches"] == []
    (match,) = memory.rule_test("bread")["matches"]
    assert (match["key"], match["to"], match["why"]) == ("sourdough", "dormant", "archive: tagged baking")
    shown = home.run("rule", "test", "tag=baking -> archive", "-n", "agent")
    assert shown.returncode == 0
    assert shown.stdout == "sourdough  ltm → dormant  test  (archive: tagged baking)\n"
    assert "would move" in shown.stderr
    nothing = home.run("rule", "test", "tag=nowhere -> archive")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    few = json.loads(home.run("rule", "test", "role=daily -> archive", "--limit", "1", "--json").stdout)
    assert len(few["matches"]) == 1 and few["moved"] == 3


def test_pinned_memories_and_the_long_term_file_are_left_out(memory: Client) -> None:
    memory.put("sourdough", pinned=True)
    keys = {match["key"] for match in memory.rule_test("access>=0 → archive")["matches"]}
    assert keys == {"2026-02-15#ersatztv", "2026-02-15#garden", "2026-02-16#backup"}


def test_accesses_that_no_reflection_has_counted_yet_are_counted_in(memory: Client, home: Home) -> None:
    home.stop()
    hour = datetime.now(UTC).strftime("%Y-%m-%dT%H")
    with sqlite3.connect(home.state / "state.db") as ledger:
        ledger.executescript("PRAGMA foreign_keys = ON")
        for client in ("one", "other"):
            ledger.execute(
                "INSERT INTO accesses (memory, client, hour) SELECT id, ?, ? FROM memories WHERE slug = 'garden'",
                (client, hour),
            )
    ledger.close()
    memory = home.start()
    (match,) = memory.rule_test("access>1 days=1 idle<2h → archive")["matches"]
    assert match["key"] == "2026-02-15#garden" and "2 accesses" in match["why"]


def test_a_reflection_does_what_the_test_said_by_the_rules_as_they_are_now(memory: Client) -> None:
    memory.rule_set("bread", "tag=baking → archive")
    (said,) = memory.rule_test()["matches"]
    (done,) = memory.reflect(ns="agent")["workspaces"]
    assert [(move["key"], move["to"], move["why"]) for move in done["moves"]] == [("sourdough", "dormant", said["why"])]
    assert memory.rule_test()["matches"] == [], "it is there already"
    assert memory.get("sourdough")["tier"] == "dormant"


# --- the config file --------------------------------------------------------------------------------------------


def load_in(home: Home) -> tuple[tuple[str, str], ...]:
    """The rules that stand in a home's config file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMD_HOME", str(home.path))
        return load(environ={}).rules


def test_a_broken_rule_does_not_keep_the_daemon_from_starting_and_is_told(home: Home, workspace: Path) -> None:
    home.configure(
        f'[rules]\nwake = "tier=dormnt → archive"\nmine = "tag=a → archive"\n"No Name" = "off"\n'
        f'[[workspace]]\npath = "{workspace}"\n'
    )
    memory = home.start()
    status = memory.status()
    assert status["degraded"] == ["rules"]
    (trouble,) = status["degraded_details"]
    assert "did you mean `dormant`" in trouble["why"] and "No Name" in trouble["why"]
    assert by_name(memory)["wake"]["origin"] == "built-in" and by_name(memory)["mine"]["origin"] == "own"
    checked = home.run("config", "check")
    assert checked.returncode == 2
    assert "config.toml:2: rule `wake`" in checked.stderr and "config.toml:4: 'No Name'" in checked.stderr
    # Mended over the wire, it holds at once.
    memory.rule_set("wake", "off")
    assert home.run("rule", "rm", "No Name").returncode == 0
    assert memory.status()["degraded"] == []
    assert home.run("config", "check").returncode == 0


def test_config_check_tells_wrong_settings_and_wrong_rules_at_once_without_a_daemon(home: Home) -> None:
    home.configure('[log]\nlevel = "loud"\n[rules]\na = "tag=a → forget"\nb = 3\n')
    told = json.loads((done := home.run("config", "check", "--json")).stdout)
    assert done.returncode == 2 and told["ok"] is False
    assert [problem.partition("config.toml:")[2].split(" ")[0] for problem in told["problems"]] == ["2:", "5:", "4:"]
    home.configure('[rules]\na = "tag=a → archive"\n')
    assert json.loads(home.run("config", "check", "--json").stdout)["problems"] == []
    assert 'a = "tag=a → archive"' in home.run("config", "show").stdout
    assert json.loads(home.run("config", "show", "--json").stdout)["rules"] == {"a": "tag=a → archive"}
    home.configure('[rules]\na = "tag=a → forget"\n')
    (finding,) = (one for one in json.loads(home.run("doctor", "--json").stdout)["findings"] if one["name"] == "rules")
    assert finding["state"] == "warn" and "config.toml:2: rule `a`" in finding["detail"]
    assert not home.socket.exists()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMD_HOME", str(tmp_path))
    return paths.config_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules = 3\n", "`rules` must be a section"),
        ("[rules]\na = 3\n", '`rules.a` must be a rule, "on" or "off", not 3'),
        ("[rules.a]\nb = 3\n", "`rules.a` must be a rule"),
        ("[rule]\n", "unknown section `rule`; did you mean `rules`?"),
    ],
)
def test_what_is_no_rule_at_all_is_refused_like_any_setting(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(environ={})
    assert said in caught.value.message


def test_rules_are_not_taken_from_the_environment(config: Path) -> None:
    with pytest.raises(ConfigError, match="rules are set in the config file"):
        load(environ={"MEMD_RULES__WAKE": "off"})


def new(texts: Mapping[str, str]) -> dict[str, str | None]:
    return {"new": "tag=a → archive", "old": None}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[rules]\n@"),
        ("# only this", "# only this\n\n[rules]\n@"),
        ("[rules]\n", "[rules]\n@"),
        ('[rules]\n# one\na = "off"\n\n# two\n[log]\n', '[rules]\n# one\na = "off"\n@\n# two\n[log]\n'),
        ('[rules]\n# old = "off"\n\n[log]\n', '[rules]\n@# old = "off"\n\n[log]\n'),
        ('[[workspace]]\npath = "/a"\n', '[[workspace]]\npath = "/a"\n\n[rules]\n@'),
        ('[rules]\nold = "off" # gone\na = "on"\n', '[rules]\na = "on"\n@'),
        ('[log]\r\nlevel = "info"\r\n', '[log]\r\nlevel = "info"\r\n\r\n[rules]\r\n@'),
        ('rules = {a = "on"}\n', None),
        ('rules.a = "on"\n[log]\n', None),
        ('[rules]\na = """\noff\n[rules]\nb = 1"""\n', None),
    ],
)
def test_a_rule_is_written_in_its_place_and_every_other_byte_stays(
    config: Path, before: str, after: str | None
) -> None:
    config.write_bytes(before.encode())
    kept = dict(written_rules())
    kept.pop("old", None)
    assert edit.write_rules(new) == (*kept.items(), ("new", "tag=a → archive"))
    if after is not None:
        end = "\r\n" if "\r\n" in before else "\n"
        assert config.read_bytes().decode() == after.replace("@", f'new = "tag=a → archive"{end}')
    assert dict(load(environ={}).rules) == {**kept, "new": "tag=a → archive"}
    assert edit.write_rules(lambda texts: {"new": "on"})[-1] == ("new", "on")
    edit.write_rules(lambda texts: {"new": None})
    assert dict(written_rules()) == kept
    if not kept and "#" not in before:
        assert "rules" not in config.read_text()


def test_a_file_that_is_broken_is_not_touched(config: Path) -> None:
    for text in ("[rules\n", "[rules]\na = 3\n"):
        config.write_text(text)
        with pytest.raises(ConfigError):
            edit.write_rules(new)
        assert config.read_text() == text
    assert placed_rules([("a", "is wrong")]) == [f"{config}:2: is wrong"]


def test_a_change_that_is_refused_leaves_the_file_alone(memory: Client, home: Home) -> None:
    (home.path / "config.toml").write_text("[rules\n")
    for change in (lambda: memory.rule_set("a", "tag=a → archive"), lambda: memory.rule_rm("a")):
        with pytest.raises(ConfigError):
            change()
    assert (home.path / "config.toml").read_text() == "[rules\n"
    with pytest.raises(UsageError):
        memory.rule_set("a", "")
    with pytest.raises(NotFound):
        memory.rule_test("a")


# --- the docs ---------------------------------------------------------------------------------------------------


def test_the_page_has_the_rules_as_they_are() -> None:
    page = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| `([^`]+→[^`]+)` \| (.+?) \|", page, re.MULTILINE)
    assert rows == [(rule.name, body(rule), rule.doc) for rule in BUILT_IN]
    fields = re.findall(r"^\| (`[a-z]+`(?:, `[a-z]+`)*) \| (?:`[<>=!]+`|all six)", page, re.MULTILINE)
    assert {name for cell in fields for name in re.findall("[a-z]+", cell)} == set(FIELDS)
