"""``craig-mq review live``: the experiment on the real runtime, modeled beside actual."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from craig_mq.cli.failures import FAILURE, Refusal, plain_errors
from craig_mq.cli.review_settings import review_settings
from craig_mq.review import Params

if TYPE_CHECKING:
    from craig_mq.live.comparison import Comparison


@click.command("live")
@click.option(
    "--amqp", "url", envvar="CRAIG_MQ_AMQP_URL", show_envvar=True, help="Run on this RabbitMQ instead."
)
@review_settings
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def live_command(url: str | None, params: Params, *, as_json: bool) -> None:
    """Run the four messages through the actual runtime and compare with the model.

    Real sessions, parking and quarantine; redrive by the operator's own plan and journal; acks lost by
    the fault kit. On the embedded broker time is virtual and the run takes about a second; on RabbitMQ
    (plain amqp:// only) a modeled second lasts 0.3 s or a little more.

    Exits 0 if effects and end states are the modeled ones and every difference has a name, else 1.
    """
    compared = _run(url, params)
    from craig_mq.live.differences import unexplained
    from craig_mq.live.document import document

    if as_json:
        click.echo(json.dumps(document(compared), indent=2))
    else:
        _print(compared)
    if not compared.agrees or unexplained(compared):
        raise SystemExit(FAILURE)


def _run(url: str | None, params: Params) -> Comparison:
    import trio

    from craig_mq.live.comparison import compare
    from craig_mq.live.operator_visit import VisitFailed
    from craig_mq.live.run import LiveFailed
    from craig_mq.live.stages import run_embedded, run_rabbitmq

    with plain_errors():
        try:
            return compare(run_embedded(params) if url is None else trio.run(run_rabbitmq, url, params))
        except (LiveFailed, VisitFailed) as error:
            raise Refusal(str(error), FAILURE) from error


def _print(compared: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from craig_mq.live.differences import named_differences, unexplained
    from craig_mq.live.document import HEADINGS, rows, times, verdict

    console = Console()
    table = Table(title="Modeled and actual", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=True)
    for row in rows(compared):
        table.add_row(*row)
    console.print(table)
    console.print(f"\n{times(compared)}\n{verdict(compared)}\n", highlight=False)
    for difference in named_differences(compared):
        console.print(
            f"* {difference.name}: {difference.seen}\n  {difference.why}\n", highlight=False, markup=False
        )
    for sentence in unexplained(compared):
        console.print(f"unexplained: {sentence}", highlight=False, markup=False)
