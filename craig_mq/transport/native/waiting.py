"""Parking a task until somebody answers, with no allocation beyond the waiter itself."""

from __future__ import annotations

from typing import Generic, TypeVar

import outcome
import trio

T = TypeVar("T")


class Waiter(Generic[T]):
    """One answer for at most one task. Answered before or after the wait began: both work."""

    __slots__ = ("_answer", "_task")

    def __init__(self) -> None:
        """No answer yet."""
        self._answer: outcome.Outcome[T] | None = None
        self._task: trio.lowlevel.Task | None = None

    @property
    def answered(self) -> T | None:
        """The value it was answered with, if it was."""
        return self._answer.value if isinstance(self._answer, outcome.Value) else None

    def _set(self, answer: outcome.Outcome[T]) -> None:
        if self._answer is None:
            self._answer = answer
            if self._task is not None:
                task, self._task = self._task, None
                trio.lowlevel.reschedule(task)

    def answer(self, value: T) -> None:
        """Answer with a value; a second answer is ignored."""
        self._set(outcome.Value(value))

    def fail(self, error: Exception) -> None:
        """Answer with an error; a second answer is ignored."""
        self._set(outcome.Error(error))

    async def wait(self) -> T:
        """Return the answer. Cancelled: the answer, when it comes, is dropped."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._answer is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abandon)
        if self._answer is None:
            raise trio.TrioInternalError("a waiter woke without an answer")
        return self._answer.unwrap()

    def _abandon(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
