"""The sans-I/O core: bytes in, events out; bytes to send wait in the outbox.

It knows no time, no socket and no task. Any input either makes progress or raises
ProtocolViolation, after which the connection can only be dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from pamqp import base, commands

from craig_mq.core.close import ChannelClose, ConnectionClose
from craig_mq.transport.native import methods
from craig_mq.transport.native.content import (
    Envelope,
    NameCache,
    decode_deliver,
    decode_get_ok,
    decode_return,
)
from craig_mq.transport.native.deliveries import DELIVER_INDEX, DeliveryReader
from craig_mq.transport.native.events import (
    Blocked,
    ChannelEnded,
    Confirmed,
    ConnectionEnded,
    ConsumerCancelled,
    Event,
    Got,
    Opened,
    Replied,
)
from craig_mq.transport.native.handshake import Handshake, Proposal
from craig_mq.transport.native.slots import Slot, Slots
from craig_mq.transport.native.wire import (
    BODY,
    FRAME_END,
    FRAME_HEAD,
    FRAME_OVERHEAD,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    FrameSplitter,
    Outbox,
    ProtocolViolation,
)

_INDEX = struct.Struct(">I")
_DELIVER_MIN: Final = 15
"""A basic.deliver has an index, a consumer tag, a delivery tag, a flag and two names."""
_CONTENT: Final[dict[int, Callable[[bytes, int, int, NameCache], Envelope]]] = {
    methods.DELIVER: decode_deliver,
    methods.GET_OK: decode_get_ok,
    methods.RETURN: decode_return,
}


class AmqpProtocol:
    """One connection's protocol state."""

    def __init__(self, proposal: Proposal) -> None:
        """Begin: the protocol header is the first thing to send."""
        self.handshake = Handshake(proposal)
        self.outbox = Outbox()
        self.outbox.put(PROTOCOL_HEADER)
        self._splitter = FrameSplitter()
        self._events: list[Event] = []
        self._names = NameCache()
        self._deliveries = DeliveryReader()
        self._slots = Slots()
        self._closing = False
        self._ended = False
        self._payload_max = self.handshake.tuning.frame_max - FRAME_OVERHEAD

    @property
    def payload_max(self) -> int:
        """The largest frame payload either side may send."""
        return self._payload_max

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes from the peer, cut anywhere; return what they completed, in order.

        Raises ProtocolViolation; events completed before the violation are lost with it, which is
        safe because every pending operation then ends as unknown.
        """
        buffer = self._splitter.join(data)
        events = self._events = []
        at, available = 0, len(buffer)
        unpack_head = FRAME_HEAD.unpack_from
        while available - at >= FRAME_OVERHEAD:
            kind, channel, size = unpack_head(buffer, at)
            if size > self._payload_max:
                self._refuse_frame(buffer, at, size)
            start = at + 7
            stop = start + size
            if stop >= available:
                self._splitter.keep(buffer[at:], size + FRAME_OVERHEAD)
                return events
            if buffer[stop] != FRAME_END:
                raise ProtocolViolation("a frame does not end with 0xCE")
            ready = (
                self._delivery(channel, buffer, at, stop) if kind == METHOD and size > _DELIVER_MIN else None
            )
            at = stop + 1
            if ready is not None:
                event, at = ready
                events.append(event)
            elif not self._ended:
                self._frame(kind, channel, buffer, start, stop)
        if at < available:
            self._splitter.keep(buffer[at:], FRAME_OVERHEAD)
        return events

    def _delivery(self, channel: int, buffer: bytes, at: int, stop: int) -> tuple[Event, int] | None:
        """Take a delivery with its whole content, if that is what lies here and it is for an open channel."""
        if not buffer.startswith(DELIVER_INDEX, at + FRAME_HEAD.size) or self._ended:
            return None
        slot = self._slots.get(channel)
        if slot is None or slot.closing is not None or not slot.content.idle:
            return None
        return self._deliveries.read(buffer, at, stop, channel, self._payload_max)

    def _frame(self, kind: int, channel: int, buffer: bytes, start: int, stop: int) -> None:
        """Take one frame."""
        if kind == BODY:
            self._content_step(channel, body=buffer[start:stop])
        elif kind == HEADER:
            self._content_step(channel, header=buffer[start:stop])
        elif kind == METHOD:
            self._method(channel, buffer, start, stop)
        elif kind != HEARTBEAT:
            raise ProtocolViolation(f"unknown frame type {kind}")

    def _refuse_frame(self, buffer: bytes, at: int, size: int) -> None:
        if buffer[at : at + 4] == b"AMQP":
            raise ProtocolViolation("the peer speaks another protocol version")
        raise ProtocolViolation(f"a frame of {size} bytes exceeds the agreed {self._payload_max}")

    def _content_step(self, channel: int, *, header: bytes | None = None, body: bytes = b"") -> None:
        slot = self._slots.get(channel)
        if slot is None:
            raise ProtocolViolation(f"content on channel {channel}, which is not open")
        content = slot.content
        done = content.body(body) if header is None else content.header(header)
        if done is not None:
            event = content.finish(channel)
            if slot.closing is None:
                self._events.append(event)
            elif isinstance(event, Got):
                self._drop_answer(channel, slot)

    def _method(self, channel: int, buffer: bytes, start: int, stop: int) -> None:
        if stop - start < _INDEX.size:
            raise ProtocolViolation("a method frame without a method")
        (index,) = _INDEX.unpack_from(buffer, start)
        start += 4
        if channel == 0:
            self._connection_method(index, buffer[start:stop])
            return
        slot = self._slots.get(channel)
        if slot is None:
            raise ProtocolViolation(f"a method on channel {channel}, which is not open")
        decoder = _CONTENT.get(index)
        if decoder is not None:
            slot.content.begin(decoder(buffer, start, stop, self._names))
        elif not slot.content.idle:
            raise ProtocolViolation("a method inside another method's content")
        elif index in (methods.ACK, methods.NACK):
            if slot.closing is None:
                tag, bits = methods.decode_settlement(buffer, start, stop)
                self._events.append(Confirmed(channel, tag, bits & 1 == 1, index == methods.ACK))
        else:
            self._channel_method(channel, slot, index, buffer[start:stop])

    def _channel_method(self, channel: int, slot: Slot, index: int, arguments: bytes) -> None:
        if index == methods.CHANNEL_CLOSE:
            reason = ChannelClose(*methods.decode_close(arguments))
            self.outbox.put(methods.encode(commands.Channel.CloseOk(), channel))
            if slot.closing is None:
                self._slots.release(channel)
                self._events.append(ChannelEnded(channel, reason))
                return
            if slot.unanswered:
                self._slots.release(channel)  # ours has not left, and need not any more
            self._close_answered(channel, slot)  # else they crossed; the number waits for our close-ok
        elif slot.closing is not None:
            if index == methods.CHANNEL_CLOSE_OK and not slot.unanswered:
                self._slots.release(channel)
                self._close_answered(channel, slot)
            elif index != methods.CANCEL:  # the broker's own basic.cancel answers nothing
                self._drop_answer(channel, slot)
        elif index == methods.CANCEL:
            tag, _ = methods.short_string(arguments, 0, len(arguments))
            self._events.append(ConsumerCancelled(channel, tag))
        else:
            self._events.append(Replied(channel, methods.decode(index, arguments)))

    def _drop_answer(self, channel: int, slot: Slot) -> None:
        """Drop the answer to a request made before our close; behind the last one the close leaves."""
        slot.unanswered -= 1
        if slot.unanswered == 0 and slot.closing is not None:
            self.send(channel, slot.closing)

    def _close_answered(self, channel: int, slot: Slot) -> None:
        """Report once that the peer knows of our close."""
        if not slot.answered:
            slot.answered = True
            self._events.append(Replied(channel, commands.Channel.CloseOk()))

    def _connection_method(self, index: int, arguments: bytes) -> None:
        if index == methods.CONNECTION_CLOSE:
            self.outbox.put(methods.encode(commands.Connection.CloseOk(), 0))
            self._ended = True
            self._events.append(ConnectionEnded(ConnectionClose(*methods.decode_close(arguments))))
        elif index == methods.CONNECTION_CLOSE_OK and self._closing:
            self._ended = True
            self._events.append(ConnectionEnded(None))
        elif not self.handshake.finished:
            answer = self.handshake.answer(methods.decode(index, arguments))
            self._payload_max = self.handshake.tuning.frame_max - FRAME_OVERHEAD
            if answer:
                self.outbox.put(answer)
            if self.handshake.finished:
                self._events.append(Opened(self.handshake.tuning.heartbeat))
        elif index == methods.CONNECTION_BLOCKED:
            text, _ = methods.short_string(arguments, 0, len(arguments))
            self._events.append(Blocked(text.decode("utf-8", "replace")))
        elif index == methods.CONNECTION_UNBLOCKED:
            self._events.append(Blocked(None))
        else:
            raise ProtocolViolation(f"method {index >> 16}/{index & 0xFFFF} on channel 0")

    def take_number(self) -> int | None:
        """Take a free number, never one whose close is not answered yet; None if channel_max are in use."""
        return self._slots.take(self.handshake.tuning.channel_max)

    def close_channel(self, number: int, text: str, unanswered: int) -> None:
        """Request the close behind ``unanswered`` answers; what comes before its own answer is dropped.

        The number is kept until both sides know of the close.
        """
        slot = self._slots.get(number)
        if slot is not None and slot.closing is None:
            slot.closing = commands.Channel.Close(200, text, 0, 0)
            slot.unanswered = unanswered
            if not unanswered:
                self.send(number, slot.closing)

    def close(self, text: str) -> None:
        """Request the connection's close."""
        if not self._closing and not self._ended:
            self._closing = True
            self.send(0, commands.Connection.Close(200, text, 0, 0))

    def send(self, channel: int, method: base.Frame) -> None:
        """Accept a method for sending. Raises ValueError for what the wire cannot hold."""
        self.outbox.put(methods.encode(method, channel))
