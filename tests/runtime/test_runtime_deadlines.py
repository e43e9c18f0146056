"""One task that watches the equal bounds of many scopes."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from craig_mq.runtime.deadlines import Deadlines
from craig_mq.runtime.on_demand import OnDemand


async def waiting_in(bounds: Deadlines, delay: float, ended: list[float]) -> None:
    await trio.sleep(delay)
    with trio.CancelScope() as scope:
        bounds.begin(scope, trio.current_time())
        await trio.sleep_forever()
    ended.append(trio.current_time())


@asynccontextmanager
async def watched(bounds: Deadlines) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        with OnDemand(nursery) as on_demand:
            on_demand.offer(bounds, bounds.run)
            yield
        nursery.cancel_scope.cancel(reason="enough seen")


async def test_each_scope_is_cancelled_at_its_own_instant(autojump_clock):
    """Every scope ends exactly ``seconds`` after its begin, also when nobody watched before."""
    began, ended = trio.current_time(), []
    bounds = Deadlines(30, "late")
    async with watched(bounds), trio.open_nursery() as waiters:
        for delay in (0, 0, 7, 100, 129):
            waiters.start_soon(waiting_in, bounds, delay, ended)
    assert [instant - began for instant in ended] == [30, 30, 37, 130, 159]


async def test_a_bound_that_ended_cancels_nothing(autojump_clock):
    """A scope whose bound was ended in time lives on, and is counted no more."""
    bounds = Deadlines(30, "late")
    async with watched(bounds):
        with trio.CancelScope() as scope:
            bounds.begin(scope, trio.current_time())
            await trio.sleep(29)
            bounds.end(scope)
            await trio.sleep(100)
        assert not scope.cancel_called
        assert len(bounds) == 0


@pytest.mark.parametrize(("second", "stands", "wanted"), [(5, 1000, [1030, 1035]), (600, 990, [1020, 1030])])
async def test_standing_still_counts_for_no_bound(autojump_clock, second, stands, wanted):
    """What was left of a bound is left after a standstill; one begun during it has all of it left."""
    began, ended = trio.current_time(), []
    bounds = Deadlines(30, "late")
    async with watched(bounds), trio.open_nursery() as waiters:
        waiters.start_soon(waiting_in, bounds, 0, ended)
        waiters.start_soon(waiting_in, bounds, second, ended)
        await trio.sleep(10)
        bounds.stand_still()
        await trio.sleep(stands)
        assert not ended
        bounds.go_on()
    assert [instant - began for instant in ended] == wanted


async def test_bounds_that_follow_each_other_wake_nobody(autojump_clock):
    """A task that bounds one short wait after the other lets the watcher sleep for a bound's length."""
    bounds, awake = Deadlines(30, "late"), 0

    class Watch(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal awake
            awake += task.name.endswith("Deadlines.run")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bounds.run, name="Deadlines.run")
        trio.lowlevel.add_instrument(watch := Watch())
        for _ in range(100):
            with trio.CancelScope() as scope:
                bounds.begin(scope, trio.current_time())
                await trio.sleep(0.1)
                bounds.end(scope)
        trio.lowlevel.remove_instrument(watch)
        nursery.cancel_scope.cancel(reason="enough seen")
    assert 0 < awake <= 2


async def test_nobody_watches_where_there_is_nothing_to_watch(autojump_clock):
    """The watch ends once there has been nothing to watch for ``patience``, and begins again."""
    bounds = Deadlines(30, "late", patience=40)
    async with watched(bounds):
        tasks = trio.lowlevel.current_statistics().tasks_living
        for _ in range(2):
            with trio.CancelScope() as scope:
                bounds.begin(scope, trio.current_time())
                await trio.sleep(1)
                bounds.end(scope)
            await trio.sleep(68)
            assert trio.lowlevel.current_statistics().tasks_living == tasks + 1
            await trio.sleep(2)
            assert trio.lowlevel.current_statistics().tasks_living == tasks


@pytest.mark.parametrize("patience", [45, math.inf])
async def test_a_watch_that_waits_meets_the_next_bound(autojump_clock, patience):
    """A bound that begins while the watch waits for one is met at its instant, near the wait's end or not."""
    bounds, ended = Deadlines(30, "late", patience=patience), []
    began = trio.current_time()
    async with watched(bounds), trio.open_nursery() as waiters:
        for delay in (0, 74, 75, 150, 1000):
            waiters.start_soon(waiting_in, bounds, delay, ended)
    assert [instant - began for instant in ended] == [30, 104, 105, 180, 1030]
