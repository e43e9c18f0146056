"""``python -m craig_mq.testing.chaos --messages N --events M [--report FOLDER] SETTING…``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click
import trio

from craig_mq.core.config import QueueType
from craig_mq.testing.chaos.campaign import Campaign, Outcome, run_campaign
from craig_mq.testing.chaos.report import as_json, as_markdown, failed, where
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
@click.option("--seed", default=0, show_default=True, help="Of the troubles' details.")
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
    try:
        for root in roots:
            Programs.within(root)
    except RabbitNodeError as error:
        raise click.ClickException(str(error)) from error
    outcomes: list[Outcome] = []
    for root in roots:
        for kind in kinds:
            queue_type, place = _KINDS[kind]
            setting = Setting(root, cast("QueueType", queue_type), cast("Place", place))
            with setting.nodes() as nodes:
                campaign = Campaign(messages, events, seed, setting.queue_type)
                outcomes.append(trio.run(run_campaign, nodes, campaign))
            click.echo(f"{where(outcomes[-1])}: {failed(outcomes[-1]) or 'nothing lost'}", err=True)
    click.echo(as_markdown(outcomes))
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        (report / "chaos-report.json").write_text(as_json(outcomes), encoding="utf-8")
        (report / "chaos-report.md").write_text(as_markdown(outcomes), encoding="utf-8")
    sys.exit(1 if any(failed(outcome) for outcome in outcomes) else 0)


main()
