"""Draws the page's views, each light and dark, wide and on a phone: `make screenshots` writes those that the docs show.

python docs/screenshots.py FOLDER writes all of them. It needs chromium and playwright.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from memd import Client  # noqa: E402
from memd.protocol import start  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
VIEWS = {
    "search": "/?q=animated+shows+on+weekend+mornings",
    "memory": "/memory?ns=pikamini&key=2026-02-15%23ersatztv",
    "timeline": "/timeline?end=2026-03-08",
    "graph": "/graph",
    "life": "/life",
    "review": "/review",
    "context": "/context?task=plan+the+TV+schedule&budget=800",
    "health": "/health",
}
SIZES = {"wide": {"width": 1180, "height": 760}, "phone": {"width": 390, "height": 780}}
SHOWN = ("search-light-wide", "memory-dark-wide", "timeline-light-wide", "graph-dark-wide", "review-light-wide",
         "health-light-wide", "search-dark-phone", "memory-light-phone")  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    trial = Path(tempfile.mkdtemp(prefix="memd-"))
    os.environ["MEMD_HOME"] = str(trial / "home")
    try:
        _take_in_notes(trial)
        _draw(folder, wanted=None if len(sys.argv) > 1 else SHOWN)
    finally:
        start.stop()
        shutil.rmtree(trial, ignore_errors=True)


def _take_in_notes(trial: Path) -> None:
    """Start a daemon that takes in the example notes."""
    shutil.copytree(ROOT / "examples" / "workspace", trial / "pikamini")
    with Client(autostart=True) as memory:
        memory.workspace_add(trial / "pikamini")
        memory.sync(vectors=True)
        memory.reflect()


def _draw(folder: Path, wanted: tuple[str, ...] | None) -> None:
    command = start.command_of(start.WEB, '{"no_open": true}')
    page = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert page.stdout is not None
    address = page.stdout.readline().strip()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        tab = browser.new_context().new_page()
        tab.goto(address)
        tab.wait_for_url("**/")
        state = tab.context.storage_state()
        for scheme in ("light", "dark"):
            for size in SIZES:
                _draw_views(browser, state, address.partition("/enter")[0], folder, scheme, size, wanted)
        browser.close()
    page.terminate()
    page.wait()


def _draw_views(
    browser: Browser, state: object, address: str, folder: Path, scheme: str, size: str, wanted: tuple[str, ...] | None
) -> None:
    context = browser.new_context(base_url=address, storage_state=state, color_scheme=scheme, viewport=SIZES[size])
    tab = context.new_page()
    for view, path in VIEWS.items():
        name = f"{view}-{scheme}-{size}"
        if wanted is None or name in wanted:
            tab.goto(path)
            _settle(tab, view)
            tab.screenshot(path=folder / f"web-{name}.jpeg", type="jpeg", quality=82)
    context.close()


def _settle(tab: Page, view: str) -> None:
    tab.wait_for_selector("[data-pulse].on")
    if view == "graph":
        tab.wait_for_selector("canvas[data-settled]")
    if view == "search":
        tab.locator(".why summary").first.click()


if __name__ == "__main__":
    main()
