"""Events become series with the documented names and closed label sets."""

import pytest
from prometheus_client import CollectorRegistry

from craig_mq.observe import events as ev
from craig_mq.observe.metrics import Metrics

Q = "security.dlq"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry)


def test_each_settlement_failure_counts_under_its_stage(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    """A nack and an unknown outcome are told apart by the stage label (NACK-03)."""
    metrics(ev.SettlementFailure(Q, "main", stage="nacked", target="security.dlq.parking", text="nack"))
    metrics(
        ev.SettlementFailure(Q, "main", stage="unknown", target="security.dlq.parking", text="no confirm")
    )
    name = "dlq_settlement_failures_total"
    assert registry.get_sample_value(name, {"queue": Q, "arm": "main", "stage": "nacked"}) == 1
    assert registry.get_sample_value(name, {"queue": Q, "arm": "main", "stage": "unknown"}) == 1


def test_building_twice_on_one_registry_keeps_counting(metrics: Metrics, registry: CollectorRegistry) -> None:
    """Two subscriptions on one registry share the series, and counters survive a re-subscribe (PROM-01)."""
    again = Metrics(registry)
    metrics(ev.Parked(Q, envelope_id="e", capture_id="c1", park_count=1))
    again(ev.Parked(Q, envelope_id="e", capture_id="c2", park_count=2))
    again(ev.Parked("other.dlq", envelope_id="f", capture_id="c3", park_count=1))
    assert registry.get_sample_value("dlq_parked_total", {"queue": Q}) == 2
    assert registry.get_sample_value("dlq_parked_total", {"queue": "other.dlq"}) == 1


def test_the_number_of_series_does_not_grow_with_traffic(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    """Distinct ids, error types and texts add no series between message 100 and 10,000 (PROM-03)."""

    def series() -> int:
        return sum(len(family.samples) for family in registry.collect())

    counts = []
    for n in range(10_000):
        metrics(
            ev.HandlerFinished(
                Q,
                disposition="permanent",
                seconds=0.01,
                attempt=1,
                envelope_id=str(n),
                error_type=f"Error{n}",
            )
        )
        metrics(
            ev.Quarantined(
                Q, envelope_id=str(n), capture_id=str(n), reason="permanent", target=f"{Q}.quarantine"
            )
        )
        if n in {99, 9_999}:
            counts.append(series())
    assert counts[0] == counts[1]


def test_a_gauge_disappears_with_its_source(metrics: Metrics, registry: CollectorRegistry) -> None:
    """A depth that can no longer be read vanishes rather than keep its last value (CHC-09)."""
    metrics(ev.DepthSampled(Q, sampled=f"{Q}.parking", ready=7))
    assert registry.get_sample_value("dlq_queue_depth", {"queue": f"{Q}.parking"}) == 7
    metrics(ev.DepthSampled(Q, sampled=f"{Q}.parking", ready=None))
    assert registry.get_sample_value("dlq_queue_depth", {"queue": f"{Q}.parking"}) is None


def test_the_end_of_a_subscription_removes_all_its_gauges(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    """After a subscription ended no gauge speaks for it, while its counters stay."""
    metrics(ev.SessionUp(Q, "main", generation=1))
    metrics(ev.DepthSampled(Q, sampled=Q, ready=1))
    metrics(ev.OldestParked(Q, seconds=3.0))
    metrics(ev.BlockedChanged(Q, "main", reason="low on memory"))
    metrics(ev.InflightChanged(Q, count=2))
    metrics(ev.SessionDown(Q, "main", generation=1, end="SHUTDOWN", text=""))
    assert registry.get_sample_value("dlq_consumer_up", {"queue": Q, "arm": "main"}) == 0
    metrics(ev.SubscriptionEnded(Q, error=None))
    for name, labels in [
        ("dlq_consumer_up", {"queue": Q, "arm": "main"}),
        ("dlq_queue_depth", {"queue": Q}),
        ("dlq_oldest_parked_seconds", {"queue": Q}),
        ("dlq_connection_blocked", {"queue": Q}),
        ("dlq_inflight", {"queue": Q}),
    ]:
        assert registry.get_sample_value(name, labels) is None, name
    assert (
        registry.get_sample_value("dlq_sessions_total", {"queue": Q, "arm": "main", "end": "SHUTDOWN"}) == 1
    )


def test_deliveries_count_by_outcome_and_tokenless_reruns_apart(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    """A tokenless redelivery that ran the handler again is counted as the disclosed bound it is."""
    metrics(ev.DeliveryFinished(Q, outcome="acked", redelivered=True, tokenless_rerun=True))
    metrics(ev.DeliveryFinished(Q, outcome="parked", redelivered=False))
    assert registry.get_sample_value("dlq_deliveries_total", {"queue": Q, "outcome": "acked"}) == 1
    assert registry.get_sample_value("dlq_deliveries_total", {"queue": Q, "outcome": "parked"}) == 1
    assert registry.get_sample_value("dlq_tokenless_reruns_total", {"queue": Q}) == 1


def test_events_of_ordinary_queues_count_by_outcome_and_dead_letters_by_producer(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    """An event counts under what became of it; a dead letter under its producer and readability."""
    metrics(ev.EventFinished("orders", outcome="requeued", redelivered=False))
    metrics(ev.EventFinished("orders", outcome="dead_lettered", redelivered=True))
    metrics(ev.DeadLettered("orders", "e", by="client", malformed=False))
    metrics(ev.DeadLettered("orders", None, by="broker", malformed=True))
    for outcome in ("requeued", "dead_lettered"):
        assert registry.get_sample_value("dlq_events_total", {"queue": "orders", "outcome": outcome}) == 1
    for by, malformed in (("client", "false"), ("broker", "true")):
        labels = {"queue": "orders", "by": by, "malformed": malformed}
        assert registry.get_sample_value("dlq_dead_lettered_total", labels) == 1


def test_ledger_answers_commits_and_alerts_are_counted(metrics: Metrics, registry: CollectorRegistry) -> None:
    """The ledger reports its answers, its commit times and its alerts."""
    metrics.audit_rows("phantom", 3)
    metrics.audit_commit(0.004)
    metrics.alert()
    assert registry.get_sample_value("dlq_audit_rows_total", {"outcome": "phantom"}) == 3
    assert registry.get_sample_value("dlq_audit_commit_seconds_count") == 1
    assert registry.get_sample_value("dlq_alerts_total") == 1
