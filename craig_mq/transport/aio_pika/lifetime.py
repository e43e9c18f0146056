"""How long something lives, why it ended, and which calls fail with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import trio

from craig_mq.core.close import CloseReason
from craig_mq.transport.aio_pika.bridge import Detached
from craig_mq.transport.errors import ClosedError, OperationTimedOut

T = TypeVar("T")


class Lifetime:
    """The life of a connection, channel or consumer: it ends once, and then for everybody at once."""

    def __init__(self, parent: Lifetime | None = None) -> None:
        self._parent = parent
        self._reason: CloseReason | None = None
        self._ended = trio.Event()
        self._calls: set[Detached[Any]] = set()
        self._children: set[Lifetime] = set()
        self._on_end: Callable[[], None] | None = None

    @property
    def reason(self) -> CloseReason | None:
        """Why it ended, or None."""
        return self._reason

    async def wait(self) -> CloseReason:
        """Return why it ended, once it has."""
        await trio.lowlevel.checkpoint()
        while self._reason is None:
            await self._ended.wait()
        return self._reason

    def on_end(self, call: Callable[[], None]) -> None:
        """Call ``call`` when it ends, or now if it has."""
        self._on_end = call
        if self._reason is not None:
            call()

    def begin_child(self) -> Lifetime:
        """Begin a life that ends with this one, for the same reason, unless it ended before."""
        child = Lifetime(self)
        if self._reason is None:
            self._children.add(child)
        else:
            child.end(self._reason)
        return child

    def end(self, reason: CloseReason) -> CloseReason:
        """End it, and every child; every pending call raises ClosedError.

        Only the first end counts; its reason is returned.
        """
        if self._reason is not None:
            return self._reason
        self._reason = reason
        if self._parent is not None:
            self._parent._children.discard(self)  # noqa: SLF001 - its own kind
        for child in tuple(self._children):
            child.end(reason)
        for call in self._calls:
            call.fail(ClosedError(reason))
        self._calls.clear()
        self._ended.set()
        if self._on_end is not None:
            self._on_end()
        return reason

    def raise_if_ended(self) -> None:
        """Raise ClosedError with the reason, if it has ended."""
        if self._reason is not None:
            raise ClosedError(self._reason)

    async def wait_for(self, call: Detached[T], *, bound_s: float | None, what: str) -> T:
        """Wait for a call that fails when this ends; None waits without a bound.

        Raises ClosedError, OperationTimedOut, or what the call raised.
        """
        self._calls.add(call)
        try:
            if bound_s is None:
                return await call.wait()
            with trio.move_on_after(bound_s):
                return await call.wait()
        finally:
            self._calls.discard(call)
        raise OperationTimedOut(f"{what}: no answer within {bound_s:g} s")
