"""Several agents, one daemon: each in its own workspace, known by its name, within its limits, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memd import AsyncClient, Client
from memd.errors import MemdError, NotFound, Refused, UnknownWorkspace
from memd.protocol.methods import METHODS
from memd.protocol.wire import RateLimit
from tests.conftest import Home, write_notes
from tests.test_docs import PROTOCOL_PAGE, Bare, documented_parameters, sections

SECRET = "The plan of the fox is to wait."

WHOLE = {name for name, method in METHODS.items() if method.about_daemon}


def two(home: Home, more: str = "") -> Client:
    """A daemon with two workspaces: `agent`, and `fox`, which has something to hide."""
    root = home.path.parent
    write_notes(root / "agent")
    write_notes(root / "fox", {"MEMORY.md": f"# Memory\n\n## Plan\n\n{SECRET}\n"})
    spaces = "".join(f'[[workspace]]\npath = "{root}/{name}"\nns = "{name}"\n' for name in ("agent", "fox"))
    home.configure(f"{more}\n{spaces}")
    client = home.start()
    client.sync()
    return client


@pytest.fixture
def person(home: Home) -> Iterator[Client]:
    with two(home) as client:
        yield client


@pytest.fixture
def agent(person: Client, home: Home) -> Iterator[Client]:
    with Client(home.socket, bind="agent") as client:
        yield client


# --- binding ----------------------------------------------------------------------------------------------------


def test_a_bound_connection_means_its_workspace_whatever_the_directory(agent: Client, home: Home) -> None:
    fox = str(home.path.parent / "fox")
    assert agent.hello()["bound"] == "agent"
    assert agent.query("plan of the fox", mode="text", cwd=fox)["ns"] == ["agent"]
    assert agent.note("Mine.", title="Mine", cwd=fox)["ns"] == "agent"
    assert agent.list()["ns"] == ["agent"] and agent.log()["ns"] == ["agent"]
    assert SECRET not in json.dumps([agent.query("plan fox wait"), agent.grep("fox"), agent.export(), agent.bus("fox")])


def test_a_person_is_not_bound(person: Client) -> None:
    assert person.hello()["bound"] is None
    assert sorted(person.query("plan of the fox", mode="text")["ns"]) == ["agent", "fox"]
    assert person.get("MEMORY#plan", ns="fox")["text"].endswith(SECRET)


def test_no_method_takes_a_bound_connection_elsewhere(agent: Client) -> None:
    for method in sorted(METHODS.keys() - WHOLE):
        for ns in ("fox", ["agent", "fox"], ["fox"], "nowhere"):
            with pytest.raises(Refused, match="bound to `agent` and may not name another"):
                agent.call(method, {"ns": ns})


def test_what_concerns_all_of_memd_is_not_for_a_bound_connection(agent: Client, person: Client) -> None:
    for method in sorted(WHOLE - {"hello", "ping", "unsubscribe", "status", "workspace.list"}):
        with pytest.raises(Refused, match="not about one workspace"):
            agent.call(method, {"ns": "fox"} if method == "workspace.rm" else {})
    assert len(person.workspace_list()["workspaces"]) == 2


def test_what_is_told_of_the_whole_tells_of_no_other_workspace(agent: Client) -> None:
    assert [entry["ns"] for entry in agent.status()["workspaces"]] == ["agent"]
    assert [entry["ns"] for entry in agent.workspace_list()["workspaces"]] == ["agent"]
    assert agent.ping()["pong"]


def test_files_of_another_workspace_are_not_read_in(agent: Client, home: Home) -> None:
    fox = home.path.parent / "fox"
    (home.path.parent / "agent" / "link.md").symlink_to(fox / "MEMORY.md")
    for place in (
        fox / "MEMORY.md",
        fox,
        home.path.parent / "agent" / ".." / "fox",
        home.path.parent / "agent/link.md",
    ):
        with pytest.raises(Refused, match="belongs to another workspace"):
            agent.ingest([place])
    with pytest.raises(Refused, match="belongs to another workspace"):
        agent.import_(fox / "MEMORY.md")
    with pytest.raises(Refused, match="belongs to another workspace"):
        agent.eval(fox / "MEMORY.md")
    assert SECRET not in "".join(file.read_text() for file in (home.path.parent / "agent").glob("memory/**/*.md"))


def test_subscriptions_and_watches_of_a_bound_connection_hear_only_their_own(
    agent: Client, person: Client, home: Home
) -> None:
    assert agent.subscribe("heron")["ns"] == ["agent"] and agent.watch(events="written")["ns"] == ["agent"]
    person.note("A heron for the fox.", title="Heron", ns="fox")
    person.sync()
    person.note("A heron for the agent.", title="Heron", ns="agent")
    person.sync()
    events = agent.events()
    heard = [next(events), next(events)]
    assert {event.get("ns") or event["hit"]["ns"] for event in heard} == {"agent"}


def test_a_folder_around_another_workspace_or_memds_own_is_not_read_in(agent: Client, home: Home) -> None:
    around = home.path.parent
    for place in (around, around / "fox" / "..", home.state, home.path, home.state / "state.db"):
        with pytest.raises(Refused, match="belongs to another workspace"):
            agent.ingest(str(place))
    assert agent.query("plan of the fox", mode="text")["verdict"] != "found"


def test_a_workspace_in_another_one_refuses_no_call_without_a_file(person: Client, home: Home) -> None:
    person.workspace_add(str(write_notes(home.path.parent / "agent" / "inner")), ns="inner")
    with Client(home.socket, bind="agent") as agent:
        assert agent.call("eval", {"self": True})["ns"] == ["agent"]


def test_a_bound_connection_ends_with_its_workspace_and_does_not_follow_the_name(person: Client, home: Home) -> None:
    elsewhere = write_notes(home.path.parent / "elsewhere", {"MEMORY.md": "# Memory\n\n## Plan\n\nAnother plan.\n"})
    with Client(home.socket, bind="fox") as fox:
        assert fox.hello()["bound"] == "fox"
        person.workspace_rm(ns="fox")
        person.workspace_add(str(elsewhere), ns="fox")
        for call in (lambda: fox.query("plan"), lambda: fox.note("Mine."), lambda: fox.list()):
            with pytest.raises(UnknownWorkspace) as told:
                call()
            assert "agent" not in f"{told.value} {told.value.hint}"
    assert person.workspace_rm(ns="fox")["removed"]
    assert person.workspace_add(str(home.path.parent / "fox"))["added"]


def test_the_files_of_others_are_not_told_by_why_not(agent: Client, home: Home) -> None:
    (home.path.parent / "secret.md").write_text("secret")
    for file in ("../secret.md", "../nosuch.md", str(home.path.parent / "secret.md"), "/etc/passwd", "/etc/nosuch",
                 "x" * 300):  # fmt: skip
        with pytest.raises(NotFound, match="has no file"):
            agent.why_not(file, 1, "plan")


def test_another_action_cannot_be_undone_from_here(agent: Client, person: Client) -> None:
    action = person.note("The fox waits.", title="Waits", ns="fox")["action"]
    with pytest.raises(NotFound, match="no action"):
        agent.undo(action)


def test_a_binding_stays_as_long_as_the_connection_and_is_made_again_with_the_next(agent: Client, home: Home) -> None:
    agent.ping()
    with pytest.raises(Refused, match="is bound to `agent`"):
        agent.call("hello", {"bind": "fox"})
    agent.call("hello")
    agent.close()
    with pytest.raises(Refused):
        agent.query("x", ns="fox")
    home.stop()
    home.start().sync()
    with pytest.raises(Refused):
        agent.query("x", ns="fox")


def test_a_workspace_that_is_not_there_cannot_be_bound_to(person: Client, home: Home) -> None:
    with pytest.raises(UnknownWorkspace), Client(home.socket, bind="nowhere") as client:
        client.query("x")
    with Bare(home) as link:
        link.send({"id": 1, "method": "hello", "params": {"bind": "nowhere"}})
        link.send({"id": 2, "method": "hello"})
        assert link.line()["error"]["data"]["code"] == "unknown_workspace" and link.line()["result"]["bound"] is None


def test_the_config_may_let_bound_connections_name_others(home: Home) -> None:
    two(home, "[server]\ncross_workspace = true\n")
    with Client(home.socket, bind="agent") as agent:
        assert agent.get("MEMORY#plan", ns="fox")["text"].endswith(SECRET)
        assert agent.query("plan")["ns"] == ["agent"] and len(agent.workspace_list()["workspaces"]) == 2
        with pytest.raises(Refused):
            agent.shutdown()


def test_the_table_of_what_is_about_the_whole_is_what_the_docs_say() -> None:
    """A method that takes `ns` is about a workspace; a bound connection's calls get theirs from it."""
    found = sections(PROTOCOL_PAGE.read_text(encoding="utf-8"))
    takes = {method for method, section in found.items() if "ns" in documented_parameters(section)}
    assert METHODS.keys() & found.keys() - WHOLE == takes - {"workspace.add", "workspace.rm", "token.add"}


