"""``craig-mq doctor``: what would break the promises here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
import click
from rich.text import Text

from craig_mq.cli.audit_view import print_json
from craig_mq.cli.target import broker_options, management_option, read_target
from craig_mq.cli.terminal import listing, show
from craig_mq.operator.doctor.examination import Examination
from craig_mq.operator.doctor.findings import Finding, Level, exit_code

_STYLES: Final = {Level.OK: "green", Level.UNKNOWN: "dim", Level.WARN: "yellow", Level.FAIL: "bold red"}


@click.command()
@broker_options
@click.option(
    "--queue", envvar="CRAIG_MQ_QUEUE", show_envvar=True, help="The dead-letter queue, without suffix."
)
@management_option
@click.option(
    "--probe/--no-probe", default=True, show_default=True, help="Publish an empty, unroutable message."
)
@click.option("--strict", is_flag=True, help="Exit 1 on WARN and UNKNOWN, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(
    context: click.Context,
    *,
    url: str | None,
    amqp_file: Path | None,
    queue: str | None,
    management: str | None,
    probe: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Check connection, permissions, topology, queue types and the settings that destroy messages.

    AMQP alone shows arguments, types, permissions, alarms and whether mandatory works; policies, version and
    clock need the management API, and are UNKNOWN without it. Exits 1 if anything is FAIL.

    \b
    Example:
      craig-mq doctor --queue security.dlq --strict --json
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    target = read_target(url, amqp_file, queue, accept=False)
    findings = target.run(Examination(target.queue, probe, target.management(management)).run)
    code = exit_code(findings, strict=strict)
    if as_json:
        print_json({"healthy": code == 0, "findings": [attrs.asdict(one) for one in findings]})
    else:
        _print(findings)
    context.exit(code)


def _print(findings: list[Finding]) -> None:
    table = listing("level", "check", "subject", "finding", fold=("subject", "finding"))
    table.show_header = False
    for one in findings:
        words = f"{one.text}\n→ {one.todo}" if one.todo else one.text
        table.add_row(
            Text(one.level.value, _STYLES[one.level]), Text(one.check), Text(one.subject), Text(words)
        )
    show(table)
