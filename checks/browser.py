"""The built book in a real browser: each page as a reader meets it, and what is wrong with it.

A page is served from 127.0.0.1 (or opened from its folder) in Chromium, which can reach no other host; what it asks
for, says, weighs and looks like becomes findings, sentences ``rule: element``. The checks of `test_browser.py` and the
pictures of `shots.py` stand on this module; `probe.js` holds what is asked inside a page.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import threading
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, sync_playwright

from reefcore.workflow.pdf import chromium

PROBE = (Path(__file__).with_name("probe.js")).read_text(encoding="utf-8")
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
PAGE_BYTES, EXPLORER_BYTES, SITE_BYTES, PAINT_MS = 1.5e6, 3e6, 60e6, 1000
# Links that leave the book: what may stand in them is in one list.
OUTSIDE = re.compile(
    r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?(/[^\s<>\"{}|\\^`]*)?(\?[^\s<>\"]*)?|mailto:[^@\s]+@[^@\s]+"
)


@contextlib.contextmanager
def serve(folder):
    """Serve a folder on 127.0.0.1, without compression, as the plainest web server does; gives the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def browser():
    """Start Chromium without a way to any other host; gives Playwright's browser."""
    quiet = "--disable-gpu --disable-background-networking --disable-component-update --no-first-run".split()
    away = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", *quiet, away])
        try:
            yield started
        finally:
            started.close()


def pages(folder) -> list[str]:
    """List the pages of a rendered book, as paths below its folder; those that only send on are left out."""
    found = sorted(Path(folder).rglob("*.html"))
    names = [path.relative_to(folder).as_posix() for path in found if "_static" not in path.parts]
    return [name for name in names if not sends_on(Path(folder) / name)]


def sends_on(path: Path) -> bool:
    """Say whether a page is nothing but the address of another."""
    return path.stat().st_size < 2000 and 'http-equiv="refresh"' in path.read_text(encoding="utf-8").lower()


@contextlib.contextmanager
def opened(started, address, found, viewport=WIDE, scheme="light", **options):
    """Open an address in a profile of its own and gather what goes wrong meanwhile; gives the page."""
    context = started.new_context(viewport=viewport, color_scheme=scheme, **options)
    page = context.new_page()
    host = urlsplit(address).netloc

    def asked(request):
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != host:
            found.append(f"other-host: asks for {request.url[:120]}")

    def said(message):
        known = "ERR_NAME_NOT_RESOLVED" in message.text or message.location["url"].endswith("/favicon.ico")
        if message.type in ("error", "warning") and not known:
            found.append(f"console: {message.type}, {message.text[:200]}")

    def failed(request):
        if urlsplit(request.url).netloc == host and request.failure != "net::ERR_ABORTED":
            found.append(f"request: {request.url[:120]} {request.failure}")

    def dialog(shown):
        found.append(f"dialog: {shown.message[:80]}")
        shown.dismiss()

    page.on("request", asked)
    page.on("console", said)
    page.on("requestfailed", failed)
    page.on("dialog", dialog)
    page.on(
        "response", lambda got: found.append(f"request: {got.url[:120]} {got.status}") if got.status > 399 else None
    )
    page.on("websocket", lambda socket: found.append(f"other-host: a socket to {socket.url[:120]}"))
    page.on("pageerror", lambda error: found.append(f"exception: {str(error)[:200]}"))
    try:
        page.goto(address, wait_until="load", timeout=60_000)
        page.evaluate(PROBE)
        yield page
    finally:
        context.close()


def scroll(page) -> None:
    """Go down a page to its end, so that what loads late loads, and come back."""
    page.evaluate(
        """async () => { for (let y = 0; y < document.scrollingElement.scrollHeight; y += 800) {
             scrollTo({top: y, behavior: "instant"}); await new Promise(requestAnimationFrame); }
           scrollTo({top: 0, behavior: "instant"});
           const late = [...document.images].filter((image) => !image.complete && image.checkVisibility());
           const enough = new Promise((done) => setTimeout(done, 3000));
           await Promise.race([enough, Promise.all(late.map((image) => image.decode().catch(() => 0)))]); }"""
    )
    with contextlib.suppress(Error):  # a busy machine, or a page that never rests
        page.wait_for_load_state("networkidle", timeout=10_000)


