"""``craig-mq quarantine``: see, decide, redrive, prove it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import attrs
import click

from craig_mq.cli.audit_view import print_json
from craig_mq.cli.failures import USAGE, Refusal
from craig_mq.cli.options_first import OptionsFirst
from craig_mq.cli.quarantine_drain import drain_command, import_command, verify_command
from craig_mq.cli.quarantine_redrive import plan_command, redrive_command
from craig_mq.cli.quarantine_scan import json_option, max_scan_option, scan_options, scan_target
from craig_mq.cli.quarantine_view import (
    body_document,
    print_groups,
    print_reach,
    print_row,
    print_scan,
    scan_document,
)
from craig_mq.cli.target import Target, read_target, target_options
from craig_mq.operator.scan import count_by, find_message, group_rows


@click.group(name="quarantine", cls=OptionsFirst)
@target_options
@click.pass_context
def quarantine_group(
    context: click.Context,
    url: str | None,
    amqp_file: Path | None,
    queue: str | None,
    *,
    accept_delivery_count: bool,
) -> None:
    """See what lies in quarantine, plan, redrive exactly that plan, drain the rest to files.

    Looking leases the queue exclusively and hands everything back in its place; only the redelivered
    flag of what was looked at stays set. Bodies are shown only with --body.

    \b
    Examples:
      craig-mq quarantine --queue security.dlq stats
      craig-mq quarantine --queue security.dlq list --where reason=permanent --where 'error~timeout'
      craig-mq quarantine --queue security.dlq plan --where 'error~timeout' --out plan.json
      craig-mq quarantine --queue security.dlq redrive --plan plan.json --yes 12 --reason 'fixed in 4.2'
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    context.obj = partial(read_target, url, amqp_file, queue, accept=accept_delivery_count)


@quarantine_group.command(name="list")
@scan_options
@click.pass_obj
def list_rows(read: Callable[[], Target], *, where: tuple[str, ...], max_scan: int, as_json: bool) -> None:
    """List messages from the head."""
    scan = scan_target(read(), where, max_scan)
    if as_json:
        print_json(scan_document(scan))
    else:
        print_scan(scan, time.time())


@quarantine_group.command()
@scan_options
@click.pass_obj
def stats(read: Callable[[], Target], *, where: tuple[str, ...], max_scan: int, as_json: bool) -> None:
    """Count messages by reason and error, as an exception list does."""
    scan = scan_target(read(), where, max_scan)
    groups = group_rows(scan.rows)
    if as_json:
        document = scan_document(scan)
        del document["rows"]
        document["groups"] = [attrs.asdict(group) for group in groups]
        document["by_reason"] = count_by(scan.rows, lambda row: row.reason)
        document["by_event_type"] = count_by(scan.rows, lambda row: row.event_type)
        document["by_service"] = count_by(scan.rows, lambda row: row.service)
        print_json(document)
    else:
        print_groups(groups, time.time())
        print_reach(scan)


@quarantine_group.command()
@click.argument("key")
@click.option("--body", is_flag=True, help="Show the message's body.")
@click.option("--redact", metavar="MODULE:FUNCTION", help="Pass the body through this function first.")
@max_scan_option
@json_option
@click.pass_obj
def show(
    read: Callable[[], Target], *, key: str, body: bool, redact: str | None, max_scan: int, as_json: bool
) -> None:
    """Show one message by KEY: its capture_id or the beginning of it, its envelope id, or its token."""
    target, redaction = read(), _redaction(redact)
    found = target.run(
        partial(
            find_message,
            queue=target.quarantine,
            key=key,
            limit=max_scan,
            accept_delivery_count=target.accept_delivery_count,
        )
    )
    if found is None:
        raise Refusal(f"no message among the first {max_scan} has the key {key}", USAGE)
    row, delivery = found
    shown = redaction(delivery.body) if body else None
    if as_json:
        print_json({**attrs.asdict(row), **({} if shown is None else body_document(shown))})
    else:
        print_row(row, shown)


def _redaction(name: str | None) -> Callable[[bytes], bytes]:
    if name is None:
        return bytes
    module, _, function = name.partition(":")
    try:
        found: Callable[[bytes], bytes] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise Refusal(
            f"--redact takes MODULE:FUNCTION, a function from bytes to bytes: {error}", USAGE
        ) from error
    return found


for _command in (plan_command, redrive_command, drain_command, verify_command, import_command):
    quarantine_group.add_command(_command)
