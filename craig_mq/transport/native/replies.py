"""Matching answers to requests on one channel.

The protocol answers a channel's requests in order, so the queue is positional; a request that was
cancelled keeps its place, and its answer is handed to whoever tidies up after it (CMID-01).
"""

from __future__ import annotations

from collections.abc import Callable

from pamqp import base

from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Delivery
from craig_mq.transport.errors import ClosedError
from craig_mq.transport.native.waiting import Waiter
from craig_mq.transport.native.wire import ProtocolViolation

Answer = base.Frame | Delivery
"""A method, or the message that answered basic.get."""


class Request:
    """One request on its way. ``late`` is called instead of the waiter once it was abandoned."""

    __slots__ = ("_late", "expected", "waiter")

    def __init__(self, *expected: type[Answer]) -> None:
        """Expect one of these types."""
        self.expected = expected
        self.waiter: Waiter[Answer] = Waiter()
        self._late: Callable[[Answer], None] | None = None

    def abandon(self, late: Callable[[Answer], None]) -> None:
        """Nobody waits any more; ``late`` gets the answer, at once if it is there already."""
        answered = self.waiter.answered
        if answered is not None:
            late(answered)
        else:
            self._late = late

    def answer(self, answer: Answer) -> None:
        """Deliver the answer."""
        if self._late is not None:
            self._late(answer)
        else:
            self.waiter.answer(answer)


class ReplyQueue:
    """The requests of one channel, oldest first."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        """Nothing asked yet."""
        self._requests: list[Request] = []  # a few at most, and an empty deque takes 700 bytes

    def __len__(self) -> int:
        return len(self._requests)

    def expect(self, request: Request) -> None:
        """Register a request; call it together with sending, with no checkpoint between."""
        self._requests.append(request)

    def answer(self, answer: Answer) -> None:
        """Give the answer to the oldest request. Raises ProtocolViolation if it cannot be its answer."""
        if not self._requests:
            raise ProtocolViolation(f"{type(answer).__name__} answers no request")
        request = self._requests[0]
        if not isinstance(answer, request.expected):
            raise ProtocolViolation(f"{type(answer).__name__} does not answer the oldest request")
        del self._requests[0]
        request.answer(answer)

    def fail(self, reason: CloseReason) -> None:
        """Fail every request: the channel has ended."""
        requests, self._requests = self._requests, []
        for request in requests:
            request.waiter.fail(ClosedError(reason))
