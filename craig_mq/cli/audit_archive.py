"""``craig-mq audit prune|purge|export|import|verify``: looking after the ledger."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import click

from craig_mq.audit.export import Scope, export
from craig_mq.audit.export_check import verify_export
from craig_mq.audit.importing import import_export
from craig_mq.audit.ledger import Ledger
from craig_mq.audit.verify import verify
from craig_mq.cli.audit_ledger import json_option, progress_bar, time, with_ledger
from craig_mq.cli.audit_view import print_json, print_report, verify_document
from craig_mq.cli.failures import FAILURE, plain_errors

_FOLDER = click.Path(file_okay=False, path_type=Path)


def sha256(text: str) -> bytes:
    """A hash that ``audit stats`` printed; an option's type."""
    try:
        anchor = bytes.fromhex(text)
    except ValueError:
        anchor = b""
    if len(anchor) != 32:  # noqa: PLR2004 - SHA-256
        raise click.BadParameter(f"{text!r} is not 64 hex digits, as `audit stats` prints them")
    return anchor


@click.command()
@click.option("--older-than", type=time, required=True, help="Recorded before: a time, or an age.")
@json_option
@click.pass_obj
def prune(url: str, *, older_than: datetime, as_json: bool) -> None:
    """Move old rows from the hot window to the archive.

    In batches, each all or nothing: interrupt it and run it again. An archived token can be recorded
    again, so prune later than a dead letter can possibly come back.
    """
    with progress_bar("archiving") as on_progress:
        moved = with_ledger(url, partial(Ledger.prune, older_than=older_than, on_progress=on_progress))
    _tell(as_json, f"archived {moved} rows", archived=moved)


@click.command()
@click.option("--archived-before", type=time, required=True, help="Archived before: a time, or an age.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
@click.pass_obj
def purge(url: str, *, archived_before: datetime, yes: bool, as_json: bool) -> None:
    """Delete archived rows for good, leaving gap records that verify accepts."""
    if not yes:  # asked on stderr: stdout is for the answer
        click.confirm("Purged rows are gone for good. Go on?", abort=True, err=True)
    with progress_bar("purging") as on_progress:
        work = partial(Ledger.purge, archived_before=archived_before, on_progress=on_progress)
        purged = with_ledger(url, work)
    _tell(as_json, f"purged {purged} rows", purged=purged)


@click.command(name="export")
@click.argument("folder", type=_FOLDER)
@click.option(
    "--scope",
    type=click.Choice(["all", "hot", "archive"]),
    default="all",
    show_default=True,
)
@json_option
@click.pass_obj
def export_command(url: str, *, folder: Path, scope: Scope, as_json: bool) -> None:
    """Write rows, with bodies, as JSON Lines and a SHA-256 manifest into the new FOLDER."""
    with progress_bar("exporting") as on_progress:
        report = with_ledger(url, partial(export, folder=folder, scope=scope, on_progress=on_progress))
    line = f"exported {report.rows} rows in {report.parts} parts; manifest SHA-256 {report.manifest_sha256}"
    _tell(as_json, line, rows=report.rows, parts=report.parts, manifest_sha256=report.manifest_sha256)


@click.command(name="import")
@click.argument("folder", type=_FOLDER)
@json_option
@click.pass_obj
def import_command(url: str, *, folder: Path, as_json: bool) -> None:
    """Verify the export in FOLDER and bring its rows into the archive; what is there already stays."""
    with progress_bar("importing") as on_progress:
        work = partial(import_export, folder=folder, on_progress=on_progress)
        report = with_ledger(url, work, create=True)
    line = f"imported {report.imported} rows, {report.present} were there already"
    _tell(as_json, line, imported=report.imported, present=report.present)


@click.command(name="verify")
@click.option("--export", "folder", type=_FOLDER, help="Verify this export instead, without the ledger.")
@click.option("--anchor", "anchors", type=sha256, multiple=True, help="A hash that must still be there.")
@json_option
@click.pass_context
def verify_command(
    context: click.Context, *, folder: Path | None, anchors: tuple[bytes, ...], as_json: bool
) -> None:
    """Walk the hash chains and find any row that was edited, removed or moved.

    A removed tail shows only against an anchor: keep what `audit stats` prints outside the database.
    Exits 1 when something was changed.
    """
    with progress_bar("verifying") as on_progress:
        if folder is None:
            work = partial(verify, anchors=anchors, on_progress=on_progress)
            report = with_ledger(str(context.obj), work)
        else:
            with plain_errors():
                report = verify_export(folder, anchors=anchors, on_progress=on_progress)
    if as_json:
        print_json(verify_document(report))
    else:
        print_report(report)
    if not report.intact:
        context.exit(FAILURE)


def _tell(as_json: bool, line: str, **document: object) -> None:
    if as_json:
        print_json(document)
    else:
        click.echo(line)
