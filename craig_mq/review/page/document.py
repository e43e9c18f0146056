"""The document: one template for the served page and the offline file, and its assets."""

import json
from functools import cache
from importlib.resources import files
from typing import Final

from attrs import frozen
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from craig_mq.review.lessons import LESSONS
from craig_mq.review.page.view import controls, setup

STYLE: Final = "review.css"
SHARED_SCRIPTS: Final = (
    "player.js",
    "diagram.js",
    "panels.js",
    "controls.js",
    "evidence.js",
    "fullscreen.js",
    "experiment.js",
)
SCRIPTS: Final = ("served.js", *SHARED_SCRIPTS)
OFFLINE_SCRIPTS: Final = ("offline.js", *SHARED_SCRIPTS)
_ASSETS: Final = files("craig_mq.review.page") / "assets"


@cache
def asset(name: str) -> str:
    """Return the text of one file in `assets/`."""
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def served_page() -> str:
    """Return the document that loads its assets and asks for runs by relative addresses."""
    return render(None)


@frozen
class Inlined:
    """What a file carries inside itself: its policy, its texts and its packed grid."""

    policy: Markup
    style: Markup
    scripts: tuple[Markup, ...]
    grid: str


def render(offline: Inlined | None) -> str:
    """Fill the template for the server (None) or for a file, which offers the listed choices only."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(asset("page.html.jinja")).render(
        offline=offline,
        parameters={str(control["name"]): control for control in controls()},
        setup=data_block(setup()),
        style=STYLE,
        scripts=SCRIPTS,
        lessons=LESSONS,
    )


def data_block(value: object) -> Markup:
    """Return JSON that can't end the element it is written into."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704 - escaped here
