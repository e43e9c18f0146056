"""The client's half of a connection."""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.core.delivery import Delivery, Publication
from craig_mq.core.outcome import Confirmation
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError, OperationTimedOut, TransportError
from craig_mq.transport.memory.channel import MemoryChannel
from craig_mq.transport.memory.fault_actions import Delay, Hang, LateSuccess, Operation
from craig_mq.transport.memory.injection import Struck, strike
from craig_mq.transport.memory.node import Node
from craig_mq.transport.memory.reply import Reply
from craig_mq.transport.memory.served_connection import ServedConnection


class MemoryConnection:
    """Implements ``transport.broker.Connection``."""

    def __init__(self, node: Node, options: ConnectionOptions) -> None:
        """Connect to a running node."""
        self.options = options
        self.served = ServedConnection(node, options.name, self, heartbeat=options.heartbeat)
        self._node = node
        self._inward = self.served.inward
        self._outward = self.served.outward
        self._channels: dict[MemoryChannel, None] = {}
        self._opening: dict[Callable[[TransportError], None], None] = {}
        self._closed: CloseReason | None = None
        self._blocked: str | None = None
        self._changed = trio.lowlevel.ParkingLot()
        self._writable_at = -math.inf

    @property
    def closed(self) -> CloseReason | None:
        """Why the connection ended, or None."""
        return self._closed

    @property
    def blocked(self) -> str | None:
        """The broker's reason while the connection is blocked."""
        return self._blocked

    @property
    def undisturbed(self) -> bool:
        """Whether an operation takes effect and is answered at once, with no fault to meet."""
        node = self._node
        return node.faults is None and not node.alarms and self._inward.free and self._outward.free

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
        reply: Reply[None] = Reply()

        def open_at_broker() -> None:
            channel.opened(self.served.open_channel(channel))
            self.served.tell(lambda: reply.set(None))

        self._opening[reply.fail] = None
        try:
            self.issue(Operation.OPEN_CHANNEL, self.options.name, None, open_at_broker, reply.fail)
            if reply.done:
                await reply.wait()
            else:
                with trio.fail_after(self.options.rpc_timeout):
                    await reply.wait()
            self._channels[channel] = None
        except trio.TooSlowError:
            raise OperationTimedOut("no answer to open_channel in time") from None
        finally:
            self._opening.pop(reply.fail, None)
            if channel not in self._channels:
                self._inward.push(lambda: channel.close_at_broker(LocalClose(aborted=False)))
        return channel

    def issue(
        self,
        operation: Operation,
        name: str,
        channel: MemoryChannel | None,
        command: Callable[[], None],
        fail: Callable[[TransportError], None],
        *,
        subject: Delivery | Publication | None = None,
        answer: Callable[[Confirmation], None] | None = None,
    ) -> None:
        """Send a command to the broker in order, past whatever fault it meets."""
        faults = self._node.faults
        action = None if faults is None else faults.meet(operation, self.options.name, name, subject)
        if action is None:
            self._inward.push(command)
            return
        served = None if channel is None else channel.served
        struck = Struck(self.served, served, self._inward, command, fail)
        if answer is not None:
            struck.answer = answer
        strike(action, struck)

    async def flush(self, channel: MemoryChannel) -> None:  # noqa: ASYNC910 - waits only for a full socket
        """Return once this side's socket has taken everything, unless the channel ends first."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._meet_at_flush(channel)
        while channel.closed is None and self._writable_at > trio.current_time():
            with trio.move_on_at(self._writable_at):
                await channel.wait_closed()
        if channel.closed is not None:
            raise ClosedError(channel.closed)

    async def aclose(self) -> None:
        """Close gracefully, bounded by ``rpc_timeout``, then abort."""
        done = trio.Event()

        def close_at_broker() -> None:
            self.ended(LocalClose(aborted=False))
            self.served.end(LocalClose(aborted=False))
            done.set()

        try:
            if self._closed is None:
                self.issue(Operation.CLOSE, self.options.name, None, close_at_broker, lambda _: None)
            if self._closed is None:
                with trio.move_on_after(self.options.rpc_timeout):
                    await done.wait()
        finally:
            self.abort()
        await trio.lowlevel.checkpoint()

    def abort(self) -> None:
        """Reset the transport now; the broker's half ends as soon as the broker can notice."""
        if self._closed is None:
            self.ended(LocalClose(aborted=True))
            self.served.hang_up(discard=True)

    def ended(self, reason: CloseReason) -> None:
        """Fail everything pending on every channel."""
        if self._closed is not None:
            return
        self._closed = reason
        self._changed.unpark_all()
        for fail in tuple(self._opening):
            fail(ClosedError(reason))
        for channel in tuple(self._channels):
            channel.ended(reason)

    def forget(self, channel: MemoryChannel) -> None:
        """Drop a channel that ended."""
        self._channels.pop(channel, None)

    def block(self, reason: str | None) -> None:
        """Learn of connection.blocked (a reason) or connection.unblocked (None)."""
        self._blocked = reason
        self._changed.unpark_all()

    def stop_writing(self, seconds: float) -> None:
        """Let a flush wait for so long: this side's socket is full."""
        self._writable_at = max(self._writable_at, trio.current_time() + seconds)

    def _meet_at_flush(self, channel: MemoryChannel) -> None:
        faults = self._node.faults
        action = (
            None if faults is None else faults.meet(Operation.FLUSH, self.options.name, self.options.name)
        )
        match action:
            case None:
                pass
            case Delay(seconds) | LateSuccess(seconds):
                self.stop_writing(seconds)
            case Hang():
                self.served.hang(self._inward)
            case _:
                strike(action, Struck(self.served, channel.served, self._inward, lambda: None, _raise))


def _raise(error: TransportError) -> None:
    raise error
