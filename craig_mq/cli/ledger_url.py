"""A ledger that is only read or added to must stand already: a mistyped name would be judged by as empty."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from craig_mq.cli.failures import USAGE, Refusal

_SQLITE: Final = "sqlite:///"


def require_ledger(url: str) -> None:
    """Refuse a SQLite ledger that does not exist; its URL holds no credentials, so it is quoted."""
    if url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE)).is_file():
        raise Refusal(f"there is no ledger at {url}: say --audit URL or set CRAIG_MQ_AUDIT_URL", USAGE)


def standing_ledger(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    """An option's callback: its value, once it is sure that such a ledger stands."""
    if url is not None:
        require_ledger(url)
    return url
