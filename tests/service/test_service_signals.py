"""Two signals: drain, then leave."""

import os
import signal

import pytest
import trio

from craig_mq.service.signals import drain_then_leave


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_the_first_signal_drains_and_the_second_leaves(number: signal.Signals, code: int) -> None:
    """The first signal asks for a drain by name; the second leaves with 128 plus its number."""
    seen: list[object] = []
    drained, left = trio.Event(), trio.Event()

    def on_first(name: str) -> None:
        seen.append(name)
        drained.set()

    def leave(exit_code: int) -> None:
        seen.append(exit_code)
        left.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(drain_then_leave, on_first, leave)
            os.kill(os.getpid(), number)
            await drained.wait()
            assert seen == [number.name]
            os.kill(os.getpid(), number)
            await left.wait()
            nursery.cancel_scope.cancel()
    assert seen == [number.name, code]
