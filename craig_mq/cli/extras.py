"""A command whose optional packages are not installed ends in one line that says which extra has them."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Final

import click

_EXTRAS: Final = dict.fromkeys(("starlette", "anycorn", "anyio", "jinja2", "markupsafe"), "web") | {
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "opentelemetry": "otel",
}


@contextlib.contextmanager
def missing_extras() -> Generator[None]:
    """Turn the lack of an extra's package into one line; any other missing module is a bug and passes."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise click.ClickException(
            f"this command needs the extra: pip install 'craig-mq[{extra}]'"
        ) from error
