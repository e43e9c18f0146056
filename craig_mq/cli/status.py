"""``craig-mq status``: a running service as it stands, or its queues from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import attrs
import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from craig_mq.cli.audit_view import print_json
from craig_mq.cli.demo_view import status_view
from craig_mq.cli.failures import FAILURE, plain_errors
from craig_mq.cli.target import Target, broker_options, management_option, read_target
from craig_mq.cli.terminal import listing, show
from craig_mq.operator.status import QueueDepth, fetch_status, queue_depths, with_held
from craig_mq.service.status import Status


@click.command()
@click.option("--service", metavar="HOST:PORT", help="The service's --metrics address.")
@broker_options
@click.option(
    "--queue", envvar="CRAIG_MQ_QUEUE", show_envvar=True, help="The dead-letter queue, without suffix."
)
@click.option(
    "--oldest", is_flag=True, help="Look at the heads, too: marks them redelivered. Not on quorum queues."
)
@management_option
@click.option("--watch", is_flag=True, help="Look again until interrupted.")
@click.option(
    "--interval", default=2.0, show_default=True, type=click.FloatRange(0.2, 3_600), help="Seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a document a look.")
@click.pass_context
def status(
    context: click.Context,
    *,
    service: str | None,
    url: str | None,
    amqp_file: Path | None,
    queue: str | None,
    oldest: bool,
    management: str | None,
    watch: bool,
    interval: float,
    as_json: bool,
) -> None:
    """Look at a running service: tree, sessions, backoff with wake-up time, depths, counters.

    Without --service it counts what is ready in the three queues, which needs nothing but AMQP; what a
    consumer holds does not show there, and takes --management. With --service it shows what that service
    holds, and exits 1 while the service is not ready.

    \b
    Examples:
      craig-mq status --service 127.0.0.1:9464 --watch
      craig-mq status --queue security.dlq --oldest
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    look: Callable[[], tuple[dict[str, Any], RenderableType, bool]]
    if service is not None:
        look = partial(_service, service)
    else:
        target = read_target(url, amqp_file, queue, accept=False)
        look = partial(_queues, target, oldest=oldest, management=management)
    console = Console()
    if watch and console.is_terminal and not as_json:
        _watch(look, interval, console)
    while True:
        document, view, ready = look()
        if as_json:
            print_json(document)
        else:
            show(view)
        if not watch:
            context.exit(0 if ready else FAILURE)
        time.sleep(interval)


def _watch(
    look: Callable[[], tuple[dict[str, Any], RenderableType, bool]], interval: float, console: Console
) -> NoReturn:
    """Show each look in the place of the one before, until interrupted."""
    with Live(look()[1], console=console, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            live.update(look()[1], refresh=True)


def _service(address: str) -> tuple[dict[str, Any], RenderableType, bool]:
    with plain_errors():
        document = fetch_status(address)
    ready = document.get("state") == "ready"
    if "tree" not in document:
        return document, Text(str(document.get("state"))), ready
    return document, status_view(Status(ready, document)), ready


def _queues(
    target: Target, *, oldest: bool, management: str | None
) -> tuple[dict[str, Any], RenderableType, bool]:
    names = (target.queue, target.parking, target.quarantine)
    depths: list[QueueDepth] = target.run(partial(queue_depths, queues=names, oldest=oldest))
    api = target.management(management)
    if api is not None:
        with plain_errors():
            depths = with_held(api, depths)
    table = listing("queue", "ready", "held", "oldest", fold=("queue",))
    for one in depths:
        ready = "missing" if one.ready is None else str(one.ready)
        held = "?" if one.held is None else str(one.held)
        table.add_row(Text(one.queue), ready, held, "-" if one.oldest_s is None else f"{one.oldest_s:.0f} s")
    document = {"queues": [attrs.asdict(one) for one in depths]}
    return document, table, all(one.ready is not None for one in depths)
