"""Fixtures of the review's page: a served process, the offline file, and its screens."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def server() -> Iterator[subprocess.Popen]:
    """One `review serve` process on a free port; its `url` attribute is where it answers."""
    command = [sys.executable, "-m", "craig_mq", "review", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.url = process.stdout.readline().strip()
        assert process.url.startswith("http://127.0.0.1:"), process.stderr.read()
        yield process
        process.terminate()
        process.communicate(timeout=10)


@pytest.fixture(scope="session")
def grid():
    """The grid of listed choices, simulated once."""
    from craig_mq.review.page.grid import build_grid

    return build_grid()


@pytest.fixture(scope="session")
def offline_file(grid, tmp_path_factory) -> Path:
    """The page as one file."""
    from craig_mq.review.page.offline import offline_page

    path = tmp_path_factory.mktemp("offline") / "review.html"
    path.write_text(offline_page(grid), encoding="utf-8")
    return path


class Screen:
    """One open page on one kind of screen, with everything that must not happen collected in `problems`."""

    def __init__(self, context, address, name, shared_prefix):
        self.address = address
        self.name = name
        self.offline = address.startswith("file:")
        self.problems: list[str] = []
        self.page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", lambda request: self._request(request.url, shared_prefix))

    def _console(self, message):
        if message.type in {"error", "warning"} and "status of 422" not in message.text:
            self.problems.append(f"console: {message.text}")

    def _request(self, url, shared_prefix):
        if not url.startswith((shared_prefix, "data:", "blob:")):
            self.problems.append(f"request: {url}")

    def open(self, query=""):
        """Load the page at a share query and wait until it shows a run or a problem."""
        self.page.goto(self.address + ((("#" if self.offline else "?") + query) if query else ""))
        if self.offline:
            self.page.reload()  # a changed fragment alone loads nothing
        self.settle()
        return self.page

    def settle(self):
        """Wait until a run or a problem is shown."""
        self.page.wait_for_function(
            "() => document.getElementById('caption').textContent !== '' "
            "&& (document.getElementById('caption').textContent.startsWith('Step')"
            " || !document.getElementById('problem').hidden)"
        )

    def wait_for_caption(self, sentence):
        """Wait until the last answer has come and the visible sentence is this one."""
        self.page.wait_for_function(
            "text => document.getElementById('experiment').getAttribute('aria-busy') === 'false'"
            " && document.getElementById('caption').textContent === text",
            arg=sentence,
        )

    def disabled(self, selector):
        """Whether a button says it can't be pressed."""
        return self.page.get_attribute(selector, "aria-disabled") == "true"

    def set_parameters(self, params):
        """Fill the form by pointer and keys, as a person would, with what differs from the shown values."""
        for name, value in params.as_dict().items():
            field = self.page.locator(f"#parameters [name={name}]")
            if isinstance(value, bool):
                field.set_checked(value)
            elif name in {"action", "identity"}:
                self.page.locator(f"#parameters [name={name}][value={value}]").check()
            elif field.evaluate("one => one.tagName") == "SELECT":
                field.select_option(str(value))
            else:
                field.fill(str(value))
                field.press("Tab")

    @property
    def caption(self):
        """The visible sentence."""
        return self.page.inner_text("#caption")


WIDTHS, SCHEMES, MOTIONS = (360, 768, 1280), ("light", "dark"), ("no-preference", "reduce")
USUAL = {
    ("served", 360, "dark", "no-preference"),
    ("served", 1280, "light", "reduce"),
    ("file", 768, "dark", "reduce"),
}
KINDS = [
    pytest.param(kind, id="-".join(map(str, kind)), marks=[] if kind in USUAL else [pytest.mark.soak])
    for kind in product(("served", "file"), WIDTHS, SCHEMES, MOTIONS)
]


@pytest.fixture(params=KINDS)
def screen(request, browser):
    """One of 24: served, or a file with the network off; three widths, two schemes, two motions."""
    source, width, scheme, motion = request.param
    if source == "served":
        address = request.getfixturevalue("server").url
        prefix = address
    else:
        address = request.getfixturevalue("offline_file").as_uri()
        prefix = address
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion=motion,
        offline=source == "file",
        has_touch=width == WIDTHS[0],
    )
    context.set_default_timeout(30_000)
    opened = Screen(context, address, f"{source}-{width}-{scheme}", prefix)
    opened.width, opened.scheme, opened.motion = width, scheme, motion
    yield opened
    context.close()
    assert opened.problems == []
