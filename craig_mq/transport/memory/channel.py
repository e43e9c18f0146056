"""The client's half of a channel."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Confirmation
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.errors import ClosedError, OperationTimedOut, TransportError
from craig_mq.transport.memory.consumer import MemoryConsumer
from craig_mq.transport.memory.fault_actions import Operation
from craig_mq.transport.memory.publisher import Publisher
from craig_mq.transport.memory.refusals import Refused
from craig_mq.transport.memory.reply import Reply
from craig_mq.transport.memory.requests import Requests, carry_out
from craig_mq.transport.memory.served_channel import ServedChannel

if TYPE_CHECKING:
    from craig_mq.transport.memory.connection import MemoryConnection

T = TypeVar("T")

_MAX_PREFETCH = 65_535


class MemoryChannel:
    """Implements ``transport.broker.Channel``."""

    def __init__(self, connection: MemoryConnection, *, confirms: bool) -> None:
        """Not yet open: ``connection`` gives it its served half."""
        self._connection = connection
        self._closed: CloseReason | None = None
        self._ended = trio.Event()
        self._consumers: dict[str, MemoryConsumer] = {}
        self._consumer_numbers = itertools.count(1)
        self._requests = Requests(connection, self)
        self._publisher = Publisher(connection, self) if confirms else None
        self._served: ServedChannel | None = None

    @property
    def served(self) -> ServedChannel:
        """The broker's half; there is one once open-ok has come."""
        assert self._served is not None  # noqa: S101 - nothing is asked of a channel before
        return self._served

    def opened(self, served: ServedChannel) -> None:
        """Learn of the broker's half."""
        self._served = served

    def close_at_broker(self, reason: CloseReason) -> None:
        """Let the broker close its half, if it ever opened one."""
        if self._served is not None:
            self._served.end(reason)

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
        await self.request(
            Operation.DECLARE,
            exchange.name,
            lambda served: served.topology.declare_exchange(exchange, passive=passive),
        )

    async def declare_queue(self, queue: QueueSpec, *, passive: bool = False) -> QueueState:
        """Declare a queue, or look."""
        return await self.request(
            Operation.DECLARE,
            queue.name,
            lambda served: served.topology.declare_queue(queue, passive=passive),
        )

    async def delete_queue(self, queue: str) -> int:
        """Delete a queue."""
        return await self.request(
            Operation.DECLARE, queue, lambda served: served.topology.delete_queue(queue)
        )

    async def purge_queue(self, queue: str) -> int:
        """Remove every ready message."""
        return await self.request(Operation.DECLARE, queue, lambda served: served.topology.purge_queue(queue))

    async def bind_queue(self, binding: BindingSpec) -> None:
        """Bind a queue to an exchange."""
        await self.request(Operation.BIND, binding.queue, lambda served: served.topology.bind(binding))

    async def unbind_queue(self, binding: BindingSpec) -> None:
        """Remove a binding."""
        await self.request(Operation.BIND, binding.queue, lambda served: served.topology.unbind(binding))

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool = False) -> MemoryConsumer:
        """Start a consumer. Cancelled: the consumer is cancelled and what it was given requeued."""
        if not 1 <= prefetch <= _MAX_PREFETCH:
            raise ValueError(f"prefetch must be 1 .. {_MAX_PREFETCH}, not {prefetch}")
        consumer = MemoryConsumer(self, f"ctag-{next(self._consumer_numbers)}", queue)
        self._consumers[consumer.tag] = consumer

        def start(served: ServedChannel) -> None:
            served.consume(queue, consumer.tag, consumer, prefetch=prefetch, exclusive=exclusive)

        try:
            await self.request(Operation.CONSUME, queue, start)
        except BaseException:
            # No consumer may outlive a consume that did not return (field failure CCAN-03).
            del self._consumers[consumer.tag]
            self._tell(lambda served: served.abandon(consumer.tag))
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

        def give_back(served: ServedChannel) -> None:
            for delivery in taken:
                served.ledger.nack(delivery.delivery_tag, back=True, multiple=False)

        try:
            return await self.request(Operation.GET, queue, take)
        except BaseException:
            self._tell(give_back)
            raise

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish mandatory and wait for the confirm; see the protocol for cancellation."""
        if self._publisher is None:
            raise ValueError("publish needs a channel opened with confirms=True")
        return await self._publisher.publish(publication)

    def publish_nowait(self, publication: Publication, told: Callable[[Confirmation], None]) -> bool:
        """Publish mandatory and go on; see the protocol."""
        if self._publisher is None:
            raise ValueError("publish needs a channel opened with confirms=True")
        return self._publisher.publish_nowait(publication, told)

    def ack_nowait(self, delivery_tag: int, *, multiple: bool = False) -> bool:
        """Accept an ack for writing."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        connection = self._connection
        if connection.undisturbed:
            try:
                self.served.ledger.ack(delivery_tag, multiple=multiple)
            except Refused as refusal:
                self.served.refuse(refusal)
        else:
            self._settle(
                Operation.ACK, delivery_tag, lambda served: served.ledger.ack(delivery_tag, multiple=multiple)
            )
        return False

    def nack_nowait(self, delivery_tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Accept a nack for writing."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        self._settle(
            Operation.NACK,
            delivery_tag,
            lambda served: served.ledger.nack(delivery_tag, back=requeue, multiple=multiple),
        )

    async def flush(self) -> None:
        """Return once everything accepted was handed over."""
        await self._connection.flush(self)

    async def aclose(self) -> None:  # noqa: ASYNC910 - a refused request has been a checkpoint
        """Close the channel; its unacked deliveries are requeued."""
        if self._closed is not None:
            await trio.lowlevel.checkpoint()
            return
        reason = LocalClose(aborted=False)
        try:
            await self.request(
                Operation.CLOSE, self._connection.options.name, lambda served: served.end(reason)
            )
        except OperationTimedOut:
            self._connection.abort()
        except TransportError:
            await trio.lowlevel.checkpoint()  # it ended by itself meanwhile, which is what was wanted
        finally:
            self._tell(lambda served: served.end(reason))
            self.ended(reason)

    def ended(self, reason: CloseReason) -> None:
        """Fail everything pending; called by the broker, by the connection, or on its own close."""
        if self._closed is not None:
            return
        self._closed = reason
        self._ended.set()
        self._connection.forget(self)
        for consumer in self._consumers.values():
            consumer.ended(reason)
        self._requests.ended(reason)
        if self._publisher is not None:
            self._publisher.ended(reason)

    def forget(self, consumer: MemoryConsumer) -> None:
        """Drop a consumer that was cancelled."""
        self._consumers.pop(consumer.tag, None)

    async def request(self, operation: Operation, name: str, work: Callable[[ServedChannel], T]) -> T:
        """Ask the broker and wait, bounded by ``rpc_timeout``, for its answer."""
        return await self._requests.ask(operation, name, work)

    def _settle(self, operation: Operation, delivery_tag: int, work: Callable[[ServedChannel], None]) -> None:
        failures: list[TransportError] = []
        command = partial(carry_out, self.served, work, Reply())
        name = self.served.ledger.queue_of(delivery_tag)
        self._connection.issue(operation, name, self, command, failures.append)
        if failures:
            raise failures[0]

    def _tell(self, work: Callable[[ServedChannel], None]) -> None:
        """Clean up at the broker, behind whatever is still on its way there."""
        if self._closed is None:
            self.served.connection.inward.push(partial(carry_out, self.served, work, Reply()))
