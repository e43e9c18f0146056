"""What every command that looks through quarantine shares: its options, and the look itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from craig_mq.cli.failures import plain_errors
from craig_mq.cli.target import Target
from craig_mq.operator.lease import MAX_SCAN
from craig_mq.operator.scan import Scan, scan_queue
from craig_mq.operator.where import parse_where

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
where_option = click.option(
    "--where",
    "where",
    multiple=True,
    metavar="CONDITION",
    help="reason=permanent, error~timeout, age>2h, token=none, size>64KiB …; repeat it: all must hold.",
)
max_scan_option = click.option(
    "--max-scan",
    default=MAX_SCAN,
    show_default=True,
    type=click.IntRange(1, 65_535),
    help="Look at no more than this many messages from the head.",
)


def scan_options(command: F) -> F:
    """The options of every command that looks through the queue."""
    return where_option(max_scan_option(json_option(command)))


def scan_target(
    target: Target,
    where: tuple[str, ...],
    max_scan: int,
    queue: str | None = None,
    *,
    patience_s: float = 0.0,
) -> Scan:
    """Scan the target's quarantine, or another ``queue``, with progress on a terminal's stderr."""
    with plain_errors():
        conditions = parse_where(where)
    return target.run(
        partial(
            scan_queue,
            queue=queue or target.quarantine,
            where=conditions,
            now_s=time.time(),
            limit=max_scan,
            accept_delivery_count=target.accept_delivery_count,
            patience_s=patience_s,
            on_progress=on_progress,
        )
    )


def on_progress(done: int, total: int) -> None:
    """Tell a terminal's stderr how far it is."""
    if sys.stderr.isatty() and (done % 500 == 0 or done == total):
        click.echo(f"\rlooked at {done} of {total}", err=True, nl=done == total)
