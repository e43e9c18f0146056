"""The light event that supervisors and the runtime hold many of."""

from __future__ import annotations

import trio

from supervisors.flag import Flag


async def test_everybody_who_waits_is_woken(autojump_clock):
    """Setting a flag wakes all that wait for it, and whoever asks later returns after a checkpoint."""
    flag, woken = Flag(), []

    async def wait(name: str) -> None:
        await flag.wait()
        woken.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "first")
        nursery.start_soon(wait, "second")
        await trio.testing.wait_all_tasks_blocked()
        assert not flag.is_set()
        assert not woken
        flag.set()
        flag.set()
    assert flag.is_set()
    assert sorted(woken) == ["first", "second"]
    with trio.testing.assert_checkpoints():
        await flag.wait()


async def test_a_wait_that_is_cancelled_leaves_the_others_waiting(autojump_clock):
    """A cancelled wait raises Cancelled and takes nothing from those that wait beside it."""
    flag, woken = Flag(), []

    async def wait() -> None:
        await flag.wait()
        woken.append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        with trio.move_on_after(1) as patience:
            await flag.wait()
        assert patience.cancelled_caught
        await trio.sleep(1)
        flag.set()
    assert woken == [began + 2]
