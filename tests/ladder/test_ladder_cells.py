"""Every cell of the two-strike ladder on the embedded broker (decisions, 19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
import trio

from craig_mq import Disposition, DlqError, SubscriptionConfig, SubscriptionOptions
from craig_mq.observe.events import DeadLettered, SessionDown, SettlementFailure, TopologyRepaired
from craig_mq.testing import CloseChannel, Delay, Fault, FaultPlan, Hang, Nack, Raise

if TYPE_CHECKING:
    from collections.abc import Callable

By = Literal["client", "broker"]
BOTH = pytest.mark.parametrize("by", ["client", "broker"])


def config(by: By, **members: Any) -> SubscriptionConfig:
    return SubscriptionConfig(dead_letter_by=by, **members)


def failing(times: int) -> Callable[..., object]:
    """Fail the first ``times`` invocations of the test."""
    left = [times]

    def script(_: object) -> object:
        left[0] -= 1
        return ValueError("boom") if left[0] >= 0 else None

    return script


@BOTH
async def test_ok_is_acked(ladder, by: By, autojump_clock):
    """A handler that returns has its event acked, once, and nothing is dead-lettered."""
    async with ladder.subscribed(config=config(by)) as subscription:
        envelope_id = ladder.publish()
        await trio.sleep(1)
    assert ladder.calls == {envelope_id: 1}
    assert subscription.statistics().acked == 1
    assert (ladder.ready(), ladder.ready("dead")) == (0, 0)


@BOTH
async def test_the_first_failure_is_requeued(ladder, by: By, autojump_clock):
    """A failure requeues; the second attempt comes redelivered, and its success acks."""
    async with ladder.subscribed(ladder.handler(failing(1)), config=config(by)) as subscription:
        ladder.publish()
        await trio.sleep(1)
    assert [event.redelivered for event in ladder.received] == [False, True]
    statistics = subscription.statistics()
    assert (statistics.requeued, statistics.acked, statistics.dead_lettered) == (1, 1, 0)
    assert statistics.strikes_spent_elsewhere == 0
    assert ladder.ready("dead") == 0


async def test_the_second_failure_is_dead_lettered_by_the_client(ladder, autojump_clock):
    """Two failures make one dead letter, with queue, reason, time, error and a token of its own."""
    async with ladder.subscribed(ladder.handler(failing(9))) as subscription:
        envelope_id = ladder.publish()
        await trio.sleep(1)
    [dead] = ladder.dead_letters()
    assert ladder.calls == {envelope_id: 2}
    assert (dead.envelope.id, dead.routing_key) == (envelope_id, "dlq.orders.order.placed")
    assert dead.token is not None
    assert dead.token.startswith("occ1:inbox:")
    assert dead.death is not None
    assert (dead.death.queue, dead.death.reason, dead.death.error) == ("orders", "handler_failed", "boom")
    assert (ladder.ready(), subscription.statistics().dead_lettered) == (0, 1)
    assert ladder.heard(DeadLettered) == [DeadLettered("orders", envelope_id, "client", malformed=False)]


async def test_the_second_failure_is_dead_lettered_by_the_broker(ladder, autojump_clock):
    """With "broker" the second failure is rejected: the queue's DLX moves it, with x-death as identity."""
    async with ladder.subscribed(ladder.handler(failing(9)), config=config("broker")) as subscription:
        envelope_id = ladder.publish()
        await trio.sleep(1)
    [dead] = ladder.dead_letters()
    assert (dead.envelope.id, dead.routing_key) == (envelope_id, "dlq.orders")
    assert dead.token is not None
    assert dead.token.startswith("occ1:broker:")
    assert dead.death is not None
    assert (dead.death.queue, dead.death.reason) == ("orders", "rejected")
    assert (ladder.ready(), subscription.statistics().dead_lettered) == (0, 1)


@pytest.mark.parametrize(("by", "key"), [("client", "dlq.orders.malformed"), ("broker", "dlq.orders")])
async def test_malformed_has_no_second_chance(ladder, by: By, key: str, autojump_clock):
    """A body that is no envelope is dead-lettered at once, byte for byte, without a handler."""
    async with ladder.subscribed(config=config(by)) as subscription:
        ladder.publish(body=b"\xff not json")
        await trio.sleep(1)
    [message] = ladder.broker.queue("dead").messages
    assert (message.body, message.routing_key) == (b"\xff not json", key)
    assert ladder.calls == {}
    assert subscription.statistics().malformed == 1


