"""What the operator's commands share: which broker, which queue, and one connection's worth of work."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click
import trio

from craig_mq.cli.failures import USAGE, Refusal, plain_errors
from craig_mq.cli.ledger_url import standing_ledger
from craig_mq.core.siblings import SiblingQueues
from craig_mq.operator.connecting import sole
from craig_mq.operator.doctor.management import ManagementApi
from craig_mq.service.signals import drain_then_leave
from craig_mq.transport.broker import Broker
from craig_mq.transport.opening import MEMORY_URL, open_broker
from craig_mq.transport.url import parse_amqp_url
from supervisors.shutdown import Shutdown

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

SIGNAL_BASE: Final = 128
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@attrs.define(frozen=True, slots=True)
class Target(SiblingQueues):
    """A dead-letter queue at a broker. ``url`` holds a password: it is never shown."""

    url: str = attrs.field(repr=False)
    queue: str
    accept_delivery_count: bool = False

    def management(self, url: str | None) -> ManagementApi | None:
        """The management API at ``url``, for this target's virtual host; None for none."""
        if url is None:
            return None
        with plain_errors():
            vhost = "/" if self.url == MEMORY_URL else parse_amqp_url(self.url).vhost
        return ManagementApi(url, vhost)

    def run(self, work: Callable[[Broker], Awaitable[T]]) -> T:
        """Run ``work`` with the broker; known failures become one line."""
        with plain_errors():
            check_broker_url(self.url)
            return trio.run(_with_broker, self.url, work)


async def _with_broker(url: str, work: Callable[[Broker], Awaitable[T]]) -> T:
    try:
        async with open_broker(url) as broker:
            del url  # no frame below needs it
            return await work(broker)
    except BaseExceptionGroup as group:
        raise sole(group) from None


def run_until_signal(target: Target, work: Callable[[Broker, Shutdown], Awaitable[T]]) -> tuple[T, int]:
    """Run ``work``, which ends early when a signal asks; return its result and the exit code for that."""
    stop = Shutdown()

    async def watched(broker: Broker) -> T:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(drain_then_leave, stop.request, numbers=_STOPPING))
            result = await work(broker, stop)
            nursery.cancel_scope.cancel(reason="the work has ended")
        return result

    result = target.run(watched)
    return result, 0 if stop.reason is None else SIGNAL_BASE + signal.Signals[stop.reason]


def broker_options(command: F) -> F:
    """Add the options that say which broker."""
    for option in (
        click.option(
            "--amqp-file", type=click.Path(path_type=Path), help="A file that holds the broker URL."
        ),
        click.option(
            "--amqp",
            "url",
            envvar="CRAIG_MQ_AMQP_URL",
            show_envvar=True,
            help="Broker URL. Prefer the variable or --amqp-file: arguments show in the process list.",
        ),
    ):
        command = option(command)
    return command


def target_options(command: F) -> F:
    """Add the options that say which broker, which queue, and how it may be looked at."""
    command = click.option(
        "--accept-delivery-count",
        is_flag=True,
        help="Look at a quorum queue although each look counts towards its delivery limit.",
    )(command)
    command = click.option(
        "--queue", envvar="CRAIG_MQ_QUEUE", show_envvar=True, help="The dead-letter queue, without suffix."
    )(command)
    return broker_options(command)


def read_target(url: str | None, file: Path | None, queue: str | None, *, accept: bool) -> Target:
    """Check what ``target_options`` read."""
    if queue is None:
        raise Refusal("which queue? Say --queue NAME or set CRAIG_MQ_QUEUE: the dead-letter queue", USAGE)
    return Target(read_broker_url(url, file), queue, accept)


def read_broker_url(url: str | None, file: Path | None) -> str:
    """The broker URL from its file, else from the option or the variable."""
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Refusal(f"cannot read --amqp-file {file}: {error.strerror}", USAGE) from error
        except UnicodeDecodeError:  # from None: its text quotes the file's bytes
            raise Refusal(f"cannot read --amqp-file {file}: it is not UTF-8", USAGE) from None
    if url is None:
        raise Refusal("which broker? Set CRAIG_MQ_AMQP_URL, or say --amqp-file FILE or --amqp URL", USAGE)
    return url


def check_broker_url(url: str) -> None:
    """Refuse what is no broker's URL, without the advice to embed one: there is nothing to operate in it."""
    if url != MEMORY_URL:
        parse_amqp_url(url)


management_option = click.option(
    "--management",
    envvar="CRAIG_MQ_MANAGEMENT_URL",
    show_envvar=True,
    help="The management API, optional: http://user:password@host:15672. Prefer the variable.",
)
audit_option = click.option(
    "--audit",
    "audit_url",
    envvar="CRAIG_MQ_AUDIT_URL",
    show_envvar=True,
    callback=standing_ledger,
    help="The audit ledger: judge by its rows, and write down who did what and why.",
)
