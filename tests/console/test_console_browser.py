"""The console's whole flow in Chromium, over an embedded broker with a running service behind it."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from craig_mq.review import from_query

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("embedded_console.py")
IMAGES = Path(__file__).parents[2] / "docs" / "how-to" / "img"
TOTAL, BILLING, LOGINS, CARDS, MALFORMED = 58, 34, 14, 7, 3
WIDTHS, SCHEMES = (360, 768, 1280), ("light", "dark")
USUAL = {(360, "dark"), (768, "light"), (1280, "light")}
KINDS = [
    pytest.param(kind, id=f"{kind[0]}-{kind[1]}", marks=[] if kind in USUAL else [pytest.mark.soak])
    for kind in product(WIDTHS, SCHEMES)
]


@contextmanager
def serving(folder: Path, *options: str):
    """Run one console in a process of its own; yields it with its ``url``, and expects a clean end."""
    command = [sys.executable, "-W", "error", str(SCRIPT), str(folder), "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#t=[\w-]{43}", process.url), process.stderr.read()
        try:
            yield process
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


class Screen:
    """One page on one kind of screen; whatever must not happen is collected in ``problems``."""

    def __init__(self, context, process, width, scheme) -> None:
        self.process, self.width, self.scheme = process, width, scheme
        self.origin = process.url.partition("#")[0]
        self.problems: list[str] = []
        self.expected: set[str] = set()
        context.on("request", lambda request: self._request(request.url))
        self.page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))

    def _console(self, message) -> None:
        refused = any(words in message.text for words in self.expected)
        if message.type in {"error", "warning"} and not refused:
            self.problems.append(f"console: {message.text}")

    def _request(self, url: str) -> None:
        if not url.startswith((self.origin, "data:")):
            self.problems.append(f"request: {url}")

    def open(self):
        """Load the printed address and wait until the page knows its queue."""
        self.page.goto("about:blank")
        self.page.goto(self.process.url)
        self.until("title", "security.dlq")
        return self.page

    def read(self):
        """Open, and read quarantine by pointer."""
        page = self.open()
        page.click("#read")
        self.until("announcer", "messages read.")
        return page

    def until(self, element: str, words: str) -> None:
        """Wait until an element's text holds these words."""
        self.page.wait_for_function(
            "([id, words]) => document.getElementById(id).textContent.includes(words)", arg=[element, words]
        )


@contextmanager
def screen_of(browser, process, width: int, scheme: str):
    """A page of this width and scheme on a console; afterwards nothing unwanted has happened."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=width == WIDTHS[0]
    )
    context.set_default_timeout(15_000)
    screen = Screen(context, process, width, scheme)
    try:
        yield screen
    finally:
        context.close()
    assert screen.problems == []


@pytest.fixture(scope="module", params=KINDS)
def served(request, tmp_path_factory):
    """One console for all tests of one kind of screen."""
    with serving(tmp_path_factory.mktemp("console")) as process:
        process.kind = request.param
        yield process


@pytest.fixture
def screen(served, browser):
    """A fresh page on that console."""
    with screen_of(browser, served, *served.kind) as opened:
        yield opened


@pytest.fixture
def walked(screen):
    """A screen on which the whole flow is walked: by default the narrowest and the widest."""
    if (screen.width, screen.scheme) == (768, "light"):
        pytest.skip("the other widths walk the flow")
    return screen


def shown(page) -> int:
    """How many messages the table shows."""
    return page.locator("#rows tr[data-key]").count()


def test_overview(screen) -> None:
    """Depths are drawn and said in words, and the service's live tree is a list with states."""
    page = screen.open()
    assert "#" not in page.url
    page.wait_for_selector("#tree li")
    screen.until("depths-name", "security.dlq.quarantine from")
    assert page.locator("#depths-chart polyline").count() >= 3
    assert f"{TOTAL}" in page.locator("#depths-now div").nth(2).inner_text()
    tree = page.inner_text("#tree")
    for child in ("main", "parking", "session", "running", "generation 1"):
        assert child in tree
    assert "acked" in page.inner_text("#counters").lower()
    assert page.inner_text("#mode") == "may redrive"
    assert page.get_attribute("#depths-chart", "role") == "img"


