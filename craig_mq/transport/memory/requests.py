"""Requests that the client's half of a channel waits for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from craig_mq.core.close import CloseReason
from craig_mq.transport.errors import ClosedError, OperationTimedOut, TransportError
from craig_mq.transport.memory.fault_actions import Operation
from craig_mq.transport.memory.refusals import Refused
from craig_mq.transport.memory.reply import Reply
from craig_mq.transport.memory.served_channel import ServedChannel

if TYPE_CHECKING:
    from craig_mq.transport.memory.channel import MemoryChannel
    from craig_mq.transport.memory.connection import MemoryConnection

T = TypeVar("T")


class Requests:
    """The requests of one channel that have no answer yet."""

    def __init__(self, connection: MemoryConnection, channel: MemoryChannel) -> None:
        """Start with none."""
        self._connection = connection
        self._channel = channel
        self._pending: dict[Callable[[TransportError], None], None] = {}

    async def ask(self, operation: Operation, name: str, work: Callable[[ServedChannel], T]) -> T:
        """Let the broker do something and return its answer, within ``rpc_timeout``.

        Raises TransportError. Cancelled: the broker may do it all the same; its answer is dropped.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        ended = self._channel.closed
        if ended is not None:
            await trio.lowlevel.cancel_shielded_checkpoint()
            raise ClosedError(ended)
        reply: Reply[T] = Reply()
        self._pending[reply.fail] = None
        command = partial(carry_out, self._channel.served, work, reply)
        try:
            self._connection.issue(operation, name, self._channel, command, reply.fail)
            if reply.done:
                return await reply.wait()
            with trio.fail_after(self._connection.options.rpc_timeout):
                return await reply.wait()
        except trio.TooSlowError:
            raise OperationTimedOut(f"no answer to {operation.value} in time") from None
        finally:
            self._pending.pop(reply.fail, None)

    def ended(self, reason: CloseReason) -> None:
        """Fail everything that waits."""
        for fail in tuple(self._pending):
            fail(ClosedError(reason))


def carry_out(served: ServedChannel, work: Callable[[ServedChannel], T], reply: Reply[T]) -> None:
    """Let the broker do something and answer, unless the channel is already gone there."""
    if not served.open:
        return
    try:
        answer = work(served)
    except Refused as refusal:
        served.refuse(refusal)
    else:
        served.connection.tell(lambda: reply.set(answer))