async def test_unroutable_dead_letters_of_the_client_stay(ladder, autojump_clock):
    """With no queue bound to craig.dlx nothing is acked; each try fails loudly until a queue is bound."""
    ladder.broker.unbind("craig.dlx", "dead", "dlq.#")
    async with ladder.subscribed(ladder.handler(failing(9))) as subscription:
        ladder.publish()
        await trio.sleep(20)
        failures = ladder.heard(SettlementFailure)
        assert {failure.stage for failure in failures} == {"returned"}
        assert 3 <= len(failures) <= 6
        ladder.broker.bind("craig.dlx", "dead", "dlq.#")
        await trio.sleep(40)
        assert subscription.statistics().dead_lettered == 1
    assert len(ladder.dead_letters()) == 1
    assert {down.end for down in ladder.heard(SessionDown)} == {"SETTLEMENT_FAILED", "SHUTDOWN"}


async def test_unroutable_dead_letters_of_the_broker_are_lost(ladder, autojump_clock):
    """The bound of "broker", named: an unroutable or missing DLX drops what is rejected, in silence."""
    ladder.broker.unbind("craig.dlx", "dead", "dlq.#")
    async with ladder.subscribed(ladder.handler(failing(9)), config=config("broker")) as subscription:
        ladder.publish()
        await trio.sleep(1)
        ladder.broker.delete_exchange("craig.dlx")
        ladder.publish()
        await trio.sleep(1)
    assert subscription.statistics().dead_lettered == 2
    assert (ladder.ready(), ladder.ready("dead")) == (0, 0)


async def test_a_missing_dlx_is_declared_again(ladder, autojump_clock):
    """A DLX deleted under a session ends it unacked; the next one declares it again, and says so."""
    async with ladder.subscribed(ladder.handler(failing(9))) as subscription:
        ladder.broker.delete_exchange("craig.dlx")
        ladder.publish()
        await trio.sleep(0.5)
        assert subscription.statistics().dead_lettered == 0
        await trio.sleep(1)
        assert ladder.heard(TopologyRepaired) == [TopologyRepaired("orders", "exchange craig.dlx")]
        ladder.broker.bind("craig.dlx", "dead", "dlq.#")
        await trio.sleep(20)
    assert ladder.heard(SettlementFailure)[0].stage == "unknown"
    assert len(ladder.dead_letters()) == 1
    assert ladder.ready() == 0


PUBLISHING = "craig_mq orders main publishing"
SETTLEMENTS = [
    pytest.param("client", 0, Fault("ack", Raise(), name="orders"), "ack", id="ok"),
    pytest.param("client", 1, Fault("nack", Raise(), name="orders"), "nack", id="requeue"),
    pytest.param("client", 9, Fault("ack", Raise(), name="orders"), "nack", id="ack after the dead letter"),
    pytest.param("client", 9, Fault("publish", Nack(), connection=PUBLISHING), "nacked", id="nacked"),
    pytest.param(
        "client",
        9,
        Fault("publish", CloseChannel(406, "no", 60, 40), connection=PUBLISHING),
        "unknown",
        id="closed",
    ),
    pytest.param("broker", 9, Fault("nack", Raise(), name="orders", index=1), "nack", id="reject"),
]


@pytest.mark.parametrize(("by", "failures", "fault", "stage"), SETTLEMENTS)
async def test_a_settlement_failure_ends_the_session_and_loses_nothing(
    ladder, by: By, failures: int, fault: Fault, stage: str, autojump_clock
):
    """A failed settlement in any cell ends the session as SETTLEMENT_FAILED; the next one finishes once."""
    ladder.broker.inject(FaultPlan((fault,)))
    async with ladder.subscribed(ladder.handler(failing(failures)), config=config(by)) as subscription:
        envelope_id = ladder.publish()
        await trio.sleep(30)
    statistics = subscription.statistics()
    assert [failure.stage for failure in ladder.heard(SettlementFailure)] == [stage]
    assert [down.end for down in ladder.heard(SessionDown)] == ["SETTLEMENT_FAILED", "SHUTDOWN"]
    assert (ladder.ready(), statistics.acked + statistics.dead_lettered) == (0, 1)
    assert [dead.envelope.id for dead in ladder.dead_letters()] == [envelope_id] * (failures > 1)


