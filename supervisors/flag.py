"""An event for things of which there are many and for which hardly anybody waits."""

from __future__ import annotations

import trio


class Flag:
    """As ``trio.Event``, at a fifth of its size until somebody waits, and at half of it then."""

    __slots__ = ("_raised", "_waiting")

    def __init__(self) -> None:
        self._raised = False
        self._waiting: tuple[trio.lowlevel.Task, ...] = ()

    def is_set(self) -> bool:
        """True once set."""
        return self._raised

    def set(self) -> None:
        """Set it, for good, and wake every waiter, in the order of their coming."""
        self._raised = True
        waiting, self._waiting = self._waiting, ()
        for task in waiting:
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Return once set; at least one checkpoint. Cancelling it leaves nothing behind."""
        if self._raised:
            await trio.lowlevel.checkpoint()
            return
        task = trio.lowlevel.current_task()
        self._waiting = (*self._waiting, task)
        await trio.lowlevel.wait_task_rescheduled(_Leaving(self, task))

    def leave(self, leaving: trio.lowlevel.Task) -> None:
        """Wake this waiter no more."""
        self._waiting = tuple(task for task in self._waiting if task is not leaving)


class _Leaving:
    """What Trio calls when a wait is cancelled; a partial of a method takes three times as much."""

    __slots__ = ("_flag", "_task")

    def __init__(self, flag: Flag, task: trio.lowlevel.Task) -> None:
        self._flag = flag
        self._task = task

    def __call__(self, _: object) -> trio.lowlevel.Abort:
        self._flag.leave(self._task)
        return trio.lowlevel.Abort.SUCCEEDED
