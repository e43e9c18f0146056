"""The page in Chromium, on every screen: stepping, scrubbing and playing, by pointer and by keyboard."""

from datetime import UTC, datetime

import pytest

from craig_mq.review import Params, caption, simulate

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]  # set-up included: the file holds 129,024 runs

DEFAULT = simulate(Params())
LAST = len(DEFAULT.events)


def test_stepping_by_pointer(screen):
    """Next event, Previous and Restart show every caption, announced once each, and stop at both ends."""
    page = screen.open()
    assert screen.caption == caption(DEFAULT, 0)
    assert screen.disabled("#previous")
    for index in range(1, LAST + 1):
        page.click("#next")
        assert screen.caption == page.text_content("#announcer") == caption(DEFAULT, index)
        assert page.get_attribute("#time", "aria-valuetext") == caption(DEFAULT, index).split(":")[0]
        snapshot = DEFAULT.snapshots[index]
        assert page.inner_text("#counter") == str(snapshot.effects_total)
        assert page.locator("#ledger tr th").count() == snapshot.effects_total
        assert page.locator("#diagram .effect").count() == snapshot.effects_total
        shown = page.locator("#snapshot tr").all_inner_texts()
        assert [row.split("\t")[1] for row in shown] == [message.status for message in snapshot.messages]
        for status in ("acked", "quarantined", "expired"):
            assert page.locator(f"#diagram .chip.is-{status}").count() == snapshot.count(status)
        assert page.locator("#recent [aria-current]").get_attribute("value") == str(index)
    assert screen.disabled("#next")
    assert screen.disabled("#play")
    page.click("#previous")
    assert screen.caption == caption(DEFAULT, LAST - 1)
    page.click("#restart")
    assert screen.caption == caption(DEFAULT, 0)


def test_stepping_by_keyboard(screen):
    """The letter, arrow, space and digit keys step, play, pause and restart; text fields keep their keys."""
    page = screen.open()
    for key, index in (("n", 1), ("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("p", 1), ("0", 0)):
        page.keyboard.press(key)
        assert screen.caption == caption(DEFAULT, index), key
    for key in ("k", "Space"):
        page.keyboard.press(key)
        assert page.inner_text("#play") == "Pause"
        page.keyboard.press(key)
        assert page.inner_text("#play") == "Play"
    page.focus("#notes")
    page.keyboard.type("n k 0?")
    assert page.input_value("#notes") == "n k 0?"
    assert screen.caption == caption(DEFAULT, 0)
    page.focus("#help")
    page.keyboard.press("?")
    assert page.locator("#keys").evaluate("one => one.open")
    page.keyboard.press("Escape")
    assert not page.locator("#keys").evaluate("one => one.open")


def test_every_control_is_reached_and_works_by_tab(screen):
    """Tab alone reaches every control in order, each with a visible focus; Enter or Space presses it."""
    page = screen.open("i=1")
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, a[href], [tabindex="0"]')]
            .filter(one => one.checkVisibility() && !one.disabled && !one.closest('dialog')
                && !(one.type === 'radio' && !one.checked))
            .map(one => one.id || one.name || one.dataset.lesson || one.className)"""
    )
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => { const one = document.activeElement;
                const name = one.id || one.name || one.dataset.lesson || one.className;
                return [name, getComputedStyle(one).outlineStyle]; }"""
        )
        assert outline != "none", name
        reached.append(name)
    assert reached == wanted
    for control, key, after in (
        ("#next", "Enter", "Step 2"),
        ("#previous", "Space", "Step 1"),
        ("#restart", "Enter", "Step 0"),
    ):
        page.focus(control)
        page.keyboard.press(key)
        assert screen.caption.startswith(after)
    page.focus("#play")
    page.keyboard.press("Space")
    assert page.inner_text("#play") == "Pause"
    page.keyboard.press("Enter")
    assert page.inner_text("#play") == "Play"


def test_scrubbing(screen):
    """The slider shows any snapshot by pointer and by keys, and announces nothing until it is released."""
    page = screen.open()
    before = page.text_content("#announcer")
    page.locator("#time").scroll_into_view_if_needed()
    box = page.locator("#time").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    index = int(page.input_value("#time"))
    assert 0 < index < LAST
    assert screen.caption == caption(DEFAULT, index)
    assert page.text_content("#announcer") == before
    page.mouse.up()
    assert page.text_content("#announcer") == caption(DEFAULT, index)
    for key, there in (("End", LAST), ("ArrowLeft", LAST - 1), ("Home", 0), ("ArrowRight", 1)):
        page.keyboard.press(key)
        assert screen.caption == page.text_content("#announcer") == caption(DEFAULT, there)


def test_playback(screen):
    """Play shows one transition per 3 s over speed; it pauses when hidden, stepped or at the end."""
    screen.page.clock.install(time=datetime(2026, 1, 1, 8, tzinfo=UTC))
    page = screen.open()
    page.clock.pause_at(datetime(2026, 1, 1, 9, tzinfo=UTC))
    page.click("#play")
    page.clock.run_for(2900)
    assert screen.caption == caption(DEFAULT, 0)
    page.clock.run_for(200)
    assert screen.caption == page.text_content("#announcer") == caption(DEFAULT, 1)
    page.select_option("#speed", "4")
    assert page.inner_text("#play") == "Pause"
    page.clock.run_for(1500)
    assert screen.caption == caption(DEFAULT, 3)
    page.evaluate(
        """() => { Object.defineProperty(document, 'hidden', {value: true, configurable: true});
            document.dispatchEvent(new Event('visibilitychange')); }"""
    )
    assert page.inner_text("#play") == "Play"
    page.evaluate(
        """() => { Object.defineProperty(document, 'hidden', {value: false, configurable: true});
            document.dispatchEvent(new Event('visibilitychange')); }"""
    )
    page.clock.run_for(10_000)
    assert screen.caption == caption(DEFAULT, 3)
    page.click("#play")
    page.click("#next")
    assert page.inner_text("#play") == "Play"
    page.click("#play")
    page.locator("[name=repair]").uncheck()
    screen.wait_for_caption(caption(simulate(Params(repair=False)), 0))
    page.clock.run_for(10_000)
    assert screen.caption.startswith("Step 0")
    assert page.input_value("#speed") == "4"
    page.focus("#time")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.click("#play")
    page.clock.run_for(800)
    assert screen.disabled("#next")
    assert page.inner_text("#play") == "Play"
