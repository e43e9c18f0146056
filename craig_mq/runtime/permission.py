"""Asks, before anything is consumed, whether this user may publish at all (decisions, 18; PERM-01).

Without it a subscription would start, run its first handler, and only then learn that nothing it does
can be settled. The question must leave no message anywhere, whatever is bound to an exchange: so it is
a publish that RabbitMQ refuses for its properties (406), which it looks at after the permission (403).
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Iterable

import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.runtime.declare import ACCESS_REFUSED
from craig_mq.transport.broker import Broker, Channel, Connection, ConnectionOptions
from craig_mq.transport.errors import ClosedError

NEVER_STORED = Properties(message_id="permission", expiration="never stored: asks for permission to publish")
"""No number, so that no broker accepts it; the text is what the broker's log will show."""


class PublishRefused(Exception):
    """This user may not publish to ``exchange``."""

    def __init__(self, exchange: str, close: ChannelClose) -> None:
        """Keep the broker's own text, which names the user and the exchange."""
        super().__init__(f"publishing to exchange {exchange or 'amq.default'}: {close.code} {close.text}")
        self.exchange = exchange
        self.close = close


async def check_publish_permission(
    broker: Broker, options: ConnectionOptions, exchanges: Iterable[str]
) -> None:
    """Raise PublishRefused for the first exchange this user may not publish to.

    It has a connection of its own, since an alarm stops RabbitMQ from reading one that published. Where
    the broker does not answer because of an alarm, nothing is known and nothing is raised. Raises
    TransportError where the connection fails. Cancelled: the connection is reset.
    """
    async with broker.connect(options) as connection:
        for exchange in exchanges:
            channel = await connection.open_channel(confirms=True)
            with trio.move_on_after(options.rpc_timeout):
                await _ask(connection, channel, exchange)
            if connection.closed is not None:
                raise ClosedError(connection.closed)
            if isinstance(channel.closed, ChannelClose) and channel.closed.code == ACCESS_REFUSED:
                raise PublishRefused(exchange, channel.closed)
        if connection.blocked is None:
            await connection.aclose()


async def _ask(connection: Connection, channel: Channel, exchange: str) -> None:
    """Return once the broker has answered, which closes the channel, or cannot answer."""

    async def stop_when_blocked(asking: trio.CancelScope) -> None:
        await connection.wait_blocked()
        asking.cancel(reason="the broker is blocked and answers nothing")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_when_blocked, nursery.cancel_scope)
        await channel.publish(Publication(exchange, "", b"", NEVER_STORED))
        nursery.cancel_scope.cancel(reason="the broker has answered")
