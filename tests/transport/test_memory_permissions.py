"""The embedded broker refusing: permissions, features, connections."""

from __future__ import annotations

import pytest

from craig_mq.core.close import ChannelClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import ACKED, Unconfirmed
from craig_mq.core.topology import BindingSpec, QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError, ConnectError, ConnectErrorKind

OPTIONS = ConnectionOptions("test")
QUORUM = {"x-queue-type": "quorum"}


def publication(queue: str = "q", body: bytes = b"", exchange: str = "", **properties: object) -> Publication:
    return Publication(exchange, queue, body, Properties(message_id="m", delivery_mode=2, **properties))


async def test_permissions_refuse_by_kind(autojump_clock):
    """Declares need ``configure`` always; a passive one needs nothing on 3.10 (fact 11, PERM-01)."""
    broker = MemoryBroker()
    broker.declare_queue("q")
    broker.set_permissions(configure="^$")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        with pytest.raises(ClosedError) as caught:
            await channel.declare_queue(QueueSpec("q"))
        text = "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'guest'"
        assert caught.value.reason == ChannelClose(403, text, 50, 10)
        other = await connection.open_channel(confirms=True)
        assert (await other.declare_queue(QueueSpec("q"), passive=True)).name == "q"
        assert await other.publish(publication()) == ACKED
        broker.set_permissions(write="^$")
        assert isinstance(await other.publish(publication()), Unconfirmed)
        assert other.closed.text.startswith("ACCESS_REFUSED - access to exchange 'amq.default'")
        broker.set_permissions(read="^$")
        for refused in ("consume", "get", "purge", "bind"):
            channel = await connection.open_channel()
            calls = {
                "consume": lambda channel=channel: channel.consume("q", prefetch=1),
                "get": lambda channel=channel: channel.get("q"),
                "purge": lambda channel=channel: channel.purge_queue("q"),
                "bind": lambda channel=channel: channel.bind_queue(BindingSpec("amq.topic", "q", "k")),
            }
            with pytest.raises(ClosedError) as caught:
                await calls[refused]()
            assert caught.value.reason.code == 403
        broker.set_permissions()
        assert await (await connection.open_channel()).get("q") is not None


async def test_on_4_3_looking_needs_configure(autojump_clock):
    """From 4.2.6/4.3.0 a passive declare needs ``configure``, and the text names it (fact 11)."""
    broker = MemoryBroker("4.3")
    broker.declare_queue("q")
    broker.set_permissions(configure="^$")
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with pytest.raises(ClosedError, match="configure access to queue 'q'"):
            await channel.declare_queue(QueueSpec("q"), passive=True)


async def test_transient_queues_are_refused_on_4_3(autojump_clock):
    """From 4.3 a transient, non-exclusive queue is refused (fact 18)."""
    async with MemoryBroker("4.3").connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with pytest.raises(ClosedError, match="transient_nonexcl_queues"):
            await channel.declare_queue(QueueSpec("q", durable=False))


async def test_a_connection_limit_refuses(autojump_clock):
    """Beyond the connection limit a connect is refused, not unreachable (CHRN-01)."""
    broker = MemoryBroker()
    broker.set_connection_limit(1)
    async with broker.connect(OPTIONS):
        with pytest.raises(ConnectError) as caught:
            async with broker.connect(OPTIONS):
                pass
        assert caught.value.kind is ConnectErrorKind.REFUSED
    async with broker.connect(OPTIONS) as connection:
        assert connection.closed is None
