"""``python -m craig_mq.testing.chaos --messages N --events M [--report FOLDER] SETTING…``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import cast

import click
import trio

from craig_mq.core.config import QueueType
from craig_mq.testing.chaos.campaign import run_campaign
from craig_mq.testing.chaos.outcome import Campaign
from craig_mq.testing.chaos.report import as_markdown, failed, where, write_report
from craig_mq.testing.chaos.setting import Setting
from craig_mq.testing.chaos.trouble import Place
from craig_mq.testing.rabbitmq_programs import Programs, RabbitNodeError

_KINDS: dict[str, tuple[str, str]] = {
    "classic": ("classic", "node"),
    "quorum": ("quorum", "node"),
    "cluster": ("quorum", "cluster"),
}


@click.command()
@click.option("--messages", default=100_000, show_default=True, help="Messages in each campaign.")
@click.option("--events", default=200, show_default=True, help="Troubles in each campaign.")
@click.option(
    "--seed", default=0, show_default=True, help="Of the troubles' details; their order begins there."
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=(Path("/"),),
    help="Where RabbitMQ is: / for the system's own, or a private root folder. Several: one after the other.",
)
@click.option(
    "--on",
    "kinds",
    multiple=True,
    type=click.Choice(list(_KINDS)),
    default=("classic",),
    show_default=True,
    help="Classic or quorum queues on one node, or quorum queues on three. One campaign each.",
)
@click.option(
    "--report", type=click.Path(path_type=Path, file_okay=False), help="Write chaos-report.json and .md here."
)
def main(  # noqa: PLR0917 - its options
    messages: int,
    events: int,
    seed: int,
    roots: tuple[Path, ...],
    kinds: tuple[str, ...],
    report: Path | None,
) -> None:
    """Break a private RabbitMQ in every way known, and account for every message afterwards."""
    # Ended by its supervisor as by Ctrl-C: nodes are stopped and their data removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for root in roots:
            Programs.within(root)
    except RabbitNodeError as error:
        raise click.ClickException(str(error)) from error
    problems: list[str] = []
    for root in roots:
        for kind in kinds:
            queue_type, place = _KINDS[kind]
            setting = Setting(root, cast("QueueType", queue_type), cast("Place", place))
            with setting.nodes() as nodes:
                campaign = Campaign(messages, events, seed, setting.queue_type)
                outcome = trio.run(run_campaign, nodes, campaign)
            click.echo(as_markdown([outcome]))
            click.echo(f"{where(outcome)}: {failed(outcome) or 'nothing lost'}", err=True)
            problems += failed(outcome)
            if report is not None:
                write_report(report, [outcome])
    sys.exit(1 if problems else 0)


main()
