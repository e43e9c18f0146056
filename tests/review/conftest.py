"""Fixtures of the review's page: a served process, the offline file, a browser and its screens."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_addoption(parser):
    """`--update-screenshots` writes the committed screenshots anew; without it they must merely exist."""
    parser.addoption("--update-screenshots", action="store_true", help="write docs/review/img anew")


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


@pytest.fixture(scope="session")
def axe_script() -> str:
    """The text of axe-core, from the pinned package that carries it."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; CHROMIUM names another binary than Debian's."""
    from playwright.sync_api import sync_playwright

    binary = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    if not Path(binary).exists():
        pytest.fail(f"no Chromium at {binary}: install Debian's chromium or set CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        yield browser
        browser.close()