def test_reading_filtering_and_handing_back(walked) -> None:
    """Groups, conditions and facets narrow the rows, stay in the address, and everything goes back."""
    screen = walked
    page = screen.read()
    screen.until("lease", "Held for you")
    assert page.inner_text("#rows-count") == f"1 to 50 of {TOTAL}"
    page.click("#later")
    screen.until("rows-count", f"51 to {TOTAL} of {TOTAL}")
    page.click("#earlier")
    screen.until("rows-count", "1 to 50")
    page.locator("#groups button").nth(1).click()
    screen.until("rows-count", f"of {LOGINS}")
    assert page.locator("#groups button[aria-pressed=true]").count() == 1
    page.locator("#groups button[aria-pressed=true]").click()
    screen.until("rows-count", f"of {TOTAL}")
    page.select_option("[name=reason]", "malformed")
    screen.until("rows-count", f"of {MALFORMED}")
    assert "<img src=x" in page.inner_text("#rows tr[data-key]")
    assert page.locator("#rows img").count() == 0
    page.fill("#condition", "colour=red")
    screen.expected.add("status of 422")
    page.keyboard.press("Enter")
    screen.until("problem", "there is no field 'colour'")
    assert shown(page) == MALFORMED
    page.locator("#conditions button").click()
    screen.until("rows-count", f"of {TOTAL}")
    page.fill("#condition", "error~customer")
    page.keyboard.press("Enter")
    screen.until("rows-count", f"of {CARDS}")
    assert page.locator("#problem").is_hidden()
    assert "where=error~customer" in page.url.replace("%7E", "~")
    page.reload()
    screen.until("rows-count", f"of {CARDS}")
    page.click("#hand-back")
    screen.until("lease", "Handed back: you handed it back")
    assert page.get_attribute("#hand-back", "aria-disabled") == "true"


def test_one_message(walked) -> None:
    """A message shows its verdict, fields and effects; its body only when asked; and what would happen."""
    screen = walked
    page = screen.read()
    page.locator("#rows [data-open]").first.click()
    page.wait_for_selector("#message[open]")
    assert page.inner_text("#message-verdict").startswith("absorbed: ")
    assert "invoice.created" in page.inner_text("#message-fields")
    assert "invoice.created from billing" in page.inner_text("#message-effects")
    assert "craig_capture" not in page.content()
    page.click("#reveal")
    page.wait_for_selector("#body-box:not([hidden])")
    assert "craig_capture" in page.inner_text("#body")
    with page.context.expect_page() as popup:
        page.click("#experiment")
    review = popup.value
    review.wait_for_function("() => document.getElementById('caption').textContent.startsWith('Step')")
    params = from_query(review.url.partition("?")[2])
    assert (params.action, params.dedup, params.max_receives) == ("uncertain", True, 2)
    assert params.operator_wait < params.result_retention
    review.close()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.open") is not None
    assert page.text_content("#body") == ""
    screen.until("lease", "a body was asked for")
    page.locator("#rows tr", has_text="runs again").first.locator("[data-open]").click()
    page.wait_for_selector("#message[open]")
    assert page.inner_text("#message-effects") == "none recorded"


def test_by_keyboard_alone(walked) -> None:
    """Keys read, move, tick, open, plan and hand back; Tab reaches every control with a visible focus."""
    screen = walked
    page = screen.open()
    page.keyboard.press("r")
    screen.until("announcer", "messages read.")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    assert page.locator("#rows tr.current").evaluate("one => one.rowIndex") == 2
    page.keyboard.press("x")
    assert page.inner_text("#scope-ticked") == "1"
    page.keyboard.press("Enter")
    page.wait_for_selector("#message[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#message:not([open])", state="attached")
    page.keyboard.press("?")
    assert page.locator("#keys").evaluate("one => one.open")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("error~customer jx?")
    assert page.input_value("#condition") == "error~customer jx?"
    page.fill("#condition", "error~customer")
    page.keyboard.press("Enter")
    screen.until("rows-count", f"of {CARDS}")
    page.focus("[name=scope]:checked")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("d")
    screen.until("plan-words", "Of 1 messages 1 would go back")
    reach_every_control(page)
    page.focus("#read")
    page.keyboard.press("b")
    screen.until("lease", "Handed back")


NAME = "one.id || one.name || one.dataset.open || one.dataset.tick || one.dataset.group || one.className"
CONTROLS = "button, input, select, summary, a[href], [tabindex='0']"


def reach_every_control(page) -> None:
    """Press Tab from the first control until every visible one had the focus, each with an outline."""
    wanted = page.evaluate(
        f"""() => [...document.querySelectorAll("{CONTROLS}")]
            .filter(one => one.checkVisibility() && !one.closest('dialog'))
            .filter(one => one.type !== 'radio' || one.checked)
            .map(one => {NAME})"""
    )
    page.focus(".skip")
    reached = [wanted[0]]
    for _ in wanted[1:]:
        page.keyboard.press("Tab")
        control, outline = page.evaluate(
            f"""() => {{ const one = document.activeElement;
                return [{NAME}, getComputedStyle(one).outlineStyle]; }}"""
        )
        assert outline != "none", control
        reached.append(control)
    assert reached == wanted


