"""A scripted broker: any frame in any order, on a loopback socket, under the virtual clock.

Loopback bytes are there as soon as they are sent, so the autojump clock only jumps when both sides wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from pamqp import base, body, commands, frame, header, heartbeat

from craig_mq.transport.broker import Broker, Connection, ConnectionOptions
from craig_mq.transport.native import NativeBroker
from craig_mq.transport.url import parse_amqp_url


class ScriptedPeer:
    """The broker's side of one connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def read_frame(self) -> tuple[int, base.Frame | header.ContentHeader | body.ContentBody]:
        """Return the next frame that is not a heartbeat."""
        while True:
            while len(self._buffer) < 8 or len(self._buffer) < int.from_bytes(self._buffer[3:7], "big") + 8:
                data = await self.stream.receive_some(65_536)
                if not data:
                    raise EOFError
                self._buffer += data
            consumed, channel, read = frame.unmarshal(self._buffer)
            self._buffer = self._buffer[consumed:]
            if not isinstance(read, heartbeat.Heartbeat):
                return channel, read

    async def expect(self, kind: type[base.Frame], channel: int | None = None) -> base.Frame:
        """Read on until a method of this kind comes, and return it."""
        while True:
            number, read = await self.read_frame()
            if isinstance(read, kind) and channel in {None, number}:
                return read

    async def send(self, method: base.Frame, channel: int = 1) -> None:
        """Send one method."""
        await self.stream.send_all(frame.marshal(method, channel))

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def shake_hands(
        self, *, heartbeat_s: int = 60, frame_max: int = 131_072, channel_max: int = 2047
    ) -> None:
        """Play the opening handshake."""
        assert await self.stream.receive_some(8) == b"AMQP\x00\x00\x09\x01"
        start = commands.Connection.Start(0, 9, {"product": "scripted"}, "PLAIN EXTERNAL", "en_US")
        await self.send(start, 0)
        await self.expect(commands.Connection.StartOk)
        await self.send(commands.Connection.Tune(channel_max, frame_max, heartbeat_s), 0)
        await self.expect(commands.Connection.TuneOk)
        await self.expect(commands.Connection.Open)
        await self.send(commands.Connection.OpenOk(), 0)

    async def open_channel(self, number: int = 1, *, confirms: bool = False) -> None:
        """Play the opening of a channel."""
        await self.expect(commands.Channel.Open, number)
        await self.send(commands.Channel.OpenOk(), number)
        if confirms:
            await self.expect(commands.Confirm.Select, number)
            await self.send(commands.Confirm.SelectOk(), number)

    async def start_consumer(self, number: int = 1) -> str:
        """Play basic.qos and basic.consume; return the consumer tag."""
        await self.expect(commands.Basic.Qos, number)
        await self.send(commands.Basic.QosOk(), number)
        consume = await self.expect(commands.Basic.Consume, number)
        tag = str(consume["consumer_tag"])
        await self.send(commands.Basic.ConsumeOk(tag), number)
        return tag

    async def deliver(self, tag: str, delivery_tag: int, payload: bytes = b"x", channel: int = 1) -> None:
        """Send one delivery."""
        method = commands.Basic.Deliver(tag, delivery_tag, False, "", "q")
        await self.send(method, channel)
        await self.content(payload, channel)

    async def content(self, payload: bytes, channel: int = 1, **properties: object) -> None:
        """Send a content header and one body frame."""
        head = header.ContentHeader(0, len(payload), commands.Basic.Properties(**properties))
        await self.raw(frame.marshal(head, channel) + frame.marshal(body.ContentBody(payload), channel))


Script = Callable[[ScriptedPeer], Awaitable[None]]


class ScriptedBroker:
    """Where tests open a connection whose other end follows a script."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.accepted = 0
        self.open_sockets = 0

    def broker(self, *, user: str = "guest:guest") -> Broker:
        """A native broker for this address."""
        return NativeBroker(parse_amqp_url(self.url.replace("guest:guest", user)))


@pytest.fixture
def scripted() -> Callable[[Script], object]:
    """Return a context manager that listens and plays a script on each connection."""

    @asynccontextmanager
    async def serve(script: Script) -> AsyncIterator[ScriptedBroker]:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = ScriptedBroker(f"amqp://guest:guest@127.0.0.1:{port}/")

        async def play(stream: trio.SocketStream) -> None:
            server.accepted += 1
            server.open_sockets += 1
            async with stream:
                with suppress(EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
                    await script(ScriptedPeer(stream))
                    while await stream.receive_some(65_536):
                        pass
            server.open_sockets -= 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, play, listeners)
            yield server
            nursery.cancel_scope.cancel(reason="the test is over")

    return serve


@pytest.fixture
def connected(scripted) -> Callable[..., object]:
    """Return a context manager that connects; the handshake is played, then the script follows."""

    @asynccontextmanager
    async def connect(script: Script, *, heartbeat_s: int = 15) -> AsyncIterator[Connection]:
        async def play(peer: ScriptedPeer) -> None:
            await peer.shake_hands()
            await script(peer)

        async with scripted(play) as server:
            options = ConnectionOptions("scripted", heartbeat=heartbeat_s)
            async with server.broker().connect(options) as connection:
                yield connection

    return connect