# --- who --------------------------------------------------------------------------------------------------------


def test_who_wrote_what_is_in_the_log(person: Client, home: Home) -> None:
    for who in ("planner", "scribe"):
        with Client(home.socket, bind="agent", who=who) as agent:
            agent.note(f"By {who}.", title=who)
            agent.save("Both may add to it.", "long_term", title=f"From {who}")
    for who in ("planner", "scribe"):
        entries = person.log(who=who)["entries"]
        assert sorted(entry["what"] for entry in entries) == ["note", "save"] and all(e["who"] == who for e in entries)
    with Client(home.socket, bind="agent", who="scribe") as scribe:
        assert scribe.undo()["undid"]["what"] == "save"
        assert [entry["state"] for entry in person.log(who="planner")["entries"]] == ["done", "done"]


# --- limits -----------------------------------------------------------------------------------------------------


def test_an_allowance_fills_up_by_the_second() -> None:
    now = [0.0]
    pace = RateLimit(10, lambda: now[0])
    assert sum(pace.allows() for _ in range(100)) == 10
    now[0] = 0.5
    assert sum(pace.allows() for _ in range(100)) == 5
    now[0] = 100
    assert sum(pace.allows() for _ in range(100)) == 10


def test_too_many_calls_are_told_busy_and_not_carried_out_and_others_go_on(home: Home) -> None:
    person = two(home, "[server]\ncalls_per_second = 10\n")
    assert person.hello()["limits"]["calls_per_second"] == 10
    with Bare(home) as link:
        for nth in range(200):
            link.send({"id": nth, "method": "note", "params": {"text": f"Number {nth}.", "ns": "agent"}})
        answers = [link.line() for _ in range(200)]
    assert [told["id"] for told in answers] == list(range(200)), "each is answered, in order"
    busy = [told["error"] for told in answers if "error" in told]
    assert busy and all(error["data"] == {**error["data"], "code": "busy", "retryable": True} for error in busy)
    assert "10 calls a second" in busy[0]["message"]
    assert person.ping()["pong"], "another connection has its own allowance"
    assert len(person.log(what="note", limit=300)["entries"]) == 200 - len(busy)


