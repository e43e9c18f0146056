"""What one subscription declares (ADR-059 §parking, §quarantine; decisions, 13)."""

from __future__ import annotations

from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, topology_for


def test_a_subscription_declares_its_queue_two_siblings_and_the_exchange() -> None:
    """The queue, .parking and .quarantine are durable and classic, without TTL or DLX, bound by craig.dlx."""
    topology = topology_for("billing.dlq", ("dlq.billing.*", "dlq.audit.#"))
    classic = {"x-queue-type": "classic"}
    assert topology.exchanges == (ExchangeSpec("craig.dlx", "topic", durable=True),)
    assert topology.queues == tuple(
        QueueSpec(name, durable=True, arguments=classic)
        for name in ("billing.dlq", "billing.dlq.parking", "billing.dlq.quarantine")
    )
    assert topology.bindings == (
        BindingSpec("craig.dlx", "billing.dlq", "dlq.billing.*"),
        BindingSpec("craig.dlx", "billing.dlq", "dlq.audit.#"),
    )
    assert (topology.queue_name, topology.parking_name, topology.quarantine_name) == tuple(
        queue.name for queue in topology.queues
    )


def test_quorum_queues_get_a_large_positive_delivery_limit() -> None:
    """Every quorum queue is declared with the limit 2**31-1: the default of 20 would delete messages."""
    for queue in topology_for("q", ("dlq.#",), "quorum").queues:
        assert queue.arguments == {"x-queue-type": "quorum", "x-delivery-limit": 2**31 - 1}
