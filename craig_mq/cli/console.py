"""``craig-mq console``: the operator's page, on loopback, in a process of its own."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from craig_mq.cli.failures import USAGE, Refusal, plain_errors
from craig_mq.cli.plan_run import who
from craig_mq.cli.target import Target, audit_option, read_target, target_options
from craig_mq.operator.lease import MAX_SCAN
from craig_mq.operator.status import check_address
from craig_mq.operator.where import parse_duration

if TYPE_CHECKING:
    import socket

    from craig_mq.console.settings import ConsoleSettings


@click.command("console")
@target_options
@audit_option
@click.option("--service", metavar="HOST:PORT", help="A running service's --metrics address: its live tree.")
@click.option("--allow-redrive", is_flag=True, help="Let the page redrive; without it, it only reads.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8660, show_default=True, help="0 picks a free one."
)
@click.option(
    "--host", type=click.Choice(["127.0.0.1", "::1"]), default="127.0.0.1", show_default=True,
    help="Loopback only; from afar, forward the port by SSH.",
)  # fmt: skip
@click.option("--hot-window", default="30d", show_default=True, help="How long the ledger keeps a token hot.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Plans, journals and the record of acts.  [default: $XDG_STATE_HOME/craig-mq/console]",
)
@click.option(
    "--max-scan", default=MAX_SCAN, show_default=True, type=click.IntRange(1, 65_535),
    help="Look at no more than this many messages from the head.",
)  # fmt: skip
def console(
    url: str | None,
    amqp_file: Path | None,
    queue: str | None,
    audit_url: str | None,
    service: str | None,
    host: Literal["127.0.0.1", "::1"],
    port: int,
    hot_window: str,
    folder: Path | None,
    max_scan: int,
    *,
    accept_delivery_count: bool,
    allow_redrive: bool,
) -> None:
    """Serve the operator's page for one queue until interrupted; prints its address, which holds its key.

    Depths over time, the service's tree, quarantine grouped and filtered with a verdict for each message,
    plan, dry run, redrive with progress and stop, and the history of acts. Reading leases quarantine for
    nine minutes at most. Nobody without the printed address can ask for anything.

    \b
    Example:
      craig-mq console --queue security.dlq --audit sqlite:///audit.db --service 127.0.0.1:9464
    """  # noqa: D301 - the escape is click's mark for a paragraph to leave as it is
    from craig_mq.console.settings import ConsoleSettings
    from craig_mq.review.page.listener import bind_loopback

    target = read_target(url, amqp_file, queue, accept=accept_delivery_count)
    with plain_errors():
        if service is not None:
            check_address(service)
        settings = ConsoleSettings(
            queue=target.queue,
            folder=folder or _state_folder(),
            who=who(),
            hot_window_s=parse_duration(hot_window),
            audit_url=audit_url,
            service=service,
            allow_redrive=allow_redrive,
            accept_delivery_count=accept_delivery_count,
            max_scan=max_scan,
        )
    try:
        listening = bind_loopback(port, host)
    except OSError as error:
        raise Refusal(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port", USAGE
        ) from error
    _serve(target, settings, listening)


def _serve(target: Target, settings: ConsoleSettings, listening: socket.socket) -> None:
    from craig_mq.console.server import serve_console

    work = partial(serve_console, settings=settings, listening=listening, announce=click.echo)
    target.run(work)


def _state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home else Path.home() / ".local" / "state"
    return base / "craig-mq" / "console"
