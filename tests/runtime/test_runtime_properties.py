"""The original's own properties never act on its copies (decisions, 14)."""

from __future__ import annotations

import json
import uuid
from functools import partial

import msgspec
import pytest
import trio

from craig_mq import Disposition, DlqError, DlqRetryConfig, subscribe_dlq
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.observe.events import SettlementFailure
from craig_mq.testing import Fault, FaultPlan, Return
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory.trace import MessageAcked, MessagePublished
from craig_mq.transport.opening import open_broker

QUEUE, PARKING = "security.dlq", "security.dlq.parking"
HOSTILE = Properties(
    expiration="60000",
    priority=9,
    delivery_mode=1,
    reply_to="somebody",
    headers={"CC": ["elsewhere"], "x-death": []},
)


async def test_an_expiration_of_the_original_does_not_expire_its_parked_copy(autojump_clock, rig):
    """PROP-07: the copy of a message that was to expire in 60 s is still parked after 120 s."""
    async with rig.subscribed(
        rig.handler(lambda _: Disposition.TRANSIENT_PARK), config=DlqRetryConfig(parking_ttl=600)
    ):
        rig.publish(properties=HOSTILE)
        await trio.sleep(120)
    # Read after the end: while it runs, the replayer may hold the head.
    (capture,) = rig.parked
    inside = msgspec.json.decode(capture.original_properties)
    assert inside["expiration"] == "60000"
    assert inside["reply_to"] == "somebody"


@pytest.mark.broker
async def test_on_rabbitmq_the_parked_copy_carries_only_what_is_allowed(vhost_url: str) -> None:
    """PROP-07: on a real broker the copy is persistent and brings no property of the original along."""

    async def park(_dead_letter: object) -> None:
        raise DlqError(Disposition.TRANSIENT_PARK, source=ConnectionError("down"))

    body = json.dumps(
        {
            "id": str(uuid.uuid4()),
            "source_service": "billing",
            "event_type": "invoice.failed",
            "occurred_at": "2026-11-30T10:00:00Z",
            "payload": {},
        }
    ).encode()
    with trio.fail_after(30):
        async with open_broker(vhost_url) as broker, trio.open_nursery() as nursery:
            subscription = await nursery.start(
                partial(
                    subscribe_dlq, broker, queue=QUEUE, handler=park, config=DlqRetryConfig(parking_ttl=3600)
                )
            )
            async with broker.connect(ConnectionOptions("test publisher")) as connection:
                channel = await connection.open_channel(confirms=True)
                assert await channel.publish(Publication("craig.dlx", "dlq.a", body, HOSTILE)) == Acked()
                while subscription.statistics().parked == 0:
                    await trio.sleep(0.02)
                subscription.shutdown()
                await subscription.wait_closed()
                copy = await channel.get(PARKING)
                await connection.aclose()
    assert copy is not None
    copied = copy.properties
    assert (copied.delivery_mode, copied.expiration, copied.priority) == (2, None, None)
    assert (copied.reply_to, copied.user_id, dict(copied.headers)) == (None, None, {})


@pytest.mark.parametrize(
    "message_ids", [(None, None), ("", ""), ("m" * 255, "m" * 255), ("twice", "twice"), (None, "")]
)
async def test_a_return_is_matched_whatever_ids_the_originals_have(autojump_clock, rig, message_ids):
    """PROP-08: without, with empty, long or equal ids, a returned capture is known by an id of its own."""
    rig.broker.inject(FaultPlan([Fault("publish", Return(), name=PARKING, times=2)]))
    async with rig.subscribed(rig.handler(lambda _: Disposition.TRANSIENT_PARK)):
        for message_id in message_ids:
            rig.publish(properties=Properties(message_id=message_id))
        await trio.sleep(0.5)
        assert {failure.stage for failure in rig.heard(SettlementFailure)} == {"returned"}
        assert [one for one in rig.broker.trace if isinstance(one, MessageAcked)] == []
        await trio.sleep(10)
    captures = [
        record.publication
        for record in rig.broker.trace
        if isinstance(record, MessagePublished) and record.publication.routing_key == PARKING
    ]
    ids = [capture.properties.message_id for capture in captures]
    assert all(ids)
    assert len(set(ids) - set(message_ids)) == 2
    assert len(rig.parked) == 2
