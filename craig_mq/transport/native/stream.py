"""A byte stream that can be reset: the only thing between the transport and the network."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Protocol

import trio

_RESET = struct.pack("ii", 1, 0)
_READ_SIZE = 65_536


class ByteStream(Protocol):
    """What the transport needs of the network."""

    async def receive(self) -> bytes:
        """Return some bytes, none at the end of the stream. Raises trio's resource errors."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Hand everything to the operating system. Raises trio's resource errors.

        Cancelled: part of it may be out, so the stream can only be reset.
        """
        ...

    def send_nowait(self, data: bytes) -> int:
        """Hand over what goes without waiting; return how many bytes, 0 where anything is in the way.

        Never raises: a failure shows at the next ``send_all``.
        """
        ...

    def close(self) -> None:
        """Close with a FIN, synchronously; what the operating system has accepted still goes out."""
        ...

    def reset(self) -> None:
        """Close with a RST: nothing abandoned here is executed later (decisions, 7). Idempotent."""
        ...


class TlsStream:
    """TLS over TCP, as Trio does it."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        """Wrap a stream whose handshake is done."""
        self._stream = stream
        self._socket = stream.transport_stream.socket

    async def receive(self) -> bytes:
        """See ByteStream."""
        return bytes(await self._stream.receive_some(_READ_SIZE))

    async def send_all(self, data: bytes) -> None:
        """See ByteStream."""
        await self._stream.send_all(data)

    def send_nowait(self, data: bytes) -> int:  # noqa: ARG002 - the protocol's signature
        """See ByteStream. Trio's TLS only knows how to wait."""
        return 0

    def close(self) -> None:
        """See ByteStream."""
        self._socket.close()

    def reset(self) -> None:
        """See ByteStream."""
        with suppress(OSError):  # already closed
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()


class TcpStream:
    """Plain TCP with as few system calls and scheduler passes as the traffic allows.

    Trio's own stream tries first, waits on failure and yields in any case: two calls and a pass
    more per read, which is most of what a prefetch of one costs. Here a read that did not fill its
    buffer has emptied the socket, so the next one waits first.
    """

    def __init__(self, connected: socket.socket) -> None:
        """Take over a connected, non-blocking socket."""
        self._socket = connected
        self._emptied = True

    async def receive(self) -> bytes:
        """See ByteStream."""
        while True:
            if self._emptied:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                await trio.lowlevel.checkpoint()
            try:
                data = self._socket.recv(_READ_SIZE)
            except BlockingIOError:
                self._emptied = True
            except OSError as error:
                raise self._failure() from error
            else:
                self._emptied = len(data) < _READ_SIZE
                return data

    async def send_all(self, data: bytes) -> None:  # noqa: ASYNC910 - the writer parks when it has nothing
        """See ByteStream. Yields only when the socket is full."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
            except OSError as error:
                raise self._failure() from error

    def send_nowait(self, data: bytes) -> int:
        """See ByteStream."""
        try:
            return self._socket.send(data)
        except OSError:
            return 0

    def _failure(self) -> trio.ClosedResourceError | trio.BrokenResourceError:
        if self._socket.fileno() < 0:
            return trio.ClosedResourceError("this side closed the socket")
        return trio.BrokenResourceError("the socket failed")

    def close(self) -> None:
        """See ByteStream."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def reset(self) -> None:
        """See ByteStream."""
        with suppress(OSError):  # already closed
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()
