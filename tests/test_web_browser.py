"""The page in a real browser: a person searches, edits, undoes, uses only the keyboard; another page attacks."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from memd.protocol.client import Client
from tests import fetch_axe
from tests.conftest import PATIENCE, Home, write_notes
from tests.web_page import HOSTILE_KEY, Page, page_of, tended_home

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOW = "the tests of the page need a browser: apt-get install chromium; pip install playwright"
try:
    from playwright.sync_api import Browser, BrowserContext, Route, expect, sync_playwright
except ImportError:
    CHROMIUM = None
if CHROMIUM is None:
    warnings.warn(HOW, stacklevel=1)
    pytest.skip(HOW, allow_module_level=True)

VIEWS = ("/", "/?q=ErsatzTV", "/timeline?since=2026-02-15&until=2026-02-16", "/graph", "/life", "/review",
         "/context?task=television", "/health",
         "/memory?ns=agent&key=2026-02-15%23ersatztv", "/memory/edit?ns=agent&key=2026-02-15%23ersatztv",
         "/memory/history?ns=agent&key=2026-02-15%23ersatztv")  # fmt: skip

TEA, TEA_COPY = "memory/2026-02-18.md", "memory/2026-02-18.sync-conflict-20260219-101010-ABCDEF7.md"


@pytest.fixture(scope="module")
def tended() -> Iterator[tuple[Home, Path, Client]]:
    with tended_home() as made:
        lived(*made)
        yield made


def lived(home: Home, agent: Path, client: Client) -> None:
    """Let days go by: most memories are five days old, one became dormant, one shown to Ada, one has two versions."""
    ago = (datetime.now(UTC) - timedelta(days=5)).isoformat(timespec="milliseconds")
    with sqlite3.connect(home.state / "state.db", timeout=PATIENCE) as ledger:
        ledger.execute("UPDATE memories SET first_seen = ? WHERE slug <> 'garden'", (ago,))
    client.curate("MEMORY#preferences", "archive", ns="agent")
    client.get("2026-02-15#ersatztv", ns="agent", who="ada")
    client.reflect(ns="agent")
    for versions in ({TEA: "White."}, {TEA: "Green, at noon.", TEA_COPY: "Black, at five."}):
        write_notes(agent, {path: f"## Tea\n\n{text}\n" for path, text in versions.items()})
        client.sync()


@pytest.fixture(scope="module")
def page(tended: tuple[Home, Path, Client]) -> Iterator[Page]:
    with page_of(tended[0]) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # As root, chromium has no sandbox; a name of someone else leads to this machine.
    flags = ["--host-resolver-rules=MAP evil.example 127.0.0.1", *["--no-sandbox"] * (os.getuid() == 0)]
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@pytest.fixture
def inside(browser: Browser, page: Page) -> Iterator[BrowserContext]:
    """A browser that has been let in."""
    context = entered(browser, page)
    yield context
    context.close()


def entered(browser: Browser, page: Page, **options) -> BrowserContext:
    context = browser.new_context(base_url=f"http://127.0.0.1:{page.port}", **options)
    context.set_default_timeout(20_000)
    tab = context.new_page()
    tab.goto(f"/enter#{page.new_token()}")
    tab.wait_for_url("**/")
    tab.close()
    return context


def test_search_as_you_type_open_and_go_back(inside: BrowserContext) -> None:
    tab = inside.new_page()
    tab.goto("/")
    tab.get_by_role("searchbox").press_sequentially("ErsatzTV")
    hit = tab.get_by_role("link", name="ErsatzTV", exact=True)
    expect(hit).to_be_visible()
    expect(tab.locator("mark").first).to_have_text(re.compile("ErsatzTV"))
    tab.wait_for_url("**/?q=ErsatzTV")
    tab.get_by_text("Why this hit").first.click()
    expect(tab.get_by_role("rowheader", name="its words", exact=True).first).to_be_visible()
    expect(tab.get_by_label("Any kind")).to_be_hidden()
    tab.get_by_text("Filters", exact=True).click()
    tab.get_by_label("Any kind").select_option("semantic")
    tab.wait_for_url("**/?q=ErsatzTV&kind=semantic")
    expect(hit).to_have_count(0)
    tab.go_back()
    expect(hit).to_be_visible()
    tab.get_by_label("Any time").press("ArrowRight")
    tab.wait_for_url(re.compile(r"since=\d{4}-\d\d-\d\d$"))
    expect(tab.get_by_label("The last year")).to_have_value("1")
    tab.go_back()
    expect(tab.get_by_label("Any time")).to_have_value("0")
    hit.click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("ErsatzTV")
    tab.go_back()
    expect(tab.get_by_role("searchbox")).to_have_value("ErsatzTV")


def test_edit_with_a_conflict_undo_delete_and_undo(inside: BrowserContext, tended: tuple[Home, Path, Client]) -> None:
    _, agent, client = tended
    file = agent / "memory/2026-02-16.md"
    tab = inside.new_page()
    tab.goto("/memory?ns=agent&key=2026-02-16%23backup")
    prose, editor = tab.locator(".memory .prose"), tab.locator(".memory form.editor")
    tab.get_by_role("link", name="Edit").click()
    expect(editor).to_be_visible()
    expect(prose).to_be_hidden()
    editor.get_by_role("link", name="Cancel").click()
    expect(prose).to_be_visible()
    expect(editor).to_have_count(0)
    tab.get_by_role("link", name="Edit").click()
    client.put("2026-02-16#backup", "Someone else was here.", ns="agent")
    tab.get_by_label("Text").fill("## Backup\n\nMy own words.")
    assert "/memory?" in tab.url, "it is edited in its place"
    editor.get_by_role("button", name="Save").click()
    expect(tab.get_by_role("alert")).to_contain_text("Someone else changed it meanwhile")
    expect(tab.locator(".diff .old", has_text="Someone else was here.")).to_be_visible()
    expect(tab.locator(".diff .new", has_text="My own words.")).to_be_visible()
    tab.get_by_role("button", name="Save mine").click()
    expect(tab.get_by_text("Saved.")).to_be_visible()
    assert "My own words." in file.read_text()
    tab.locator(".strip").get_by_role("button", name="Undo").click()
    expect(tab.get_by_text("Taken back.")).to_be_visible()
    assert "Someone else was here." in file.read_text()
    tab.get_by_role("button", name="Delete").click()
    expect(tab.get_by_text("Moved to the trash.")).to_be_visible()
    assert "Backup" not in file.read_text()
    tab.locator(".strip").get_by_role("button", name="Undo").click()
    expect(tab.get_by_text("Taken back.")).to_be_visible()
    assert "Someone else was here." in file.read_text()


def test_what_is_typed_in_its_place_outlives_a_refresh_that_was_asked_for_before(inside: BrowserContext) -> None:
    tab = inside.new_page()
    tab.goto("/memory?ns=agent&key=2026-02-16%23backup")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route) if "memd-part" in route.request.headers else route.continue_()

    tab.route("**/memory?*", hold)
    # Someone looks at another tab and comes back.
    for hidden in ("true", "false"):
        tab.evaluate(f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}})")
        tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    tab.get_by_role("link", name="Edit").click()
    tab.get_by_label("Text").fill("My own words.")
    assert held
    with tab.expect_response(lambda response: "memd-part" in response.request.headers):
        held[0].continue_()
    tab.wait_for_timeout(300)
    expect(tab.get_by_label("Text")).to_have_value("My own words.")


def test_what_an_editor_saves_is_there_by_itself(inside: BrowserContext, tended: tuple[Home, Path, Client]) -> None:
    agent = tended[1]
    tab = inside.new_page()
    tab.goto("/")
    expect(tab.locator("[data-pulse].on")).to_be_visible()
    write_notes(agent, {"memory/2026-02-20.md": "## Heron\n\nIt stands in the pond.\n"})
    expect(tab.get_by_role("link", name="Heron", exact=True)).to_be_visible()
    expect(tab.locator(".preview", has_text="It stands in the pond.")).to_be_visible()
    expect(tab.locator(".today").get_by_role("link", name="2026-02-20#heron")).to_be_visible()
    # What changes while the button is down does not take the click away.
    tab.get_by_role("link", name="Heron", exact=True).hover()
    tab.mouse.down()
    with tab.expect_response(lambda response: "memd-part" in response.request.headers):
        write_notes(agent, {"memory/2026-02-21.md": "## Egret\n\nIt came by.\n"})
    tab.wait_for_timeout(300)
    tab.mouse.up()
    expect(tab.get_by_role("heading", level=1)).to_have_text("Heron")
    expect(tab.locator("[data-pulse].on")).to_be_visible()
    write_notes(agent, {"memory/2026-02-20.md": "## Heron\n\nIt has flown.\n"})
    expect(tab.get_by_text("It has flown.")).to_be_visible()


def test_life_shows_the_tiers_over_time_and_a_memory_who_was_shown_it(inside: BrowserContext) -> None:
    tab = inside.new_page()
    tab.goto("/life?ns=agent")
    expect(tab.get_by_role("img", name="Memories in each tier by day")).to_be_visible()
    assert tab.locator(".areas polygon").count() == 4
    tab.get_by_text("As a table").click()
    today, *_, first = tab.locator(".list tbody tr").all()
    assert int(today.locator("td").last.inner_text()) == 1, "one became dormant today"
    assert int(first.locator("td").last.inner_text()) == 0, "and was not five days ago"
    tab.goto("/memory?ns=agent&key=2026-02-15%23ersatztv")
    shown = tab.locator("section", has=tab.get_by_role("heading", name="Who was shown it"))
    expect(shown.get_by_role("listitem")).to_contain_text("ada")


def test_both_versions_of_a_note_are_shown_and_one_click_settles_them(
    inside: BrowserContext, tended: tuple[Home, Path, Client]
) -> None:
    agent = tended[1]
    tab = inside.new_page()
    tab.goto("/review?ns=agent")
    card = tab.locator("section", has=tab.get_by_role("heading", name="Two versions of a note"))
    for heading, text in (("The note", "Green, at noon."), ("The other version", "Black, at five.")):
        side = card.locator(".pair > div", has=tab.get_by_role("heading", name=heading))
        expect(side).to_contain_text(text)
    card.get_by_role("button", name="Keep both").click()
    expect(tab.get_by_text("It has one version now.")).to_be_visible()
    assert "at noon" in (agent / TEA).read_text() and "at five" in (agent / TEA).read_text()
    assert not (agent / TEA_COPY).exists()
    tab.locator(".strip").get_by_role("button", name="Undo").click()
    expect(tab.get_by_text("Taken back.")).to_be_visible()
    expect(card).to_contain_text("Black, at five.")


def test_days_that_are_dragged_over_are_searched(inside: BrowserContext) -> None:
    tab = inside.new_page()
    tab.goto("/timeline?ns=agent")
    one, other = (tab.locator("[data-day]").nth(nth) for nth in (-9, -2))
    span = [cell.get_attribute("data-day") for cell in (one, other)]
    other.hover()
    tab.mouse.down()
    one.hover()
    expect(tab.locator("[data-day].picked")).to_have_count(8)
    tab.mouse.up()
    tab.wait_for_url(f"**/?since={span[0]}&until={span[1]}&ns=agent")


def test_with_the_keyboard_alone(inside: BrowserContext, tended: tuple[Home, Path, Client]) -> None:
    tab = inside.new_page()
    tab.goto("/health")
    keys = tab.keyboard
    for key, where in {"l": "/life", "h": "/health", "s": "/"}.items():
        keys.press("g")
        keys.press(key)
        tab.wait_for_url(f"**{where}")
    keys.press("Escape")
    keys.press("/")
    keys.type("starter")
    expect(tab.locator("mark").first).to_be_visible()
    keys.press("Escape")
    keys.press("j")
    expect(tab.locator("[data-row].here")).to_have_count(1)
    keys.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    tab.wait_for_url("**/memory?**")
    keys.press("e")
    expect(tab.get_by_label("Text")).to_be_focused()
    keys.press("Control+Home")
    keys.type("Twice on Sundays. ")
    keys.press("Control+Enter")
    expect(tab.get_by_text("Saved.")).to_be_visible()
    assert "Twice on Sundays." in (tended[1] / "memory/topics/sourdough.md").read_text()
    keys.press("?")
    expect(tab.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(tab.get_by_role("dialog")).to_be_hidden()


def test_a_hostile_note_does_nothing(inside: BrowserContext, page: Page) -> None:
    tab = inside.new_page()
    asked: list[str] = []
    inside.on("request", lambda request: asked.append(request.url))
    tab.on("dialog", lambda dialog: pytest.fail(dialog.message))
    for path in (f"/memory?ns=odd&key={quote(HOSTILE_KEY)}", "/?ns=odd", "/?q=heading", "/timeline", "/review"):
        tab.goto(path)
        tab.wait_for_load_state()
        assert "owned" not in tab.title() or "<script>" in tab.title()
    assert asked and all(url.startswith(f"http://127.0.0.1:{page.port}/") for url in asked)


ATTACK = """<!doctype html><title>attack</title><iframe src="{page}/"></iframe>
<form id=f method=post action="{page}/do/rm">
<input name=ns value=agent><input name=key value="2026-02-15#garden"></form>
<script>
(async () => {{
  const tries = [
    fetch("{page}/", {{ credentials: "include" }}).then((answer) => answer.text()),
    fetch("{page}/do/rm", {{ method: "POST", credentials: "include", mode: "no-cors",
      body: new URLSearchParams({{ ns: "agent", key: "2026-02-15#garden" }}) }}).then(() => "sent"),
  ];
  document.title = (await Promise.allSettled(tries)).map((one) => one.value ?? "refused").join(",");
}})();
</script>"""


@pytest.fixture
def attacker(page: Page) -> Iterator[str]:
    """A page on another port of this machine, to which the browser would send the same cookies."""

    class Attacker(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = ATTACK.format(page=f"http://127.0.0.1:{page.port}").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Attacker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_another_page_gets_nothing_and_changes_nothing(
    inside: BrowserContext, attacker: str, page: Page, tended: tuple[Home, Path, Client]
) -> None:
    tab = inside.new_page()
    tab.goto(attacker)
    expect(tab).to_have_title("refused,refused")
    framed = tab.frames[1]
    assert "ErsatzTV" not in framed.content()
    with tab.expect_navigation():
        tab.evaluate("document.getElementById('f').submit()")
    expect(tab.get_by_role("heading")).to_contain_text("Another page asked for this")
    assert tended[2].get("2026-02-15#garden", ns="agent")["text"]
    # Another name that leads to this machine, as after a rebinding.
    refused = tab.goto(f"http://evil.example:{page.port}/")
    assert refused is not None and refused.status == 403 and "ErsatzTV" not in tab.content()


@pytest.mark.parametrize("path", ["/timeline", "/graph", "/?q=ErsatzTV"])
def test_while_the_daemon_restarts_the_frame_stays_and_the_view_comes_back_by_itself(
    browser: Browser, served: Home, path: str
) -> None:
    with page_of(served) as page:
        context = entered(browser, page)
        tab = context.new_page()
        served.kill()
        tab.goto(path)
        expect(tab.get_by_role("status").filter(has_text="tries again by itself")).to_be_visible()
        expect(tab.get_by_role("navigation", name="Views")).to_be_visible()
        served.start().close()
        expect(tab.get_by_text("ErsatzTV").first).to_be_attached()
        expect(tab.locator("[data-away]")).to_have_count(0)
        context.close()


def test_a_stranger_sees_the_door(browser: Browser, page: Page) -> None:
    context = browser.new_context(base_url=f"http://127.0.0.1:{page.port}")
    tab = context.new_page()
    answer = tab.goto("/")
    assert answer is not None and answer.status == 403
    tab.goto("/enter#wrong")
    expect(tab.get_by_role("heading")).to_contain_text("was used already")
    context.close()


def test_every_view_fits_a_phone_and_breaks_no_rule_of_its_own(browser: Browser, page: Page) -> None:
    context = entered(browser, page, viewport={"width": 360, "height": 740})
    tab = context.new_page()
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    for path in VIEWS:
        tab.goto(path)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert not faults
    context.close()


@pytest.mark.skipif(not fetch_axe.FILE.is_file(), reason="axe-core is not there: make axe")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anyone_out(browser: Browser, page: Page, scheme: str) -> None:
    """axe-core finds no serious fault on any view; the policy would keep it out, as it keeps out any other script."""
    context = entered(browser, page, color_scheme=scheme, bypass_csp=True)
    tab = context.new_page()

    def look() -> None:
        tab.evaluate(fetch_axe.FILE.read_text())
        # Colours are all that differs in the dark.
        rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
        found = tab.evaluate("rules => axe.run({ resultTypes: ['violations'], ...rules })", rules)["violations"]
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, tab.url

    for path in VIEWS:
        tab.goto(path)
        look()
    tab.goto("/memory?ns=agent&key=2026-02-16%23backup")
    tab.get_by_role("link", name="Edit").click()
    expect(tab.locator(".memory form.editor")).to_be_visible()
    look()
    context.close()
