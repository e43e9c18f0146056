"""``python -m craig_mq.testing.chaos --messages N --events M [--report FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click
import trio

from craig_mq.core.config import QueueType
from craig_mq.testing.chaos.campaign import Campaign, Outcome, run_campaign
from craig_mq.testing.chaos.report import as_json, as_markdown, failed
from craig_mq.testing.rabbitmq import RabbitNode


@click.command()
@click.option("--messages", default=100_000, show_default=True, help="Messages in each campaign.")
@click.option("--events", default=200, show_default=True, help="Troubles in each campaign.")
@click.option("--seed", default=0, show_default=True, help="Of the troubles' details.")
@click.option(
    "--queue-type",
    "queue_types",
    multiple=True,
    type=click.Choice(["classic", "quorum"]),
    default=("classic",),
    show_default=True,
    help="One campaign each.",
)
@click.option(
    "--report", type=click.Path(path_type=Path, file_okay=False), help="Write chaos-report.json and .md here."
)
def main(messages: int, events: int, seed: int, queue_types: tuple[str, ...], report: Path | None) -> None:
    """Break a private RabbitMQ in every way known, and account for every message afterwards."""
    outcomes: list[Outcome] = []
    for queue_type in queue_types:
        campaign = Campaign(messages, events, seed, cast("QueueType", queue_type))
        with RabbitNode() as node:
            outcomes.append(trio.run(run_campaign, node, campaign))
    click.echo(as_markdown(outcomes))
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        (report / "chaos-report.json").write_text(as_json(outcomes), encoding="utf-8")
        (report / "chaos-report.md").write_text(as_markdown(outcomes), encoding="utf-8")
    problems = [problem for outcome in outcomes for problem in failed(outcome)]
    for problem in problems:
        click.echo(problem, err=True)
    sys.exit(1 if problems else 0)


main()
