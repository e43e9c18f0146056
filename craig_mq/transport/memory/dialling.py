"""Connecting to the model, and keeping its timers while connected."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ConnectError, ConnectErrorKind
from craig_mq.transport.memory.connection import MemoryConnection
from craig_mq.transport.memory.fault_actions import Delay, Hang, LoseConnection, Operation, Raise
from craig_mq.transport.memory.node import Node
from craig_mq.transport.memory.timers import Timers


async def dial(node: Node, options: ConnectionOptions) -> MemoryConnection:
    """Connect within ``connect_timeout``. Raises ConnectError. Cancelled: nothing is left open."""
    await _meet_faults(node, options)
    if not node.running:
        raise ConnectError(ConnectErrorKind.UNREACHABLE, "connection refused")
    if node.connection_limit is not None and len(node.connections) >= node.connection_limit:
        text = f"NOT_ALLOWED - access to vhost '/' refused for user '{node.user}': connection limit reached"
        raise ConnectError(ConnectErrorKind.REFUSED, text)
    node.timers.run_due()
    return MemoryConnection(node, options)


async def _meet_faults(node: Node, options: ConnectionOptions) -> None:
    await trio.lowlevel.checkpoint()
    faults = node.faults
    action = None if faults is None else faults.meet(Operation.CONNECT, options.name, options.name)
    match action:
        case Raise(text) | LoseConnection(text):
            raise ConnectError(ConnectErrorKind.UNREACHABLE, text)
        case Delay(seconds):
            await _wait(seconds, options)
        case Hang():
            await _wait(math.inf, options)
        case _:
            pass


async def _wait(seconds: float, options: ConnectionOptions) -> None:
    with trio.move_on_after(options.connect_timeout) as scope:
        await trio.sleep(seconds)
    if scope.cancelled_caught:
        raise ConnectError(ConnectErrorKind.UNREACHABLE, "no answer within connect_timeout")


@asynccontextmanager
async def keeping(timers: Timers) -> AsyncGenerator[None, None]:
    """Keep the node's timers for the length of the block; what the block raises leaves it unwrapped."""
    # As a real client's, the block has a task of its own: an error and a cancel can leave it together.
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timers.keep)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel(reason="the connection's block ends")
    except BaseExceptionGroup as group:
        error, *others = group.exceptions
        if others:
            raise
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context
            del error, group


@asynccontextmanager
async def kept_by_others() -> AsyncGenerator[None, None]:
    """Leave the block as ``keeping`` does, where the timers are kept already and need no task."""
    try:
        yield
    except Exception as error:
        try:
            await trio.lowlevel.checkpoint()  # noqa: ASYNC120 - what is active is raised with the cancel
        except trio.Cancelled as cancelled:  # noqa: ASYNC104 - it is raised, in the group
            both = BaseExceptionGroup("the connection's block failed, and was cancelled", [error, cancelled])
            raise both from None  # noqa: ASYNC104 - see above
        raise
    await trio.lowlevel.checkpoint()
