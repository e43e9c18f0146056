"""The client's half of a channel."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from craig_mq.core.close import ChannelClose, CloseReason, LocalClose
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.errors import ClosedError, OperationTimedOut
from craig_mq.transport.memory.consumer import MemoryConsumer
from craig_mq.transport.memory.refusals import Refused
from craig_mq.transport.memory.reply import Reply
from craig_mq.transport.memory.served_channel import ServedChannel

if TYPE_CHECKING:
    from craig_mq.transport.memory.connection import MemoryConnection

T = TypeVar("T")

_MAX_PREFETCH = 65_535
_consumer_numbers = itertools.count(1)


class MemoryChannel:
    """Implements ``transport.broker.Channel``."""

    def __init__(self, connection: MemoryConnection, *, confirms: bool) -> None:
        """Not yet open: ``connection`` gives it its served half."""
        self._connection = connection
        self._confirms = confirms
        self._closed: CloseReason | None = None
        self._ended = trio.Event()
        self._consumers: dict[str, MemoryConsumer] = {}
        self._requests: dict[Callable[[ClosedError], None], None] = {}
        self._confirmations: dict[Reply[Confirmation], None] = {}
        self.served: ServedChannel

    @property
    def closed(self) -> CloseReason | None:
        """Why the channel ended, or None."""
        return self._closed

    async def wait_closed(self) -> CloseReason:
        """Return why the channel ended, once it has."""
        await self._ended.wait()
        assert self._closed is not None  # noqa: S101 - set before the event
        return self._closed

    async def declare_exchange(self, exchange: ExchangeSpec, *, passive: bool = False) -> None:
        """Declare an exchange, or look."""
        await self._request(lambda served: served.node.declare_exchange(exchange, passive=passive))

    async def declare_queue(self, queue: QueueSpec, *, passive: bool = False) -> QueueState:
        """Declare a queue, or look."""
        return await self._request(
            lambda served: served.node.declare_queue(queue, served.connection, passive=passive)
        )

    async def delete_queue(self, queue: str) -> int:
        """Delete a queue."""
        return await self._request(lambda served: served.node.delete_queue(queue, served.connection))

    async def purge_queue(self, queue: str) -> int:
        """Remove every ready message."""
        return await self._request(lambda served: served.purge(queue))

    async def bind_queue(self, binding: BindingSpec) -> None:
        """Bind a queue to an exchange."""
        await self._request(lambda served: served.node.bind(binding, served.connection))

    async def unbind_queue(self, binding: BindingSpec) -> None:
        """Remove a binding."""
        await self._request(lambda served: served.node.unbind(binding, served.connection))

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool = False) -> MemoryConsumer:
        """Start a consumer. Cancelled: the consumer is cancelled and what it was given requeued."""
        if not 1 <= prefetch <= _MAX_PREFETCH:
            raise ValueError(f"prefetch must be 1 .. {_MAX_PREFETCH}, not {prefetch}")
        consumer = MemoryConsumer(self, f"ctag-{next(_consumer_numbers)}")
        self._consumers[consumer.tag] = consumer
        try:
            await self._request(
                lambda served: served.consume(
                    queue, consumer.tag, consumer, prefetch=prefetch, exclusive=exclusive
                )
            )
        except BaseException:
            self._abandon(consumer)
            raise
        return consumer

    async def get(self, queue: str) -> Delivery | None:
        """Take one message. Cancelled: what was taken is requeued."""
        taken: list[Delivery] = []

        def take(served: ServedChannel) -> Delivery | None:
            delivery = served.get(queue)
            if delivery is not None:
                taken.append(delivery)
            return delivery

        try:
            return await self._request(take)
        except BaseException:
            if taken and self._closed is None:
                self.nack_nowait(taken[0].delivery_tag, requeue=True)
            raise

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish mandatory and wait for the confirm; see the protocol for cancellation."""
        if not self._confirms:
            raise ValueError("publish needs a channel opened with confirms=True")
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return Unconfirmed(describe(self._closed), sent=False)
        reply: Reply[Confirmation] = Reply()
        self._confirmations[reply] = None
        self.served.connection.submit(lambda: self._publish(publication, reply))
        try:
            outcome = await reply.wait()
        finally:
            self._confirmations.pop(reply, None)
        # A channel that ended before its confirm was read never saw it (rabbitmq-facts, 8).
        ended = self.closed
        return outcome if ended is None else Unconfirmed(describe(ended))

    def ack_nowait(self, delivery_tag: int, *, multiple: bool = False) -> None:
        """Accept an ack for writing."""
        self._settle(lambda served: served.ack(delivery_tag, multiple=multiple))

    def nack_nowait(self, delivery_tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Accept a nack for writing."""
        self._settle(lambda served: served.nack(delivery_tag, requeue=requeue, multiple=multiple))

    async def flush(self) -> None:
        """Return once everything accepted was handed over, which in memory it is."""
        await trio.lowlevel.checkpoint()
        self._require_open()

    async def aclose(self) -> None:
        """Close the channel; its unacked deliveries are requeued."""
        if self._closed is None:
            try:
                await self._request(lambda served: served.end(LocalClose(aborted=False)))
            except (ClosedError, OperationTimedOut):
                self._connection.abort_unless_closed()
            finally:
                self.ended(LocalClose(aborted=False))
        else:
            await trio.lowlevel.checkpoint()

    async def cancel_consumer(self, tag: str) -> None:
        """Carry out a basic.cancel for the consumer of this tag."""
        await self._request(lambda served: served.cancel(tag))
        self._consumers.pop(tag, None)

    def ended(self, reason: CloseReason) -> None:
        """Fail everything pending; called by the broker, by the connection, or on its own close."""
        if self._closed is not None:
            return
        self._closed = reason
        self._ended.set()
        for consumer in self._consumers.values():
            consumer.ended(reason)
        for fail in tuple(self._requests):
            fail(ClosedError(reason))
        for reply in tuple(self._confirmations):
            reply.set(Unconfirmed(describe(reason)))

    async def _request(self, operation: Callable[[ServedChannel], T]) -> T:
        """Ask the broker and wait, bounded by ``rpc_timeout``, for its answer."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._require_open()
        reply: Reply[T] = Reply()
        self._requests[reply.fail] = None
        self.served.connection.submit(lambda: self._carry_out(operation, reply))
        try:
            with trio.fail_after(self._connection.options.rpc_timeout):
                return await reply.wait()
        except trio.TooSlowError:
            raise OperationTimedOut("no answer from the broker in time") from None
        finally:
            self._requests.pop(reply.fail, None)

    def _carry_out(self, operation: Callable[[ServedChannel], T], reply: Reply[T]) -> None:
        if not self.served.open:
            return
        try:
            answer = operation(self.served)
        except Refused as refusal:
            self.served.end(refusal.reason)
        else:
            self.served.connection.tell(lambda: reply.set(answer))

    def _publish(self, publication: Publication, reply: Reply[Confirmation]) -> None:
        self._carry_out(lambda served: served.publish(publication), reply)

    def _settle(self, operation: Callable[[ServedChannel], None]) -> None:
        self._require_open()
        nobody: Reply[None] = Reply()
        self.served.connection.submit(lambda: self._carry_out(operation, nobody))

    def _abandon(self, consumer: MemoryConsumer) -> None:
        """Leave no consumer behind a cancelled consume (field failure CCAN-03)."""
        self._consumers.pop(consumer.tag, None)
        if self._closed is None:
            self._settle(lambda served: served.abandon(consumer.tag))

    def _require_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(self._closed)


def describe(reason: CloseReason) -> str:
    """Say a close reason in the broker's own words."""
    if isinstance(reason, LocalClose):
        return "aborted" if reason.aborted else "closed by this side"
    return reason.text if isinstance(reason, ChannelClose) else str(reason)
