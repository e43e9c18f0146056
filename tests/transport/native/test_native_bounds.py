"""The bounds of requests: one timer for all of a connection's."""

from __future__ import annotations

import gc

import pytest
import trio

from craig_mq.core.topology import QueueSpec
from craig_mq.transport.errors import OperationTimedOut
from craig_mq.transport.native.bounds import RequestBounds


async def test_each_wait_is_cancelled_at_its_own_time(autojump_clock):
    """A bound that falls while the timer sleeps for longer is kept to the second, and so is the next one."""
    bounds = RequestBounds(10.0)
    ended: list[float] = []

    async def wait_from(begin: float) -> None:
        await trio.sleep(begin)
        with bounds.bound() as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught
        ended.append(trio.current_time() - start)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for begin in (1.0, 4.0, 25.0):
            nursery.start_soon(wait_from, begin)
        await bounds.sleep_until(start + 30)
        assert trio.current_time() == start + 30
        await bounds.sleep_until(start + 60)
    assert ended == [11.0, 14.0, 35.0]


async def test_what_ended_in_time_is_not_cancelled(autojump_clock):
    """A block that was left before its bound is over for good, and disturbs no later one."""
    bounds = RequestBounds(10.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bounds.sleep_until, trio.current_time() + 60)
        with bounds.bound() as first:
            await trio.sleep(9)
        with bounds.bound() as second:
            await trio.sleep(9)
        await trio.sleep(30)
    assert not first.cancel_called
    assert not second.cancel_called


async def test_answered_requests_leave_no_scope_behind(connected, autojump_clock):
    """Forty answered requests leave nothing in Trio's list of deadlines: an idle connection is small."""

    async def script(peer):
        await peer.open_channel()
        await trio.sleep_forever()

    def scopes() -> int:
        gc.collect()
        return sum(isinstance(one, trio.CancelScope) for one in gc.get_objects())

    async with connected(script, heartbeat_s=60) as connection:
        await connection.open_channel()
        await trio.lowlevel.checkpoint()
        before = scopes()
        for _ in range(40):
            with connection.bounds.bound():
                await trio.lowlevel.checkpoint()
        assert scopes() <= before


async def test_without_heartbeats_requests_are_bounded_all_the_same(connected, autojump_clock):
    """A connection that agreed on no heartbeat gives up on an unanswered request on time."""

    async def script(peer):
        await peer.open_channel()
        await trio.sleep_forever()

    async with connected(script, heartbeat_s=0) as connection:
        channel = await connection.open_channel()
        asked = trio.current_time()
        with pytest.raises(OperationTimedOut, match="10 s"):
            await channel.declare_queue(QueueSpec("q"))
        assert trio.current_time() - asked == 10
