"""The built book in Chromium, each page: private, accessible, light, whole; after `make book`: `make check-browser`."""

import re
import statistics

import browser
import pypdf
import pytest

from reefcore.parallel import pool
from reefcore.workflow import keys
from reefcore.workflow.book import HTML, pages

FOLDER = keys.root() / HTML
PAGES = browser.pages(FOLDER) if FOLDER.exists() else []
SAMPLE = [
    name
    for name in PAGES
    if re.search(r"^(intro|glossary|references|status|search|formats/columns)|/(14|24|40|43|66|72|84)_", name)
]
FOUND_WORD = "quadrat"


@pytest.fixture(scope="session")
def base():
    assert PAGES, "there is no rendered book; type `make book`"
    with browser.serve(FOLDER) as address:
        yield address


@pytest.fixture(scope="session")
def seen(base):
    """What was found on each page: two browsers share them."""
    with pool(2) as workers:
        jobs = [workers.submit(browser.visit_all, PAGES[part::2], base, SAMPLE) for part in range(2)]
        return {name: report for job in jobs for name, report in job.result().items()}


@pytest.fixture(scope="session")
def lost(base, seen):
    return browser.lost(FOLDER, base, seen)


@pytest.fixture(scope="module")
def chromium():
    with browser.browser() as started:
        yield started


@pytest.mark.parametrize("name", PAGES)
class TestEveryPage:
    def test_is_private_quiet_and_accessible_in_both_themes_and_on_a_phone(self, name, seen):
        assert seen[name]["found"] == []

    def test_weighs_little(self, name, seen):
        limit = browser.EXPLORER_BYTES if "explorer" in name else browser.PAGE_BYTES
        assert 0 < seen[name]["bytes"] < limit, seen[name]["heaviest"]

    def test_leads_somewhere(self, name, lost):
        assert lost[name] == []


def test_the_whole_site_is_light():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < browser.SITE_BYTES


def test_first_content_is_there_within_a_second(base, chromium):
    """Alone, the profile of the browser empty, as the median of three: a busy machine tells little."""
    chosen = ["intro.html", *[name for name in SAMPLE if name != "intro.html"][:5]]
    paints = {}
    for name in chosen:
        paints[name] = []
        for _ in range(3):
            with browser.opened(chromium, base + name, []) as page:
                page.wait_for_function("probe.paint()", timeout=20_000)
                paints[name].append(page.evaluate("probe.paint()"))
    middle = {name: round(statistics.median(times)) for name, times in paints.items()}
    assert max(middle.values()) < browser.PAINT_MS, middle


@pytest.mark.parametrize("name", SAMPLE)
class TestSomePages:
    def test_opens_from_its_folder(self, name, chromium):
        found = []
        with browser.opened(chromium, (FOLDER / name).as_uri(), found) as page:
            browser.scroll(page)
            found += [text for text in page.evaluate("probe.structure()") if text.startswith("image")]
        assert found == []

    def test_is_all_there_by_keyboard_wide_and_on_a_phone(self, name, seen):
        assert seen[name]["walked"] == []

    def test_says_the_same_without_scripts(self, name, base, chromium):
        if name == "search.html":
            pytest.skip("searching is a script")
        context = chromium.new_context(java_script_enabled=False)
        plain = context.new_page()
        plain.goto(base + name)
        with browser.opened(chromium, base + name, []) as page:
            words = len(page.locator("article").inner_text().split())
        assert len(plain.locator("article").inner_text().split()) > 0.8 * words
        assert plain.locator("article h1").is_visible()
        for each in plain.locator("article figure.reef > *, article .reef-table > table").all()[:12]:
            assert each.is_visible() or each.locator("xpath=ancestor::details[not(@open)]").count()
        context.close()


