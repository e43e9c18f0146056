"""Releasing parked messages early while the service that parked them runs, on RabbitMQ."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from craig_mq import (
    DeadLetter,
    Disposition,
    DlqConfigError,
    DlqError,
    DlqRetryConfig,
    SubscriptionOptions,
    subscribe_dlq,
)
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.observe.events import SettlementFailure
from craig_mq.testing import envelope
from craig_mq.transport.broker import Broker, ConnectionOptions
from craig_mq.transport.opening import open_broker

pytestmark = pytest.mark.broker

QUEUE = "security.dlq"
COUNT = 5


async def _publish(broker: Broker) -> None:
    async with broker.connect(ConnectionOptions("test")) as connection:
        channel = await connection.open_channel(confirms=True)
        for n in range(COUNT):
            properties = Properties(message_id=f"m{n}", delivery_mode=PERSISTENT)
            publication = Publication("craig.dlx", "dlq.svc.a", envelope({"n": n}), properties)
            assert await channel.publish(publication) == Acked()
        await connection.aclose()


async def _until(condition: Any) -> None:
    with trio.fail_after(40):
        while not condition():
            await trio.sleep(0.05)


async def test_a_running_service_lets_go_of_parking(vhost_url: str, tmp_path: Path) -> None:
    """`parking release` gets the queue from a running service, which goes on by itself; none runs twice."""
    outage, handled, events = [True], Counter[str](), []

    async def handler(dead_letter: DeadLetter) -> None:
        if outage[0]:
            raise DlqError(Disposition.TRANSIENT_PARK, source=DlqConfigError("an outage"))
        handled[dead_letter.envelope.id] += 1

    environment = {**os.environ, "CRAIG_MQ_AMQP_URL": vhost_url, "CRAIG_MQ_QUEUE": QUEUE}
    release = [sys.executable, "-m", "craig_mq", "parking", "release", "--plan", f"{tmp_path}/early.json"]
    release += ["--yes", str(COUNT), "--reason", "outage over", "--rate", "100/s", "--json"]
    async with open_broker(vhost_url) as broker, trio.open_nursery() as nursery:
        service = await nursery.start(
            partial(
                subscribe_dlq,
                broker,
                queue=QUEUE,
                handler=handler,
                config=DlqRetryConfig(parking_ttl=3_600),
                options=SubscriptionOptions(backoff_base=0.2, backoff_cap=0.5),
                observer=events.append,
            )
        )
        await _publish(broker)
        await _until(lambda: service.statistics().parked == COUNT)
        outage[0] = False
        done = await trio.run_process(release, env=environment, capture_stdout=True)
        account = json.loads(done.stdout)
        assert (account["plan"], account["redriven"], account["remaining"]) == (COUNT, COUNT, 0)
        await _until(lambda: len(handled) == COUNT)
        await _until(lambda: service.snapshot().parking.consuming)
        service.shutdown()
    assert set(handled.values()) == {1}
    assert [event for event in events if isinstance(event, SettlementFailure)] == []
