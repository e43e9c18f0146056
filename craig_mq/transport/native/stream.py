"""A byte stream that can be reset: the only thing between the transport and the network."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import trio

_RESET = struct.pack("ii", 1, 0)
_READ_SIZE = 65_536


class ByteStream:
    """A TCP stream, with or without TLS on top."""

    __slots__ = ("_socket", "_stream")

    def __init__(self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        """Wrap an open stream."""
        self._stream = stream
        base = stream if isinstance(stream, trio.SocketStream) else stream.transport_stream
        self._socket = base.socket

    async def receive(self) -> bytes:
        """Return some bytes, none at the end of the stream. Raises trio's resource errors."""
        return bytes(await self._stream.receive_some(_READ_SIZE))

    async def send_all(self, data: bytes) -> None:
        """Hand everything to the operating system. Raises trio's resource errors.

        Cancelled: part of it may be out, so the stream can only be reset.
        """
        await self._stream.send_all(data)

    def close(self) -> None:
        """Close with a FIN, synchronously; what the operating system has accepted still goes out."""
        self._socket.close()

    def reset(self) -> None:
        """Close with a RST: nothing abandoned here is executed later (decisions, 7)."""
        with suppress(OSError):  # already closed
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()
