"""The crossing between Trio and asyncio: cancellation, crashes, and tasks on either side of the block."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest
import trio

from craig_mq.transport.aio_pika.bridge import Bridge, DetachedTasks, open_bridge
from craig_mq.transport.aio_pika.lifetime import Lifetime
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ConnectError, ConnectErrorKind, OperationTimedOut
from craig_mq.transport.opening import open_broker

OPTIONS = ConnectionOptions(name="bridge", rpc_timeout=2.0)


async def _stubborn(seconds: float) -> None:
    """Swallow the first cancellation, as some asyncio code does, and go on waiting."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(seconds)


async def test_a_bound_holds_over_asyncio_code_that_swallows_cancellation(autojump_clock):
    """TRIO-07: a 5 s bound ends the Trio side at 5 s though the asyncio side waits for 60."""
    async with open_bridge() as bridge:
        call = DetachedTasks(bridge).detach(_stubborn(60))
        started = trio.current_time()
        with pytest.raises(OperationTimedOut):
            await Lifetime().wait_for(call, bound_s=5, what="ack")
        assert trio.current_time() - started == pytest.approx(5)


async def test_a_cancelled_wait_ends_at_once(autojump_clock):
    """TRIO-07: a cancel reaches a Trio task waiting for asyncio without waiting for asyncio."""
    async with open_bridge() as bridge:
        call = DetachedTasks(bridge).detach(_stubborn(60))
        started = trio.current_time()
        with trio.move_on_after(1) as bound:
            await call.wait()
        assert bound.cancelled_caught
        assert trio.current_time() - started == pytest.approx(1)


async def test_an_asyncio_cancellation_stays_on_its_side(autojump_clock):
    """An asyncio task cancelled behind our back shows as CancelledError to map, never as Trio's."""
    async with open_bridge() as bridge:
        call = DetachedTasks(bridge).detach(asyncio.sleep(60))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.wait()


@pytest.mark.parametrize("moment", range(4))
async def test_an_abandoned_result_is_undone_exactly_once(autojump_clock, moment):
    """A result nobody waits for any more is undone once, whether it comes before or after the cancel."""
    undone: list[str] = []

    async def produce() -> str:
        await asyncio.sleep(1)
        return "resource"

    async def undo(result: str) -> None:
        undone.append(result)

    async with open_bridge() as bridge:
        call = DetachedTasks(bridge).detach(produce())
        if moment == 0:
            call.abandon(undo)
        elif moment == 1:
            with trio.move_on_after(0.5):
                await call.wait()
            call.abandon(undo)
        elif moment == 2:
            await trio.sleep(2)
            call.abandon(undo)
        else:
            await call.wait()
            call.abandon(undo)
        await trio.sleep(3)
    assert undone == ([] if moment == 3 else ["resource"])


@pytest.mark.parametrize("repetition", range(50))
async def test_a_broker_cancelled_before_it_starts_does_not_deadlock(repetition):
    """TRIO-01: an error in the tick that opens a broker ends promptly, and it is the error seen."""

    async def open_and_stay() -> None:
        async with open_broker("amqp://127.0.0.1:1", transport="aio-pika"):
            await trio.sleep_forever()

    with trio.fail_after(1), pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the block is what is tested
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_and_stay)
            for _ in range(repetition % 5):
                await trio.lowlevel.checkpoint()
            raise ValueError("the real error")
    assert caught.group_contains(ValueError, match="the real error")


async def test_an_error_of_the_block_leaves_unwrapped():
    """TRIO-06: what the block raises leaves the block as it is, also under a pending cancel."""
    with pytest.raises(ValueError, match="boom"):
        async with open_broker("amqp://127.0.0.1:1", transport="aio-pika"):
            raise ValueError("boom")
    with trio.CancelScope() as scope, pytest.raises(ValueError, match="boom"):  # noqa: PT012
        async with open_broker("amqp://127.0.0.1:1", transport="aio-pika"):
            scope.cancel(reason="at the same instant")
            raise ValueError("boom")


async def test_a_crash_in_a_background_task_surfaces():
    """An asyncio task that nobody awaits and that crashes ends the block with its error."""

    async def crash() -> None:
        raise LookupError("nobody awaits me")

    with trio.fail_after(5), pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the block is what is tested
        async with open_bridge() as bridge:
            bridge.create_task(crash())
            await trio.sleep_forever()
    assert caught.group_contains(LookupError, match="nobody awaits me")


