"""The native broker: a parsed URL, and plain connections for the length of a block."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import trio

from craig_mq.transport.broker import Connection, ConnectionOptions
from craig_mq.transport.native.connection import NativeConnection
from craig_mq.transport.native.dial import Progress, Target, dial, shake_hands, unreachable
from craig_mq.transport.native.events import Event
from craig_mq.transport.native.writer import PendingWriters
from craig_mq.transport.url import AmqpUrl

_RESOLVERS: Final = 8
"""So many name look-ups may be under way, abandoned ones included."""


class NativeBroker:
    """AMQP 0-9-1 on Trio streams. See ``transport.broker.Broker``."""

    def __init__(
        self, url: AmqpUrl, *, ssl_context: ssl.SSLContext | None = None, external: bool = False
    ) -> None:
        """Dial nothing yet. ``external`` logs in by the client certificate (SASL EXTERNAL).

        ``ssl_context`` replaces the one the URL's options ask for; the files those name are read at
        every connect, so a renewed certificate needs no restart.
        """
        self._target = Target(url, ssl_context, external)
        self._pending = PendingWriters()
        self._resolvers = trio.CapacityLimiter(_RESOLVERS)

    def __repr__(self) -> str:
        return f"<NativeBroker {self.display_url}>"

    @property
    def display_url(self) -> str:
        """See the protocol."""
        return self._target.url.display_url

    def connect(self, options: ConnectionOptions) -> AbstractAsyncContextManager[Connection]:
        """See the protocol."""
        return self._connect(options)

    @asynccontextmanager
    async def _connect(self, options: ConnectionOptions) -> AsyncGenerator[Connection]:
        failure: BaseException | None = None
        connection, early = await self._open(options)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run, early)
                try:
                    yield connection
                except BaseException as error:  # noqa: BLE001, ASYNC103 - raised below, out of the group
                    failure = error
                connection.abort()
        except BaseExceptionGroup as group:
            _, defects = group.split(trio.Cancelled)
            if failure is None or defects is not None:
                raise
        if failure is not None:
            raise failure

    async def _open(self, options: ConnectionOptions) -> tuple[NativeConnection, list[Event]]:
        """Dial and shake hands under one deadline. Raises ConnectError. Cancelled: nothing is left open."""
        progress = Progress()
        with trio.move_on_after(options.connect_timeout):
            stream = await dial(self._target, progress, self._resolvers)
            try:
                protocol, heartbeat, early = await shake_hands(stream, self._target, options, progress)
            except BaseException:
                stream.reset()
                raise
            return NativeConnection(stream, protocol, options, heartbeat, self._pending), early
        raise unreachable(f"no answer within {options.connect_timeout:g} s while {progress.step}")
