"""A channel: consumers, publishes, acks, and the one way in which all of it ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import trio
from pamqp import base, commands

from craig_mq.core.close import CloseReason, ConsumerCancel, LocalClose
from craig_mq.core.delivery import Delivery
from craig_mq.transport.errors import ClosedError, TransportError
from craig_mq.transport.native import requests
from craig_mq.transport.native.acks import AckCoalescer
from craig_mq.transport.native.calls import Link
from craig_mq.transport.native.consumer import NativeConsumer
from craig_mq.transport.native.events import Delivered
from craig_mq.transport.native.publishing import PublishingChannel
from craig_mq.transport.native.replies import Answer
from craig_mq.transport.native.wire import ProtocolViolation

_tags = count(1)
_PREFETCH_MAX: Final = 65_535
_CERTAIN_ACKS: Final = 32
"""So many acks a quorum queue takes in before it answers basic.qos (rabbitmq-facts, 13)."""


class NativeChannel(PublishingChannel):
    """See ``transport.broker.Channel``."""

    def __init__(self, link: Link, number: int, forget: Callable[[int], None]) -> None:
        """Attach to an open-requested channel; ``forget`` is called when its number may be reused."""
        super().__init__(link, number)
        self._forget = forget
        self._acks = AckCoalescer(number)
        self._acks_certain = 0
        self._consumers: dict[bytes, NativeConsumer] = {}
        self._last_queue: str | None = None
        self._ended = trio.Event()
        self._close_answered = trio.Event()

    # -- what the connection reports ---------------------------------------------------------

    def on_delivered(self, event: Delivered) -> None:
        """Hand a delivery to its consumer."""
        self._acks.outstanding[event.delivery.delivery_tag] = None
        consumer = self._consumers.get(event.consumer_tag)
        if consumer is None:
            raise ProtocolViolation("a delivery for a consumer that does not exist")
        consumer.offer(event.delivery)

    def on_answer(self, answer: Answer) -> None:
        """Give an answer to the oldest request, or notice that our close was answered."""
        if isinstance(answer, commands.Channel.CloseOk):
            self.release()
            self._forget(self.number)
            return
        if isinstance(answer, Delivery):
            self._acks.outstanding[answer.delivery_tag] = None
        self._replies.answer(answer)

    def on_consumer_cancelled(self, tag: bytes) -> None:
        """The broker cancelled a consumer."""
        consumer = self._consumers.pop(tag, None)
        if consumer is not None:
            consumer.end(ConsumerCancel(consumer.queue))

    def end(self, reason: CloseReason) -> None:
        """End everything that lives on this channel, at once and in one place."""
        if self._closed is not None:
            return
        self._closed = reason
        self._acks.drop()
        self._replies.fail(reason)
        for consumer in self._consumers.values():
            consumer.end(reason)
        self._consumers.clear()
        if self._confirms is not None:
            self._confirms.fail(str(reason))
        self._writer.fail(self.number, reason)
        self._ended.set()

    def release(self) -> None:
        """Wake whoever waits for the answer to our close: it came, or never will."""
        self._close_answered.set()

    # -- the seam ----------------------------------------------------------------------------

    @property
    def closed(self) -> CloseReason | None:
        """See the protocol."""
        return self._closed

    async def wait_closed(self) -> CloseReason:
        """See the protocol."""
        await self._ended.wait()
        if self._closed is None:
            raise TransportError("a channel ended without a reason")
        return self._closed

    async def opened(self, *, confirms: bool) -> None:
        """Wait for open-ok, then switch to confirm mode if asked. Raises ClosedError, OperationTimedOut."""
        await self._await(self._ask(commands.Channel.Open(), commands.Channel.OpenOk))
        if confirms:
            await self._select_confirms()

    async def consume(self, queue: str, *, prefetch: int, exclusive: bool = False) -> NativeConsumer:
        """See the protocol. Cancelled: basic.cancel follows consume-ok, and what came is requeued."""
        if not 1 <= prefetch <= _PREFETCH_MAX:
            raise ValueError(f"prefetch must be 1 .. {_PREFETCH_MAX}, not {prefetch}")
        tag = f"craig-{self.number}-{next(_tags)}"
        limit, start = requests.limit_prefetch(prefetch), requests.consume(queue, tag, exclusive=exclusive)
        limited = self._ask(limit.method, limit.answer)
        started = self._ask(start.method, start.answer)
        consumer = NativeConsumer(tag, queue, self._cancel_consumer)
        self._consumers[tag.encode()] = consumer
        self._last_queue = queue
        try:
            await self._await(limited)
            await self._await(started, lambda _: self._stop(consumer))
        except BaseException:
            started.abandon(lambda _: self._stop(consumer))
            raise
        return consumer

    async def get(self, queue: str) -> Delivery | None:
        """See the protocol. Cancelled: a message that comes after all is requeued at once."""
        request = self._ask(commands.Basic.Get(queue=queue), Delivery, commands.Basic.GetEmpty)
        answer = await self._await(request, self._put_back)
        self._acks_certain = self._acks.written
        return answer if isinstance(answer, Delivery) else None

    def ack_nowait(self, delivery_tag: int, *, multiple: bool = False) -> bool:
        """See the protocol."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        if multiple:
            self._protocol.outbox.put(self._acks.ack_up_to(delivery_tag))
        elif self._acks.ack(delivery_tag):
            self._protocol.outbox.defer(self._acks, prompt=not self._acks.outstanding)
            return self._writer.all_written
        return False

    def nack_nowait(self, delivery_tag: int, *, requeue: bool, multiple: bool = False) -> None:
        """See the protocol."""
        self._check_open()
        self._protocol.outbox.put(self._acks.nack(delivery_tag, multiple=multiple, requeue=requeue))

    async def flush(self) -> None:
        """See the protocol."""
        self._check_open()
        await self._writer.wait_written(self._protocol.outbox.settle(), self.number)

    async def aclose(self) -> None:
        """See the protocol. Acks on quorum queues are made certain first (``settle_acks``).

        Cancelled: the close is on its way.
        """
        with self._link.bounds.bound() as bound:  # noqa: ASYNC912 - settle_acks has one
            try:
                await self.settle_acks()
            except TransportError:
                pass  # it ended meanwhile: ``closed`` says why
            finally:
                self.close_nowait("closed by the client")
            if isinstance(self._closed, LocalClose):
                await self._close_answered.wait()
        if bound.cancelled_caught:
            self._link.abort()
        await trio.lowlevel.checkpoint()

    def close_nowait(self, text: str) -> None:
        """End, and send channel.close once no answer is due; the number stays taken until it is answered."""
        if self._closed is None:
            self._flush_acks()
            self._protocol.close_channel(self.number, text, len(self._replies))
            self.end(LocalClose(aborted=False))

    async def settle_acks(self) -> None:  # noqa: ASYNC910 - a loop over at least one consumer
        """Make sure that the broker processed every ack, also on a quorum queue.

        A burst of acks followed by a close was lost there; cancel-ok, get-ok, or a few acks before
        qos-ok were not (rabbitmq-facts, 13; decisions, 5). Raises ClosedError, OperationTimedOut.
        """
        self._flush_acks()
        uncertain = self._acks.written - self._acks_certain
        if not uncertain:
            await trio.lowlevel.checkpoint()
        elif self._consumers:
            for consumer in list(self._consumers.values()):
                await self._cancel_consumer(consumer)
        elif uncertain > _CERTAIN_ACKS and self._last_queue is not None:
            await self.get(self._last_queue)
        else:
            await self._call(requests.limit_prefetch(1))
        self._acks_certain = self._acks.written

    # -- details -----------------------------------------------------------------------------

    def _send(self, method: base.Frame) -> None:
        """Accept a method for sending, behind every ack accepted before it."""
        self._flush_acks()
        super()._send(method)

    def _flush_acks(self) -> None:
        frames = self._acks.emit()
        if frames:
            self._protocol.outbox.put(frames)

    async def _cancel_consumer(self, consumer: NativeConsumer) -> None:
        """Perform basic.cancel; abandoned, what is buffered is requeued at cancel-ok."""
        call = requests.cancel(consumer.tag)
        request = self._ask(call.method, call.answer)
        written = self._acks.written
        await self._await(request, lambda _: self._requeue(consumer))
        self._acks_certain = max(self._acks_certain, written)
        self._consumers.pop(consumer.tag.encode(), None)

    def _stop(self, consumer: NativeConsumer) -> None:
        """Cancel a consumer nobody waits for any more.

        Never before consume-ok: RabbitMQ 3.10 answers a basic.cancel on its heels with a 541.
        """
        if consumer.ended is None:
            consumer.end(LocalClose(aborted=False))
            call = requests.cancel(consumer.tag)
            self._ask(call.method, call.answer).abandon(lambda _: self._requeue(consumer))

    def _requeue(self, consumer: NativeConsumer) -> None:
        """Give back what an abandoned consumer received; only after cancel-ok (decisions, 12)."""
        self._consumers.pop(consumer.tag.encode(), None)
        consumer.end(LocalClose(aborted=False))
        for delivery in consumer.drain():
            self._put_back(delivery)

    def _put_back(self, answer: Answer) -> None:
        """Requeue what nobody waits for any more; a channel that has ended has done so already."""
        if isinstance(answer, Delivery) and self._closed is None:
            self.nack_nowait(answer.delivery_tag, requeue=True)
