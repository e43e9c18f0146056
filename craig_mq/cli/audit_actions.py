"""``craig-mq audit actions``: what operators did, and why."""

from __future__ import annotations

from functools import partial

import attrs
import click
import msgspec
from rich.text import Text

from craig_mq.audit.ledger import Ledger
from craig_mq.audit.operators import OperatorAction, read_actions
from craig_mq.cli.audit_ledger import json_option, with_ledger
from craig_mq.cli.audit_view import print_json, printable
from craig_mq.cli.terminal import listing, show


@click.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
@click.pass_obj
def actions(url: str, *, limit: int, as_json: bool) -> None:
    """List what operators did to quarantine and parking, newest first.

    An act has two rows, begun and ended; one with no end was killed.
    """
    found = with_ledger(url, partial(_read, limit=limit))
    if as_json:
        print_json([{**attrs.asdict(one), "outcome": msgspec.json.decode(one.outcome)} for one in found])
        return
    names = ("at", "phase", "who", "action", "queue", "reason", "plan", "outcome")
    table = listing(*names, fold=("who", "queue", "reason", "plan", "outcome"))
    for one in found:
        cells = (one.phase, one.who, one.action, one.queue, one.reason, one.plan_sha256 or "-", one.outcome)
        table.add_row(
            one.at.isoformat(timespec="seconds"), *(Text(printable(cell.encode())) for cell in cells)
        )
    show(table)


async def _read(ledger: Ledger, *, limit: int) -> list[OperatorAction]:
    return await ledger.run(partial(read_actions, limit=limit))
