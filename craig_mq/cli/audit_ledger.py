"""What every ``craig-mq audit`` command shares: times, the ledger for one call, errors in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import click
import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from craig_mq.audit.archive import Progress as Done
from craig_mq.audit.driver_errors import driver_words
from craig_mq.audit.ledger import Ledger
from craig_mq.audit.opening import open_store
from craig_mq.audit.store import OnProgress
from craig_mq.cli.failures import FAILURE, Refusal, plain_errors
from craig_mq.cli.ledger_url import require_ledger

T = TypeVar("T")

_AGE: Final = re.compile(r"(\d{1,6})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def time(text: str) -> datetime:
    """A date, an RFC 3339 instant (UTC without an offset), or an age before now; an option's type."""
    try:
        if age := _AGE.fullmatch(text):
            return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        allowed = "say 2026-03-01T12:00:00Z, or an age such as 12h or 30d"
        raise click.BadParameter(f"{text!r} is not a time: {allowed}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def with_ledger(url: str, work: Callable[[Ledger], Awaitable[T]], *, create: bool = False) -> T:
    """Open the ledger at ``url``, run ``work`` with it, and close it; known failures become one line."""
    with plain_errors(), _database_errors(url):
        if not create:
            require_ledger(url)
        return trio.run(_opened, url, work)


async def _opened(url: str, work: Callable[[Ledger], Awaitable[T]]) -> T:
    async with open_store(url) as store:
        return await work(store)


@contextlib.contextmanager
def _database_errors(url: str) -> Generator[None]:
    try:
        yield
    except Exception as error:
        words = str(error) if isinstance(error, OSError) else driver_words(error, url)
        if words is None:
            raise
        raise Refusal(f"the ledger can't be used: {words}", FAILURE) from error


@contextlib.contextmanager
def progress_bar(words: str) -> Generator[OnProgress]:
    """A bar on stderr while the block runs; nothing where stderr is not a terminal."""
    columns = (TextColumn(words), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(words, total=None)
        yield partial(_advance, bar, task)


def _advance(bar: Progress, task: object, done: Done) -> None:
    bar.update(task, completed=done.done, total=done.total)  # type: ignore[arg-type]  # rich's own id