async def test_a_malformed_one_survives_a_settlement_failure(ladder, autojump_clock):
    """A malformed body whose ack fails after its confirmed copy is acked later without a second copy."""
    ladder.broker.inject(FaultPlan((Fault("ack", Raise(), name="orders"),)))
    async with ladder.subscribed() as subscription:
        ladder.publish(body=b"[]")
        await trio.sleep(5)
    assert ladder.broker.queue("dead").bodies == (b"[]",)
    assert subscription.statistics().duplicates_absorbed == 1


async def test_a_twin_of_a_dead_letter_gets_a_copy_of_its_own(ladder, autojump_clock):
    """RET-01: of two malformed messages alike in every byte, each is acked for its own copy only."""
    ladder.broker.inject(FaultPlan((Fault("publish", Nack(), connection=PUBLISHING, index=2),)))
    async with ladder.subscribed() as subscription:
        ladder.publish(body=b"[]")
        await trio.sleep(1)
        ladder.publish(body=b"[]")  # nacked at first: it comes again, marked redelivered
        await trio.sleep(5)
    assert ladder.broker.queue("dead").bodies == (b"[]", b"[]")
    assert subscription.statistics().duplicates_absorbed == 0


@BOTH
@pytest.mark.parametrize("failures", [0, 1, 9])
async def test_shutdown_lets_a_handler_finish(ladder, by: By, failures: int, autojump_clock):
    """A shutdown while a handler runs waits for it and settles what it decided."""
    script = failing(failures)

    async def slow(event: object) -> object:
        await trio.sleep(3)
        return script(event)

    async with ladder.subscribed(ladder.handler(slow), config=config(by)) as subscription:
        ladder.publish()
        await trio.sleep(1)
    assert sum(ladder.calls.values()) == 1
    statistics = subscription.statistics()
    assert (statistics.acked, statistics.requeued) == ((1, 0) if failures == 0 else (0, 1))
    assert ladder.ready() == (failures > 0)


async def test_shutdown_leaves_what_does_not_finish(ladder, autojump_clock):
    """A handler that outlasts the drain is cancelled, and its delivery stays with the broker."""
    options = SubscriptionOptions(drain_timeout=2)
    async with ladder.subscribed(
        ladder.handler(lambda _: ladder.takes(600)), options=options
    ) as subscription:
        ladder.publish()
        await trio.sleep(1)
    assert (ladder.ready(), subscription.statistics().unsettled) == (1, 1)
    assert ladder.heard(SessionDown)[-1].end == "SHUTDOWN"


async def test_shutdown_during_a_dead_letter_publish(ladder, autojump_clock):
    """A dead letter under way at shutdown gets its confirm, then its ack."""
    ladder.broker.inject(FaultPlan((Fault("confirm", Delay(3.0), name="craig.dlx"),)))
    async with ladder.subscribed(ladder.handler(failing(9))) as subscription:
        ladder.publish()
        await trio.sleep(1)
    assert (ladder.ready(), ladder.ready("dead"), subscription.statistics().dead_lettered) == (0, 1, 1)


async def test_shutdown_during_a_retry_sleep(ladder, autojump_clock):
    """An event that waits for its in-session retry stays unacked at shutdown."""
    retry = DlqError(Disposition.TRANSIENT_RETRY, source=ValueError("again"))
    async with ladder.subscribed(
        ladder.handler(lambda _: retry), config=config("client", handler_attempts=10)
    ) as subscription:
        ladder.publish()
        await trio.sleep(0.35)
    assert (ladder.ready(), subscription.statistics().unsettled) == (1, 1)


async def test_a_settlement_that_hangs_is_bounded(ladder, autojump_clock):
    """An ack that never returns ends the session within settle_timeout and abort_grace."""
    ladder.broker.inject(FaultPlan((Fault("flush", Hang(), connection="craig_mq orders main"),)))
    async with ladder.subscribed():
        ladder.publish()
        await trio.sleep(20)
    assert ladder.heard(SettlementFailure)[0].stage == "ack"
    assert ladder.ready() == 0
