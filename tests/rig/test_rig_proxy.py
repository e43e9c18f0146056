"""The proxy that breaks networks on purpose, against an echo server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from craig_mq.testing.proxy import Direction, TcpProxy, open_tcp_proxy


async def _echo(stream: trio.SocketStream) -> None:
    try:
        async for chunk in stream:
            await stream.send_all(chunk)
    except trio.BrokenResourceError:
        pass
    finally:
        stream.socket.close()


@asynccontextmanager
async def _echo_behind_proxy() -> AsyncIterator[TcpProxy]:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, _echo, 0)
        async with open_tcp_proxy("127.0.0.1", listeners[0].socket.getsockname()[1]) as proxy:
            yield proxy
        nursery.cancel_scope.cancel(reason="test over")


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = await stream.receive_some(count - len(received))
        assert chunk, "the connection ended early"
        received += chunk
    return received


async def test_bytes_pass_both_ways_and_eof_follows() -> None:
    """What goes in comes out unchanged, and a half-close reaches the other end."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        payload = bytes(range(256)) * 1_000
        await client.send_all(payload)
        assert await _exactly(client, len(payload)) == payload
        await client.send_eof()
        assert await client.receive_some() == b""
        assert proxy.passed(Direction.TO_SERVER) == len(payload)


async def test_a_frozen_proxy_moves_nothing_and_loses_nothing() -> None:
    """Frozen, nothing arrives and nothing closes; thawed, what was sent meanwhile arrives."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        proxy.freeze()
        await client.send_all(b"held back")
        with trio.move_on_after(0.2) as waiting:
            await client.receive_some()
        assert waiting.cancelled_caught
        proxy.thaw()
        assert await _exactly(client, 9) == b"held back"


async def test_a_frozen_proxy_still_accepts() -> None:
    """A connection made while frozen is accepted, silent, and works once thawed."""
    async with _echo_behind_proxy() as proxy:
        proxy.freeze()
        async with await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
            await client.send_all(b"hello")
            proxy.thaw()
            assert await _exactly(client, 5) == b"hello"


async def test_swallowed_bytes_are_lost_in_one_direction_only() -> None:
    """Bytes swallowed on their way back never arrive, though the server got the request."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        proxy.swallow(Direction.TO_CLIENT)
        await client.send_all(b"lost")
        with trio.move_on_after(0.2) as waiting:
            await client.receive_some()
        assert waiting.cancelled_caught
        assert proxy.passed(Direction.TO_SERVER) == 4
        proxy.heal()
        await client.send_all(b"seen")
        assert await _exactly(client, 4) == b"seen"


async def test_a_reset_reaches_the_client_as_an_error() -> None:
    """A reset connection fails with RST, not with a clean end of file."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        await client.send_all(b"x")
        await _exactly(client, 1)
        proxy.reset()
        with pytest.raises(trio.BrokenResourceError):
            await client.receive_some()


async def test_latency_delays_without_limiting_throughput() -> None:
    """With 0.2 s each way a round trip takes 0.4 s however many chunks are under way."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        proxy.delay(0.2)
        started = trio.current_time()
        for _ in range(20):
            await client.send_all(b"y" * 1_000)
        await _exactly(client, 20_000)
        assert 0.39 <= trio.current_time() - started < 2.0


async def test_bandwidth_is_limited() -> None:
    """At 100,000 bytes a second 50,000 bytes take about half a second or longer."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        proxy.throttle(100_000, Direction.TO_SERVER)
        started = trio.current_time()
        for _ in range(5):
            await client.send_all(b"z" * 10_000)
            await _exactly(client, 10_000)
        assert trio.current_time() - started >= 0.35


async def test_a_cut_happens_at_the_exact_byte() -> None:
    """A connection told to end after 10 bytes delivers 10 of them, then resets both ends."""
    async with _echo_behind_proxy() as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
        proxy.cut_after(10, Direction.TO_SERVER)
        await client.send_all(b"0123456789abcdef")
        with pytest.raises(trio.BrokenResourceError):
            await _exactly(client, 16)
        assert proxy.passed(Direction.TO_SERVER) == 10


async def test_the_url_points_at_the_proxy_and_keeps_the_login() -> None:
    """Only host and port of a URL change; login, vhost and query stay."""
    async with _echo_behind_proxy() as proxy:
        url = proxy.url("amqp://u:p%40@10.0.0.1:5672/v%2Fh?x=1")
        assert url == f"amqp://u:p%40@127.0.0.1:{proxy.port}/v%2Fh?x=1"
