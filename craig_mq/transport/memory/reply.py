"""One answer that one task waits for."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Reply(Generic[T]):
    """Set once with a value or an error; later answers are dropped, as a late frame would be."""

    __slots__ = ("_error", "_task", "_value", "done")

    def __init__(self) -> None:
        """Start unanswered."""
        self.done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._task: trio.lowlevel.Task | None = None

    def set(self, value: T) -> None:
        """Answer with a value."""
        if not self.done:
            self.done = True
            self._value = value
            self._wake()

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        if not self.done:
            self.done = True
            self._error = error
            self._wake()

    async def wait(self) -> T:
        """Return the value or raise the error. Cancelled: the answer is dropped when it comes."""
        if self.done:
            await trio.lowlevel.checkpoint()
        else:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abandoned)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set together with done

    def _wake(self) -> None:
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    def _abandoned(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
