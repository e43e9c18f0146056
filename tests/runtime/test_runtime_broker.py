"""The whole path on a real RabbitMQ, over each transport: what must hold there, too."""

from __future__ import annotations

import pytest
import trio

from craig_mq import Disposition, DlqRetryConfig, SubscriptionOptions
from craig_mq.core.capture_format import QuarantineReason
from craig_mq.observe.events import SessionDown, SettlementFailure, TopologyRepaired

pytestmark = pytest.mark.broker

RETRY, PARK, PERMANENT = Disposition.TRANSIENT_RETRY, Disposition.TRANSIENT_PARK, Disposition.PERMANENT
QUEUE, PARKING, QUARANTINE = "security.dlq", "security.dlq.parking", "security.dlq.quarantine"
FULL = (
    'rabbit_policy:parse_set(<<"{vhost}">>, <<"full">>, <<"parking$">>,'
    ' <<"{{\\"max-length\\":0,\\"overflow\\":\\"reject-publish\\"}}">>, 0, <<"queues">>, <<"test">>)'
)
NOT_FULL = 'rabbit_policy:delete(<<"{vhost}">>, <<"full">>, <<"test">>)'
MAIN_CONNECTIONS = (
    "length([I || I <- rabbit_networking:connection_info_all([vhost, client_properties]),"
    ' proplists:get_value(vhost, I) =:= <<"{vhost}">>,'
    " {{longstr, Name}} <- [rabbit_misc:table_lookup("
    'proplists:get_value(client_properties, I), <<"connection_name">>)],'
    ' binary:match(Name, <<"security.dlq main">>) =/= nomatch])'
)
SHORT = DlqRetryConfig(parking_ttl=2)


async def test_every_row_of_the_policy(station):
    """Every row of the disposition policy holds on a real broker, with exact counts and delays."""
    rows = {"dlq.ok": None, "dlq.retry": RETRY, "dlq.park": PARK, "dlq.permanent": PERMANENT, QUEUE: PARK}
    station.script = lambda letter: rows[letter.routing_key]
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, config=DlqRetryConfig(parking_ttl=60))
        ok = await station.publish("dlq.ok")
        retry = await station.publish("dlq.retry")
        park = await station.publish("dlq.park")
        permanent = await station.publish("dlq.permanent")
        stray = await station.publish(QUEUE, exchange="")
        await station.publish("dlq.bad", body=b"\xff")
        await station.until(lambda: subscription.statistics().acked == 1)
        await station.until(lambda: subscription.statistics().parked == 2)
        await station.until(lambda: subscription.statistics().quarantined == 3)
        subscription.shutdown()
    assert station.calls == {ok: 1, retry: 3, park: 1, permanent: 1, stray: 1}
    times = [at for at, letter in station.letters if letter.envelope.id == retry]
    assert times[1] - times[0] >= 0.1
    assert times[2] - times[1] >= 0.2
    reasons = {capture.reason for capture in await station.captures(QUARANTINE)}
    assert reasons == {
        QuarantineReason.PERMANENT,
        QuarantineReason.MALFORMED,
        QuarantineReason.NONCANONICAL_ROUTE,
    }
    assert await station.look(QUEUE) == (0, 0)
    assert len(await station.captures(PARKING)) == 2


async def test_parked_due_returned_handled(station):
    """Parked, due, returned under the original key, handled: token and bytes are those before the hop."""
    station.script = lambda letter: PARK if letter.park_count == 0 else None
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery)
        await station.publish("dlq.billing.x")
        await station.until(lambda: subscription.statistics().acked == 1)
        subscription.shutdown()
    (first_at, before), (second_at, after) = station.letters
    assert 2.0 <= second_at - first_at < 4.0
    assert (after.body, after.token, after.routing_key) == (before.body, before.token, "dlq.billing.x")
    assert [await station.look(name) for name in (QUEUE, PARKING, QUARANTINE)] == [(0, 0)] * 3


async def test_replicas_share_a_parking_queue(station):
    """Three replicas on one parking queue keep every due time; each message is handled twice in all."""
    station.script = lambda letter: PARK if letter.park_count == 0 else None
    config = DlqRetryConfig(parking_ttl=4)
    async with trio.open_nursery() as nursery:
        replicas = [await station.start(nursery, config=config) for _ in range(3)]
        published = [await station.publish() for _ in range(9)]
        await station.until(lambda: sum(replica.statistics().acked for replica in replicas) == 9)
        for replica in replicas:
            replica.shutdown()
    assert station.calls == dict.fromkeys(published, 2)
    for envelope_id in published:
        first, second = (at for at, letter in station.letters if letter.envelope.id == envelope_id)
        assert second - first + 0.05 >= 4.0
        assert second - first < 8.0
    assert [await station.look(name) for name in (QUEUE, PARKING, QUARANTINE)] == [(0, 0)] * 3


