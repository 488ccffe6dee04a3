"""The page over HTTP: who is let in, what is refused, what notes can do to it, and what a person can do with it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from memd.config.declared import wire_name
from memd.protocol.client import Client
from memd.protocol.methods.base import METHODS
from memd.web import admission, markdown
from memd.web.rendering import excerpt, passage, render
from memd.web.views.memory import side_by_side
from memd.web.views.tending import OFFERED, exam_trend
from tests.conftest import PATIENCE, ROOT, Home, write_notes
from tests.web_page import HOSTILE, HOSTILE_KEY, Page, Visitor, page_of, tended_home

TV = "2026-02-15#ersatztv"
VIEWS = (
    *("/", "/?q=ErsatzTV", "/?q=xyzzyq&mode=exact", "/?tier=stm&tags=style", "/timeline", "/graph", "/graph.json"),
    *("/?path=memory", "/?path=memory&q=ErsatzTV", "/timeline?path=memory&values=1&self=2"),
    *("/life", "/life?rule=wake", "/review", "/context", "/context?task=television"),
    *("/health", "/why-not?q=tv&passage=memory/2026-02-15.md:3&ns=agent"),
    *(
        f"{path}?{urlencode({'ns': 'agent', 'key': TV})}"
        for path in ("/memory", "/memory/edit", "/memory/history", "/graph")
    ),
)


@pytest.fixture(scope="module")
def tended() -> Iterator[tuple[Home, Path, Client]]:
    with tended_home() as made:
        yield made


@pytest.fixture(scope="module")
def page(tended: tuple[Home, Path, Client]) -> Iterator[Page]:
    with page_of(tended[0]) as made:
        yield made


@pytest.fixture(scope="module")
def visitor(page: Page) -> Visitor:
    return page.visitor()


def memory_page(visitor: Visitor, key: str, ns: str = "agent") -> str:
    return visitor.get(f"/memory?{urlencode({'ns': ns, 'key': key})}").text


# --- who is let in ---


def test_the_address_works_once_and_for_a_while(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    token = page.new_token()
    first = Visitor(page.port).enter(token)
    cookie = first.headers["set-cookie"].lower()
    assert first.status == 303 and "httponly" in cookie and "samesite=strict" in cookie and "max-age" not in cookie
    assert Visitor(page.port).enter(token).status == 403
    assert Visitor(page.port).enter("wrong").status == 403 == Visitor(page.port).enter("../../etc/passwd").status
    late = page.new_token()
    monkeypatch.setenv("MEMD_HOME", page.home.env["MEMD_HOME"])
    os.utime(admission._file_of(late, page.port), (0, 0))
    assert Visitor(page.port).enter(late).status == 403
    # A token of another page opens nothing here.
    assert Visitor(page.port).enter(admission.new_token(page.port + 1)).status == 403


def test_without_a_session_there_is_nothing_to_see(page: Page) -> None:
    stranger = Visitor(page.port, cookie=f"memd_{page.port}=guessed")
    for path in (*VIEWS, "/events", "/nowhere"):
        reply = stranger.get(path)
        assert reply.status == 403 and "ErsatzTV" not in reply.text
    assert stranger.post("/do/rm", {"key": TV, "ns": "agent"}).status == 403
    assert stranger.get("/enterprise").status == 403
    assert stranger.get("/static/page.css").status == 200 == stranger.get("/enter").status


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "[::1]:{port}", ""]
)
def test_another_host_name_is_refused(page: Page, visitor: Visitor, host: str) -> None:
    for path in ("/", "/enter", "/static/page.css"):
        assert visitor.get(path, Host=host.format(port=page.port)).status in (400, 403)


def test_it_listens_on_this_machine_only(page: Page) -> None:
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = {local for local in listening if local.endswith(f":{page.port:04X}")}
    assert ours == {f"0100007F:{page.port:04X}"}
    with socket.socket() as other, pytest.raises(OSError):
        other.connect(("127.0.0.2", page.port))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:3000"}, {"Origin": ""},
        {"Origin": "", "Sec_Fetch_Site": "cross-site"}, {"Origin": "", "Sec_Fetch_Site": "same-site"},
    ],
)  # fmt: skip
def test_another_page_can_change_nothing(visitor: Visitor, tended: tuple[Home, Path, Client], headers) -> None:
    reply = visitor.post("/do/rm", {"key": TV, "ns": "agent"}, **headers)
    assert reply.status == 403 and tended[2].get(TV, ns="agent")["text"]


def test_another_page_can_read_nothing(visitor: Visitor) -> None:
    for mode, dest in (("cors", "empty"), ("no-cors", "script"), ("no-cors", "image"), ("navigate", "iframe")):
        reply = visitor.get("/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode=mode, Sec_Fetch_Dest=dest)
        assert reply.status == 403
    assert "access-control-allow-origin" not in visitor.get("/", Origin="http://evil.example").headers
    assert visitor.send("OPTIONS", "/", None, {}).status == 405


def test_a_look_changes_nothing(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    for action in OFFERED:
        assert visitor.get(f"/do/{action}?{urlencode({'key': TV, 'ns': 'agent'})}").status in (404, 405)
    assert visitor.get("/leave").status in (404, 405)
    for path in VIEWS:
        visitor.get(path)
    assert tended[2].get(TV, ns="agent", observe=False)["life"]["accesses"] == 0
    assert visitor.post("/do/shutdown").status == 404 == visitor.post("/do/workspace_rm", {"ns": "agent"}).status


def test_every_answer_carries_the_policy(visitor: Visitor, page: Page) -> None:
    answers = [visitor.get("/"), visitor.get("/nowhere"), Visitor(page.port).get("/"), visitor.get("/static/page.js")]
    for reply in answers:
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'") and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and reply.headers["x-content-type-options"] == "nosniff"
    assert visitor.get("/").headers["cache-control"] == "no-store"


def test_sessions_that_nobody_uses_end() -> None:
    now = [0.0]
    sessions = admission.Sessions(idle=60, clock=lambda: now[0])
    cookie = sessions.open()
    now[0] = 59
    assert sessions.admits(cookie)
    now[0] = 118
    # What a page hears by itself is no use.
    assert sessions.admits(cookie, is_use=False)
    now[0] = 119
    assert not sessions.admits(cookie) and sessions.empty
    many = [sessions.open() for _ in range(admission.MAX_SESSIONS + 1)]
    assert not sessions.admits(many[0]) and sessions.admits(many[-1])


def test_who_leaves_is_out(page: Page) -> None:
    guest = page.visitor()
    assert guest.get("/").status == 200
    assert guest.post("/leave").status == 200 and guest.get("/").status == 403


@pytest.mark.linux  # only Linux tells whose connection it is
def test_another_user_of_the_machine_is_not_let_in_with_a_token(page: Page) -> None:
    """The address stands in the arguments of the browser, which everyone on the machine can read."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    token = page.new_token()
    # What a visit needs is loaded by now: another user may not be able to read it.
    assert Visitor(page.port).enter("wrong").status == 403
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            reply = Visitor(page.port).enter(token)
            os.write(writer, f"{reply.status} {reply.headers.get('set-cookie')} {reply.text}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        answer = told.read()
    assert answer.startswith("403 None") and "another user" in answer
    assert Visitor(page.port).enter(token).status == 303, "it is still there for its owner"


def test_a_body_without_end_is_refused(visitor: Visitor) -> None:
    assert visitor.post("/memory/edit", {"key": TV, "text": "x" * 5_000_000}).status == 413


# --- notes are hostile ---


def test_a_note_runs_nothing_and_loads_nothing() -> None:
    html = str(markdown.render(HOSTILE))
    assert "<script" not in html and "<img" not in html and "javascript:" not in html.replace("(javascript:", "")
    assert 'href="https://example.org/"' in html and "noreferrer" in html and html.count("href=") == 1
    assert "style=" not in html and 'class="right"' in html and "\u202e" not in html
    assert "spy.png" not in html and "picture" in html
    assert "&lt;script&gt;" in html
    markdown.render("[" * 50_000 + "> " * 5_000)
    assert excerpt("# <b>\n\n<i> word", "<b>", [[11, 15]]) == "<p>&lt;i&gt; <mark>word</mark></p>\n"
    linked = excerpt("[word](https://example.org/word) \ue000", "", [[1, 5], [27, 31]])
    assert "<mark>word</mark></a>" in linked and 'href="https://example.org/word"' in linked
    line = {"text": "see\n- **the** [quiet heron](https://example.org/a-b) of the pond", "marks": [[14, 19]]}
    assert passage(line) == "#:~:text=of%20the%20pond", "words that the page shows, and no address"
    assert not any(sign in linked for sign in ("\ue000", "\ue001", "%EE")), "nor in an address"


def test_hostile_headings_names_and_texts_stay_text(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    _, agent, client = tended
    write_notes(agent, {"memory/<img src=x onerror=alert(1)>.md": "## \"'><svg onload=alert(1)>\n\nA quokka.\n"})
    client.sync()
    shown = [memory_page(visitor, HOSTILE_KEY, "odd"), visitor.get("/?ns=odd").text, visitor.get("/?q=quokka").text]
    shown += [visitor.get(path).text for path in ("/timeline", "/graph", "/review", "/health")]
    shown.append(visitor.get(f"/?{urlencode({'q': '<script>1</script>', 'ns': '<img src=x>'})}").text)
    for html in shown:
        assert "<script>" not in html and "<img" not in html and "<svg onload" not in html
    assert "&lt;svg onload=alert(1)&gt;" in shown[2] and "&lt;img src=x onerror=alert(1)&gt;.md" in shown[2]


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_pictures_of_the_workspace_are_shown_and_no_others(
    page: Page, visitor: Visitor, tended: tuple[Home, Path, Client]
) -> None:
    _, agent, client = tended
    (agent.parent / "outside.png").write_bytes(PIXEL)
    (agent / "memory/pictures").mkdir()
    (agent / "memory/pictures/a plan.png").write_bytes(PIXEL)
    (agent / "memory/pictures/link.png").symlink_to(agent.parent / "outside.png")
    elsewhere = ("../../outside.png", "https://example.org/spy.png", "//example.org/a.png", "/etc/a.png", "a.svg")
    drawn = "".join(f"![one]({src})\n" for src in ("<pictures/a plan.png>", *elsewhere))
    write_notes(agent, {"memory/2026-02-20.md": f"## Plan\n\n{drawn}"})
    client.sync()
    html = memory_page(visitor, "2026-02-20#plan")
    (src,) = re.findall(r'<img src="([^"]*)" alt="one"', html)
    assert html.count('class="picture"') == len(elsewhere)
    shown = visitor.get(unescape(src))
    assert (shown.status, shown.body, shown.headers["content-type"]) == (200, PIXEL, "image/png")
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert Visitor(page.port).get(unescape(src)).status == 403
    for path in (
        "../outside.png",
        "memory/pictures/link.png",
        "memory/2026-02-15.md",
        "memory/none.png",
        "a\0.png",
        "a" * 300 + ".png",
    ):
        assert visitor.get(f"/image?{urlencode({'ns': 'agent', 'path': path})}").status == 404, path
    assert visitor.get(f"/image?{urlencode({'ns': 'nowhere', 'path': 'a.png'})}").status == 404


def test_the_graph_has_titles_and_is_offered_where_there_is_one(
    visitor: Visitor, tended: tuple[Home, Path, Client]
) -> None:
    client = tended[2]
    client.edge_add(TV, "refines", "MEMORY#preferences", ns="agent")
    nodes = {one["key"]: one["title"] for one in json.loads(visitor.get("/graph.json?ns=agent").text)["nodes"]}
    assert nodes[TV] == "ErsatzTV" and nodes["MEMORY#preferences"] == "Preferences"
    assert ">ErsatzTV</a>" in visitor.get("/graph?ns=agent").text
    assert 'href="/graph' in visitor.get("/health?ns=agent").text
    assert 'href="/graph' not in visitor.get("/health?ns=odd").text
    assert "No links yet" in visitor.get("/graph?ns=odd").text


def test_only_memd_says_what_was_done(visitor: Visitor) -> None:
    html = visitor.get(f"/?{urlencode({'said': 'Call 0900-12345!', 'did': '<b>1</b>'})}").text
    assert "0900" not in html and "Undo" not in html
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example"):
        reply = visitor.post("/do/useful", {"key": TV, "ns": "agent", "back": elsewhere})
        assert reply.status == 303 and reply.headers["location"].startswith("/?said=")


# --- what it shows, and what a person does with it ---


def test_every_view_is_shown(visitor: Visitor) -> None:
    for path in (*VIEWS, "/life?next=1", "/review?look=1"):
        reply = visitor.get(path)
        assert reply.status == 200, reply.text
        assert path == "/graph.json" or "<h1" in reply.text


def test_what_changes_is_sent_without_the_rest(visitor: Visitor) -> None:
    whole, part = (visitor.get("/?q=ErsatzTV", **headers).text for headers in ({}, {"Memd_Part": "live"}))
    live = part.partition("<div")[2].rpartition("</div>")[0]
    assert "ErsatzTV · memd</title>" in part and '<form class="search"' not in part and "<header" not in part
    assert 'id="live"' in live and live.count('class="hit"') == whole.count('class="hit"') > 0
    for path in ("/timeline", "/life", "/health"):
        assert 'id="live"' in visitor.get(path, Memd_Part="live").text, path


def test_what_the_doctor_finds_is_shown(tended: tuple[Home, Path, Client]) -> None:
    client = tended[2]
    found = [{"name": "disk", "state": "broken", "detail": "full", "fix": "make room"}]
    frame = {"section": "health", "ns": "", "bound": None, "read_only": False, "workspaces": [], "here": "/health"}
    told = {"status": client.status(), "stats": client.stats(), "checked": found, "error": None, "said": "", "did": ""}
    exams = [
        {"ns": "agent", "date": f"2026-02-1{day}", "probes": 9, "recall": day / 10, "p95_ms": 20} for day in (8, 7)
    ]
    html = render("health.html", {**frame, **told, "trends": exam_trend(exams)}).body.decode()
    assert "make room" in html and "2026-02-17 70%, 2026-02-18 80%" in html


def test_what_does_not_exist_is_said_so(visitor: Visitor) -> None:
    assert visitor.get("/memory?ns=agent&key=nothing").status == 404
    assert visitor.get("/?ns=nowhere").status == 400
    assert visitor.get("/?since=someday").status == 400


def test_an_edit_is_saved_and_taken_back(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    _, agent, client = tended
    before = (agent / "MEMORY.md").read_text()
    form = {
        "ns": "agent",
        "key": "MEMORY#preferences",
        "version": "1",
        "text": "## Preferences\r\n\r\nLong answers.\r\n",
    }
    done = visitor.post("/memory/edit", form)
    assert done.status == 303 and "## Preferences\n\nLong answers.\n" in (agent / "MEMORY.md").read_text()
    assert client.history("MEMORY#preferences", ns="agent")["versions"][0]["who"] == "web"
    where = urlsplit(done.headers["location"])
    after = visitor.get(done.headers["location"]).text
    assert "Saved." in after and "Long answers." in after and "Undo" in after
    undone = visitor.post("/do/undo", {"action": parse_qs(where.query)["did"][0], "back": "/"})
    assert undone.status == 303 and (agent / "MEMORY.md").read_text() == before


def test_who_edits_what_someone_else_changed_sees_both(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    _, agent, client = tended
    key = "2026-02-16#backup"
    version = client.get(key, ns="agent", observe=False)["version"]
    client.put(key, "The backup works again.", ns="agent")
    form = {"ns": "agent", "key": key, "version": str(version), "text": "## Backup\n\nMy own words.\n"}
    shown = visitor.post("/memory/edit", form)
    assert shown.status == 409 and "works again." in shown.text and "My own words." in shown.text
    assert f'name="version" value="{version + 1}"' in shown.text
    assert visitor.post("/memory/edit", form | {"version": str(version + 1)}).status == 303
    assert "My own words." in (agent / "memory/2026-02-16.md").read_text()


def test_tags_pin_delete_and_restore(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    _, agent, client = tended
    own = {"ns": "agent", "key": "2026-02-15#garden", "back": "/"}
    assert visitor.post("/do/put", own | {"tags": "#trees, apples"}).status == 303
    assert client.get(own["key"], ns="agent", observe=False)["tags"] == ["trees", "apples"]
    assert visitor.post("/do/curate", own | {"verb": "pin"}).status == 303
    assert ">Unpin<" in memory_page(visitor, own["key"])
    assert visitor.post("/do/rm", own).status == 303
    assert "apple trees" not in (agent / "memory/2026-02-15.md").read_text()
    assert "Garden" in visitor.get("/review").text
    gone = client.trash(ns="agent")["memories"][0]
    assert visitor.post("/do/restore", own | {"version": str(gone["version"])}).status == 303
    assert "apple trees" in (agent / "memory/2026-02-15.md").read_text()
    done = client.log(what="restore", ns="agent")["entries"][0]["action"]
    assert visitor.post("/do/undo", {"action": str(done), "back": "/"}).status == 303
    assert visitor.post("/do/undo", {"action": "x"}).status == 400
    today = visitor.get("/?ns=agent").text.partition('<section class="today">')[2].partition("</section>")[0]
    assert f"key={done}" not in today, "what an undo took back is no memory"
    assert "taken back</span>" in today


def test_a_note_is_written_down(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    assert "Write something down" in visitor.get("/?ns=agent").text
    assert (
        visitor.post("/do/note", {"ns": "agent", "text": "A fox\r\nby the shed.", "back": "/?ns=agent"}).status == 303
    )
    assert any("A fox\nby the shed." in file.read_text() for file in (tended[1] / "memory").glob("*.md"))


def test_what_seems_a_secret_is_written_only_on_purpose(visitor: Visitor) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    form = {"ns": "agent", "key": "MEMORY#home-network", "version": "1", "text": f"## Home network\n\nToken {secret}\n"}
    refused = visitor.post("/memory/edit", form)
    assert refused.status == 400 and secret in refused.text and "allow_secret" in refused.text
    assert visitor.post("/memory/edit", form | {"allow_secret": "yes"}).status == 303


def test_what_the_daemon_does_is_heard(visitor: Visitor, tended: tuple[Home, Path, Client]) -> None:
    with listening(visitor) as first:
        until(first, b'"event": "connected"')
        # Who comes later learns, too, that the daemon is there.
        with listening(visitor) as second:
            until(second, b'"event": "connected"')
            write_notes(tended[1], {"memory/2026-02-19.md": "## Heron\n\nIt stands.\n"})
            for lines in (first, second):
                until(lines, b"memory/2026-02-19.md")


@contextmanager
def listening(visitor: Visitor) -> Iterator[BinaryIO]:
    with socket.create_connection(("127.0.0.1", visitor.port), timeout=PATIENCE) as connection:
        host = f"127.0.0.1:{visitor.port}"
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: {host}\r\nCookie: {visitor.cookie}\r\n\r\n".encode())
        yield connection.makefile("rb")


def until(lines: BinaryIO, wanted: bytes) -> None:
    assert any(wanted in line for line in lines)


def test_a_page_of_one_workspace_to_read_only(tended: tuple[Home, Path, Client]) -> None:
    with page_of(tended[0], "--ns", "agent", "--read-only") as page:
        guest = page.visitor()
        for path in VIEWS:
            reply = guest.get(path)
            assert reply.status == 200 and 'action="/do/' not in reply.text, reply.text
        assert guest.post("/do/rm", {"key": TV}).status == 403
        assert guest.post("/memory/edit", {"key": TV, "text": "x", "version": "1"}).status == 403
        assert "document.title" not in guest.get("/?q=heading&ns=odd").text
        assert guest.get(f"/memory?{urlencode({'ns': 'odd', 'key': HOSTILE_KEY})}").status == 404
        assert page.close() == ("", "")
    refused = tended[0].run("web", "--no-open", "--ns", "nowhere")
    assert refused.returncode == 2 and "nowhere" in refused.stderr and refused.stdout == ""


def test_a_text_outlives_the_daemon(home: Home, workspace: Path) -> None:
    """Nothing that was typed is lost when the daemon goes, and what was typed can be saved when it is back."""
    with home.start() as client:
        client.workspace_add(str(workspace))
    with page_of(home) as page:
        guest = page.visitor()
        guest.get("/")
        home.kill()
        form = {"ns": "agent", "key": TV, "version": "1", "text": "## ErsatzTV\n\nTyped for an hour.\n"}
        kept = guest.post("/memory/edit", form)
        assert kept.status == 503 and "Typed for an hour." in kept.text and "still here" in kept.text
        assert "A fox by the shed." in guest.post("/do/note", {"ns": "agent", "text": "A fox by the shed."}).text
        assert guest.get("/health").status == 200
        for path in (
            "/",
            "/timeline",
            "/graph",
            "/life",
            "/review",
            f"/memory?{urlencode({'ns': 'agent', 'key': TV})}",
        ):
            reply = guest.get(path)
            assert reply.status == 503 and "tries again by itself" in reply.text and "data-away" in reply.text, path
            assert '<nav aria-label="Views">' in reply.text and '<footer class="bottom">' in reply.text, path
        assert "data-away" not in kept.text, "what was typed would go"
        home.start().close()
        assert guest.post("/memory/edit", form).status == 303
        assert "Typed for an hour." in (workspace / "memory/2026-02-15.md").read_text()


def test_with_nothing_to_show_it_says_how_to_begin(home: Home) -> None:
    home.start().close()
    with page_of(home) as page:
        guest = page.visitor()
        for path in ("/", "/timeline", "/graph", "/life", "/review", "/context", "/health"):
            reply = guest.get(path)
            assert reply.status == 200 and (path in ("/health", "/context") or "memd add" in reply.text), path


# --- small ---


def test_the_first_page_is_small_and_so_is_the_process(page: Page, visitor: Visitor) -> None:
    first = visitor.get("/", Accept_Encoding="gzip")
    files = [visitor.get(f"/static/{name}", Accept_Encoding="gzip") for name in ("page.css", "page.js", "icon.svg")]
    assert sum(len(reply.body) for reply in (first, *files)) < 60_000
    status = Path(f"/proc/{page.process.pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) < 60_000


def test_the_page_knows_nothing_of_what_the_daemon_is_made_of() -> None:
    code = "import sys, memd.web.__main__; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    inside = {"numpy", "pydantic", "chromadb", "whoosh", "mcp", "msgspec", "typer", "memd.daemon", "memd.indexer"}
    assert not inside & set(loaded.split())


def test_every_button_is_a_method_with_its_parameters() -> None:
    methods = {method.python_name: method for method in METHODS.values()}
    for name, fields in OFFERED.items():
        assert {wire_name(field) for field in fields} <= set(methods[name].parameters)


def test_two_texts_side_by_side() -> None:
    rows = side_by_side("a\nb\nc\n" + "same\n" * 20, "a\nB\n" + "same\n" * 20 + "end\n")
    tags = [(row["tag"], row["old"], row["new"]) for row in rows if row["tag"] != "equal"]
    assert tags == [("replace", "b", "B"), ("replace", "c", ""), ("gap", "", ""), ("insert", "", "end")]
