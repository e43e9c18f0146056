"""Every row of the disposition policy, with exact invocation counts and delays (ADR-059 §policy)."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from craig_mq import Disposition, DlqError, DlqRetryConfig, SubscriptionOptions
from craig_mq.core.capture_format import QuarantineReason
from craig_mq.observe.events import DeliveryFinished, Quarantined

RETRY, PARK, PERMANENT = Disposition.TRANSIENT_RETRY, Disposition.TRANSIENT_PARK, Disposition.PERMANENT


async def test_ok_is_acked_after_one_invocation(autojump_clock, rig):
    """A handler that returns settles its delivery: one invocation, one ack, no copy anywhere."""
    async with rig.subscribed() as subscription:
        envelope_id = rig.publish()
        await trio.sleep(1)
        assert rig.calls == {envelope_id: 1}
        assert (rig.ready(), rig.broker.queue("security.dlq").unacked) == (0, 0)
        assert subscription.statistics().acked == 1
    assert rig.heard(DeliveryFinished)[0].outcome == "acked"
    assert rig.parked == rig.quarantined == []


@pytest.mark.parametrize(("jitter", "delays"), [(0.0, [0.1, 0.2]), (0.5, [0.15, 0.25]), (1.0, [0.2, 0.3])])
async def test_transient_retry_runs_three_times_then_parks(autojump_clock, rig, jitter, delays):
    """TRANSIENT_RETRY is invoked handler_attempts times in all, 100 ms·n + jitter apart, then parked."""
    rig.jitter = jitter
    async with rig.subscribed(rig.handler(lambda _: RETRY)):
        envelope_id = rig.publish()
        await trio.sleep(5)
        assert rig.calls == {envelope_id: 3}
        times = [at for at, _ in rig.called_at]
        assert [round(b - a, 2) for a, b in pairwise(times)] == delays
        assert [letter.attempt for letter in rig.letters] == [1, 2, 3]
    (capture,) = rig.parked
    assert (capture.attempts, capture.park_count, capture.disposition) == (3, 1, RETRY)
    assert capture.last_error is not None
    assert capture.last_error.text == "the reason"


@pytest.mark.parametrize("attempts", [1, 10])
async def test_handler_attempts_counts_all_invocations(autojump_clock, rig, attempts):
    """handler_attempts is the total, first invocation included, at both ends of its range."""
    config = DlqRetryConfig(handler_attempts=attempts)
    async with rig.subscribed(rig.handler(lambda _: RETRY), config=config):
        envelope_id = rig.publish()
        await trio.sleep(30)
        assert rig.calls == {envelope_id: attempts}
    assert rig.parked[0].attempts == attempts


async def test_retry_that_succeeds_is_acked(autojump_clock, rig):
    """A retry that succeeds settles the delivery as if it had succeeded at once."""
    handler = rig.handler(lambda letter: RETRY if letter.attempt < 3 else None)
    async with rig.subscribed(handler) as subscription:
        rig.publish()
        await trio.sleep(1)
        assert (subscription.statistics().acked, subscription.statistics().invocations) == (1, 3)
    assert rig.parked == []


@pytest.mark.parametrize("failure", [PARK, ValueError("unclassified"), KeyError("k")])
async def test_transient_park_parks_at_once(autojump_clock, rig, failure):
    """TRANSIENT_PARK, and any exception that chose nothing, is parked after a single invocation."""
    async with rig.subscribed(rig.handler(lambda _: failure)):
        envelope_id = rig.publish()
        await trio.sleep(1)
        assert rig.calls == {envelope_id: 1}
        assert rig.parked[0].disposition is PARK


async def test_permanent_is_quarantined_at_once(autojump_clock, rig):
    """PERMANENT is quarantined after a single invocation, with the reason and the error."""
    async with rig.subscribed(rig.handler(lambda _: PERMANENT)):
        envelope_id = rig.publish()
        await trio.sleep(1)
        assert rig.calls == {envelope_id: 1}
    (capture,) = rig.quarantined
    assert capture.reason is QuarantineReason.PERMANENT
    (event,) = rig.heard(Quarantined)
    assert (event.envelope_id, event.reason, event.target) == (
        envelope_id,
        "permanent",
        "security.dlq.quarantine",
    )
    assert event.capture_id == capture.capture_id


async def test_malformed_body_is_quarantined_without_the_handler(autojump_clock, rig):
    """A body that is no envelope never reaches a handler and keeps its raw bytes in quarantine."""
    async with rig.subscribed():
        rig.broker.publish("craig.dlx", "dlq.svc.a", b"\xff not json")
        await trio.sleep(1)
        assert not rig.calls
    (capture,) = rig.quarantined
    assert capture.reason is QuarantineReason.MALFORMED
    assert capture.body_b64 == "/yBub3QganNvbg=="


async def test_noncanonical_route_is_handled_first_and_never_parked(autojump_clock, rig):
    """A key that could not return is quarantined in place of parking, after the handler had its turns."""
    async with rig.subscribed(rig.handler(lambda _: RETRY)):
        envelope_id, body = rig.envelope()
        rig.broker.publish("", "security.dlq", body)
        await trio.sleep(1)
        assert rig.calls == {envelope_id: 3}
    assert rig.quarantined[0].reason is QuarantineReason.NONCANONICAL_ROUTE
    assert rig.parked == []


async def test_queue_return_route_parks_any_key(autojump_clock, rig):
    """With return_route="queue" a delivery parks whatever its key, and returns past the exchange."""
    options = SubscriptionOptions(return_route="queue")
    handler = rig.handler(lambda letter: PARK if letter.park_count == 0 else None)
    async with rig.subscribed(handler, options=options, config=DlqRetryConfig(parking_ttl=10)):
        envelope_id, body = rig.envelope()
        rig.broker.publish("", "security.dlq", body)
        await trio.sleep(15)
        assert rig.calls == {envelope_id: 2}
        assert rig.letters[1].routing_key == "security.dlq"
        assert rig.parked == rig.quarantined == []


async def test_park_cap_quarantines_after_the_last_handling(autojump_clock, rig, short):
    """A message is parked park_cap times; the next failure quarantines it as park_cap_exhausted."""
    async with rig.subscribed(rig.handler(lambda _: PARK), config=DlqRetryConfig(parking_ttl=10, park_cap=2)):
        envelope_id = rig.publish()
        await trio.sleep(60)
        assert rig.calls == {envelope_id: 3}
    assert [letter.park_count for letter in rig.letters] == [0, 1, 2]
    assert rig.quarantined[0].reason is QuarantineReason.PARK_CAP_EXHAUSTED
    assert rig.parked == []


async def test_a_sleeping_retry_frees_its_worker(autojump_clock, rig, one_worker):
    """While a retry sleeps, the only worker handles the next delivery (decisions, 6)."""
    options = SubscriptionOptions(prefetch=2, concurrency=1)
    first = rig.envelope()[0]

    def script(letter):
        return RETRY if letter.envelope.id == first and letter.attempt == 1 else None

    async with rig.subscribed(rig.handler(script), options=options):
        rig.broker.publish("craig.dlx", "dlq.a", rig.envelope(first)[1])
        second = rig.publish()
        await trio.sleep(1)
        assert [envelope_id for _, envelope_id in rig.called_at] == [first, second, first]


async def test_a_copy_is_published_while_the_next_handler_holds_the_worker(autojump_clock, rig):
    """A parked delivery waits neither for its worker's next handler nor keeps it from calling it."""
    options = SubscriptionOptions(prefetch=10, concurrency=1)
    parked: set[str] = set()
    handler = rig.handler(lambda letter: PARK if letter.envelope.id in parked else rig.after(60))
    async with rig.subscribed(handler, options=options) as subscription:
        parked.add(rig.publish())
        await trio.sleep(1)
        parked.add(rig.publish())
        held = rig.publish()
        await trio.sleep(5)
        assert set(rig.calls) == {*parked, held}
        assert (subscription.statistics().parked, len(rig.parked)) == (2, 2)