@pytest.mark.parametrize("where", ["callback", "timer", "task", "first callback"])
@pytest.mark.parametrize("exit_error", [SystemExit(3), KeyboardInterrupt()])
async def test_an_exit_inside_the_loop_ends_the_block(where, exit_error):
    """CLI-02: SystemExit or KeyboardInterrupt in asyncio code leaves the block as it is; nothing hangs."""

    def leave() -> None:
        raise exit_error

    async def leave_later() -> None:
        await asyncio.sleep(0.01)
        leave()

    cleaned: list[str] = []
    with trio.fail_after(5), pytest.raises(type(exit_error)) as caught:  # noqa: PT012 - the block is what is tested
        async with open_bridge() as bridge:
            if where != "first callback":
                await bridge.pass_through()
            if where == "task":
                bridge.create_task(leave_later())
            elif where == "timer":
                bridge.loop.call_later(0.01, leave)
            else:
                bridge.loop.call_soon(leave)
            tasks = DetachedTasks(bridge)
            call = tasks.detach(_stubborn(0.02))
            try:
                await call.wait()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await tasks.stop()  # the loop still runs what the block needs for its end
                    cleaned.append("stopped")
    assert caught.value is exit_error
    assert cleaned == ["stopped"]


async def test_hand_overs_survive_a_busy_loop_and_random_cancels():
    """TRIO-03: 300 hand-overs under load, each cancelled or not, all end; none stays pending."""
    finished = 0

    async def hog() -> None:
        while True:
            deadline = trio.current_time() + 0.002
            while trio.current_time() < deadline:
                pass
            await trio.lowlevel.checkpoint()

    async def hand_over(bridge: Bridge, number: int) -> None:
        nonlocal finished
        call = DetachedTasks(bridge).detach(asyncio.sleep(0.001 * (number % 7)))
        with trio.move_on_after(0.001 * (number % 11)):
            await call.wait()
        finished += 1

    with trio.fail_after(30):
        async with open_bridge() as bridge, trio.open_nursery() as hogs:
            for _ in range(3):
                hogs.start_soon(hog)
            async with trio.open_nursery() as nursery:
                for number in range(300):
                    nursery.start_soon(hand_over, bridge, number)
            hogs.cancel_scope.cancel(reason="all handed over")
    assert finished == 300


async def test_a_broker_used_after_its_block_says_so():
    """TRIO-04: connecting after the block has ended is a typed error, not an AttributeError."""
    async with open_broker("amqp://127.0.0.1:1", transport="aio-pika") as broker:
        pass
    with pytest.raises(ConnectError, match="after the broker's block") as caught:
        async with broker.connect(OPTIONS):
            pass
    assert caught.value.kind is ConnectErrorKind.REFUSED


@pytest.mark.broker
async def test_tasks_outside_the_block_can_use_the_broker(vhost_url):
    """TRIO-04: a task whose nursery was opened outside the broker's block works like any other."""
    done = trio.Event()
    async with trio.open_nursery() as outside:  # noqa: SIM117 - opened before and outside, on purpose
        async with open_broker(vhost_url, transport="aio-pika") as broker:

            async def use() -> None:
                async with broker.connect(OPTIONS) as connection:
                    channel = await connection.open_channel()
                    assert channel.closed is None
                    await connection.aclose()
                done.set()

            outside.start_soon(use)
            with trio.fail_after(10):
                await done.wait()


@pytest.mark.broker
async def test_two_brokers_side_by_side_and_one_after_another(vhost_url):
    """TRIO-04: brokers nested, interleaved and reopened do not get into each other's loops."""
    for _ in range(2):
        async with (
            open_broker(vhost_url, transport="aio-pika") as first,
            open_broker(vhost_url, transport="aio-pika") as second,
            first.connect(OPTIONS) as one,
            second.connect(OPTIONS) as two,
        ):
            await (await one.open_channel()).aclose()
            await (await two.open_channel()).aclose()
            assert (one.closed, two.closed) == (None, None)
            await one.aclose()
            await two.aclose()


@pytest.mark.broker
async def test_a_connection_outliving_its_broker_is_closed(vhost_url):
    """TRIO-04: a connection still open when the broker's block ends is reset, and says so."""
    opened = trio.Event()
    over = trio.Event()

    async def stay(broker) -> None:
        async with broker.connect(OPTIONS) as connection:
            opened.set()
            await over.wait()
            assert connection.closed is not None

    async with trio.open_nursery() as nursery:
        async with open_broker(vhost_url, transport="aio-pika") as broker:
            nursery.start_soon(stay, broker)
            await opened.wait()
        over.set()


def test_importing_the_package_imports_no_bridge():
    """Neither the package nor ``open_broker`` imports asyncio bridges or AMQP clients before use."""
    code = textwrap.dedent("""
        import sys
        import craig_mq
        import craig_mq.transport.opening
        print(sorted({"aio_pika", "aiormq", "trio_asyncio"} & set(sys.modules)))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