async def test_a_nack_is_no_evidence(station, rabbit, vhost_url):
    """NACK-01: a full parking queue nacks; nothing is acked, the session fails, is gone, and heals (S4)."""
    vhost = vhost_url.rsplit("/", 1)[1]
    station.script = lambda _: PARK
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, config=DlqRetryConfig(parking_ttl=3600))
        await trio.to_thread.run_sync(rabbit.eval, FULL.format(vhost=vhost))
        await trio.sleep(1)
        envelope_id = await station.publish()
        await station.until(lambda: len(station.heard(SettlementFailure)) == 2)
        failure = station.heard(SettlementFailure)[0]
        assert (failure.stage, failure.target, failure.envelope_id) == ("nacked", PARKING, envelope_id)
        assert subscription.statistics().parked == 0
        await trio.to_thread.run_sync(rabbit.eval, NOT_FULL.format(vhost=vhost))
        await station.until(lambda: subscription.statistics().parked == 1, seconds=60)
        assert await trio.to_thread.run_sync(rabbit.eval, MAIN_CONNECTIONS.format(vhost=vhost)) == "2"
        subscription.shutdown()
    assert {event.end for event in station.heard(SessionDown)} == {"SETTLEMENT_FAILED", "SHUTDOWN"}
    assert await station.look(PARKING) == (1, 0)


async def test_a_return_is_no_evidence(station):
    """RET-02: with the parking queue gone a park is returned: not acked; the queue is declared again."""
    station.script = lambda letter: PARK if letter.park_count == 0 else None
    async with trio.open_nursery() as nursery:
        options = SubscriptionOptions(backoff_base=3)
        subscription = await station.start(nursery, options=options, config=DlqRetryConfig(parking_ttl=60))
        channel = await station.onlooker.open_channel()
        await channel.delete_queue(PARKING)
        await station.publish()
        await station.until(lambda: len(station.heard(SettlementFailure)) == 1)
        assert station.heard(SettlementFailure)[0].stage == "returned"
        await station.until(lambda: subscription.statistics().parked == 1)
        assert f"queue {PARKING}" in [event.what for event in station.heard(TopologyRepaired)]
        subscription.shutdown()
    assert await station.look(QUEUE) == (0, 0)


async def test_a_deleted_queue_comes_back(station):
    """CCAN-01: the queue deleted under its consumer is declared and bound again, and consumed."""
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery)
        channel = await station.onlooker.open_channel()
        await channel.delete_queue(QUEUE)
        await station.until(lambda: "CONSUMER_CANCELLED" in [e.end for e in station.heard(SessionDown)])
        await station.until(lambda: subscription.snapshot().main.consuming)
        await station.publish()
        await station.until(lambda: subscription.statistics().acked == 1)
        assert await station.look(QUEUE) == (0, 1)
        subscription.shutdown()


async def test_an_alarm_blocks_and_releases(station, rabbit):
    """CONF-03: during a memory alarm a park waits, shows as blocked, and goes through once afterwards."""
    station.script = lambda _: PARK
    async with trio.open_nursery() as nursery:
        gate = trio.Event()
        plain = station.handle

        async def wait_then_park(letter):
            await gate.wait()
            await plain(letter)

        station.handle = wait_then_park
        subscription = await station.start(nursery, config=DlqRetryConfig(parking_ttl=3600))
        await station.publish()
        with rabbit.memory_alarm():
            gate.set()
            await station.until(lambda: subscription.snapshot().main.blocked is not None)
            await trio.sleep(1)
            assert subscription.statistics().parked == 0
        await station.until(lambda: subscription.statistics().parked == 1)
        assert subscription.snapshot().main.blocked is None
        subscription.shutdown()
    assert station.heard(SettlementFailure) == []
    assert await station.look(PARKING) == (1, 0)


@pytest.mark.parametrize(
    "station", ["native", pytest.param("aio-pika", marks=pytest.mark.soak)], indirect=True
)
async def test_a_broker_killed_while_the_head_is_held(station, rabbit):
    """Killed (-9) while the replayer holds the head: redelivered, due time recomputed, handled."""
    station.script = lambda letter: PARK if letter.park_count == 0 else None
    async with trio.open_nursery() as nursery:
        subscription = await station.start(nursery, config=DlqRetryConfig(parking_ttl=15))
        await station.publish()
        await station.until(lambda: subscription.statistics().parked == 1)
        await trio.sleep(1)
        await trio.to_thread.run_sync(rabbit.kill)
        await trio.to_thread.run_sync(rabbit.start)
        await station.until(lambda: len(station.letters) >= 2, seconds=120)
        subscription.shutdown()
    assert station.letters[-1][0] - station.letters[0][0] >= 14.9
    assert {letter.token for _, letter in station.letters} == {station.letters[0][1].token}
