"""The connection is cut at every byte of deliver → park → confirm → ack; nothing is lost."""

from __future__ import annotations

import uuid
from collections import Counter
from functools import partial

import pytest
import trio

from craig_mq import Disposition, DlqError, DlqRetryConfig, SubscriptionOptions, subscribe_dlq
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.outcome import Acked
from craig_mq.observe.events import Parked
from craig_mq.testing.dead_letters import envelope
from craig_mq.testing.proxy import Direction, open_tcp_proxy
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import parse_amqp_url

pytestmark = pytest.mark.broker

QUEUE, PARKING = "cut.dlq", "cut.dlq.parking"
HOUR = DlqRetryConfig(parking_ttl=3600, depth_sample_interval=3600)
# Nothing but the message itself may move bytes: no heartbeat, no release of the parked head.
QUIET = SubscriptionOptions(
    heartbeat=600, parking_hold_limit=600, backoff_base=0.01, backoff_cap=0.01, stable_after=0, rpc_timeout=2
)
NO_CUT_S = 1.0


class Road:
    """One subscription behind a proxy, parking whatever comes; the producer goes past the proxy."""

    def __init__(self, proxy, channel):
        self.proxy = proxy
        self.channel = channel
        self.subscription = None
        self.parked = Counter()

    def observe(self, event):
        """Count what was confirmed into parking, by envelope id."""
        if isinstance(event, Parked):
            self.parked[event.envelope_id] += 1

    async def park_always(self, letter):
        """Fail so that it is parked."""
        raise DlqError(Disposition.TRANSIENT_PARK, source=ValueError("cut"))

    async def publish(self):
        """Dead-letter one message; return its envelope id."""
        envelope_id = str(uuid.uuid4())
        dlx = {
            "token": "occ1:inbox:" + uuid.UUID(envelope_id).hex,
            "queue": "cut",
            "reason": "handler",
            "failed_at": "2026-01-02T03:04:05Z",
            "error": "cut",
        }
        body = envelope({"n": 1}, id=envelope_id, _dlx=dlx)
        properties = Properties(message_id=str(uuid.uuid4()), delivery_mode=PERSISTENT)
        confirmation = await self.channel.publish(Publication("craig.dlx", "dlq.cut", body, properties))
        assert isinstance(confirmation, Acked)
        return envelope_id

    async def at_rest(self, envelope_id):
        """Wait until that message is parked and acked, and both arms consume."""
        with trio.fail_after(20):
            while True:
                look = self.subscription.snapshot()
                consuming = look.main.consuming and look.parking.consuming
                if consuming and self.parked[envelope_id] and self.subscription.statistics().in_flight == 0:
                    break
                await trio.sleep(0.005)
        await trio.sleep(0.01)  # the ack travels

    async def park_one(self):
        """Park one message undisturbed: afterwards the publishing connection is open."""
        envelope_id = await self.publish()
        await self.at_rest(envelope_id)
        return envelope_id

    async def bytes_of_one(self, direction):
        """Measure what one message moves in that direction."""
        before = self.proxy.passed(direction)
        await self.park_one()
        return self.proxy.passed(direction) - before

    async def park_one_cut_after(self, count, direction):
        """Park one message with the connection cut after so many bytes; tell whether it was cut."""
        limit = self.proxy.passed(direction) + count
        self.proxy.cut_after(count, direction)
        envelope_id = await self.publish()
        with trio.move_on_after(NO_CUT_S) as waiting:
            while self.proxy.passed(direction) < limit:
                await trio.sleep(0.002)
        self.proxy.heal()
        await self.at_rest(envelope_id)
        return envelope_id, not waiting.cancelled_caught


@pytest.mark.parametrize("direction", list(Direction), ids=lambda direction: direction.value)
@pytest.mark.parametrize("stride", [31, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
async def test_cut_at_every_byte_of_parking(vhost_url, direction, stride):
    """Cut after any byte of deliver, publish, confirm, ack, a message is parked once or twice, never lost."""
    cut_ids, whole_ids = [], []
    async with (
        open_tcp_proxy("127.0.0.1", parse_amqp_url(vhost_url).port) as proxy,
        open_broker(proxy.url(vhost_url)) as broker,
        open_broker(vhost_url) as direct,
        direct.connect(ConnectionOptions("producer")) as connection,
        trio.open_nursery() as nursery,
    ):
        road = Road(proxy, await connection.open_channel(confirms=True))
        road.subscription = await nursery.start(
            partial(
                subscribe_dlq,
                broker,
                queue=QUEUE,
                handler=road.park_always,
                config=HOUR,
                options=QUIET,
                observer=road.observe,
            )
        )
        whole_ids.append(await road.park_one())
        total = await road.bytes_of_one(direction)
        for count in range(1, total + 1, stride):
            whole_ids.append(await road.park_one())
            envelope_id, cut = await road.park_one_cut_after(count, direction)
            (cut_ids if cut else whole_ids).append(envelope_id)
        road.subscription.shutdown()
        await road.subscription.wait_closed()
        parked = Counter([decode_envelope(body).id async for body in drained(road.channel, PARKING)])
        assert [body async for body in drained(road.channel, QUEUE)] == []
    assert len(cut_ids) >= 0.9 * (total // stride)
    assert [lost for lost in (*cut_ids, *whole_ids) if not parked[lost]] == []
    assert max(parked[one] for one in cut_ids) <= 2
    assert {parked[one] for one in whole_ids} == {1}


async def drained(channel, queue):
    """Yield the bodies of everything in a queue."""
    while (delivery := await channel.get(queue)) is not None:
        channel.ack_nowait(delivery.delivery_tag)
        yield delivery.body
