"""A TCP proxy whose network can be broken on purpose, for tests against a real broker.

::

    async with open_tcp_proxy("127.0.0.1", node.port) as proxy:
        url = proxy.url(node.url)
        ...
        proxy.freeze()                      # nothing moves; every connection stays open
        proxy.swallow(Direction.TO_CLIENT)  # read and thrown away
        proxy.reset()                       # RST to both ends of every connection

Times are seconds on Trio's clock; sockets are real, so run it on the real clock.
"""

from __future__ import annotations

import enum
import math
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

import attrs
import trio

_CHUNK = 65_536
_IN_FLIGHT_CHUNKS = 64  # what a delayed link can hold: 4 MiB a direction
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


class Direction(enum.Enum):
    """Which way bytes travel."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"


@attrs.define(slots=True)
class _Link:
    """The faults of one direction, shared by every connection of the proxy."""

    swallow: bool = False
    latency_s: float = 0.0
    bytes_per_s: float = math.inf
    cut_after: int | None = None
    passed: int = 0


@attrs.define(slots=True, eq=False)
class _Pair:
    client: trio.SocketStream
    server: trio.SocketStream

    def reset(self) -> None:
        for stream in (self.client, self.server):
            with suppress(OSError):  # already closed by its own pump
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            stream.socket.close()


class TcpProxy:
    """Forwards connections to the first server that accepts; faults apply to live and later ones alike."""

    def __init__(self, host: str, ports: tuple[int, ...], listen_port: int) -> None:
        self._targets = [(host, port) for port in ports]
        self.port = listen_port
        self._links = {direction: _Link() for direction in Direction}
        self._thawed = trio.Event()
        self._thawed.set()
        self._pairs: set[_Pair] = set()
        self.accepted = 0

    def url(self, url: str) -> str:
        """Return ``url`` with its host and port replaced by the proxy's own."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}"))

    @property
    def connections(self) -> int:
        """How many connections are open through the proxy now."""
        return len(self._pairs)

    def passed(self, direction: Direction) -> int:
        """Return how many bytes went through in that direction so far."""
        return self._links[direction].passed

    def freeze(self) -> None:
        """Stop moving bytes both ways; connections stay open, new ones are accepted and wait."""
        if self._thawed.is_set():
            self._thawed = trio.Event()

    def thaw(self) -> None:
        """Move bytes again, those held back first."""
        self._thawed.set()

    def swallow(self, direction: Direction) -> None:
        """Read and throw away what travels in that direction, until ``heal``."""
        self._links[direction].swallow = True

    def delay(self, latency_s: float, *directions: Direction) -> None:
        """Deliver every byte ``latency_s`` later in the given directions (both by default)."""
        for direction in directions or Direction:
            self._links[direction].latency_s = latency_s

    def throttle(self, bytes_per_s: float, *directions: Direction) -> None:
        """Limit each connection's bandwidth in the given directions (both by default)."""
        for direction in directions or Direction:
            self._links[direction].bytes_per_s = bytes_per_s

    def cut_after(self, count: int, direction: Direction) -> None:
        """Reset every connection once ``count`` more bytes went through in that direction."""
        link = self._links[direction]
        link.cut_after = link.passed + count

    def heal(self) -> None:
        """Remove every fault; bytes already swallowed stay lost."""
        for link in self._links.values():
            link.swallow, link.latency_s, link.bytes_per_s, link.cut_after = False, 0.0, math.inf, None
        self.thaw()

    def reset(self) -> None:
        """Send RST to both ends of every live connection."""
        for pair in tuple(self._pairs):
            pair.reset()

    async def serve_connection(self, client: trio.SocketStream) -> None:
        """Forward one accepted connection until both its directions have ended."""
        self.accepted += 1
        await self._thawed.wait()
        server = await self._dial()
        if server is None:
            await trio.aclose_forcefully(client)
            return
        pair = _Pair(client, server)
        self._pairs.add(pair)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._forward, pair, Direction.TO_SERVER)
                nursery.start_soon(self._forward, pair, Direction.TO_CLIENT)
        finally:
            self._pairs.discard(pair)
            for stream in (client, server):
                stream.socket.close()

    async def _dial(self) -> trio.SocketStream | None:
        for target in self._targets:
            with suppress(OSError):
                return await trio.open_tcp_stream(*target)
        return None  # noqa: ASYNC910 - there is at least one target, which was dialled

    async def _forward(self, pair: _Pair, direction: Direction) -> None:
        to_server = direction is Direction.TO_SERVER
        source, sink = (pair.client, pair.server) if to_server else (pair.server, pair.client)
        send, receive = trio.open_memory_channel[tuple[float, bytes]](_IN_FLIGHT_CHUNKS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, pair, source, send, self._links[direction])
            nursery.start_soon(self._write, pair, sink, receive, self._links[direction])

    async def _read(
        self,
        pair: _Pair,
        source: trio.SocketStream,
        send: trio.MemorySendChannel[tuple[float, bytes]],
        link: _Link,
    ) -> None:
        async with send:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while True:
                    await self._thawed.wait()
                    chunk = await source.receive_some(_CHUNK)
                    if not chunk:
                        return
                    if not link.swallow:
                        await send.send((trio.current_time() + link.latency_s, chunk))
            pair.reset()  # one end is broken: the other must learn of it the same way

    async def _write(
        self,
        pair: _Pair,
        sink: trio.SocketStream,
        receive: trio.MemoryReceiveChannel[tuple[float, bytes]],
        link: _Link,
    ) -> None:
        async with receive:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for due, chunk in receive:
                    await trio.sleep_until(due)
                    await self._thawed.wait()
                    admitted, cut = self._admitted(chunk, link)
                    await sink.send_all(admitted)
                    if cut:
                        pair.reset()
                        return
                    await trio.sleep(len(chunk) / link.bytes_per_s)
                await sink.send_eof()
                return
            pair.reset()

    @staticmethod
    def _admitted(chunk: bytes, link: _Link) -> tuple[bytes, bool]:
        """Count what may pass, up to the limit; tell whether the connection is cut behind it.

        Decided at once: a fault healed while the rest is being sent must not leave a stream with a hole.
        """
        if link.cut_after is not None:
            chunk = chunk[: max(0, link.cut_after - link.passed)]
        link.passed += len(chunk)
        return chunk, link.cut_after is not None and link.passed >= link.cut_after


@asynccontextmanager
async def open_tcp_proxy(host: str, *ports: int) -> AsyncGenerator[TcpProxy, None]:
    """Listen on a free loopback port and forward to ``host`` for the length of the block.

    Each connection goes to the first of ``ports`` that accepts it, as a load balancer would do.
    Leaving (or being cancelled) resets every connection still open.
    """
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = TcpProxy(host, ports, listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, proxy.serve_connection, listeners)
        try:
            yield proxy
        finally:
            proxy.reset()
            nursery.cancel_scope.cancel(reason="the proxy's block ended")
