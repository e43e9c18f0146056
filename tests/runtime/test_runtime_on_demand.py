"""Tasks that begin when they are first wanted."""

from __future__ import annotations

from contextvars import ContextVar

import trio

from craig_mq.runtime.on_demand import OnDemand, nobody
from craig_mq.runtime.work_tasks import WorkTasks

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
        with OnDemand(nursery) as on_demand:
            on_demand.offer(job, job.run)
            DELIVERY.set("first")
            job.wanted()
            job.wanted()
            await trio.sleep(1)
    assert job.saw == ["none"]


async def test_a_task_of_the_work_has_the_context_of_the_session(autojump_clock):
    """A worker or a retry begun from within a delivery sees none of that delivery's context variables."""
    job = Noting()
    async with trio.open_nursery() as nursery:
        tasks = WorkTasks(nursery)
        DELIVERY.set("second")
        tasks.start_soon(job.run)
    assert job.saw == ["none"]


async def test_a_task_nobody_wants_does_not_begin(autojump_clock):
    """Nothing runs unless it was wanted within the block."""
    job = Noting()
    async with trio.open_nursery() as nursery:
        with OnDemand(nursery) as on_demand:
            on_demand.offer(job, job.run)
            await trio.sleep(1)
        job.wanted()
        on_demand.start(job.run)
    assert job.saw == []


async def test_a_task_that_is_done_begins_again(autojump_clock):
    """A task that has ended is started again when it is wanted again, and not while it still runs."""
    job = Noting()
    async with trio.open_nursery() as nursery:
        with OnDemand(nursery) as on_demand:
            on_demand.offer(job, job.run)
            for _ in range(3):
                job.wanted()
                job.wanted()
                await trio.sleep(1)
    assert len(job.saw) == 3
    assert job.wanted is nobody


async def test_a_task_that_outlives_the_block_is_not_wanted_again(autojump_clock):
    """What still runs when the block ends goes on, and nothing is started behind it."""
    job = Noting()
    async with trio.open_nursery() as nursery:
        with OnDemand(nursery) as on_demand:
            on_demand.offer(job, job.run)
            job.wanted()
        await trio.sleep(1)
        job.wanted()
    assert len(job.saw) == 1
