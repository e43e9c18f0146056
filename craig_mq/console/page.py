"""The document and its assets; everything that changes comes from the API."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from craig_mq.review.page.document import STYLE as REVIEW_STYLE
from craig_mq.review.page.document import asset as review_asset

DOCUMENT: Final = "console.html"
STYLE: Final = "console.css"
SCRIPTS: Final = (
    "api.js",
    "elements.js",
    "depths.js",
    "service.js",
    "rows.js",
    "quarantine.js",
    "message.js",
    "plan.js",
    "ledger.js",
    "console.js",
)
TYPES: Final = {REVIEW_STYLE: "text/css", STYLE: "text/css"} | dict.fromkeys(SCRIPTS, "text/javascript")
_ASSETS: Final = files("craig_mq.console") / "assets"


@cache
def asset(name: str) -> str:
    """The text of one asset. The review's style sheet comes first on the page: one look for both."""
    if name == REVIEW_STYLE:
        return review_asset(name)
    return (_ASSETS / name).read_text(encoding="utf-8")
