"""One channel, as Trio sees it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import aiormq.abc
import pamqp.frame
import trio
from pamqp import commands

from craig_mq.core.close import CloseReason, ConsumerCancel, LocalClose
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Confirmation, Unconfirmed
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, QueueState
from craig_mq.transport.aio_pika.bridge import ORDINARY_ENDS, Detached, Work, on_closing
from craig_mq.transport.aio_pika.consumer import AioPikaConsumer
from craig_mq.transport.aio_pika.conversion import to_delivery, to_table
from craig_mq.transport.aio_pika.publisher import Publisher
from craig_mq.transport.aio_pika.wire import Watched
from craig_mq.transport.broker import Consumer
from craig_mq.transport.errors import ClosedError, OperationTimedOut
from craig_mq.transport.names import require_names

if TYPE_CHECKING:
    from craig_mq.transport.aio_pika.connection import AioPikaConnection

T = TypeVar("T")

_MAX_PREFETCH = 65_535


class AioPikaChannel:
    """Satisfies ``craig_mq.transport.broker.Channel``."""

    def __init__(
        self, connection: AioPikaConnection, amqp: aiormq.abc.AbstractChannel, number: int, *, confirms: bool
    ) -> None:
        self._connection = connection
        self._confirms = confirms
        self._amqp = amqp
        self._number = number
        self._consumers: dict[str, AioPikaConsumer] = {}
        self._consuming = asyncio.Lock()
        self._closing_here = False
        self.lifetime = connection.lifetime.begin_child()
        self._publisher = Publisher(amqp)
        on_closing(amqp, self._on_closing)
        amqp.on_consumer_cancel_callbacks.add(self._on_consumer_cancel)

    @property
    def closed(self) -> CloseReason | None:
        """Why the channel ended, or None while it lives."""
        return self.lifetime.reason

    async def wait_closed(self) -> CloseReason:
        """Return why the channel ended, once it has."""
        return await self.lifetime.wait()

    # -- topology -------------------------------------------------------------------------------

    async def declare_exchange(self, exchange: ExchangeSpec, *, passive: bool = False) -> None:
        """Declare an exchange, or look."""
        await self._call(
            self._amqp.exchange_declare(
                exchange.name,
                exchange_type=exchange.kind,
                durable=exchange.durable,
                passive=passive,
                arguments=to_table(exchange.arguments),
            ),
            f"declare exchange {exchange.name}",
        )

    async def declare_queue(self, queue: QueueSpec, *, passive: bool = False) -> QueueState:
        """Declare a queue, or look."""
        answer = await self._call(
            self._amqp.queue_declare(
                queue.name,
                durable=queue.durable,
                exclusive=queue.exclusive,
                auto_delete=queue.auto_delete,
                passive=passive,
                arguments=to_table(queue.arguments),
            ),
            f"declare queue {queue.name}",
        )
        return QueueState(answer.queue or queue.name, answer.message_count or 0, answer.consumer_count or 0)

    async def delete_queue(self, queue: str) -> int:
        """Delete a queue, returning how many ready messages died with it."""
        answer = await self._call(self._amqp.queue_delete(queue), f"delete queue {queue}")
        return answer.message_count or 0

    async def purge_queue(self, queue: str) -> int:
        """Remove all ready messages, returning how many."""
        answer = await self._call(self._amqp.queue_purge(queue), f"purge queue {queue}")
        return answer.message_count or 0

    async def bind_queue(self, binding: BindingSpec) -> None:
        """Bind a queue to an exchange."""
        work = self._amqp.queue_bind(binding.queue, binding.exchange, binding.routing_key)
        await self._call(work, f"bind queue {binding.queue}")

    async def unbind_queue(self, binding: BindingSpec) -> None:
        """Remove a binding; an absent one is no error."""
        work = self._amqp.queue_unbind(binding.queue, binding.exchange, binding.routing_key)
        await self._call(work, f"unbind queue {binding.queue}")

    # -- taking ---------------------------------------------------------------------------------

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool = False) -> Consumer:
        """Start a consumer; one nobody waits for any more is cancelled, its deliveries requeued."""
        if not 1 <= prefetch <= _MAX_PREFETCH:
            raise ValueError(f"prefetch must be from 1 to {_MAX_PREFETCH}, not {prefetch}")
        tag = f"craig-{uuid.uuid4().hex}"
        consumer = AioPikaConsumer(self, queue, tag)
        self._consumers[tag] = consumer
        return await self._call(
            self._consume(consumer, queue, prefetch, exclusive),
            f"consume {queue}",
            undo=self._undo_consume,
        )

    async def _consume(
        self, consumer: AioPikaConsumer, queue: str, prefetch: int, exclusive: bool
    ) -> AioPikaConsumer:
        async with self._consuming:  # a channel's prefetch applies to the consumer started next
            await self._amqp.basic_qos(prefetch_count=prefetch)
            await self._amqp.basic_consume(
                queue, consumer.on_message, exclusive=exclusive, consumer_tag=consumer.tag
            )
        return consumer

    async def _undo_consume(self, consumer: AioPikaConsumer) -> None:
        await self._amqp.basic_cancel(consumer.tag)
        for delivery in consumer.take_buffered():
            await self._amqp.basic_nack(delivery.delivery_tag, requeue=True)

    async def cancel_consumer(self, tag: str) -> None:
        """Send basic.cancel and wait for its answer."""
        await self._call(self._amqp.basic_cancel(tag), "cancel consumer")
        self._consumers.pop(tag, None)

    async def get(self, queue: str) -> Delivery | None:
        """Take one message; one that comes after the call was cancelled is requeued."""
        return await self._call(self._get(queue), f"get from {queue}", undo=self._undo_get)

    async def _get(self, queue: str) -> Delivery | None:
        message = await self._amqp.basic_get(queue)
        return None if isinstance(message.delivery, commands.Basic.GetEmpty) else to_delivery(message)

    async def _undo_get(self, delivery: Delivery | None) -> None:  # noqa: ASYNC910 - runs in asyncio
        if delivery is not None:
            await self._amqp.basic_nack(delivery.delivery_tag, requeue=True)

    # -- giving ---------------------------------------------------------------------------------

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish mandatory and wait for the confirm, without a bound."""
        if not self._confirms:
            raise ValueError("publish needs a channel opened with confirms=True")
        require_names(publication)
        await trio.lowlevel.checkpoint()
        ending = self._ending()
        if ending is not None:
            return Unconfirmed(str(ending), sent=False)
        call = self._connection.tasks.detach(self._publisher.publish(publication))
        try:
            return await self.lifetime.wait_for(call, bound_s=None, what="publish")
        except ClosedError as error:
            return Unconfirmed(str(error))
        except ORDINARY_ENDS as error:
            return Unconfirmed(str(self._end_for(error)))
        finally:
            call.cancel()  # nothing once it is done; otherwise it sends nothing it has not begun to send

    def publish_nowait(
        self,
        publication: Publication,  # noqa: ARG002 - the protocol's
        told: Callable[[Confirmation], None],  # noqa: ARG002 - the protocol's
    ) -> bool:
        """Refuse: behind the bridge there is no way to publish without a task of asyncio's."""
        return False

    def ack_nowait(self, delivery_tag: int, *, multiple: bool = False) -> bool:
        """Write an ack now; what the socket could not take waits for ``flush``, which alone knows."""
        self._settle(commands.Basic.Ack(delivery_tag, multiple))
        return False

    def nack_nowait(self, delivery_tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """Write a nack now; what the socket could not take waits for ``flush``."""
        self._settle(commands.Basic.Nack(delivery_tag, multiple, requeue))

    def _settle(self, method: commands.Basic.Ack | commands.Basic.Nack) -> None:
        reason = self._ending()
        if reason is not None:
            raise ClosedError(reason)
        self._connection.write(pamqp.frame.marshal(method, self._number))

    async def flush(self) -> None:
        """Return once everything accepted so far was handed to the operating system."""
        await trio.lowlevel.checkpoint()
        self.lifetime.raise_if_ended()
        if not self._connection.drained:
            await self._call(self._connection.drain(), "flush", bound_s=None)

    async def aclose(self) -> None:
        """Close gracefully within ``rpc_timeout``, else abort the connection."""
        await trio.lowlevel.checkpoint()
        if self.closed is not None:
            return
        self._closing_here = True
        try:
            await self._call(self._amqp.close(), "close channel")
        except ClosedError:
            pass  # it ended first: by this close, or by something worse that `closed` names
        except OperationTimedOut:
            self._connection.abort()
        self.lifetime.end(LocalClose(aborted=False))

    async def close_abandoned(self) -> None:
        """Close a channel whose opener stopped waiting; runs in the loop."""
        self._closing_here = True
        await self._amqp.close()

    # -- inside ---------------------------------------------------------------------------------

    async def _call(
        self,
        work: Work[T],
        what: str,
        *,
        undo: Callable[[T], Work[None]] | None = None,
        bound_s: float | None = -1.0,
    ) -> T:
        """Run one request, detached; fails with the channel. The default bound is ``rpc_timeout``."""
        if self.closed is not None:
            work.close()
            await trio.lowlevel.checkpoint()
            raise ClosedError(self.closed)
        call: Detached[T] = self._connection.tasks.detach(work)
        bound_s = self._connection.rpc_timeout if bound_s == -1.0 else bound_s
        try:
            return await self.lifetime.wait_for(call, bound_s=bound_s, what=what)
        except ORDINARY_ENDS as error:
            raise ClosedError(self._end_for(error)) from None
        finally:
            call.abandon(undo)

    def _ending(self) -> CloseReason | None:
        """Return the end that has come, or that the broker has announced."""
        return self.closed or self._connection.channel_close(self._number) or self._connection.ending

    def _end_for(self, error: BaseException | None) -> CloseReason:
        """Return why the channel ended, ending it if a failing call is the first to show it."""
        reason = self._ending()
        if reason is None:
            reason = LocalClose(aborted=False) if self._closing_here else self._connection.end_for(error)
        return self.lifetime.end(reason)

    def on_close_ok(self) -> None:
        """See the answer to a close; one nobody here asked for was aiormq's, whose reader crashed."""
        if not self._closing_here:
            self._end_for(RuntimeError("aiormq gave up the channel"))

    def on_return_frame(self, frame: Watched) -> None:
        """See a ``basic.return`` and its header before aiormq does."""
        self._publisher.on_return_frame(frame)

    def _on_consumer_cancel(self, frame: commands.Basic.Cancel) -> None:
        consumer = self._consumers.pop(frame.consumer_tag or "", None)
        if consumer is not None:
            consumer.lifetime.end(ConsumerCancel(consumer.queue))

    def _on_closing(self, error: BaseException | None) -> None:
        self._end_for(error)
        self._connection.forget_channel(self._number)
