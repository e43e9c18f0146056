"""Frames on the wire: the constants, the splitter for what arrives, the outbox for what leaves."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, Protocol

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

METHOD = 1
HEADER = 2
BODY = 3
HEARTBEAT = 8
FRAME_END = 0xCE
FRAME_END_BYTE = b"\xce"
FRAME_OVERHEAD = 8
FRAME_MIN = 4096
"""The smallest frame_max a peer may negotiate, and the limit before negotiation."""

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

FRAME_HEAD = struct.Struct(">BHI")


class ProtocolViolation(Exception):
    """The peer sent what the protocol forbids; the connection cannot go on.

    The text names the rule and numbers only, never content, so that it may be logged.
    """


class FrameSplitter:
    """Hold back incomplete frames, in linear time however the bytes are cut.

    ``join`` returns the bytes to parse from their start; what the parser leaves over comes back
    through ``keep`` with the length the next frame needs, so nothing is joined before it is whole.
    """

    __slots__ = ("_chunks", "_held", "_needed")

    def __init__(self) -> None:
        """Start empty."""
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 0

    def join(self, data: bytes) -> bytes:
        """Return all held bytes plus ``data`` once they reach what is needed, else nothing."""
        if not self._held:
            return data
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return b""
        whole = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        return whole

    def keep(self, rest: bytes, needed: int) -> None:
        """Hold ``rest`` until ``needed`` bytes are there."""
        self._chunks.append(rest)
        self._held = len(rest)
        self._needed = needed


class Emitter(Protocol):
    """Something that turns what it has accepted into frames as late as possible (acks)."""

    def emit(self) -> bytes:
        """Return the frames for everything accepted since the last call."""
        ...


def _nobody_waits(_prompt: bool) -> None:
    """Stand in until a writer listens."""


BATCH_BYTES: Final = 32 * 1024
"""So much is a batch worth sending for itself: a few dozen small messages."""


class Outbox:
    """Whole frames accepted for sending, in order.

    ``accepted`` counts bytes ever accepted, so that a flush is a comparison of two counters.
    ``on_work`` is called when there is work and there was none before, and when a batch is full; its
    argument says whether waiting for company gains nothing: it is, or more is unlikely to follow now.
    """

    __slots__ = ("_chunks", "_emitters", "_taken", "accepted", "on_work")

    def __init__(self) -> None:
        """Start empty, with nobody listening."""
        self._chunks: list[bytes | memoryview] = []
        self._emitters: list[Emitter] = []
        self.accepted = 0
        self._taken = 0
        self.on_work: Callable[[bool], None] = _nobody_waits

    def __bool__(self) -> bool:
        return bool(self._chunks or self._emitters)

    def put(self, chunk: bytes, *, prompt: bool = False) -> None:
        """Accept one chunk of whole frames; ``prompt`` as for ``on_work``."""
        idle = not self._chunks and not self._emitters
        self._chunks.append(chunk)
        self.accepted += len(chunk)
        if idle:
            self.on_work(prompt)
        elif self.accepted - self._taken >= BATCH_BYTES:
            self.on_work(True)

    def put_all(self, chunks: list[bytes | memoryview]) -> None:
        """Accept many chunks that form whole frames together."""
        idle = not self._chunks and not self._emitters
        self._chunks += chunks
        self.accepted += sum(map(len, chunks))
        if idle:
            self.on_work(False)

    def defer(self, emitter: Emitter, *, prompt: bool = False) -> None:
        """Ask ``emitter`` for its frames when the next batch is taken; ``prompt`` as for ``on_work``."""
        idle = not self._chunks and not self._emitters
        self._emitters.append(emitter)
        if idle:
            self.on_work(prompt)

    def settle(self) -> int:
        """Turn every deferred emitter into frames; return ``accepted`` as it then is."""
        if self._emitters:
            emitters, self._emitters = self._emitters, []
            for emitter in emitters:
                chunk = emitter.emit()
                if chunk:
                    self._chunks.append(chunk)
                    self.accepted += len(chunk)
        return self.accepted

    def take(self) -> bytes:
        """Take everything as one piece, deferred frames included."""
        self._taken = self.settle()
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 and isinstance(chunks[0], bytes) else b"".join(chunks)
        chunks.clear()
        return data

    def take_back(self, rest: bytes) -> None:
        """Accept again, before everything else, the end of a piece that was taken and not sent."""
        self._chunks.insert(0, rest)

    def discard(self) -> None:
        """Forget everything not taken: the connection has ended."""
        self._chunks.clear()
        self._emitters.clear()
