"""Sphinx configuration: MyST pages, docstrings through autodoc, Trio-aware signatures."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

project = "craig_mq"
author = "The craig_mq maintainers"
copyright = "2026, the craig_mq maintainers"  # noqa: A001 - Sphinx's own name
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinxcontrib_trio",
    "review_lessons",
    "review_live",
    "measurements",
    "audit_figures",
    "tables",
    "field_failures",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "craig_mq"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = False