def test_plan_redrive_stop_and_go_on(walked) -> None:
    """Dry run, the word, progress, stop, going on to the end; effects and history show it."""
    screen = walked
    page = screen.read()
    page.fill("#condition", "reason=park_cap_exhausted")
    page.keyboard.press("Enter")
    screen.until("rows-count", f"of {LOGINS}")
    page.click("#dry-run")
    screen.until("plan-words", f"Of {LOGINS} messages 12 would go back")
    assert "2 may duplicate" in page.inner_text("#plan-counts")
    page.locator("[name=allow_duplicates]").check()
    page.click("#dry-run")
    screen.until("plan-words", f"Of {LOGINS} messages {LOGINS} would go back")
    page.click("summary")
    assert page.locator("#plan-entries tr").count() == LOGINS
    page.fill("#yes", "3")
    page.fill("#reason", "ledger is back")
    page.fill("#pace", "1/s")
    screen.expected.add("status of 422")
    page.click("#go")
    screen.until("problem", f"the plan selects {LOGINS} messages, not 3")
    assert page.locator("#run").is_hidden()
    page.fill("#yes", str(LOGINS))
    page.click("#go")
    page.wait_for_function("() => document.getElementById('progress').value >= 2")
    assert page.evaluate("document.activeElement.id") == "stop"
    page.keyboard.press("Enter")
    screen.until("run-words", "Stopped: asked to stop: olga@operations on the console")
    stopped_at = page.evaluate("document.getElementById('progress').value")
    assert 2 <= stopped_at < LOGINS
    screen.until("rows-count", f"of {LOGINS - stopped_at}")
    page.fill("#pace", "1000/s")
    page.click("#go")
    screen.until("run-words", "It went through.")
    assert f"plan {LOGINS} = redriven {LOGINS} + returned 0" in page.inner_text("#run-account")
    screen.until("effects", "login.failed")
    screen.until("history", "ledger is back")
    assert "Redrive" in page.inner_text("#run-title")
    screen.until("rows", "No message is selected.")


def test_the_layout_fits(screen) -> None:
    """No screen scrolls sideways, whatever is shown; colours follow the scheme."""
    page = screen.read()
    page.click("#dry-run")
    page.wait_for_selector("#plan:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") == screen.width
    page.locator("#rows [data-open]").first.click()
    page.wait_for_selector("#message[open]")
    box = page.locator("#message").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= screen.width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(246, 245, 241)" if screen.scheme == "light" else "rgb(18, 23, 28)")


def test_nothing_serious_for_accessibility(screen, axe_script) -> None:
    """axe-core finds nothing serious or critical at rest, reading, planning, or in a dialog."""
    page = screen.open()
    page.evaluate(axe_script)

    def found():
        results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            (one["id"], node["html"][:120])
            for one in results["violations"]
            if one["impact"] in {"serious", "critical"}
            for node in one["nodes"]
        ]

    assert found() == []
    page.click("#read")
    screen.until("announcer", "messages read.")
    page.locator("#groups tr", has_text="LookupError").locator("button").click()
    screen.until("rows-count", f"of {CARDS}")
    page.click("#dry-run")
    page.wait_for_selector("#plan:not([hidden])")
    page.keyboard.press("j")
    assert found() == []
    page.keyboard.press("Enter")
    page.wait_for_selector("#message[open]")
    page.click("#reveal")
    page.wait_for_selector("#body-box:not([hidden])")
    assert found() == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert found() == []


NEUTRAL = """() => {
    document.activeElement.blur();
    scrollTo(0, 0);
    const folder = '~/.local/state/craig-mq/console/';
    for (const one of document.querySelectorAll('#plan-counts dd')) {
        one.textContent = one.textContent.replace(/^.*\\/console\\//, folder);
    }
}"""


def test_screenshots(screen, request) -> None:
    """The committed screenshots exist for every kind of screen; the option writes them anew."""
    path = IMAGES / f"console-{screen.width}-{screen.scheme}.png"
    if request.config.getoption("--update-screenshots"):
        page = screen.read()
        page.wait_for_selector("#tree li")
        page.click("#dry-run")
        page.wait_for_selector("#plan:not([hidden])")
        page.evaluate(NEUTRAL)
        path.parent.mkdir(exist_ok=True)
        page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 10_000


def test_a_page_without_the_token_shows_nothing(served, browser) -> None:
    """The address without its token, or with another one, is told where to find it, and gets no data."""
    with screen_of(browser, served, *served.kind) as screen:
        screen.expected |= {"status of 401", "status of 403"}
        for address in (screen.origin, screen.origin + "#t=" + "x" * 43):
            screen.page.goto("about:blank")
            screen.page.goto(address)
            screen.until("problem", "printed")
            assert screen.page.inner_text("#title") == "Operator console"
            assert "security.dlq" not in screen.page.content()


def test_read_only_and_gone(browser, tmp_path) -> None:
    """A read-only console offers the plan to the terminal; one that has ended is told so on the page."""
    with (
        serving(tmp_path, "read-only", "no-ledger") as process,
        screen_of(browser, process, 1280, "light") as screen,
    ):
        page = screen.read()
        assert page.inner_text("#mode") == "read-only"
        page.click("#dry-run")
        screen.until("plan-command", "craig-mq quarantine redrive --plan ")
        assert page.locator("#redrive-form").is_hidden()
        assert page.locator("#effects tr").inner_text() == "No effect is known."
        screen.expected.add("net::ERR_")
        process.terminate()
        process.wait(timeout=60)
        screen.until("problem", "does not answer")
