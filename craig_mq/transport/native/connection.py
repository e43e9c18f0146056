"""A live connection: one reader, one coalescing writer, one heartbeat, and how all of it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

import trio

from craig_mq.core.close import CloseReason, ConnectionClose, ConnectionLoss, LocalClose
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError, TransportError
from craig_mq.transport.native import events
from craig_mq.transport.native.bounds import RequestBounds
from craig_mq.transport.native.channel import NativeChannel
from craig_mq.transport.native.protocol import AmqpProtocol
from craig_mq.transport.native.stream import ByteStream
from craig_mq.transport.native.wire import ProtocolViolation
from craig_mq.transport.native.writer import CoalescingWriter, PendingWriters

_FAREWELL: Final = 1.0
"""So long may the close-ok take to leave before the connection is reset."""


class NativeConnection:
    """See ``transport.broker.Connection``."""

    def __init__(
        self,
        stream: ByteStream,
        protocol: AmqpProtocol,
        options: ConnectionOptions,
        heartbeat: int,
        pending: PendingWriters | None = None,
    ) -> None:
        """Take over a stream whose handshake is done; nothing runs before ``run``.

        What a burst of arrivals leads to on any connection that shares ``pending`` leaves at its end.
        """
        self.protocol = protocol
        self.bounds = RequestBounds(options.rpc_timeout)
        self._stream = stream
        self._heartbeat = heartbeat
        self._channels: dict[int, NativeChannel] = {}
        self._closed: CloseReason | None = None
        self._ended = trio.Event()
        self._blocked: str | None = None
        self._blocking_changed = trio.Event()
        self._scope = trio.CancelScope()
        self._pending = pending or PendingWriters()
        self.writer = CoalescingWriter(stream, protocol.outbox, self._pending)
        self._last_heard = trio.current_time()

    # -- tasks -------------------------------------------------------------------------------

    async def run(self, early: Iterable[events.Event]) -> None:
        """Own every task of the connection, until it ends; returns with the stream closed.

        ``early`` are events that came together with the end of the handshake.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._keep_time, self._heartbeat or math.inf)
                    await self._read(list(early))
        finally:
            self.end(LocalClose(aborted=True))
            self._stream.reset()
        await trio.lowlevel.checkpoint()

    async def _read(self, early: list[events.Event]) -> None:
        """Take bytes in until the connection ends. The only caller of the protocol's ``receive``."""
        try:
            self._dispatch(early)
            while self._closed is None:
                data = await self._stream.receive()
                if self._closed is not None:
                    break  # what came belongs to channels that have ended
                if not data:
                    self._lose("the broker's end of the connection was closed")
                    break
                self._last_heard = trio.current_time()
                self._dispatch(self.protocol.receive(data))
                self._pending.send()
        except ProtocolViolation as violation:
            self._lose(f"protocol violation: {violation}")
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(f"the connection broke: {error.__cause__ or error}")
        await trio.lowlevel.checkpoint()

    async def _write(self) -> None:
        """Run the writer, then close the stream if the end was an agreed one."""
        try:
            await self.writer.run()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(f"the connection broke: {error.__cause__ or error}")
        if self._closed == LocalClose(aborted=False) or isinstance(self._closed, ConnectionClose):
            self._stream.close()  # a FIN: a reset could overtake the close-ok
        self._scope.cancel(reason="the connection has ended")
        await trio.lowlevel.checkpoint()

    async def _keep_time(self, interval: float) -> None:  # noqa: ASYNC910 - not once the connection has ended
        """Send heartbeats, judge silence and bound requests, apart from every handler.

        A loop that was itself held up (a handler that blocks) has not listened: it gets one more
        interval before silence counts against the broker (HB-01).
        """
        step = interval / 2
        while self._closed is None:
            before = trio.current_time()
            await self.bounds.sleep_until(before + step)
            now = trio.current_time()
            held_up = now - before - step
            silence = now - self._last_heard
            if held_up > step:
                self._last_heard = max(self._last_heard, now - interval)
            elif silence > 2 * interval:
                self._lose(f"nothing heard from the broker for {silence:.1f} s (heartbeat {interval:g} s)")
            self.writer.beat(step)

    # -- events ------------------------------------------------------------------------------

    def _dispatch(self, happened: Iterable[events.Event]) -> None:
        handlers, channels = self._HANDLERS, self._channels
        for event in happened:
            if isinstance(event, events.Delivered):
                channels[event.channel].on_delivered(event)
            else:
                handlers[type(event)](self, event)

    def _on_confirmed(self, event: events.Confirmed) -> None:
        self._channels[event.channel].on_confirmed(event)

    def _on_returned(self, event: events.MessageReturned) -> None:
        self._channels[event.channel].on_returned(event)

    def _on_got(self, event: events.Got) -> None:
        self._channels[event.channel].on_answer(event.delivery)

    def _on_replied(self, event: events.Replied) -> None:
        self._channels[event.channel].on_answer(event.method)

    def _on_consumer_cancelled(self, event: events.ConsumerCancelled) -> None:
        self._channels[event.channel].on_consumer_cancelled(event.consumer_tag)

    def _on_channel_ended(self, event: events.ChannelEnded) -> None:
        self._channels.pop(event.channel).end(event.reason)

    def _on_blocked(self, event: events.Blocked) -> None:
        self._blocked = event.reason
        self._notify_blocking()

    def _notify_blocking(self) -> None:
        changed, self._blocking_changed = self._blocking_changed, trio.Event()
        changed.set()

    def _on_ended(self, event: events.ConnectionEnded) -> None:
        """The broker closed, or answered our close: let the writer finish, briefly."""
        self.end(event.reason or LocalClose(aborted=False))
        self._scope.deadline = min(self._scope.deadline, trio.current_time() + _FAREWELL)

    # -- ending ------------------------------------------------------------------------------

    def end(self, reason: CloseReason) -> None:
        """End everything that lives on this connection, at once; the first reason stays."""
        if self._closed is not None:
            return
        self._closed = reason
        self._blocked = None
        for channel in self._channels.values():
            channel.end(reason)
            channel.release()
        self._channels.clear()
        self._notify_blocking()
        self._ended.set()
        self.writer.finish()

    def _lose(self, text: str) -> None:
        """End as lost: nothing can be said to the peer any more, so nothing is."""
        self.end(ConnectionLoss(text))
        self.protocol.outbox.discard()
        self._stream.reset()
        self._scope.cancel(reason="the connection was lost")

    def abort(self) -> None:
        """See the protocol."""
        self.end(LocalClose(aborted=True))
        self.protocol.outbox.discard()
        self._stream.reset()
        self._scope.cancel(reason="the connection was aborted")

    async def aclose(self) -> None:
        """See the protocol. Acks are made certain first, channel by channel."""
        if self._closed is not None:
            await trio.lowlevel.checkpoint()
            return
        try:
            with self.bounds.bound():
                for channel in list(self._channels.values()):
                    try:
                        await channel.settle_acks()
                    except TransportError:
                        continue  # that channel has ended; the others still count
                self.protocol.close("closed by the client")
                await self._ended.wait()
        finally:
            if self._closed is None:
                self.abort()

    # -- the seam ----------------------------------------------------------------------------

    @property
    def closed(self) -> CloseReason | None:
        """See the protocol."""
        return self._closed

    @property
    def blocked(self) -> str | None:
        """See the protocol."""
        return self._blocked

    async def wait_blocked(self) -> None:
        """See the protocol."""
        while self._blocked is None and self._closed is None:
            await self._blocking_changed.wait()
        await trio.lowlevel.checkpoint()

    async def wait_unblocked(self) -> None:
        """See the protocol."""
        while self._blocked is not None and self._closed is None:
            await self._blocking_changed.wait()
        await trio.lowlevel.checkpoint()

    async def wait_closed(self) -> CloseReason:
        """See the protocol."""
        await self._ended.wait()
        if self._closed is None:
            raise TransportError("a connection ended without a reason")
        return self._closed

    async def open_channel(self, *, confirms: bool = False) -> NativeChannel:
        """See the protocol. Raises TransportError when channel_max channels are in use."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        number = self.protocol.take_number()
        if number is None:
            raise TransportError("every channel number of this connection is in use")
        channel = NativeChannel(self, number, self._forget)
        self._channels[number] = channel
        try:
            await channel.opened(confirms=confirms)
        except BaseException:
            channel.close_nowait("opening was abandoned")
            raise
        return channel

    def _forget(self, number: int) -> None:
        del self._channels[number]

    _HANDLERS: ClassVar[dict[type[events.Event], Callable[..., None]]] = {
        events.Confirmed: _on_confirmed,
        events.MessageReturned: _on_returned,
        events.Got: _on_got,
        events.Replied: _on_replied,
        events.ConsumerCancelled: _on_consumer_cancelled,
        events.ChannelEnded: _on_channel_ended,
        events.ConnectionEnded: _on_ended,
        events.Blocked: _on_blocked,
    }
