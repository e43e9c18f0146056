"""Coverage-guided fuzzing of the native protocol core, bounded in time.

Run ``python tests/transport/native_fuzz/fuzz_native_protocol.py [seconds]`` (60 by default) where the
``fuzz`` dependency group is installed. It fails when any input raises something other than
ProtocolViolation, takes longer than five seconds, or needs more than 1 GiB.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports():
    from pamqp import body, commands, frame, header

    from craig_mq.transport.native.events import Delivered, Got
    from craig_mq.transport.native.handshake import Proposal
    from craig_mq.transport.native.protocol import AmqpProtocol
    from craig_mq.transport.native.wire import ProtocolViolation

_PROPOSAL = Proposal("PLAIN", "", "/", "fuzz", 15)
_HANDSHAKE = b"".join(
    frame.marshal(method, 0)
    for method in (
        commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"),
        commands.Connection.Tune(2047, 131_072, 60),
        commands.Connection.OpenOk(),
    )
)


def _content(payload: bytes) -> bytes:
    head = header.ContentHeader(
        0, len(payload), commands.Basic.Properties(message_id="m", headers={"n": [1]})
    )
    return frame.marshal(head, 1) + frame.marshal(body.ContentBody(payload), 1)


_SEEDS = (
    _HANDSHAKE,
    frame.marshal(commands.Basic.Deliver("c", 1, False, "x", "q"), 1) + _content(b"payload"),
    frame.marshal(commands.Basic.Return(312, "NO_ROUTE", "", "q"), 1) + _content(b"back"),
    frame.marshal(commands.Basic.GetOk(1, True, "", "q", 0), 1) + _content(b"got"),
    frame.marshal(commands.Basic.Ack(1, True), 1) + frame.marshal(commands.Basic.Cancel("c", True), 1),
    frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 60, 40), 1),
    frame.marshal(commands.Connection.Close(320, "bye", 0, 0), 0),
)


def feed(data: bytes) -> None:
    """Interpret one input: a byte of set-up, a byte of cutting, then what the peer sends."""
    if len(data) < 2:
        return
    protocol = AmqpProtocol(_PROPOSAL)
    if data[0] & 1:
        protocol.receive(_HANDSHAKE)
        protocol.take_number()
        protocol.take_number()
        if data[0] & 2:
            protocol.close_channel(2, "done", data[0] >> 6)
    step = data[1] or len(data)
    with suppress(ProtocolViolation):
        for at in range(2, len(data), step):
            for event in protocol.receive(data[at : at + step]):
                if isinstance(event, Delivered | Got) and len(event.delivery.body) > len(data):
                    raise AssertionError("a body longer than the input")


def main() -> None:
    """Fuzz for the given number of seconds, starting from well-formed frames."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(_SEEDS):
            Path(corpus, str(number)).write_bytes(b"\x01\x00" + seed)
        limits = [f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=1024", "-max_len=4096"]
        atheris.Setup([sys.argv[0], corpus, *limits], feed)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
