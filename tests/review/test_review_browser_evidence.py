"""The page in Chromium, on every screen: baseline, notebook, export and share link."""

from pathlib import Path

import pytest

from craig_mq.review import Params, caption, export, simulate

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]  # set-up included: the file holds 129,024 runs


def test_baseline_and_notes(screen):
    """Baseline and notes are captured, compared in words, kept over a reload, replaced and cleared."""
    page = screen.open("i=8")
    assert page.inner_text("#capture") == "Capture baseline"
    page.click("#capture")
    assert page.inner_text("#capture") == "Replace baseline"
    page.locator("[name=identity][value=new]").check()
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
    page.focus("#time")
    page.keyboard.press("End")
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
    differing = page.locator("#compared tr.differs").all_inner_texts()
    assert all(row.rstrip().endswith("differs") for row in differing)
    assert any(row.startswith("Redrive identity") for row in differing)
    page.fill("#notes", "uncertain commits twice\nüber")
    page.reload()
    screen.settle()
    assert page.input_value("#notes") == "uncertain commits twice\nüber"
    assert page.locator("#comparison").is_visible()
    with page.expect_download() as saved:
        page.click("#export-notes")
    text = Path(saved.value.path()).read_text(encoding="utf-8")
    assert saved.value.suggested_filename.endswith(".md")
    run = simulate(Params(identity="new"))
    assert "- Redrive identity: new" in text
    assert caption(run, len(run.events)) in text
    assert page.input_value("#share") in text
    assert text.endswith("uncertain commits twice\nüber\n")
    page.focus("#capture")
    page.keyboard.press("Enter")
    assert page.locator("#compared tr.differs").count() == 0
    page.focus("#clear")
    page.keyboard.press("Enter")
    assert page.locator("#comparison").is_hidden()
    assert page.inner_text("#capture") == "Capture baseline"
    for broken in (
        "not json",
        "null",
        "[]",
        '{"caption": 1}',
        '{"caption": "x", "index": 1, "parameters": null}',
    ):
        page.evaluate("text => localStorage.setItem('craig-mq.review.baseline/1', text)", broken)
        page.reload()
        screen.settle()
        assert page.inner_text("#capture") == "Capture baseline"


def test_export_and_share(screen):
    """The exported JSON is byte for byte the command line's, and the share link opens the same snapshot."""
    page = screen.open("n=3&id=new&fix=0&i=9")
    run = simulate(Params(max_receives=3, identity="new", repair=False))
    assert screen.caption == caption(run, 9)
    with page.expect_download() as saved:
        page.click("#export")
    assert Path(saved.value.path()).read_bytes() == export(run).encode()
    link = page.input_value("#share")
    assert link == page.url
    page.focus("#copy")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('evidence-note').textContent !== ''")
    page.goto("about:blank")
    page.goto(link)
    screen.settle()
    assert screen.caption == caption(run, 9)
