"""The Prometheus series themselves: name, help, labels. The deployment guide's table is this file."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_HANDLER_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0)
_COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)


class Instruments:
    """Every series craig_mq exports, on one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every series. Raises ValueError if another library holds one of the names."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        self.depth = gauge("dlq_queue_depth", "Ready messages (held ones are not counted).", "queue")
        self.deliveries = counter("dlq_deliveries_total", "Deliveries by outcome.", "queue", "outcome")
        self.events = counter("dlq_events_total", "Events of ordinary queues by outcome.", "queue", "outcome")
        self.dead_lettered = counter(
            "dlq_dead_lettered_total", "Dead letters of ordinary queues.", "queue", "by", "malformed"
        )
        self.parked = counter("dlq_parked_total", "Captures confirmed into parking.", "queue")
        self.returned = counter("dlq_returned_total", "Parked messages republished when due.", "queue")
        self.quarantined = counter("dlq_quarantined_total", "Captures quarantined.", "queue", "reason")
        self.absorbed = counter(
            "dlq_duplicates_absorbed_total", "Redeliveries acked with no second copy.", "queue"
        )
        self.tokenless_reruns = counter(
            "dlq_tokenless_reruns_total", "Tokenless redeliveries handled again.", "queue"
        )
        self.settlement_failures = counter(
            "dlq_settlement_failures_total",
            "Failed publishes, confirms and settlements.",
            "queue",
            "arm",
            "stage",
        )
        self.sessions = counter("dlq_sessions_total", "Sessions ended, by how.", "queue", "arm", "end")
        self.backoff = gauge("dlq_backoff_seconds", "Wait before the next session.", "queue", "arm")
        self.consumer_up = gauge("dlq_consumer_up", "1 while the arm's session consumes.", "queue", "arm")
        self.inflight = gauge("dlq_inflight", "Deliveries taken and not yet settled.", "queue")
        self.undecodable = counter("dlq_undecodable_total", "Deliveries with unreadable properties.", "queue")
        self.oldest_parked = gauge("dlq_oldest_parked_seconds", "Age of the parking queue's head.", "queue")
        self.blocked = gauge("dlq_connection_blocked", "1 while the broker blocks publishing.", "queue")
        self.handler = Histogram(
            "dlq_handler_seconds",
            "Handler run time by disposition.",
            ("queue", "disposition"),
            registry=registry,
            buckets=_HANDLER_BUCKETS,
        )
        self.audit_rows = counter("dlq_audit_rows_total", "Ledger answers.", "outcome")
        self.audit_commit = Histogram(
            "dlq_audit_commit_seconds", "Ledger transactions.", registry=registry, buckets=_COMMIT_BUCKETS
        )
        self.alerts = counter("dlq_alerts_total", "Threshold alerts fired.")

    @staticmethod
    def forget(gauge: Gauge, *labels: str) -> None:
        """Drop one labelled series; an absent one is no error."""
        try:
            gauge.remove(*labels)
        except KeyError:
            return
