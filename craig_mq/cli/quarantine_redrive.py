"""``craig-mq quarantine plan|redrive``: the dry run, and carrying out exactly it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import trio

from craig_mq.cli.failures import USAGE, Refusal, plain_errors
from craig_mq.cli.plan_run import carry_out, plan_path, report, require_word, tell_plan, who
from craig_mq.cli.quarantine_scan import json_option, scan_options, scan_target
from craig_mq.cli.spans import span_observer, spans_option
from craig_mq.cli.target import Target, audit_option
from craig_mq.operator.lease import MAX_SCAN
from craig_mq.operator.pace import DEFAULT_RATE, Pace, parse_ramp, parse_rate
from craig_mq.operator.plan import Ticks, make_plan, read_plan, write_plan
from craig_mq.operator.redrive import RedriveOptions
from craig_mq.operator.scan import Scan
from craig_mq.operator.trail import known_rows
from craig_mq.operator.verdict import Knowledge
from craig_mq.operator.where import parse_duration


@click.command(name="plan")
@scan_options
@click.option("--out", type=plan_path, required=True, help="Write the plan to this new file.")
@click.option("--hot-window", default="30d", show_default=True, help="How long the ledger keeps a token hot.")
@click.option("--allow-duplicates", is_flag=True, help="Select messages that may duplicate, too.")
@click.option("--keep-park-count", is_flag=True, help="Do not start the cycle count again at 0.")
@click.option("--allow-returns", is_flag=True, help="With --keep-park-count: select what will return, too.")
@click.option(
    "--identity",
    type=click.Choice(["keep", "new"]),
    default="keep",
    show_default=True,
    help="new: a token of its own for this round, so that nothing absorbs it.",
)
@audit_option
@click.pass_obj
def plan_command(
    read: Callable[[], Target],
    *,
    where: tuple[str, ...],
    max_scan: int,
    out: Path,
    hot_window: str,
    allow_duplicates: bool,
    keep_park_count: bool,
    allow_returns: bool,
    identity: str,
    audit_url: str | None,
    as_json: bool,
) -> None:
    """Say what a redrive would do to each message, and write that down as a plan; change nothing.

    Verdicts: absorbed (its row is hot: a repeat is absorbed), runs again, may duplicate (needs
    --allow-duplicates), will return, not redrivable (drain it), copy. Only absorbed and runs again are
    selected by themselves.
    """
    target = read()
    with plain_errors():
        window_s = parse_duration(hot_window)
    scan = scan_target(target, where, max_scan)
    recorded, redriven = _ask_ledger(audit_url, scan)
    knowledge = Knowledge(
        queue=target.queue,
        recorded=recorded,
        redriven=redriven,
        now_s=time.time(),
        hot_window_s=window_s,
        keep_park_count=keep_park_count,
        new_identity=identity == "new",
    )
    ticks = Ticks(may_duplicate=allow_duplicates, will_return=allow_returns)
    plan = make_plan(scan, knowledge, ticks, where=where, made_by=who())
    try:
        digest = write_plan(plan, out)
    except OSError as error:
        raise Refusal(f"cannot write {out}: {error.strerror}", USAGE) from error
    tell_plan(plan, digest, out, as_json=as_json)


def _ask_ledger(url: str | None, scan: Scan) -> tuple[dict[str, bool] | None, frozenset[str]]:
    """What the ledger knows of the scanned messages; None where none was named."""
    if url is None:
        return None, frozenset()
    tokens = {row.token for row in scan.rows if row.token is not None}
    with plain_errors():
        return trio.run(partial(known_rows, url, tokens, {row.key for row in scan.rows}))


@click.command(name="redrive")
@click.option("--plan", "plan_file", type=plan_path, required=True, help="The plan to carry out.")
@click.option("--yes", type=click.IntRange(0), help="Go on, if the plan selects exactly this many messages.")
@click.option("--reason", help="Why; kept in the journal.")
@click.option("--rate", help=f"Messages a second.  [default: {DEFAULT_RATE:g}/s]")
@click.option("--ramp", help="Rates held for ten seconds each, such as 1,2,5,10.")
@click.option(
    "--stop-if-returned",
    metavar="PERCENT",
    help="Go on over failures until they are more than this.  [default: stop at the first]",
)
@click.option("--journal", "journal_file", type=plan_path, help="[default: PLAN.journal]")
@click.option("--max-scan", default=MAX_SCAN, show_default=True, type=click.IntRange(1, 65_535))
@audit_option
@spans_option
@json_option
@click.pass_context
def redrive_command(
    context: click.Context,
    *,
    plan_file: Path,
    yes: int | None,
    reason: str | None,
    rate: str | None,
    ramp: str | None,
    stop_if_returned: str | None,
    journal_file: Path | None,
    max_scan: int,
    audit_url: str | None,
    spans: bool,
    as_json: bool,
) -> None:
    """Send exactly the plan's selected messages back to craig.dlx, each acked only after its confirm.

    Without --yes it prints what it would do. Killed at any step, run it again with the same plan: the
    journal knows the exact remainder. SIGTERM, SIGINT or SIGHUP finishes the message in hand, prints the
    account and exits with 128 plus the signal's number; a second one exits at once. Exits 1 if anything
    that was planned is still in quarantine.
    """
    target: Target = context.obj()
    with plain_errors():
        plan, digest = read_plan(plan_file)
        options = RedriveOptions(
            pace=Pace(parse_ramp(ramp) if ramp else (parse_rate(rate or f"{DEFAULT_RATE:g}"),)),
            stop_if_returned=None if stop_if_returned is None else _percent(stop_if_returned),
            limit=max_scan,
            accept_delivery_count=target.accept_delivery_count,
            who=who(),
            reason=reason or "",
            audit_url=audit_url,
            plan_sha256=digest,
            observer=span_observer() if spans else None,
        )
    if (plan.queue, plan.source) != (target.queue, target.quarantine):
        raise Refusal(f"the plan is for {plan.source}, not for {target.quarantine}", USAGE)
    if yes is None:
        tell_plan(plan, digest, plan_file, as_json=as_json)
        click.echo(f"nothing was done: say --yes {len(plan.selected)} --reason '…' to redrive", err=True)
        return
    require_word(plan, yes, reason)
    path = journal_file or plan_file.with_name(plan_file.name + ".journal")
    account, code = carry_out(target, plan, digest, path, options)
    report(context, plan, account, code, as_json=as_json)


def _percent(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:  # noqa: PLR2004 - percent
        raise Refusal(f"--stop-if-returned takes a percentage such as 20%, not {text!r}", USAGE)
    return value
