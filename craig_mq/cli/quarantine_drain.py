"""``craig-mq quarantine drain|verify|import``: out of the queue into files, and back."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import attrs
import click

from craig_mq.cli.audit_view import print_json
from craig_mq.cli.failures import FAILURE, USAGE, Refusal, plain_errors
from craig_mq.cli.plan_run import who
from craig_mq.cli.quarantine_scan import json_option, on_progress, scan_options
from craig_mq.cli.target import Target, audit_option, run_until_signal
from craig_mq.operator.drain import Drained, DrainOptions, drain_queue
from craig_mq.operator.restore import Imported, import_folder, verify_folder
from craig_mq.operator.trail import Act, open_trail
from craig_mq.operator.where import parse_where
from craig_mq.transport.broker import Broker
from supervisors.shutdown import Shutdown

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command(name="drain")
@scan_options
@click.option("--to", "folder", type=_FOLDER, required=True, help="A new folder, or one to go on with.")
@click.option("--reason", default="", help="Why; kept in the audit ledger.")
@audit_option
@click.pass_context
def drain_command(
    context: click.Context,
    *,
    where: tuple[str, ...],
    max_scan: int,
    folder: Path,
    reason: str,
    audit_url: str | None,
    as_json: bool,
) -> None:
    """Move messages out of quarantine into files; each is acked only once it is on disk.

    The folder gets drain.jsonl, the raw originals and a SHA-256 manifest, for its owner only. Interrupted
    or killed, run it again with the same folder. Malformed captures can only be drained, never redriven.
    """
    target: Target = context.obj()
    if not where:
        raise Refusal("say which: --where reason=malformed", USAGE)
    with plain_errors():
        options = DrainOptions(
            parse_where(where), time.time, limit=max_scan, accept_delivery_count=target.accept_delivery_count
        )
        try:
            act = Act("drain", target.quarantine, who(), reason)
            work = partial(_drain, act=act, audit_url=audit_url, folder=folder, options=options)
            result, code = run_until_signal(target, work)
        except OSError as error:
            raise Refusal(
                f"cannot write {folder}: {error.strerror}; what is acked is on disk", FAILURE
            ) from error
    if as_json:
        print_json({**attrs.asdict(result), "folder": str(folder)})
    else:
        left = result.selected - result.drained - result.acked_only
        click.echo(
            f"selected {result.selected} = drained {result.drained} + acked only {result.acked_only}"
            f" + left {left}; {folder} holds {result.in_folder}"
        )
    if result.stopped is not None:
        click.echo(f"stopped: {result.stopped}", err=True)
    elif not result.complete:
        click.echo("NOT ALL was seen: raise --max-scan", err=True)
    if code or result.stopped is not None:
        context.exit(code or FAILURE)


async def _drain(
    broker: Broker, stop: Shutdown, *, act: Act, audit_url: str | None, folder: Path, options: DrainOptions
) -> Drained:
    async with open_trail(audit_url, act) as trail:
        result = await drain_queue(broker, act.queue, folder, options, stop=stop, on_progress=on_progress)
        trail.outcome = attrs.asdict(result)
    return result


@click.command(name="verify")
@click.argument("folder", type=_FOLDER)
@json_option
def verify_command(*, folder: Path, as_json: bool) -> None:
    """Check a drain FOLDER: every file against the manifest, every body against its digest."""
    try:
        with plain_errors():
            lines = verify_folder(folder)
    except OSError as error:
        raise Refusal(f"cannot read {folder}: {error.strerror}", FAILURE) from error
    if as_json:
        print_json({"intact": True, "messages": len(lines)})
    else:
        click.echo(f"intact: {len(lines)} messages")


@click.command(name="import")
@click.argument("folder", type=_FOLDER)
@json_option
@click.pass_context
def import_command(context: click.Context, *, folder: Path, as_json: bool) -> None:
    """Verify a drain FOLDER and publish its messages into quarantine again, byte for byte.

    Interrupted, run it again: what was confirmed is not published twice.
    """
    target: Target = context.obj()

    async def work(broker: Broker, stop: Shutdown) -> Imported:
        return await import_folder(broker, target.quarantine, folder, stop=stop, on_progress=on_progress)

    try:
        result, code = run_until_signal(target, work)
    except OSError as error:
        raise Refusal(f"cannot use {folder}: {error.strerror}; run it again to go on", FAILURE) from error
    if as_json:
        print_json(attrs.asdict(result))
    else:
        left = result.messages - result.imported - result.present
        click.echo(
            f"messages {result.messages} = imported {result.imported} + imported before {result.present}"
            f" + left {left}"
        )
    if result.stopped is not None:
        click.echo(f"stopped: {result.stopped}", err=True)
        context.exit(code or FAILURE)
