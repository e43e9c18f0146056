"""The synchronous half of a channel: one method out, its answer in, under a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pamqp import base

from craig_mq.core.close import CloseReason
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.errors import ClosedError, OperationTimedOut
from craig_mq.transport.native import requests
from craig_mq.transport.native.bounds import RequestBounds
from craig_mq.transport.native.protocol import AmqpProtocol
from craig_mq.transport.native.replies import Answer, ReplyQueue, Request
from craig_mq.transport.native.writer import CoalescingWriter


class Link(Protocol):
    """What a channel needs of its connection."""

    protocol: AmqpProtocol
    writer: CoalescingWriter
    bounds: RequestBounds

    @property
    def closed(self) -> CloseReason | None:
        """Why the connection ended, or None."""
        ...

    def abort(self) -> None:
        """Reset the connection."""
        ...


def drop_answer(_: Answer) -> None:
    """Ignore the answer of an abandoned request that left nothing behind."""


class ChannelCalls:
    """Requests and answers of one channel, and the calls that are nothing but a request."""

    def __init__(self, link: Link, number: int) -> None:
        """Attach to a channel number whose channel.open is already on its way."""
        self._link = link
        self.number = number
        self._protocol = link.protocol
        self._writer = link.writer
        self._replies = ReplyQueue()
        self._closed: CloseReason | None = None

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(self._closed)

    def _ask(self, method: base.Frame, *expected: type[Answer]) -> Request:
        """Send a request and register it, in one step."""
        self._check_open()
        request = Request(*expected)
        self._send(method)
        self._replies.expect(request)
        return request

    def _send(self, method: base.Frame) -> None:
        """Accept a method for sending, behind everything accepted before."""
        self._protocol.send(self.number, method)

    async def _await(self, request: Request, late: Callable[[Answer], None] = drop_answer) -> Answer:
        """Wait for the answer. Raises ClosedError or OperationTimedOut; abandoned, ``late`` gets it."""
        answer: Answer | None = None
        try:
            with self._link.bounds.bound():
                answer = await request.waiter.wait()
        finally:
            if answer is None:
                request.abandon(late)
        if answer is None:
            raise OperationTimedOut(f"no answer from the broker within {self._link.bounds.seconds:g} s")
        return answer

    async def _call(self, call: requests.Call) -> base.Frame:
        answer = await self._await(self._ask(call.method, call.answer))
        if not isinstance(answer, base.Frame):
            raise TypeError(f"a message answered {call.method.name}")
        return answer

    async def declare_exchange(self, exchange: ExchangeSpec, *, passive: bool = False) -> None:
        """See the protocol."""
        await self._call(requests.declare_exchange(exchange, passive=passive))

    async def declare_queue(self, queue: QueueSpec, *, passive: bool = False) -> QueueState:
        """See the protocol. Cancelled: the answer is dropped when it comes, the channel stays usable."""
        answer = await self._call(requests.declare_queue(queue, passive=passive))
        return QueueState(
            str(answer["queue"]), _count(answer, "message_count"), _count(answer, "consumer_count")
        )

    async def delete_queue(self, queue: str) -> int:
        """See the protocol."""
        return _count(await self._call(requests.delete_queue(queue)), "message_count")

    async def purge_queue(self, queue: str) -> int:
        """See the protocol."""
        return _count(await self._call(requests.purge_queue(queue)), "message_count")

    async def bind_queue(self, binding: BindingSpec) -> None:
        """See the protocol."""
        await self._call(requests.bind_queue(binding))

    async def unbind_queue(self, binding: BindingSpec) -> None:
        """See the protocol."""
        await self._call(requests.unbind_queue(binding))


def _count(answer: base.Frame, name: str) -> int:
    value = answer[name]
    return value if isinstance(value, int) else 0
