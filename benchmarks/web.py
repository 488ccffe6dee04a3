"""Measures the page at 10,000 chunks: how soon it answers and is drawn, what typing adds to a query, bytes, memory.

python benchmarks/web.py [--chunks 10000] [--longest 4] [--rounds 20] [--keep DIR]

It needs chromium and playwright for what a browser draws; without them only the server is measured.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import corpus
from figures import Figure, median, table as table_of
from home import workplace
from store import Store, prepare

from memd.protocol import start
from memd.protocol.client import Client
from memd.web.views.search import HITS

DEBOUNCE = 90.0
"""Milliseconds that the page waits for the next letter."""
VIEWS = ("/", "/timeline", "/life", "/review", "/health", "/graph", "/context?task=the+router&budget=800")
TYPED = """async (text) => {
    const live = document.querySelector("[data-live]"), input = document.querySelector("#q");
    const drawn = new Promise(done => new MutationObserver((_, watch) => {
        watch.disconnect();
        const {port1, port2} = new MessageChannel();  // its message comes once the frame is drawn
        port1.onmessage = () => done(performance.now());
        requestAnimationFrame(() => port2.postMessage(0));
    }).observe(live.parentNode, {childList: true, subtree: true}));
    const begun = performance.now();
    input.value = text;
    input.dispatchEvent(new Event("input", {bubbles: true}));
    return await drawn - begun;
}"""
PAINTED = """() => {
    const answer = performance.getEntriesByType("navigation")[0];
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    return paint.startTime - answer.responseStart;
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000, help="size of the workspace (10000)")
    parser.add_argument("--longest", type=int, default=corpus.BLOCKS, help="most paragraphs of a memory (4)")
    parser.add_argument("--rounds", type=int, default=20, help="times that each thing is measured (20)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexed workspace there and use it again")
    options = parser.parse_args()
    with workplace(options.keep) as place:
        store = prepare(place / "home", options.chunks, False, options.longest)
        figures = measure(store, options.rounds)
    print("\n" + table_of(f"The page ({store.title})", figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def measure(store: Store, rounds: int) -> list[Figure]:
    home = store.home
    try:
        client = home.start()
        home.ready(client)
        with page(home.env) as (address, process):
            visitor = Visitor(address)
            figures = [*_served(visitor, rounds), *_drawn(visitor, home.workspace, client, rounds)]
            figures.append(Figure("memory of the page's process", _memory_mb(process.pid), "MB", most=60))
    finally:
        home.stop()
    return figures


@contextmanager
def page(env: dict[str, str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`memd web`, and the address that lets a browser in, once."""
    command = [sys.executable, *start.command_of(start.WEB, '{"no_open": true}')[1:]]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.wait()


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


# --- what the server takes ------------------------------------------------------------------------------------------


class Visitor:
    """Asks for pages as a browser does, without drawing them."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._connection = HTTPConnection(parts.hostname or "", parts.port)
        self.cookie = ""
        self.ask("POST", "/enter", f"token={parts.fragment}")

    def ask(self, method: str, path: str, body: str = "") -> tuple[float, str, int]:
        """Milliseconds until the answer begins, the text that came, and its bytes as they came."""
        headers = {"Accept-Encoding": "gzip", "Cookie": self.cookie}
        headers |= {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"} if body else {}
        began = time.perf_counter()
        self._connection.request(method, path, body or None, headers)
        reply = self._connection.getresponse()
        took = (time.perf_counter() - began) * 1000
        self.cookie = (reply.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        data = reply.read()
        zipped = reply.getheader("Content-Encoding") == "gzip"
        return took, (gzip.decompress(data) if zipped else data).decode(errors="replace"), len(data)


def _served(visitor: Visitor, rounds: int) -> Iterator[Figure]:
    for view in VIEWS:
        times = [visitor.ask("GET", view)[0] for _ in range(rounds)]
        yield Figure(f"{view.partition('?')[0]}: the answer begins, p50", median(times))
    _, text, size = visitor.ask("GET", "/")
    files = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', text))
    whole = size + sum(visitor.ask("GET", file)[2] for file in sorted(files))
    yield Figure("bytes of the first page, compressed", whole / 1024, "KB", most=60, note=f"with {len(files)} files")


# --- what a browser draws -------------------------------------------------------------------------------------------


def _drawn(visitor: Visitor, workspace: Path, client: Client, rounds: int) -> Iterator[Figure]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no chromium or no playwright: what a browser draws is not measured", file=sys.stderr)
        return
    name, _, value = visitor.cookie.partition("=")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.getuid() == 0 else []
        )
        context = browser.new_context(base_url=visitor.origin)
        context.add_cookies([{"name": name, "value": value, "url": visitor.origin}])
        tab = context.new_page()
        painted = []
        for _ in range(rounds):
            tab.goto("/")
            tab.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
            painted.append(tab.evaluate(PAINTED))
        yield Figure("first page: from the answer to drawn, p50", median(painted), most=150)
        typed, asked = [], []
        # No question is asked twice: the second answer would come from what the daemon remembers of the first.
        questions = _questions(workspace, 2 * rounds)
        for words, others in zip(questions[::2], questions[1::2], strict=True):
            began = time.perf_counter()
            client.query(words, limit=HITS, marks=True, explain=True, observe=False)
            asked.append((time.perf_counter() - began) * 1000)
            typed.append(tab.evaluate(TYPED, others) - DEBOUNCE)
        beyond = median(typed) - median(asked)
        yield Figure("query over the socket, p50", median(asked))
        yield Figure("search: typed to drawn, beyond the query, p50", beyond, most=60,
                     note=f"without the {DEBOUNCE:.0f} ms in which it waits for the next letter")  # fmt: skip
        browser.close()


def _questions(workspace: Path, count: int) -> list[str]:
    """Words of the notes, three at a time."""
    rng = random.Random(9)
    files = sorted(workspace.rglob("*.md"))
    words = sorted(
        {word for file in rng.sample(files, min(20, len(files))) for word in re.findall(r"[a-z]{5,}", file.read_text())}
    )
    return [" ".join(rng.sample(words, 3)) for _ in range(count)]


if __name__ == "__main__":
    sys.exit(main())