def axe(page, **options) -> list[tuple[bool, str]]:
    """Run axe; gives (serious or critical, finding) for each element."""
    rules = {"target-size": {"enabled": True}} | options.pop("rules", {})
    options = {"resultTypes": ["violations"], "preload": False, "rules": rules, **options}
    result = Axe().run(page, options=options).response
    return [
        (rule["impact"] in ("serious", "critical"), f"axe {rule['id']}: {node['target'][0]} {node['html'][:160]}")
        for rule in result["violations"]
        for node in rule["nodes"][:4]
    ]


def visit(started, address: str, full: bool = True) -> dict:
    """Look at one page: wide and light, dark, and on a phone.

    Returns
    -------
    dict
        ``found`` (sentences that must not be), ``minor`` (axe's lesser ones), ``bytes`` over the wire, ``paint`` in
        milliseconds, ``links`` and ``anchors`` as the browser has them.
    """
    found, minor = [], []

    def note(results, theme=""):
        for grave, text in results:
            (found if grave else minor).append(f"{text}{theme}")

    with opened(started, address, found) as page:
        scroll(page)
        weights = page.evaluate(
            """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
                 .map((one) => [one.name, one.transferSize])"""
        )
        report = {
            "bytes": int(sum(size for _, size in weights)),
            "heaviest": [
                f"{name.rsplit('/', 1)[-1]} {size}" for name, size in sorted(weights, key=lambda w: -w[1])[:4]
            ],
            "paint": page.evaluate("probe.paint()"),
            "links": page.evaluate("probe.links()"),
            "anchors": page.evaluate("probe.anchors()"),
        }
        found += page.evaluate("probe.structure()")
        if full:
            note(axe(page))
            page.emulate_media(color_scheme="dark")
            found += page.evaluate("new Promise((go) => setTimeout(() => go(probe.dark()), 350))")
            note(axe(page, runOnly=["color-contrast", "link-in-text-block"]), " (dark)")
            page.emulate_media(color_scheme="light")
            page.set_viewport_size(PHONE)
            found += page.evaluate("new Promise((go) => setTimeout(() => go(probe.phone()), 350))")
            note(axe(page, runOnly=["target-size", "scrollable-region-focusable"]), " (phone)")
    return report | {"found": list(dict.fromkeys(found)), "minor": list(dict.fromkeys(minor))}


def walk(started, address: str, viewport=WIDE, limit: int = 600) -> list[str]:
    """Go through a page by Tab alone until it begins again; say what was not reached or did not show the focus."""
    found = []
    with opened(started, address, found, viewport) as page:
        for _ in range(limit):
            page.keyboard.press("Tab")
            if page.evaluate("probe.step()"):
                break
        return found + page.evaluate("probe.walked()")


def visit_all(names: list[str], base: str, by_keyboard=()) -> dict[str, dict]:
    """Visit some pages in one browser, some of them by keyboard too (``walked``): the work of one process."""
    seen = {}
    with browser() as started:
        for name in names:
            seen[name] = _visited(started, base + name)
            if name in by_keyboard:
                wide, phone = (walk(started, base + name, size) for size in (WIDE, PHONE))
                seen[name]["walked"] = wide + [f"{text} (phone)" for text in phone]
    return seen


def _visited(started, address: str) -> dict:
    try:
        return visit(started, address)
    except Error as error:  # such as a page that never stops loading
        return {
            "found": [f"open: {str(error)[:300]}"],
            "minor": [],
            "bytes": 0,
            "paint": None,
            "links": [],
            "anchors": [],
        }


def lost(folder, base: str, seen: dict[str, dict]) -> dict[str, list[str]]:
    """Say which links of the visited pages lead nowhere inside the book, or outside it in a form that is not known."""
    folder, problems = Path(folder).resolve(), {}
    arrivals = {name: {unquote(anchor) for anchor in report["anchors"]} | {"", "top"} for name, report in seen.items()}
    for name, report in seen.items():
        found = []
        for link in dict.fromkeys(report["links"]):
            if link.startswith(("data:", "blob:")):
                continue
            if not link.startswith(base):
                found += [] if OUTSIDE.fullmatch(link) else [f"external-link: {link[:120]}"]
                continue
            plain, fragment = urldefrag(link)
            target = unquote(urlsplit(plain).path).lstrip("/") or "index.html"
            if not (folder / target).is_file():
                found.append(f"broken-link: {target}")
            elif target in arrivals and unquote(fragment) not in arrivals[target]:
                found.append(f"broken-anchor: {target}#{fragment}")
        problems[name] = found
    return problems
