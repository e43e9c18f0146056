"""The client's half of a connection."""

from __future__ import annotations

import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError
from craig_mq.transport.memory.channel import MemoryChannel
from craig_mq.transport.memory.node import Node
from craig_mq.transport.memory.served_connection import ServedConnection


class MemoryConnection:
    """Implements ``transport.broker.Connection``."""

    def __init__(self, node: Node, options: ConnectionOptions) -> None:
        """Connect to a running node."""
        self.options = options
        self.served = ServedConnection(node, options.name, self)
        self._channels: list[MemoryChannel] = []
        self._closed: CloseReason | None = None
        self._blocked: str | None = None
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def closed(self) -> CloseReason | None:
        """Why the connection ended, or None."""
        return self._closed

    @property
    def blocked(self) -> str | None:
        """The broker's reason while the connection is blocked."""
        return self._blocked

    async def wait_blocked(self) -> None:
        """Return once blocked or closed."""
        await trio.lowlevel.checkpoint()
        while self._blocked is None and self._closed is None:
            await self._changed.park()

    async def wait_unblocked(self) -> None:
        """Return once not blocked, or closed."""
        await trio.lowlevel.checkpoint()
        while self._blocked is not None and self._closed is None:
            await self._changed.park()

    async def wait_closed(self) -> CloseReason:
        """Return why the connection ended, once it has."""
        await trio.lowlevel.checkpoint()
        while self._closed is None:
            await self._changed.park()
        return self._closed

    async def open_channel(self, *, confirms: bool = False) -> MemoryChannel:
        """Open a channel. Cancelled: the channel is closed when its open-ok arrives."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed is not None:
            raise ClosedError(self._closed)
        channel = MemoryChannel(self, confirms=confirms)
        channel.served = self.served.open_channel(channel)
        self._channels.append(channel)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return channel

    async def aclose(self) -> None:
        """Close gracefully, bounded by ``rpc_timeout``, then abort."""
        done = trio.Event()
        try:
            if self._closed is None:
                self.served.submit(lambda: self._close_at_broker(done))
                with trio.move_on_after(self.options.rpc_timeout):
                    await done.wait()
        finally:
            self.abort_unless_closed()
        await trio.lowlevel.checkpoint()

    def abort(self) -> None:
        """Reset the transport now."""
        self.abort_unless_closed()

    def abort_unless_closed(self) -> None:
        """End this half at once; the broker's half ends as soon as the broker can notice."""
        if self._closed is None:
            self.ended(LocalClose(aborted=True))
            self.served.reset()

    def ended(self, reason: CloseReason) -> None:
        """Fail everything pending on every channel."""
        if self._closed is not None:
            return
        self._closed = reason
        self._changed.unpark_all()
        for channel in self._channels:
            channel.ended(reason)

    def block(self, reason: str | None) -> None:
        """Learn of connection.blocked (a reason) or connection.unblocked (None)."""
        self._blocked = reason
        self._changed.unpark_all()

    def _close_at_broker(self, done: trio.Event) -> None:
        self.ended(LocalClose(aborted=False))
        self.served.end(LocalClose(aborted=False))
        done.set()
