"""The tutorial: eight lessons whose numbers the model computes when the pages are built."""

import html
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from craig_mq.review import Params, outcome, simulate
from craig_mq.review.lessons import LESSONS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The review's pages as plain text, built alone."""
    out = tmp_path_factory.mktemp("docs")
    conf = out / "conf"
    conf.mkdir()
    paths = [str(DOCS.parent), str(DOCS / "_ext")]
    lines = ["import sys", f"sys.path[:0] = {paths}", "extensions = ['myst_parser', 'review_lessons']"]
    (conf / "conf.py").write_text("\n".join(lines))
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-q", "-b", "html", "-c", str(conf)]
    subprocess.run([*command, str(DOCS / "review"), str(out / "html")], check=True)
    return {
        path.stem: " ".join(html.unescape(re.sub("<[^>]*>", "", path.read_text(encoding="utf-8"))).split())
        for path in (out / "html").glob("*.html")
    }


def plain(text):
    """A text with its typography flattened, as the builder may have changed quotes."""
    return re.sub(r"[’‘]", "'", text)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_is_printed_with_its_numbers(pages, lesson):
    """The tutorial prints each lesson's paragraph as computed, and its run's total of effects."""
    assert plain(lesson.text) in plain(pages["tutorial"])


def test_the_trace_is_printed(pages):
    """The default run's trace stands in the page, to its last line."""
    assert "t= 25 complete" in pages["index"]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_counts_what_happened(lesson):
    """Each lesson's paragraph names the effects its own run ends with, or the state it is about."""
    end = outcome(simulate(lesson.params))
    told = set(map(int, re.findall(r"\b\d+\b", lesson.text)))
    wanted = {
        "default": {
            end["first_pass"]["effects_total"],
            end["first_pass"]["quarantined"],
            end["effects_total"],
        },
        "three-receives": {lesson.params.max_receives, end["first_pass"]["quarantined"], 10},
        "unrepaired": {end["quarantined"], end["redrives"], end["total_receives"]["poison"]},
        "new-identity": {end["effects_total"]},
        "dedup-off": {end["effects"]["uncertain"], end["effects_total"]},
        "exact-expiry": {end["inspected_at"], lesson.params.result_retention, end["effects_total"]},
        "message-expired": {end["expired"], end["effects_total"], lesson.params.quarantine_retention},
        "result-gone": {end["inspected_at"], end["effects_total"], lesson.params.quarantine_retention},
    }
    assert wanted[lesson.name] <= told


def test_the_exact_expiry_lesson_is_exact():
    """One second less of waiting than the lesson on exact expiry returns the stored result instead."""
    lesson = next(lesson for lesson in LESSONS if lesson.name == "exact-expiry")
    sooner = attrs.evolve(lesson.params, operator_wait=lesson.params.operator_wait - 1)
    assert outcome(simulate(sooner))["effects_total"] == outcome(simulate(Params()))["effects_total"]
