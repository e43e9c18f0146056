"""SIGTERM and SIGINT: the first drains, the second leaves at once.

Signals are taken by Trio's own receiver, never as KeyboardInterrupt inside asyncio callbacks, where
they deadlock the bridge (field failure CLI-02).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence

import trio

HARD_EXIT_BASE = 128


async def drain_then_leave(  # noqa: ASYNC114 - only ever started with nursery.start
    on_first: Callable[[str], None],
    leave: Callable[[int], object] = os._exit,
    *,
    numbers: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call ``on_first`` with the first signal's name; on the second call ``leave(128 + number)``.

    Reports started once the receiver stands. Leaving does not wait for
    anything: what was not settled is redelivered by the broker (supervision, S50).
    """
    with trio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        first = await anext(aiter(signals))
        on_first(signal.Signals(first).name)
        second = await anext(aiter(signals))
        leave(HARD_EXIT_BASE + second)
