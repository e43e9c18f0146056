"""The page in Chromium, on every screen: full screen, layout, accessibility and the committed screenshots."""

from pathlib import Path

import pytest

from craig_mq.review import Params, caption, simulate

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]  # set-up included: the file holds 129,024 runs

IMAGES = Path(__file__).parents[2] / "docs" / "review" / "img"
DEFAULT = simulate(Params())
SERIOUS = ("serious", "critical")


def test_full_screen(screen):
    """Expand experiment fills the screen, Exit full screen and Escape leave it, and the focus returns."""
    page = screen.open()
    page.click("#expand")
    page.wait_for_function("() => document.getElementById('expand').textContent === 'Exit full screen'")
    page.click("#expand")
    page.wait_for_function("() => document.getElementById('expand').textContent === 'Expand experiment'")
    page.evaluate(
        "() => { Element.prototype.requestFullscreen = () => Promise.reject(new Error('refused')); }"
    )
    page.focus("#next")
    page.keyboard.press("f")
    page.wait_for_function("() => document.getElementById('expand').textContent === 'Exit full screen'")
    box = page.locator("#experiment").bounding_box()
    assert (box["x"], box["y"], box["width"]) == (0, 0, screen.width)
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.getElementById('expand').textContent === 'Expand experiment'")
    assert page.evaluate("document.activeElement.id") == "expand"


def test_the_layout_fits(screen):
    """No screen scrolls sideways; wide parts scroll inside, by arrows too; reduced motion moves nothing."""
    page = screen.open("i=8")
    assert page.evaluate("document.documentElement.scrollWidth") == screen.width
    scroller = page.locator("#diagram-scroller")
    if screen.width == 360:
        scroller.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.getElementById('diagram-scroller').scrollLeft > 0")
        assert screen.caption == caption(DEFAULT, 8)
    duration = page.locator("#diagram .chip").first.evaluate(
        "one => getComputedStyle(one).transitionDuration"
    )
    assert duration == ("0s" if screen.motion == "reduce" else "0.55s")
    quarantine, ledger = page.locator("#diagram").bounding_box(), page.locator(".ledger").bounding_box()
    assert page.locator(".ledger").is_visible()
    beside = ledger["x"] >= quarantine["x"] + scroller.bounding_box()["width"]
    below = 0 <= ledger["y"] - quarantine["y"] - quarantine["height"] < 60
    assert beside or below
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(246, 245, 241)" if screen.scheme == "light" else "rgb(18, 23, 28)")


def test_nothing_serious_for_accessibility(screen, axe_script):
    """axe-core finds nothing serious or critical at rest, with a baseline, refused, or in the key map."""
    page = screen.open("i=8")
    page.evaluate(axe_script)

    def found():
        results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            (one["id"], node["html"][:120])
            for one in results["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    assert found() == []
    page.click("#capture")
    page.click("[data-lesson=dedup-off]")
    screen.wait_for_caption(caption(simulate(Params(dedup=False)), 0))
    page.focus("#time")
    page.keyboard.press("End")
    page.wait_for_timeout(700)  # colours are measured once the chips have arrived
    assert found() == []
    page.click("#help")
    assert found() == []
    page.keyboard.press("Escape")
    screen.open("n=9")
    page.evaluate(axe_script)
    assert found() == []


def test_screenshots(screen, request):
    """The committed screenshots exist for every served width and scheme; the option writes them anew."""
    if screen.offline or screen.motion == "reduce":
        pytest.skip("screenshots are of the served page, with motion")
    path = IMAGES / f"review-{screen.width}-{screen.scheme}.png"
    if request.config.getoption("--update-screenshots"):
        page = screen.open("i=8")
        page.wait_for_timeout(800)
        page.locator("#experiment").screenshot(path=path)
    assert path.stat().st_size > 10_000
