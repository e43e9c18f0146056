"""``craig-mq parking``: what waits, until when, and letting it go early."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click

from craig_mq.cli.audit_view import print_json
from craig_mq.cli.failures import USAGE, Refusal, plain_errors
from craig_mq.cli.options_first import OptionsFirst
from craig_mq.cli.plan_run import carry_out, plan_path, report, require_word, tell_plan, who
from craig_mq.cli.quarantine_scan import scan_options, scan_target
from craig_mq.cli.quarantine_view import print_parked, print_reach, scan_document
from craig_mq.cli.target import Target, audit_option, read_target, target_options
from craig_mq.core.timing import format_instant
from craig_mq.operator.pace import DEFAULT_RATE, Pace, parse_rate
from craig_mq.operator.plan import Plan, Ticks, make_plan, read_plan, write_plan
from craig_mq.operator.redrive import RedriveOptions
from craig_mq.operator.row import Row
from craig_mq.operator.sender import as_it_is
from craig_mq.operator.verdict import Knowledge
from craig_mq.operator.where import parse_duration

wait_option = click.option(
    "--wait",
    default="30s",
    show_default=True,
    help="How long to ask for a queue that the running service holds.",
)


@click.group(name="parking", cls=OptionsFirst)
@target_options
@click.pass_context
def parking_group(
    context: click.Context,
    url: str | None,
    amqp_file: Path | None,
    queue: str | None,
    *,
    accept_delivery_count: bool,
) -> None:
    """See what waits in parking and when it is due; release it early.

    Parking is leased exclusively while a command looks. A running service lets go of it whenever the head
    is due in more than 20 s, and goes on by itself afterwards; --wait says how long to ask for that. While
    due messages are on their way back it holds on, and the command says that the queue is in use.

    \b
    Examples:
      craig-mq parking --queue security.dlq list
      craig-mq parking --queue security.dlq release --plan early.json --where 'error~timeout'
      craig-mq parking --queue security.dlq release --plan early.json --yes 12 --reason 'outage over'
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    context.obj = partial(read_target, url, amqp_file, queue, accept=accept_delivery_count)


@parking_group.command(name="list")
@scan_options
@click.option("--parking-ttl", default="10m", show_default=True, help="The service's parking_ttl.")
@wait_option
@click.pass_obj
def list_parked(
    read: Callable[[], Target],
    *,
    where: tuple[str, ...],
    max_scan: int,
    parking_ttl: str,
    wait: str,
    as_json: bool,
) -> None:
    """List parked messages from the head, with the time they are due."""
    target = read()
    with plain_errors():
        ttl_s, patience_s = parse_duration(parking_ttl), parse_duration(wait)
    scan = scan_target(target, where, max_scan, target.parking, patience_s=patience_s)
    if as_json:
        document = scan_document(scan)
        document["rows"] = [_with_due(row, ttl_s) for row in scan.rows]
        print_json(document)
    else:
        print_parked(scan, ttl_s, time.time())
        print_reach(scan)


def _with_due(row: Row, ttl_s: float) -> dict[str, Any]:
    due = None if row.at_s is None else format_instant(row.at_s + ttl_s)
    return {**attrs.asdict(row), "due_at": due}


@parking_group.command()
@scan_options
@click.option(
    "--plan", "plan_file", type=plan_path, required=True, help="Made if there is none, else gone on with."
)
@click.option("--yes", type=click.IntRange(0), help="Go on, if the plan selects exactly this many messages.")
@click.option("--reason", help="Why; kept in the journal.")
@click.option("--rate", default=f"{DEFAULT_RATE:g}/s", show_default=True, help="Messages a second.")
@wait_option
@audit_option
@click.pass_context
def release(
    context: click.Context,
    *,
    where: tuple[str, ...],
    max_scan: int,
    plan_file: Path,
    yes: int | None,
    reason: str | None,
    rate: str,
    wait: str,
    audit_url: str | None,
    as_json: bool,
) -> None:
    """Send parked messages back before they are due, each acked only after its confirm.

    Without --yes it writes the plan and prints what it would do. A kill resumes from PLAN.journal.
    """
    target: Target = context.obj()
    with plain_errors():
        patience_s = parse_duration(wait)
    plan, digest = _plan(target, plan_file, where, max_scan, patience_s)
    if yes is None:
        tell_plan(plan, digest, plan_file, as_json=as_json)
        click.echo(f"nothing was done: say --yes {len(plan.selected)} --reason '…' to release", err=True)
        return
    require_word(plan, yes, reason)
    with plain_errors():
        options = RedriveOptions(
            pace=Pace((parse_rate(rate),)),
            limit=max_scan,
            accept_delivery_count=target.accept_delivery_count,
            patience_s=patience_s,
            who=who(),
            reason=reason or "",
            audit_url=audit_url,
            plan_sha256=digest,
            action="release",
        )
    path = plan_file.with_name(plan_file.name + ".journal")
    account, code = carry_out(target, plan, digest, path, options, as_it_is)
    report(context, plan, account, code, as_json=as_json)


def _plan(
    target: Target, path: Path, where: tuple[str, ...], max_scan: int, patience_s: float
) -> tuple[Plan, str]:
    try:
        if path.exists():
            with plain_errors():
                plan, digest = read_plan(path)
        else:
            scan = scan_target(target, where, max_scan, target.parking, patience_s=patience_s)
            knowledge = Knowledge(queue=target.queue, now_s=time.time(), hot_window_s=0.0)
            plan = make_plan(scan, knowledge, Ticks(may_duplicate=True), where=where, made_by=who())
            digest = write_plan(plan, path)
    except OSError as error:
        raise Refusal(f"cannot write {path}: {error.strerror}", USAGE) from error
    if (plan.queue, plan.source) != (target.queue, target.parking):
        raise Refusal(f"the plan is for {plan.source}, not for {target.parking}", USAGE)
    return plan, digest
