"""Tasks that begin when they are first wanted."""

from __future__ import annotations

from contextvars import ContextVar

import trio

from craig_mq.runtime.on_demand import nobody, on_demand

DELIVERY = ContextVar("DELIVERY", default="none")


class Noting:
    def __init__(self):
        self.wanted = nobody
        self.saw = []

    async def run(self):
        await trio.lowlevel.checkpoint()
        self.saw.append(DELIVERY.get())


async def test_a_task_on_demand_has_the_context_of_the_session(autojump_clock):
    """A task begun while a delivery is handled sees none of that delivery's context variables."""
    job = Noting()
    async with trio.open_nursery() as nursery:
        with on_demand(nursery, job):
            DELIVERY.set("first")
            job.wanted()
            job.wanted()
            await trio.sleep(1)
    assert job.saw == ["none"]


async def test_a_task_nobody_wants_does_not_begin(autojump_clock):
    """Nothing runs unless it was wanted within the block."""
    job = Noting()
    async with trio.open_nursery() as nursery:
        with on_demand(nursery, job):
            await trio.sleep(1)
        job.wanted()
    assert job.saw == []
