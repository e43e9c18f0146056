"""Events as Prometheus metrics, under the names the deployment guide documents.

Label values are closed sets (queues, arms, stages, reasons), so the number of series does not grow
with traffic (field failure PROM-03). A gauge whose source is gone disappears instead of keeping its
last value.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from craig_mq.observe import events as ev
from craig_mq.observe.instruments import Instruments

# One set of instruments per registry, so that building Metrics twice counts into the same series
# instead of raising DuplicateTimeseries (field failure PROM-01).
_BUILT: weakref.WeakKeyDictionary[CollectorRegistry, Instruments] = weakref.WeakKeyDictionary()

_ARMS = ("main", "parking")


def _instruments(registry: CollectorRegistry) -> Instruments:
    built = _BUILT.get(registry)
    if built is None:
        built = _BUILT[registry] = Instruments(registry)
    return built


class Metrics:
    """An Observer that keeps the Prometheus series of every subscription that reports to it."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Register on ``registry``, or join the instruments already there."""
        self._on = _instruments(registry)
        self._sampled: dict[str, set[str]] = {}
        self._handlers: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.SessionUp: self._session_up,
            ev.SessionDown: self._session_down,
            ev.BackoffChanged: lambda e: self._on.backoff.labels(e.queue, e.arm).set(e.seconds),
            ev.SettlementFailure: lambda e: self._on.settlement_failures.labels(
                e.queue, e.arm, e.stage
            ).inc(),
            ev.HandlerFinished: lambda e: self._on.handler.labels(e.queue, e.disposition).observe(e.seconds),
            ev.DeliveryFinished: self._delivery_finished,
            ev.EventFinished: lambda e: self._on.events.labels(e.queue, e.outcome).inc(),
            ev.DeadLettered: lambda e: self._on.dead_lettered.labels(
                e.queue, e.by, str(e.malformed).lower()
            ).inc(),
            ev.Parked: lambda e: self._on.parked.labels(e.queue).inc(),
            ev.ParkedReturned: lambda e: self._on.returned.labels(e.queue).inc(),
            ev.Quarantined: lambda e: self._on.quarantined.labels(e.queue, e.reason).inc(),
            ev.Undecodable: lambda e: self._on.undecodable.labels(e.queue).inc(),
            ev.DuplicateAbsorbed: lambda e: self._on.absorbed.labels(e.queue).inc(),
            ev.DepthSampled: self._depth_sampled,
            ev.OldestParked: self._oldest_parked,
            ev.BlockedChanged: self._blocked_changed,
            ev.InflightChanged: lambda e: self._on.inflight.labels(e.queue).set(e.count),
            ev.SubscriptionEnded: self._subscription_ended,
        }

    def __call__(self, event: ev.Event) -> None:
        """Count one event; events without a metric are ignored."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def audit_rows(self, outcome: str, rows: int) -> None:
        """Count ledger answers: ``recorded``, ``phantom``, ``divergent`` or ``tokenless``."""
        self._on.audit_rows.labels(outcome).inc(rows)

    def audit_commit(self, seconds: float) -> None:
        """Observe the duration of one ledger transaction."""
        self._on.audit_commit.observe(seconds)

    def alert(self) -> None:
        """Count one threshold alert."""
        self._on.alerts.inc()

    def _session_up(self, event: ev.SessionUp) -> None:
        self._on.consumer_up.labels(event.queue, event.arm).set(1)
        self._on.backoff.labels(event.queue, event.arm).set(0)

    def _session_down(self, event: ev.SessionDown) -> None:
        self._on.consumer_up.labels(event.queue, event.arm).set(0)
        self._on.sessions.labels(event.queue, event.arm, event.end).inc()

    def _delivery_finished(self, event: ev.DeliveryFinished) -> None:
        self._on.deliveries.labels(event.queue, event.outcome).inc()
        if event.tokenless_rerun:
            self._on.tokenless_reruns.labels(event.queue).inc()

    def _depth_sampled(self, event: ev.DepthSampled) -> None:
        if event.ready is None:
            self._on.forget(self._on.depth, event.sampled)
            return
        self._sampled.setdefault(event.queue, set()).add(event.sampled)
        self._on.depth.labels(event.sampled).set(event.ready)

    def _oldest_parked(self, event: ev.OldestParked) -> None:
        if event.seconds is None:
            self._on.forget(self._on.oldest_parked, event.queue)
        else:
            self._on.oldest_parked.labels(event.queue).set(event.seconds)

    def _blocked_changed(self, event: ev.BlockedChanged) -> None:
        self._on.blocked.labels(event.queue).set(0 if event.reason is None else 1)

    def _subscription_ended(self, event: ev.SubscriptionEnded) -> None:
        for sampled in self._sampled.pop(event.queue, set()):
            self._on.forget(self._on.depth, sampled)
        for arm in _ARMS:
            self._on.forget(self._on.consumer_up, event.queue, arm)
            self._on.forget(self._on.backoff, event.queue, arm)
        for gauge in (self._on.oldest_parked, self._on.blocked, self._on.inflight):
            self._on.forget(gauge, event.queue)
