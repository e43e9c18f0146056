"""Losing one ack between the runtime and the broker: the fault kit's way on each of the two brokers.

Both lose the connection that carries it, because AMQP has no reply to an ack: nothing less makes a
broker deliver again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from craig_mq.testing.proxy import Direction, TcpProxy, open_tcp_proxy
from craig_mq.transport.broker import Broker
from craig_mq.transport.memory import Fault, FaultPlan, LoseConnection, MemoryBroker, Occurrence
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import BrokerUrlError, parse_amqp_url


class AckLoss(Protocol):
    """``arm`` dooms the next ack, ``heal`` lets everything through again; both are idempotent."""

    def arm(self) -> None:
        """Doom the next ack."""
        ...

    def heal(self) -> None:
        """Let everything through again."""
        ...


class EmbeddedAckLoss:
    """The embedded broker's fault plan, switched on for one ack of one queue."""

    def __init__(self, broker: MemoryBroker, queue: str) -> None:
        self._armed = False
        broker.inject(
            FaultPlan((Fault("ack", LoseConnection(), name=queue, where=self._is_armed, times=None),))
        )

    def _is_armed(self, occurrence: Occurrence) -> bool:
        del occurrence
        return self._armed

    def arm(self) -> None:
        """Doom the next ack."""
        self._armed = True

    def heal(self) -> None:
        """Let everything through again."""
        self._armed = False


class ProxyAckLoss:
    """A proxy in front of RabbitMQ: the next bytes to the server, which hold the ack, meet a reset."""

    def __init__(self, proxy: TcpProxy) -> None:
        self._proxy = proxy

    def arm(self) -> None:
        """Doom the next ack."""
        self._proxy.cut_after(0, Direction.TO_SERVER)

    def heal(self) -> None:
        """Let everything through again."""
        self._proxy.heal()


@asynccontextmanager
async def open_lossy_broker(url: str) -> AsyncGenerator[tuple[Broker, AckLoss]]:
    """Open a RabbitMQ whose acks can be lost, for the length of the block. Raises BrokerUrlError."""
    address = parse_amqp_url(url)
    if address.tls:
        raise BrokerUrlError("the proxy that loses acks cannot stand inside TLS: use an amqp:// URL")
    async with (
        open_tcp_proxy(address.host, address.port) as proxy,
        open_broker(proxy.url(url)) as broker,
    ):
        yield broker, ProxyAckLoss(proxy)