@pytest.mark.parametrize("where", ["http", "folder"])
class TestOffline:
    @pytest.fixture
    def start(self, where, base):
        return base if where == "http" else FOLDER.as_uri() + "/"

    def test_search_finds_a_word(self, start, chromium):
        found = []
        with browser.opened(chromium, start + "intro.html", found) as page:
            field = page.locator("input[type=search]:visible")
            if not field.count():
                page.locator(".search-button:visible, .search-button__button:visible").first.click()
            field.first.fill(FOUND_WORD)
            field.first.press("Enter")
            page.wait_for_url("**/search.html*")
            page.locator("#search-results li a").first.wait_for(timeout=20_000)
            page.wait_for_timeout(1500)  # the words around what was found come after
            assert page.locator("#search-results li").count() > 2
            assert not re.search(r"[A-Za-z0-9+/]{80}", page.locator("#search-results").inner_text()), (
                "unreadable results"
            )
        assert found == []

    def test_the_theme_is_switched_and_remembered(self, start, chromium):
        with browser.opened(chromium, start + "intro.html", []) as page:
            for _ in range(3):
                if page.evaluate("document.documentElement.dataset.theme") == "dark":
                    break
                page.locator(".theme-switch-button:visible").first.click()
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            page.goto(start + "how_to_read.html")
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"

    def test_a_table_is_sorted_and_searched(self, start, chromium):
        with browser.opened(chromium, start + "chapters/40_supervised.html", []) as page:
            field = page.locator(".reef-filter input").first
            table = page.locator(f"[id='{field.get_attribute('aria-controls')}']")
            button, rows = table.locator("thead button").nth(1), table.locator("tbody tr:visible")
            before = rows.all_inner_texts()
            button.press("Enter")
            first = rows.all_inner_texts()
            button.press("Enter")
            assert sorted(before) == sorted(first) and first != rows.all_inner_texts()
            assert table.locator("th[aria-sort=descending]").count() == 1
            word = re.search(r"[A-Za-z]{4,}", before[0])[0]
            field.fill(word)
            page.wait_for_timeout(300)
            left = rows.all_inner_texts()
            assert 0 < len(left) <= len(before) and all(word.lower() in text.lower() for text in left)

    def test_a_first_use_leads_to_its_term(self, start, chromium):
        with browser.opened(chromium, start + "chapters/40_supervised.html", []) as page:
            page.locator("article a[href*='glossary.html#term-']").first.press("Enter")
            page.wait_for_url("**/glossary.html#term-*")
            assert page.evaluate("document.getElementById(decodeURIComponent(location.hash.slice(1))).offsetTop >= 0")

    def test_previous_and_next_go_through_the_book(self, start, chromium):
        with browser.opened(chromium, start + "intro.html", []) as page:
            been = [page.url]
            for _ in range(4):
                page.locator("a.right-next").first.click()
                page.wait_for_load_state()
                been.append(page.url)
            page.locator("a.left-prev").first.click()
            page.wait_for_load_state()
            assert len(set(been)) == 5 and page.url == been[-2]


def test_a_command_is_copied(base, chromium):
    with browser.opened(
        chromium, base + "chapters/40_supervised.html", [], permissions=["clipboard-read", "clipboard-write"]
    ) as page:
        block = page.locator("#run-this-page div.highlight:has(button.copybtn)").first
        block.scroll_into_view_if_needed()
        block.locator("button.copybtn").press("Enter")
        page.wait_for_timeout(300)
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.strip() == block.locator("pre").inner_text().strip() and "reefcore run" in copied


def test_the_explorer_filters_by_keyboard_and_remembers_it_in_its_address(base, chromium):
    name = next(name for name in PAGES if "explorer" in name)
    found = []
    with browser.opened(chromium, base + name, found) as page:
        choice = page.locator("article select:visible").first
        said = page.locator("article [aria-live=polite]:visible, article [role=status]:visible").first
        before, options = said.inner_text(), choice.locator("option").all_inner_texts()
        choice.select_option(index=len(options) - 1)
        page.wait_for_timeout(500)
        after = said.inner_text()
        assert after != before and "#" in page.url
        again = page.url
        page.goto("about:blank")
        page.goto(again)
        page.wait_for_timeout(1000)
        assert said.inner_text() == after
    assert found == []


def test_the_print_holds_every_page():
    found = sorted((keys.root() / "build").glob("reefnet-companion-*.pdf"))
    if not found:
        pytest.skip("no PDF was made: make pdf")
    reader = pypdf.PdfReader(found[-1])
    assert found[-1].stat().st_size < 40e6
    marks = [entry.title for entry in reader.outline if not isinstance(entry, list)]
    assert len(marks) >= len(pages()) + 2  # the title and the contents
    notes = [note.get_object() for page in reader.pages for note in page.get("/Annots", [])]
    assert [note for note in notes if note.get("/A", {}).get("/URI", "").startswith(("file:", "http://127"))] == []
    assert [number for number, page in enumerate(reader.pages) if not page.extract_text().strip()] == []
