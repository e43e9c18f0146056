"""Where a session's workers take deliveries from: retries that are due first, then the consumer.

A worker waits for a delivery inside its own long-lived cancel scope, so the hot path opens none; that
scope is also how the intake wakes a waiting worker when it pauses, stops, or has a retry for it.
"""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from craig_mq.core.delivery import Delivery
from craig_mq.transport.broker import Consumer
from supervisors.flag import Flag

Resumed = TypeVar("Resumed")


class Intake(Generic[Resumed]):
    """One session's consumer, which may be away for a while, and its retries that are due.

    ``reinforce``, while there is one, is called when work was taken or is due, so that another worker can be
    started where none waits: an idle session needs one, not ``concurrency`` of them.
    """

    __slots__ = ("_changed", "_consumer", "_due", "_idle", "reinforce", "stopped")

    def __init__(self) -> None:
        self._consumer: Consumer | None = None
        self._due: list[Resumed] = []
        self._idle: set[trio.CancelScope] = set()
        self._changed = Flag()
        self.stopped = False
        self.reinforce: Callable[[], None] | None = None

    @property
    def somebody_waits(self) -> bool:
        """Whether a worker waits for something to do."""
        return bool(self._idle)

    @property
    def consuming(self) -> bool:
        """Whether a consumer is attached."""
        return self._consumer is not None

    async def opened(self) -> bool:
        """Wait until there may be something to take. False once the intake has stopped for good."""
        while not self.stopped:
            if self._consumer is not None or self._due:
                return True
            await self._changed.wait()
        return False

    def attach(self, consumer: Consumer) -> None:
        """Take from this consumer from now on."""
        self._consumer = consumer
        self._change()

    def resume(self, item: Resumed) -> None:
        """Hand a retry that is due to the next free worker."""
        self._due.append(item)
        self.wake_one("a retry is due")

    def wake_one(self, reason: str) -> None:
        """Let one waiting worker, if there is one, look again at what there is to take."""
        self._change()
        if self._idle:
            self._idle.pop().cancel(reason=reason)
        elif self.reinforce is not None:
            self.reinforce()

    def due_nowait(self) -> Resumed | None:
        """Take a retry that is due, if there is one."""
        return self._due.pop(0) if self._due else None

    def take_nowait(self) -> Delivery | None:
        """Take a buffered delivery, or None. Raises ClosedError as a consumer's ``receive`` does."""
        return None if self._consumer is None or self.stopped else self._consumer.receive_nowait()

    async def take(self, scope: trio.CancelScope) -> Delivery | None:
        """Wait for a delivery inside the worker's ``scope``; None where it must ask ``opened`` again.

        Raises ClosedError. Cancelled, also through ``scope``: no delivery was taken.
        """
        consumer = self._consumer
        if consumer is None or self.stopped:
            return None
        self._idle.add(scope)
        try:
            return await consumer.receive()
        finally:
            self._idle.discard(scope)

    async def pause(self) -> list[Delivery]:
        """Cancel the consumer; return what it had buffered, to be requeued after the cancel.

        Raises TransportError. The order, cancel before nack, is what keeps the head from leaking to
        the dying consumer (decisions, 12).
        """
        consumer, self._consumer = self._consumer, None
        self._wake_all("the intake pauses")
        return [] if consumer is None else await consumer.cancel()

    def stop(self) -> None:
        """Let no worker take anything more; a retry that is due stays unsettled, for the session to count."""
        self.stopped = True
        self._due.clear()
        self._wake_all("the intake has stopped")

    def _wake_all(self, reason: str) -> None:
        while self._idle:
            self._idle.pop().cancel(reason=reason)
        self._change()

    def _change(self) -> None:
        changed, self._changed = self._changed, Flag()
        changed.set()
