"""The recorder service: dead letters of one queue into the audit ledger, until told to stop."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import attrs
import trio
from prometheus_client import REGISTRY, CollectorRegistry

from craig_mq.audit import LedgerOptions, open_store, record
from craig_mq.audit.driver_errors import driver_words
from craig_mq.audit.errors import StoreUnavailable
from craig_mq.audit.ledger import Ledger
from craig_mq.audit.opening import shown_url
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.observe.events import Event, Observer
from craig_mq.observe.log import LOGGER, log_event
from craig_mq.observe.metrics import Metrics
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.service.audit_reports import AuditReports
from craig_mq.service.health import health_app, serve_health
from craig_mq.service.pulse import Pulse
from craig_mq.service.signals import drain_then_leave
from craig_mq.service.status import STARTING, Gauges, Status, status_of
from craig_mq.transport.broker import Broker
from supervisors.exits import leaves


@attrs.define(frozen=True, slots=True)
class Recorder:
    """What one service records, and where. ``metrics`` is host and port, or None for no server.

    ``observers`` hear every event beside metrics, gauges and log.
    """

    queue: str
    audit_url: str
    binding_keys: tuple[str, ...] = ("dlq.#",)
    metrics: tuple[str, int] | None = None
    alert_threshold: int | None = None
    config: DlqRetryConfig = attrs.field(factory=DlqRetryConfig)
    options: SubscriptionOptions = attrs.field(factory=SubscriptionOptions)
    observers: tuple[Observer, ...] = ()


async def run_recorder(broker: Broker, recorder: Recorder, registry: CollectorRegistry = REGISTRY) -> None:
    """Record until SIGTERM or SIGINT, then drain and return; a second signal leaves the process.

    Raises SubscribeDlqError, an AuditError or AddressInUse when it cannot start, and what ended the
    subscription if anything did. Cancelled: as ``subscribe_dlq``.
    """
    metrics, gauges = Metrics(registry), Gauges()
    ledger = LedgerOptions(alert_threshold=recorder.alert_threshold, on_event=AuditReports(metrics))
    async with AsyncExitStack() as stack:
        store = await _open(stack, recorder.audit_url, ledger)
        run = _Run(gauges)
        port: int | None = None
        if recorder.metrics is not None:
            app = health_app(registry, run.pulse.read)
            port = stack.enter_context(serve_health(*recorder.metrics, app))
        _log_start(recorder, port)
        observers: tuple[Observer, ...] = (metrics, gauges, log_event, *recorder.observers)

        def observe(event: Event) -> None:
            for observer in observers:
                observer(event)

        await run.until_stopped(
            partial(
                subscribe_dlq,
                broker,
                queue=recorder.queue,
                handler=record(store),
                config=recorder.config,
                options=recorder.options,
                binding_keys=recorder.binding_keys,
                observer=observe,
            )
        )


def _log_start(recorder: Recorder, port: int | None) -> None:
    """Say what is recorded from where, and where to look, once ledger and metrics stand."""
    fields: dict[str, object] = {
        "queue": recorder.queue,
        "binding_keys": ",".join(recorder.binding_keys),
        "ledger": shown_url(recorder.audit_url),
    }
    if recorder.metrics is not None:
        fields["metrics"] = f"{recorder.metrics[0]}:{port}"
    LOGGER.info("recording", extra={"fields": fields})


async def _open(stack: AsyncExitStack, url: str, options: LedgerOptions) -> Ledger:
    try:
        return await stack.enter_async_context(open_store(url, options))
    except Exception as error:
        words = str(error) if isinstance(error, OSError) else driver_words(error, url)
        if words is None:
            raise
        raise StoreUnavailable(f"the ledger can't be opened: {words}") from error


class _Run:
    """One subscription with its pulse and its signals; the first failure ends all three."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self._subscription: DlqSubscription | None = None
        self.pulse: Pulse[Status] = Pulse(self._status)

    def _status(self) -> Status:
        return STARTING if self._subscription is None else status_of(self._subscription, self._gauges)

    async def until_stopped(self, subscribe: Callable[..., Awaitable[object]]) -> None:
        """Run ``subscribe`` until a signal drained it, or it ended by itself."""
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:

            def on_signal(name: str) -> None:
                if self._subscription is None:
                    nursery.cancel_scope.cancel(reason=f"{name} before the subscription started")
                else:
                    self._subscription.shutdown(name)

            await nursery.start(drain_then_leave, on_signal)
            nursery.start_soon(self.pulse.run)
            try:
                async with trio.open_nursery() as subscriptions:
                    self._subscription = await subscriptions.start(subscribe)
                    gc.collect()
                    gc.freeze()  # what stands now stays: the collector need not look through it again
            except* Exception as group:  # noqa: BLE001 - raised below, once the signals are released
                found = list(leaves(group))
                failure = found[0] if len(found) == 1 and isinstance(found[0], Exception) else group
            nursery.cancel_scope.cancel(reason="the subscription has ended")
        if failure is not None:
            raise failure
