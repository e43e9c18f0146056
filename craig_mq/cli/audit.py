"""``craig-mq audit``: look into the ledger, and look after it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from uuid import UUID

import click

from craig_mq.audit.ledger import Ledger
from craig_mq.audit.reading import RowFilter
from craig_mq.audit.row import StoredRow
from craig_mq.cli.audit_actions import actions
from craig_mq.cli.audit_archive import export_command, import_command, prune, purge, verify_command
from craig_mq.cli.audit_ledger import json_option, time, with_ledger
from craig_mq.cli.audit_view import (
    print_json,
    print_row,
    print_rows,
    print_stats,
    row_document,
    stats_document,
)
from craig_mq.cli.failures import USAGE, Refusal
from craig_mq.cli.options_first import OptionsFirst


@click.group(name="audit", cls=OptionsFirst)
@click.option(
    "--audit",
    "url",
    envvar="CRAIG_MQ_AUDIT_URL",
    show_envvar=True,
    default="sqlite:///audit.db",
    show_default=True,
    help="The ledger: sqlite:///FILE or postgresql://….",
)
@click.pass_context
def audit_group(context: click.Context, url: str) -> None:
    """Look into the audit ledger, archive it, export it, and prove it unchanged.

    Bodies are shown only with --body. Times are 2026-03-01, 2026-03-01T12:00:00Z, or an age such as
    90m, 12h or 30d.

    \b
    Examples:
      craig-mq audit --audit sqlite:///audit.db list --event-type invoice.paid --since 1h
      craig-mq audit stats --json
      craig-mq audit prune --older-than 30d
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    context.obj = url


@audit_group.command(name="list")
@click.option("--service", help="Only this source service.")
@click.option("--event-type", help="Only this event type.")
@click.option("--queue", help="Only this dead-letter queue.")
@click.option("--reason", help="Only this reason of death.")
@click.option("--token", help="Only the row that holds this occurrence token.")
@click.option("--since", type=time, help="Recorded at or after.")
@click.option("--until", type=time, help="Recorded before.")
@click.option("--divergent/--not-divergent", default=None, help="Only rows flagged so, or only others.")
@click.option("--archived", is_flag=True, help="List the archive instead of the hot window.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--before", type=click.UUID, help="Go on after this id, the last of the page before.")
@click.option("--body", is_flag=True, help="Show bodies.")
@json_option
@click.pass_obj
def list_rows(
    url: str,
    *,
    service: str | None,
    event_type: str | None,
    queue: str | None,
    reason: str | None,
    token: str | None,
    since: datetime | None,
    until: datetime | None,
    divergent: bool | None,
    archived: bool,
    limit: int,
    before: UUID | None,
    body: bool,
    as_json: bool,
) -> None:
    """List rows, newest first."""
    where = RowFilter(
        source_service=service,
        event_type=event_type,
        queue=queue,
        reason=reason,
        token=token,
        divergent=divergent,
        since=since,
        until=until,
    )
    find = partial(Ledger.find, where=where, limit=limit, before=before, archived=archived, bodies=body)
    rows = with_ledger(url, find)
    if as_json:
        print_json([row_document(row, body=body) for row in rows])
    else:
        print_rows(rows, body=body)


@audit_group.command()
@click.argument("row")
@click.option("--body", is_flag=True, help="Show the body.")
@json_option
@click.pass_obj
def show(url: str, *, row: str, body: bool, as_json: bool) -> None:
    """Show one ROW, by its id or by its occurrence token."""
    found = with_ledger(url, partial(_look_up, key=row))
    if found is None:
        raise Refusal(f"no row has the id or token {row}", USAGE)
    if as_json:
        print_json(row_document(found, body=body))
    else:
        print_row(found, body=body)


async def _look_up(store: Ledger, *, key: str) -> StoredRow | None:
    try:
        return await store.get(UUID(key))
    except ValueError:
        where = RowFilter(token=key)
    for archived in (False, True):
        for row in await store.find(where, limit=1, archived=archived, bodies=True):
            return row
    return None


@audit_group.command()
@json_option
@click.pass_obj
def stats(url: str, *, as_json: bool) -> None:
    """Count the ledger, and print the anchors: the last hash of each chain, to keep elsewhere."""
    counted = with_ledger(url, Ledger.stats)
    if as_json:
        print_json(stats_document(counted))
    else:
        print_stats(counted)


for _command in (prune, purge, export_command, import_command, verify_command, actions):
    audit_group.add_command(_command)