# --- many at once -----------------------------------------------------------------------------------------------

AGENTS, NOTES = 12, 8


def test_many_agents_that_write_and_ask_at_once_lose_nothing(person: Client, home: Home) -> None:
    problems: list[str] = []

    def live(nth: int) -> None:
        """One agent: every note is found by the next question."""
        try:
            with Client(home.socket, bind="agent", who=f"agent-{nth}") as agent:
                for one in range(NOTES):
                    word = f"zq{nth}x{one}"
                    agent.note(f"It is called {word}.", title=f"Thing {word}")
                    hits = agent.query(word, mode="text", limit=1)["hits"]
                    if not hits or word not in hits[0]["text"]:
                        problems.append(f"{word} was not found: {hits}")
        except MemdError as error:
            problems.append(f"agent {nth}: {error}")

    agents = [threading.Thread(target=live, args=(nth,)) for nth in range(AGENTS)]
    for thread in agents:
        thread.start()
    for thread in agents:
        thread.join()
    assert not problems
    log = person.log(what="note", limit=1_000)["entries"]
    assert {entry["who"] for entry in log} == {f"agent-{nth}" for nth in range(AGENTS)} and len(log) == AGENTS * NOTES
    written = "".join(file.read_text() for file in (home.path.parent / "agent" / "memory").glob("*.md"))
    assert all(f"It is called zq{nth}x{one}." in written for nth in range(AGENTS) for one in range(NOTES))


def test_as_many_tasks_with_one_client_each(person: Client, home: Home) -> None:
    async def live(nth: int) -> Any:
        async with AsyncClient(home.socket, bind="fox", who=f"task-{nth}") as agent:
            await agent.put(f"task-{nth}", f"This belongs to qx{nth}.")
            return (await agent.query(f"qx{nth}", mode="text", limit=1))["hits"][0]["key"]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(live(nth) for nth in range(AGENTS)))

    assert asyncio.run(all_of_them()) == [f"task-{nth}" for nth in range(AGENTS)]
    assert not (Path(home.path.parent) / "agent" / "memory" / "topics" / "task-0.md").exists()


# --- whose turn it is -------------------------------------------------------------------------------------------


def test_an_import_gets_its_turn_while_others_never_stop_writing(person: Client, home: Home) -> None:
    stop = threading.Event()

    def write(name: str) -> None:
        with Client(home.socket, bind="fox", who=name) as client:
            while not stop.is_set():
                client.note(f"{name} goes on and on.", title=f"{name} writes")

    writers = [threading.Thread(target=write, args=(f"agent-{number}",)) for number in range(8)]
    for writer in writers:
        writer.start()
    try:
        write_notes(home.path.parent / "agent", {"memory/2026-04-01.md": "# Day\n\n## Heron\n\nA heron came by.\n"})
        assert person.sync(ns="agent")["files"] > 0
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert person.query("heron", ns="agent", mode="text")["hits"]
