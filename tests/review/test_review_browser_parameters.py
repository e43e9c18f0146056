"""The page in Chromium, on every screen: parameters, lessons, links and the stated scenarios."""

import json
import re
from pathlib import Path

import pytest

from craig_mq.review import Params, caption, from_query, outcome, simulate
from craig_mq.review.lessons import LESSONS
from craig_mq.review.params import BY_NAME

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]  # set-up included: the file holds 129,024 runs

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())["scenarios"]
DEFAULT = simulate(Params())


def test_parameters_by_keyboard(screen):
    """Every parameter can be changed by keys alone, and each change gives a new run at its start, paused."""
    page = screen.open("i=3")
    page.focus("[name=max_receives]")
    page.keyboard.press("ArrowDown")
    screen.wait_for_caption(caption(simulate(Params(max_receives=3)), 0))
    times = {"retry_interval": 10, "operator_wait": 30, "result_retention": 120, "quarantine_retention": 300}
    for name, value in times.items():
        page.focus(f"[name={name}]")
        if screen.offline:
            page.keyboard.press("ArrowDown")
        else:
            page.keyboard.press("Control+a")
            page.keyboard.type(str(value))
            page.keyboard.press("Tab")
        page.wait_for_function(f"() => location.href.includes('={value}')")
    page.focus("[name=action]:checked")
    page.keyboard.press("ArrowDown")
    page.focus("[name=identity]:checked")
    page.keyboard.press("ArrowDown")
    for name in ("repair", "dedup"):
        page.focus(f"[name={name}]")
        page.keyboard.press("Space")
    expected = Params(
        max_receives=3,
        retry_interval=10,
        operator_wait=30,
        action="poison",
        repair=False,
        dedup=False,
        identity="new",
        result_retention=120,
        quarantine_retention=300,
    )
    run = simulate(expected)
    screen.wait_for_caption(caption(run, 0))
    assert from_query(re.split("[?#]", page.url)[1]) == expected
    assert page.inner_text("#play") == "Play"
    page.focus("#time")
    page.keyboard.press("End")
    screen.wait_for_caption(caption(run, len(run.events)))


def test_late_answer_keeps_what_is_typed(screen):
    """An answer that comes while another field is being typed in leaves what was typed, which then counts."""
    if screen.offline:
        pytest.skip("the offline page answers within the change itself")
    page = screen.open()
    held = []

    def hold(route):
        held.append(route)

    page.route("**/api/run**", hold)
    page.select_option("[name=max_receives]", "3")
    page.wait_for_function("() => document.querySelector('[aria-busy=true]')")
    page.focus("[name=operator_wait]")
    page.keyboard.press("Control+a")
    page.keyboard.type("30")
    held.pop().continue_()
    page.unroute("**/api/run**")
    screen.wait_for_caption(caption(simulate(Params(max_receives=3)), 0))
    assert page.input_value("[name=operator_wait]") == "30"
    page.keyboard.press("Tab")
    screen.wait_for_caption(caption(simulate(Params(max_receives=3, operator_wait=30)), 0))


def test_lessons_set_their_parameters(screen):
    """Each lesson's button sets its parameters, rewinds, and its run ends as the model's does."""
    page = screen.open()
    for lesson in LESSONS:
        assert page.inner_text(f"#lesson-{lesson.name} p") == lesson.text
        page.click(f"[data-lesson={lesson.name}]")
        run = simulate(lesson.params)
        screen.wait_for_caption(caption(run, 0))
        page.focus("#time")
        page.keyboard.press("End")
        assert screen.caption == caption(run, len(run.events))


@pytest.mark.parametrize("query", ["n=0", "r=x", "a=everything", "i=18", "i=x"])
def test_a_bad_link_shows_its_error(screen, query):
    """A bad value in a link shows a sentence about it, computes no run, and the form recovers from it."""
    page = screen.open(query)
    assert page.locator("#problem").is_visible()
    assert screen.caption == "No run is shown."
    assert screen.disabled("#next")
    page.keyboard.press("n")
    assert screen.caption == "No run is shown."
    page.click("[data-lesson=default]")
    screen.wait_for_caption(caption(DEFAULT, 0))
    assert page.locator("#problem").is_hidden()


def test_a_free_value(screen):
    """Served, any value in bounds can be typed, one beyond is refused; a file offers listed ones only."""
    page = screen.open()
    field = page.locator("[name=operator_wait]")
    if screen.offline:
        assert field.locator("option").all_inner_texts() == ["0", "10", "20", "30", "50", "60", "120"]
        assert "listed choices only" in page.inner_text(".honest")
        return
    field.fill("37")
    field.press("Tab")
    screen.wait_for_caption(caption(simulate(Params(operator_wait=37)), 0))
    field.fill("301")
    field.press("Tab")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.inner_text("#problem") == "operator_wait must be a whole number from 0 to 300, not 301"
    assert field.get_attribute("aria-invalid") == "true"
    assert screen.caption == "No run is shown."


def test_golden_scenarios_through_the_form(screen):
    """Every stated scenario, set in the form, ends on the model's caption and stated counts."""
    if screen.width == 360:
        pytest.skip("the wider screens walk all scenarios")
    page = screen.open()
    for scenario in GOLDEN:
        if "error" in scenario["expect"]:
            continue
        params = Params(**scenario["parameters"])
        set_to_listed = all(value in BY_NAME[name].domain.listed for name, value in params.as_dict().items())
        if screen.offline and not set_to_listed:
            continue
        screen.set_parameters(params)
        run = simulate(params)
        screen.wait_for_caption(caption(run, 0))
        page.focus("#time")
        page.keyboard.press("End")
        assert screen.caption == caption(run, len(run.events)), scenario["id"]
        assert page.inner_text("#counter") == str(outcome(run)["effects_total"])
