"""The socket under one aiormq connection: opened by Trio, watched frame by frame, reset at will.

aiormq drops the class and method ids of a close, tells nobody about ``connection.blocked``, and keeps
the transport to itself. So its transport factory is ours: the reader it gets shows every frame to a
listener before aiormq sees it, and the raw transport stays reachable for a synchronous reset.
"""

# flake8: noqa: ASYNC910 - everything here runs in asyncio, which has no checkpoints
from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from typing import Any, Protocol, cast

import pamqp.frame
from aiormq.connection import TransportFactory
from pamqp import commands
from pamqp.header import ContentHeader
from yarl import URL

_HEADER_SIZE = 7
_FRAME_METHOD = 1
_FRAME_HEADER = 2
_METHODS_OF_INTEREST = {
    struct.pack(">HH", *method)
    for method in (
        (10, 50),  # connection.close
        (10, 60),  # connection.blocked
        (10, 61),  # connection.unblocked
        (20, 40),  # channel.close
        (20, 41),  # channel.close-ok
        (60, 50),  # basic.return
    )
}
_RST_ON_CLOSE = struct.pack("ii", 1, 0)
_TLS_DRAIN_POLL_S = 0.005

Watched = (
    commands.Connection.Close
    | commands.Connection.Blocked
    | commands.Connection.Unblocked
    | commands.Channel.Close
    | commands.Channel.CloseOk
    | commands.Basic.Return
    | ContentHeader
)


class WireListener(Protocol):
    """Who is shown the frames; called in the loop, before aiormq handles the frame."""

    def on_frame(self, channel: int, frame: Watched) -> None:
        """A close, blocked, unblocked or return method, or the content header of a return."""
        ...

    def on_lost(self, text: str) -> None:
        """The stream ended or failed."""
        ...


class _WatchedReader:
    """The part of ``asyncio.StreamReader`` that aiormq uses: one byte, six, then the frame's rest."""

    def __init__(self, wire: Wire, reader: asyncio.StreamReader) -> None:
        self._wire = wire
        self._reader = reader
        self._header = b""

    def at_eof(self) -> bool:
        ended = self._reader.at_eof()
        if ended:
            self._wire.on_lost("the broker closed the socket")
        return ended

    async def read(self, count: int = -1) -> bytes:
        return await self._reader.read(count)

    async def readexactly(self, count: int) -> bytes:
        try:
            read = await self._reader.readexactly(count)
        except (asyncio.IncompleteReadError, OSError) as error:
            if self._wire.aborted:
                raise asyncio.CancelledError from error  # nothing to warn of: the end is our own
            ended = isinstance(error, asyncio.IncompleteReadError)
            self._wire.on_lost(
                "the broker closed the socket" if ended else f"{type(error).__name__}: {error}"
            )
            raise
        if len(self._header) < _HEADER_SIZE:
            self._header += read
        else:  # the rest comes in one read
            header, self._header = self._header, b""
            self._wire.on_raw_frame(header, read)
        return read


class Wire(TransportFactory):
    """One connected socket on its way to and through aiormq."""

    def __init__(self, raw_socket: socket.socket, tls: ssl.SSLContext | None, host: str) -> None:
        self._socket = raw_socket
        self._tls = tls
        self._host = host
        self._raw: asyncio.WriteTransport | None = None
        self._writer: asyncio.StreamWriter
        self._return_awaiting_header: int | None = None
        self.aborted = False
        self.listener: WireListener | None = None
        self.last_read = 0.0
        self.lost: str | None = None

    async def create(
        self,
        url: URL,  # noqa: ARG002 - aiormq's signature; the socket is connected already
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Hand the socket to asyncio, then TLS on top of it where asked. Called by aiormq, once."""
        reader, writer = await asyncio.open_connection(sock=self._socket)
        self._raw = writer.transport
        # Drained then means what flush() promises: everything was handed to the operating system.
        self._raw.set_write_buffer_limits(high=0)
        if self._tls is not None:
            await writer.start_tls(self._tls, server_hostname=self._host)
        self._writer = writer
        self.last_read = asyncio.get_running_loop().time()
        return cast("asyncio.StreamReader", _WatchedReader(self, reader)), writer

    def write(self, frame: bytes) -> None:
        """Write one whole frame now: into the socket, or behind what the socket could not take."""
        self._writer.write(frame)

    @property
    def writable(self) -> bool:
        """Whether a write can still have an effect."""
        return not self._writer.transport.is_closing()

    @property
    def drained(self) -> bool:
        """Whether everything written was handed to the operating system."""
        layers = (self._writer.transport, self._raw)
        return all(layer is None or layer.get_write_buffer_size() == 0 for layer in layers)

    async def drain(self) -> None:
        """Return once ``drained``; raises ConnectionError if the connection ends first."""
        while not self.drained:
            await self._writer.drain()
            if not self.drained:  # TLS only: its records wait in the raw transport, which tells nobody
                await asyncio.sleep(_TLS_DRAIN_POLL_S)

    def abort(self) -> None:
        """Reset the connection: RST, not FIN. A FIN lets the broker execute what is still on its way."""
        if self.aborted:
            return
        self.aborted = True
        if self._raw is None:
            self._socket.close()
            return
        raw_socket = self._raw.get_extra_info("socket")
        if raw_socket is not None and raw_socket.fileno() != -1:
            raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self._raw.abort()

    # -- called by the reader -------------------------------------------------------------------

    def on_raw_frame(self, header: bytes, rest: bytes) -> None:
        """Show the listener the frames it cares for, and only decode those."""
        self.last_read = asyncio.get_running_loop().time()
        channel = int.from_bytes(header[1:3], "big")
        if header[0] == _FRAME_HEADER and channel == self._return_awaiting_header:
            self._return_awaiting_header = None
        elif header[0] != _FRAME_METHOD or rest[:4] not in _METHODS_OF_INTEREST:
            return
        frame = pamqp.frame.unmarshal(header + rest)[2]
        if isinstance(frame, commands.Basic.Return):
            self._return_awaiting_header = channel
        if self.listener is not None:
            self.listener.on_frame(channel, cast("Watched", frame))

    def on_lost(self, text: str) -> None:
        """The peer is gone: nothing written or read from here on has any effect."""
        if self.lost is None:
            self.lost = text
            self.abort()
            if self.listener is not None:
                self.listener.on_lost(text)
