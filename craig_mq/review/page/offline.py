"""The page as one file: styles, scripts and all listed runs inside, and a policy that forbids any request."""

import base64
import hashlib

from markupsafe import Markup

from craig_mq.review.page.document import OFFLINE_SCRIPTS, STYLE, Inlined, asset, render
from craig_mq.review.page.grid import Grid, build_grid


def offline_page(grid: Grid | None = None) -> str:
    """Return the whole file; builds the grid of listed choices (some ten seconds) unless one is given."""
    style = asset(STYLE)
    scripts = [asset(name) for name in OFFLINE_SCRIPTS]
    policy = (
        "default-src 'none'; "
        f"script-src {' '.join(_source(script) for script in scripts)}; style-src {_source(style)}; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    inlined = Inlined(
        policy=Markup(policy),  # noqa: S704 - made of constants and base64
        style=Markup(style),  # noqa: S704 - our own file
        scripts=tuple(Markup(script) for script in scripts),  # noqa: S704 - our own files
        grid=(grid or build_grid()).packed(),
    )
    return render(inlined)


def _source(text: str) -> str:
    """Return the policy's source expression for one inlined text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
