"""Copies that must wait are seen through, and whoever waits for them hears of it."""

from __future__ import annotations

import trio

from craig_mq.runtime.copies import Copies


class ReadyPublishing:
    """A publishing side that looks ready."""

    ready = True


class SlowCopy:
    """A copy that can't be handed off, and is confirmed after five seconds."""

    def __init__(self, acted):
        self.acted = acted

    def hand_off(self, _now):
        return False

    async def publish(self, _scope):
        await trio.sleep(5)

    def act(self):
        self.acted.append(trio.current_time())


async def test_everyone_who_waits_for_the_copies_is_woken(autojump_clock):
    """Where the drain and the session's end both wait for the last copy, both go on at its confirm."""
    acted, woken, began = [], [], trio.current_time()
    copies = Copies(ReadyPublishing(), lambda _flight: SlowCopy(acted))

    async def wait():
        await copies.wait_done()
        woken.append(trio.current_time() - began)

    with trio.move_on_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(copies.run)
            assert copies.owe("a delivery")
            async with trio.open_nursery() as waiters:
                waiters.start_soon(wait)
                waiters.start_soon(wait)
            nursery.cancel_scope.cancel(reason="enough seen")
    assert acted == [began + 5]
    assert woken == [5, 5]
