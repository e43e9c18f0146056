"""The depth sampler by itself, at the moments that are hard to meet in a subscription."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from craig_mq.core.topology import QueueSpec
from craig_mq.observe.events import DepthSampled
from craig_mq.runtime.depth import DepthSampler
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory import Delay, Fault, FaultPlan, MemoryBroker
from supervisors import ChildContext


def context() -> ChildContext:
    return ChildContext(
        id="depth",
        path="s/depth",
        generation=1,
        on_started=lambda _: None,
        on_change=lambda: None,
        observer=None,
        hosted={},
    )


@pytest.mark.parametrize("kept", [False, True], ids=["own timers", "kept timers"])
async def test_a_lost_connection_and_a_cancel_of_one_instant(autojump_clock, kept):
    """S14: a sampler that is cancelled as its connection is lost ends cancelled, and crashes nothing."""
    broker = MemoryBroker(faults=FaultPlan([Fault("declare", Delay(5), index=1)]))
    broker.declare_queue("q")
    heard = []

    async def declared():
        await trio.lowlevel.checkpoint()

    sampler = DepthSampler(broker, ConnectionOptions("depth"), (QueueSpec("q"),), 1.0, heard.append, declared)
    async with trio.open_nursery() as nursery:
        if kept:
            nursery.start_soon(broker.keep_time)
            await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as sampling:
                sampling.start_soon(sampler.run, context())
                await trio.sleep(2)  # it waits for the answer to its second look
                broker.close_connection("depth")
                scope.cancel(reason="the same instant")
        nursery.cancel_scope.cancel(reason="enough seen")
    assert scope.cancelled_caught
    assert heard == [DepthSampled("q", "q", 0), DepthSampled("q", "q", None)]
