"""The two places a live run can take place: the embedded broker in virtual time, and a real RabbitMQ."""

from __future__ import annotations

from typing import Final

import trio
import trio.testing

from craig_mq.live.ack_loss import EmbeddedAckLoss, open_lossy_broker
from craig_mq.live.publication import queue_name
from craig_mq.live.run import LiveRun, Stage, run_live
from craig_mq.live.settings import settings_for
from craig_mq.review.params import Params
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.transport.memory import MemoryBroker
from craig_mq.transport.opening import open_broker

_EMBEDDED: Final = "embedded"
_EPOCH_S: Final = 1_767_225_600.0  # 2026-01-01, any day would do


def run_embedded(params: Params) -> LiveRun:
    """Run on the embedded broker in virtual time: no clock of the machine, no jitter, no waiting."""
    return trio.run(_embedded, params, clock=trio.testing.MockClock(autojump_threshold=0))


async def _embedded(params: Params) -> LiveRun:
    start = trio.current_time()

    def now() -> float:
        return _EPOCH_S + trio.current_time() - start

    broker = MemoryBroker(wall_clock=now)
    acks = EmbeddedAckLoss(broker, queue_name(_EMBEDDED, "uncertain"))
    settings = settings_for(params, virtual=True)
    sources = Sources(now=now, jitter=lambda: 0.0)
    return await run_live(Stage(broker, broker, acks, settings, sources, _EMBEDDED), params)


async def run_rabbitmq(url: str, params: Params) -> LiveRun:
    """Run on the RabbitMQ at ``url``, in queues of the run's own, deleted at its end.

    Raises as ``run_live``, and BrokerUrlError.
    """
    settings = settings_for(params, virtual=False)
    async with open_broker(url) as broker, open_lossy_broker(url) as (lossy, acks):
        return await run_live(Stage(broker, lossy, acks, settings, SYSTEM_SOURCES), params)
