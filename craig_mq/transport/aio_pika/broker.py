"""Where to connect through aio-pika, and the dialling of one connection."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import quote

import aio_pika
import trio
from aiormq.exceptions import AuthenticationError
from yarl import URL

from craig_mq.core.close import ConnectionClose
from craig_mq.transport.aio_pika.bridge import ORDINARY_ENDS, Bridge, Work, open_bridge
from craig_mq.transport.aio_pika.connection import AioPikaConnection, PlainConnection
from craig_mq.transport.aio_pika.wire import Wire
from craig_mq.transport.broker import Broker, Connection, ConnectionOptions
from craig_mq.transport.errors import ConnectError, ConnectErrorKind
from craig_mq.transport.url import AmqpUrl, BrokerUrlError

_ACCESS_REFUSED = 403
_NOT_ALLOWED = 530
_FINISH_BOUND_S = 2.0


class AioPikaBroker:
    """Satisfies ``craig_mq.transport.broker.Broker`` for one URL, while its bridge is open."""

    def __init__(self, bridge: Bridge, url: AmqpUrl, tls: ssl.SSLContext | None) -> None:
        self._bridge = bridge
        self._url = url
        self._tls = tls
        self._connections: set[AioPikaConnection] = set()

    @property
    def display_url(self) -> str:
        """The URL without its password."""
        return self._url.display_url

    @asynccontextmanager
    async def connect(self, options: ConnectionOptions) -> AsyncGenerator[Connection, None]:
        """One plain connection for the length of the block."""
        if self._bridge.closed:
            await trio.lowlevel.checkpoint()
            raise ConnectError(ConnectErrorKind.REFUSED, "connect() after the broker's block has ended")
        connection = await self._dial(options)
        self._connections.add(connection)
        try:
            yield connection
        finally:
            self._connections.discard(connection)
            with trio.move_on_after(_FINISH_BOUND_S, shield=True):
                await connection.finish()

    def abort_all(self) -> None:
        """Reset every connection still open."""
        for connection in tuple(self._connections):
            connection.abort()

    async def _dial(self, options: ConnectionOptions) -> AioPikaConnection:
        connection: AioPikaConnection | None = None
        failure = ConnectError(
            ConnectErrorKind.UNREACHABLE,
            f"{self.display_url}: no AMQP connection within {options.connect_timeout:g} s",
        )
        try:
            with trio.move_on_after(options.connect_timeout):
                wire = Wire(await self._open_socket(), self._tls, self._url.host)
                connection = AioPikaConnection(self._bridge, wire, options)
                opened = await self._handshake(connection, wire, options)
                if opened is None:
                    connected, connection = connection, None
                    return connected
                failure = opened
        except OSError as error:
            failure = ConnectError(ConnectErrorKind.UNREACHABLE, f"{self.display_url}: {error}")
        finally:
            if connection is not None:
                with trio.move_on_after(_FINISH_BOUND_S, shield=True):
                    await connection.finish()
        raise failure

    async def _open_socket(self) -> socket.socket:
        """Connect TCP in Trio, which can be cancelled at every step, DNS included."""
        stream = await trio.open_tcp_stream(self._url.host, self._url.port)
        return socket.socket(fileno=stream.socket.detach())

    async def _handshake(
        self, connection: AioPikaConnection, wire: Wire, options: ConnectionOptions
    ) -> ConnectError | None:
        """Run aio-pika's connect; returns the failure instead of raising it from frames that hold the URL."""
        call = connection.tasks.detach(self._connect(connection, wire, options))
        try:
            await call.wait()
        except (*ORDINARY_ENDS, StopAsyncIteration) as error:  # the latter is aiormq's end of file
            return self._failure(error, connection.announced_close())  # noqa: ASYNC910 - the wait is one
        return None

    def _connect(self, connection: AioPikaConnection, wire: Wire, options: ConnectionOptions) -> Work[None]:
        class OverWire(PlainConnection):
            """aio-pika drops ``transport_factory`` on its way to aiormq, unless it is set here."""

            async def connect(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - its signature
                self.kwargs["transport_factory"] = wire
                await super().connect(timeout)
                if self.transport is not None:
                    connection.attach(self, self.transport.connection)

        async def connect() -> None:
            await aio_pika.connect(
                self._client_url(options.heartbeat),
                client_properties={"connection_name": options.name},
                connection_class=OverWire,
            )

        return connect()

    def _client_url(self, heartbeat: int) -> URL:
        url = self._url
        login = f"{quote(url.user, safe='')}:{quote(url.password, safe='')}"
        host = f"[{url.host}]" if ":" in url.host else url.host
        # Plain amqp:// even for TLS, which the wire adds: the scheme would only choose a factory.
        text = f"amqp://{login}@{host}:{url.port}/{quote(url.vhost, safe='')}?heartbeat={heartbeat}"
        return URL(text, encoded=True)

    def _failure(self, error: BaseException, announced: ConnectionClose | None) -> ConnectError:
        """Say whose fault it is: the broker's own refusal, or anything that may pass by itself."""
        if announced is not None:
            refused = announced.code in (_ACCESS_REFUSED, _NOT_ALLOWED)
            text = f"{announced.code} {announced.text}"
        else:
            refused = isinstance(error, AuthenticationError)
            text = f"{type(error).__name__}: {error}"
        kind = ConnectErrorKind.REFUSED if refused else ConnectErrorKind.UNREACHABLE
        return ConnectError(kind, f"{self.display_url}: {text}")


@asynccontextmanager
async def open_aio_pika_broker(
    url: AmqpUrl, *, ssl_context: ssl.SSLContext | None = None
) -> AsyncGenerator[Broker, None]:
    """Open the bridge's asyncio loop for the length of the block; dials nothing.

    Raises BrokerUrlError where the URL's TLS files cannot be used. Connections left open when the
    block ends are reset.
    """
    try:
        tls = ssl_context if url.tls and ssl_context is not None else url.ssl_context()
    except OSError as error:
        raise BrokerUrlError(f"the broker URL's TLS files cannot be used: {error.strerror}") from None
    async with open_bridge() as bridge:
        broker = AioPikaBroker(bridge, url, tls)
        try:
            yield broker
        finally:
            broker.abort_all()