async def test_retry_sleep_races_shutdown(autojump_clock, rig):
    """Shutdown ends a retry's sleep at once; the delivery stays unacked and comes back (ADR-059 §retry)."""
    config = DlqRetryConfig(handler_attempts=10)
    began = 0.0
    async with rig.subscribed(rig.handler(lambda _: RETRY), config=config) as subscription:
        rig.publish()
        await trio.sleep(2.05)
        began = rig.now
        subscription.shutdown()
        await subscription.wait_closed()
        assert rig.now - began < 0.05
        assert subscription.statistics().unsettled == 1
    assert rig.ready() == 1
    assert rig.broker.queue("security.dlq").messages[0].redelivered
    assert rig.parked == []


async def test_handler_timeout_parks(autojump_clock, rig):
    """A handler that outlives handler_timeout is cancelled and its delivery parked (decisions, bounds)."""
    options = SubscriptionOptions(handler_timeout=300)
    async with rig.subscribed(rig.handler(lambda _: rig.after(301)), options=options):
        envelope_id = rig.publish()
        await trio.sleep(299.9)
        assert rig.parked == []
        await trio.sleep(0.2)
        assert rig.calls == {envelope_id: 1}
        (capture,) = rig.parked
    assert capture.last_error is not None
    assert capture.last_error.type.endswith("HandlerTimedOut")


