"""``craig-mq demo``: watch the main job, then read the account."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any

import attrs
import click
import trio
from rich.console import Console
from rich.live import Live

from craig_mq.cli.demo_view import account_table, status_view
from craig_mq.cli.failures import Refusal, plain_errors
from craig_mq.demo.faults import settlement_faults
from craig_mq.demo.run import Demo, DemoFailed, DemoResult, remove_queues, run_demo
from craig_mq.observe.log import LOGGER
from craig_mq.transport.broker import Broker
from craig_mq.transport.memory import MemoryBroker
from craig_mq.transport.opening import open_broker

LOST = 1


@click.command()
@click.option(
    "--amqp", "url", envvar="CRAIG_MQ_AMQP_URL", show_envvar=True, help="Run on this RabbitMQ instead."
)
@click.option(
    "--messages", default=200, show_default=True, type=click.IntRange(20, 5_000), help="Messages to publish."
)
@click.option("--seed", default=0, show_default=True, help="Decides the whole mix.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the live view.")
def demo(url: str | None, messages: int, seed: int, as_json: bool) -> None:
    """Run the main job on a mix of failures and account for every message.

    Dead letters that succeed, fail twice, meet an outage, are poison, malformed, unroutable, too
    large or duplicated go in; audit rows, parked and quarantined messages come out. On the embedded
    broker (the default) settlement faults are injected too. When the runtime has closed, a separate
    reader looks for every message by its id in the queues and the ledger. A message may be found in
    several places, as after a settlement whose outcome was unknown: then the rows of the account add up
    to more than was published. A copy is allowed, a loss is not.

    Exits 0 if every message has a home, 1 if one is lost, and then names it.

    \b
    Examples:
      craig-mq demo
      craig-mq demo --amqp amqp://guest:guest@localhost:5672/%2F --json
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    LOGGER.addHandler(logging.NullHandler())
    LOGGER.propagate = False  # the live view owns the terminal; its counters show what the log would
    with plain_errors():
        try:
            result = trio.run(partial(_run, url, Demo(messages=messages, seed=seed), as_json=as_json))
        except DemoFailed as error:
            raise Refusal(str(error), LOST) from error
    _print(result, as_json=as_json)
    if result.account.lost or not result.settled_in_time:
        raise SystemExit(LOST)


async def _run(url: str | None, demo: Demo, *, as_json: bool) -> DemoResult:
    if url is None:
        return await _watched(
            MemoryBroker(faults=settlement_faults(demo.queue, demo.seed)), demo, as_json=as_json
        )
    async with open_broker(url) as broker:
        result = await _watched(broker, demo, as_json=as_json)
        if not result.account.lost:
            await remove_queues(broker, demo)
        return result


async def _watched(broker: Broker, demo: Demo, *, as_json: bool) -> DemoResult:
    if as_json:
        return await run_demo(broker, demo)
    with Live(console=Console(), refresh_per_second=5) as live:
        return await run_demo(broker, demo, lambda status: live.update(status_view(status)))


def summary(result: DemoResult) -> dict[str, Any]:
    """The account as plain data; ``lost`` is a count, ``losses`` names each."""
    account, statistics = result.account, result.statistics
    return {
        "published": account.published,
        "audited": account.audited,
        "quarantined": dict(sorted(account.quarantined.items())),
        "parked": account.parked,
        "queued": account.queued,
        "returned": statistics.returned,
        "duplicates_absorbed": account.duplicates_absorbed,
        "settlement_failures": statistics.settlement_failures,
        "settled_in_time": result.settled_in_time,
        "lost": len(account.lost),
        "losses": [attrs.asdict(loss) for loss in account.lost],
    }


def _print(result: DemoResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary(result)))
        return
    console = Console()
    console.print()
    console.print(account_table(result))
    for loss in result.account.lost:
        console.print(f"[bold red]lost[/] {loss.publication_id} ({loss.kind}): {loss.why}")
