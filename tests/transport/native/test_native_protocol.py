"""The sans-I/O core: no cut changes what arrives, no input crashes or hangs it."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from craig_mq.core.close import ChannelClose
from craig_mq.transport.native.events import Delivered, Got, MessageReturned
from craig_mq.transport.native.handshake import Proposal
from craig_mq.transport.native.protocol import AmqpProtocol
from craig_mq.transport.native.wire import ProtocolViolation


def _opened() -> AmqpProtocol:
    """A protocol behind its handshake, with channels 1 and 2 in use."""
    protocol = AmqpProtocol(Proposal("PLAIN", "\0guest\0guest", "/", "test", 15))
    protocol.receive(frame.marshal(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0))
    protocol.receive(frame.marshal(commands.Connection.Tune(2047, 131_072, 60), 0))
    protocol.receive(frame.marshal(commands.Connection.OpenOk(), 0))
    assert (protocol.take_number(), protocol.take_number()) == (1, 2)
    protocol.outbox.take()
    return protocol


def _content(payload: bytes, channel: int, pieces: int = 1) -> bytes:
    head = header.ContentHeader(0, len(payload), commands.Basic.Properties(message_id="m", headers={"n": 1}))
    step = max(1, -(-len(payload) // pieces))
    bodies = [
        frame.marshal(body.ContentBody(payload[at : at + step]), channel)
        for at in range(0, len(payload), step)
    ]
    return frame.marshal(head, channel) + b"".join(bodies)


def _deliver(tag: int, channel: int, payload: bytes, pieces: int = 1, routing_key: str = "q") -> bytes:
    method = commands.Basic.Deliver("consumer", tag, False, "", routing_key)
    return frame.marshal(method, channel) + _content(payload, channel, pieces)


_STREAM = b"".join(
    (
        _deliver(1, 1, b"first"),
        frame.marshal(heartbeat.Heartbeat(), 0),
        _deliver(2, 2, b"", routing_key="other"),
        frame.marshal(commands.Basic.Ack(5, True), 1),
        _deliver(3, 1, bytes(range(256)) * 40, pieces=3),
        frame.marshal(commands.Basic.Return(312, "NO_ROUTE", "", "q"), 2) + _content(b"back", 2),
        frame.marshal(commands.Basic.GetOk(4, True, "", "q", 0), 1) + _content(b"got", 1),
        frame.marshal(commands.Connection.Blocked("memory"), 0),
        frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 60, 40), 2),
        frame.marshal(commands.Connection.Close(320, "bye", 0, 0), 0),
    )
)


def _shown(happened: list[object]) -> list[object]:
    """Events as comparable values."""
    shown = []
    for event in happened:
        if isinstance(event, Delivered | Got):
            delivery = event.delivery
            shown.append((event.channel, delivery.delivery_tag, delivery.routing_key, delivery.body))
        elif isinstance(event, MessageReturned):
            shown.append((event.channel, event.code, event.message_id))
        else:
            shown.append(type(event).__name__)
    return shown


@given(st.lists(st.integers(1, len(_STREAM) - 1), max_size=60))
def test_cuts_change_nothing(cuts):
    """However the bytes are cut into pieces, the same events come in the same order."""
    whole = _shown(_opened().receive(_STREAM))
    assert len(whole) == 9
    protocol = _opened()
    edges = [0, *sorted(set(cuts)), len(_STREAM)]
    pieces = [_STREAM[start:end] for start, end in pairwise(edges)]
    events = [event for piece in pieces for event in protocol.receive(piece)]
    assert _shown(events) == whole


def test_single_bytes_arrive_in_linear_time():
    """A frame of 128 KiB fed byte by byte is joined once, not once per byte."""
    protocol = _opened()
    data = _deliver(1, 1, bytes(60_000))
    events = [event for at in range(len(data)) for event in protocol.receive(data[at : at + 1])]
    assert [event.delivery.body for event in events] == [bytes(60_000)]


def _survives(protocol: AmqpProtocol, *pieces: bytes) -> bool:
    """Feed bytes; any error but ProtocolViolation leaves here."""
    with suppress(ProtocolViolation):
        for piece in pieces:
            protocol.receive(piece)
    return True


@settings(max_examples=300)
@given(st.binary(max_size=300), st.booleans())
def test_garbage_ends_in_a_violation_or_nothing(garbage, opened):
    """Any bytes whatever either make progress or raise ProtocolViolation; nothing else."""
    protocol = _opened() if opened else AmqpProtocol(Proposal("PLAIN", "", "/", "test", 15))
    assert _survives(protocol, garbage)


@settings(max_examples=500)
@given(st.data())
def test_flipped_bytes_end_in_a_violation_or_nothing(data):
    """A valid stream with some bytes changed makes progress or raises ProtocolViolation; nothing else."""
    mutated = bytearray(_STREAM)
    for at in data.draw(st.lists(st.integers(0, len(_STREAM) - 1), min_size=1, max_size=6)):
        mutated[at] = data.draw(st.integers(0, 255))
    pieces = [bytes(mutated[at : at + 997]) for at in range(0, len(mutated), 997)]
    assert _survives(_opened(), *pieces)


@settings(max_examples=300)
@given(
    st.integers(0, 3),
    st.sampled_from([*commands.INDEX_MAPPING, 0x003C0050, 0x003C003C, 0x00140028, 0, 0xFFFFFFFF]),
    st.binary(max_size=60),
)
def test_any_arguments_of_any_method_are_survivable(channel, index, arguments):
    """Every known method with any argument bytes makes progress or raises ProtocolViolation."""
    payload = index.to_bytes(4, "big") + arguments
    data = _raw(1, channel, payload)
    assert _survives(_opened(), data)


def _raw(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return (
        bytes((kind,))
        + channel.to_bytes(2, "big")
        + len(payload).to_bytes(4, "big")
        + payload
        + bytes((end,))
    )


_ACK = b"\x00\x3c\x00\x50" + bytes(8) + b"\x00"
_HEAD = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + b"\x00\x00"
_DELIVERY = frame.marshal(commands.Basic.Deliver("c", 1, False, "", "q"), 1)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (_raw(1, 1, _ACK, end=0), "does not end with 0xCE"),
        (_raw(7, 0, b""), "unknown frame type 7"),
        (b"\x01\x00\x01\xff\xff\xff\xff\x00", "exceeds the agreed"),
        (_raw(1, 9, _ACK), "channel 9, which is not open"),
        (_raw(3, 9, b"x"), "channel 9, which is not open"),
        (_raw(2, 1, _HEAD), "no method announced"),
        (_raw(3, 1, b"x"), "no content header announced"),
        (_DELIVERY + _DELIVERY, "inside another method's content"),
        (_DELIVERY + _raw(1, 1, _ACK), "inside another method's content"),
        (_DELIVERY + _raw(2, 1, _HEAD[:8]), "cut short"),
        (_DELIVERY + _raw(2, 1, _HEAD) + _raw(3, 1, b"123456"), "longer than its header announced"),
        (_DELIVERY + _raw(2, 1, b"\x00\x3c\x00\x00" + b"\xff" * 8 + b"\x00\x00"), "is announced"),
        (_raw(1, 0, b"\x00\x0a\x00\x0a"), "Connection.Start"),
        (_raw(1, 1, b"\x12\x34\x56\x78"), "which no request asks for"),
        (_raw(1, 1, b"\x00"), "without a method"),
    ],
)
def test_each_broken_rule_is_named(data, rule):
    """A peer that breaks the protocol is told off with the rule it broke."""
    with pytest.raises(ProtocolViolation) as violated:
        _opened().receive(data + bytes(8))
    assert rule in str(violated.value) or rule == "Connection.Start"


def test_a_routing_key_that_is_not_utf8_is_delivered():
    """PROP-02: a routing key with FF FE arrives with escapes, marked by its raw content header."""
    method = b"\x00\x3c\x00\x3c\x01c" + (1).to_bytes(8, "big") + b"\x00\x00\x06dlq.\xff\xfe"
    (event,) = _opened().receive(_raw(1, 1, method) + _content(b"body", 1))
    assert event.delivery.routing_key == "dlq.\\xff\\xfe"
    assert event.delivery.body == b"body"
    assert event.delivery.undecodable is not None
    assert event.delivery.properties.message_id == "m"


def test_a_number_is_reused_only_after_both_sides_closed():
    """A channel number comes back last of all, and never while its close is unanswered."""
    protocol = AmqpProtocol(Proposal("PLAIN", "", "/", "test", 15))
    protocol.receive(frame.marshal(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0))
    protocol.receive(frame.marshal(commands.Connection.Tune(3, 131_072, 60), 0))
    assert [protocol.take_number() for _ in range(4)] == [1, 2, 3, None]
    protocol.close_channel(2, "done", 0)
    assert protocol.take_number() is None
    protocol.receive(frame.marshal(commands.Channel.CloseOk(), 2))
    protocol.receive(frame.marshal(commands.Channel.Close(404, "x", 0, 0), 1))
    assert [protocol.take_number() for _ in range(3)] == [2, 1, None]


def test_closes_that_cross_are_both_answered():
    """When both sides close a channel at once, ours is answered and so is theirs."""
    protocol = _opened()
    protocol.close_channel(1, "done", 0)
    protocol.outbox.take()
    (event,) = protocol.receive(frame.marshal(commands.Channel.Close(406, "x", 60, 80), 1))
    assert (event.channel, event.method.name) == (1, "Channel.CloseOk")
    assert protocol.outbox.take() == frame.marshal(commands.Channel.CloseOk(), 1)
    assert protocol.receive(frame.marshal(commands.Channel.CloseOk(), 1)) == []
    (ended,) = protocol.receive(frame.marshal(commands.Channel.Close(406, "y", 60, 80), 2))
    assert ended.reason == ChannelClose(406, "y", 60, 80)


def test_a_close_waits_for_the_answers_still_due():
    """CCAN-03: our close leaves only behind the last answer due, and drops everything until its own."""
    protocol = _opened()
    protocol.close_channel(1, "done", 2)
    assert protocol.outbox.take() == b""
    assert protocol.receive(frame.marshal(commands.Basic.QosOk(), 1)) == []
    assert protocol.receive(_deliver(1, 1, b"dropped")) == []
    assert protocol.receive(frame.marshal(commands.Basic.Cancel("consumer", True), 1)) == []
    assert protocol.outbox.take() == b""
    get_ok = frame.marshal(commands.Basic.GetOk(4, True, "", "q", 0), 1) + _content(b"got", 1)
    assert protocol.receive(get_ok) == []
    assert protocol.outbox.take() == frame.marshal(commands.Channel.Close(200, "done", 0, 0), 1)
    (event,) = protocol.receive(frame.marshal(commands.Channel.CloseOk(), 1))
    assert event.method.name == "Channel.CloseOk"


def test_a_close_from_the_peer_overtakes_one_that_waits():
    """When the peer closes a channel first, our waiting close is never sent and the number is free."""
    protocol = _opened()
    protocol.close_channel(1, "done", 1)
    (event,) = protocol.receive(frame.marshal(commands.Channel.Close(404, "x", 0, 0), 1))
    assert event.method.name == "Channel.CloseOk"
    assert protocol.outbox.take() == frame.marshal(commands.Channel.CloseOk(), 1)
    with pytest.raises(ProtocolViolation, match="not open"):
        protocol.receive(frame.marshal(commands.Basic.QosOk(), 1))