async def test_worker_goes_on_after_a_handler_timeout(autojump_clock, rig):
    """A timed-out handler costs its worker nothing: the next delivery is handled."""
    options = SubscriptionOptions(handler_timeout=1, prefetch=1, concurrency=1)
    slow = iter([True, False])
    handler = rig.handler(lambda _: rig.after(100) if next(slow) else None)
    async with rig.subscribed(handler, options=options) as subscription:
        rig.publish()
        rig.publish()
        await trio.sleep(2)
        assert (subscription.statistics().parked, subscription.statistics().acked) == (1, 1)


def _group(*dispositions):
    return ExceptionGroup("nursery", [DlqError(choice, source="x") for choice in dispositions])


@pytest.mark.parametrize(
    ("failure", "parked", "calls"),
    [
        (_group(PERMANENT), 0, 1),
        (_group(PERMANENT, PERMANENT), 0, 1),
        (_group(PERMANENT, PARK), 1, 1),
        (_group(RETRY, RETRY), 1, 3),
        (_group(RETRY, PERMANENT), 1, 1),
        (ExceptionGroup("n", [ValueError("x")]), 1, 1),
        (ExceptionGroup("n", [_group(PERMANENT)]), 0, 1),
    ],
)
async def test_groups_from_a_handlers_own_nursery(autojump_clock, rig, failure, parked, calls):
    """EXG-01: a group is permanent, or a retry, only if every leaf says so; any mix is parked."""
    async with rig.subscribed(rig.handler(lambda _: failure)):
        envelope_id = rig.publish()
        await trio.sleep(1)
        assert rig.calls == {envelope_id: calls}
        assert (len(rig.parked), len(rig.quarantined)) == (parked, 1 - parked)


async def test_a_group_holding_a_cancellation_is_no_outcome(autojump_clock, rig):
    """EXG-01: where a handler's timeout cancels it beside a failure, the failure decides nothing."""

    async def fails_and_is_cancelled(_):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise DlqError(PERMANENT, source="x")

    options = SubscriptionOptions(handler_timeout=1)
    async with rig.subscribed(fails_and_is_cancelled, options=options):
        rig.publish()
        await trio.sleep(2)
        assert rig.quarantined == []
        (capture,) = rig.parked
    assert capture.last_error is not None
    assert capture.last_error.type.endswith("HandlerTimedOut")
