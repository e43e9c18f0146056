"""Which transport serves a URL. Clients and bridges are imported only once they are asked for."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal, TypeAlias, cast, get_args

from craig_mq.transport.broker import Broker
from craig_mq.transport.url import AmqpUrl, BrokerUrlError, parse_amqp_url

MEMORY_URL: Final = "memory://"

TransportName: TypeAlias = Literal["native", "aio-pika"]


class UnknownTransport(ValueError):
    """``open_broker`` was asked for a transport that there is not; the text names those there are."""


def open_broker(
    url: str, *, transport: TransportName = "native", ssl_context: ssl.SSLContext | None = None
) -> AbstractAsyncContextManager[Broker]:
    """Open a broker for the length of the block; it dials nothing until ``connect``.

    ``memory://`` is an in-process broker with RabbitMQ's semantics; ``amqp://`` and ``amqps://`` are
    served by ``transport``: the native one, or aio-pika through a bridge, whose bounds are weaker.
    ``ssl_context`` replaces the one the URL's options ask for. Raises BrokerUrlError at once, holding
    no part of the URL, and UnknownTransport. Leaving the block ends what the transport runs in the
    background; connections must have been left before.
    """
    # Each error is raised once url is gone: a traceback that shows local variables shows no password then.
    if transport not in get_args(TransportName):
        del url
        raise UnknownTransport(
            f"transport must be one of {', '.join(get_args(TransportName))}: {transport!r}"
        )
    if not isinstance(cast("object", url), str):
        kind = type(url).__name__
        del url
        raise BrokerUrlError(f"the broker URL must be a str, not {kind}")
    if url == MEMORY_URL:
        return _open_memory()
    parsed: AmqpUrl | None = None
    problem = ""
    try:
        parsed = parse_amqp_url(url)
    except BrokerUrlError as error:
        problem = str(error)
    del url  # and raised afresh: the parser's frames hold it as well
    if parsed is None:
        raise BrokerUrlError(f"{problem} (or use {MEMORY_URL} for the embedded broker)")
    if transport == "native":
        return _open_native(parsed, ssl_context)
    from craig_mq.transport.aio_pika import open_aio_pika_broker

    return open_aio_pika_broker(parsed, ssl_context=ssl_context)


@asynccontextmanager
async def _open_native(url: AmqpUrl, ssl_context: ssl.SSLContext | None) -> AsyncGenerator[Broker, None]:
    from craig_mq.transport.native import NativeBroker

    yield NativeBroker(url, ssl_context=ssl_context)


@asynccontextmanager
async def _open_memory() -> AsyncGenerator[Broker, None]:
    from craig_mq.transport.memory import MemoryBroker

    yield MemoryBroker()
