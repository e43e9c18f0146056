"""One plain connection for one operator's act."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from craig_mq.transport.broker import Broker, Connection, ConnectionOptions
from supervisors.exits import leaves


def options_for(what: str) -> ConnectionOptions:
    """Connection options under a name that the broker's own tools show."""
    return ConnectionOptions(name=f"craig_mq operator: {what}")


@asynccontextmanager
async def connected(broker: Broker, what: str) -> AsyncGenerator[Connection, None]:
    """Connect for the length of the block; what the block raises passes as it was raised.

    (A connection's own tasks live in a nursery around the block, which would wrap it in a group.)
    Raises ConnectError. Cancelled: the connection is aborted.
    """
    try:
        async with broker.connect(options_for(what)) as connection:
            yield connection
    except BaseExceptionGroup as group:
        raise sole(group) from None


def sole(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception in a group of one, however nested; else the group."""
    found = list(leaves(group))
    return found[0] if len(found) == 1 else group
