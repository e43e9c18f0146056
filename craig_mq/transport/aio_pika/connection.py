"""One plain aio-pika connection, as Trio sees it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aio_pika
import aiormq.abc
import trio
from pamqp import commands

from craig_mq.core.close import ChannelClose, CloseReason, ConnectionClose, ConnectionLoss, LocalClose
from craig_mq.transport.aio_pika.bridge import ORDINARY_ENDS, Bridge, DetachedTasks, Work, on_closing
from craig_mq.transport.aio_pika.channel import AioPikaChannel
from craig_mq.transport.aio_pika.conversion import close_fields
from craig_mq.transport.aio_pika.lifetime import Lifetime
from craig_mq.transport.aio_pika.wire import Watched, Wire
from craig_mq.transport.broker import Channel, ConnectionOptions
from craig_mq.transport.errors import ClosedError


class PlainConnection(aio_pika.Connection):
    """aio-pika's plain connection over our wire. Never the robust one: the supervisor reconnects (S7)."""

    def __del__(self) -> None:
        """Do nothing: aio-pika's would start a close from the garbage collector."""


class AioPikaConnection:
    """Satisfies ``craig_mq.transport.broker.Connection``."""

    def __init__(self, bridge: Bridge, wire: Wire, options: ConnectionOptions) -> None:
        self._bridge = bridge
        self._wire = wire
        self._options = options
        self._amqp: aiormq.abc.AbstractConnection
        self._connection: PlainConnection
        self._announced: CloseReason | None = None
        self._blocked: str | None = None
        self._blocked_changed = trio.Event()
        self._channels: dict[int, AioPikaChannel] = {}
        self._channel_closes: dict[int, ChannelClose] = {}
        self._last_number = 0
        self._amqp_done = trio.Event()
        self._amqp_done.set()  # nothing to wait for before aiormq has a connection
        self.lifetime = Lifetime()
        self.tasks = DetachedTasks(bridge)
        wire.listener = self

    def attach(self, connection: PlainConnection, amqp: aiormq.abc.AbstractConnection) -> None:
        """Take over what ``aio_pika.connect`` opened; runs in the loop, in the step it returned."""
        self._connection = connection
        self._amqp = amqp
        self._amqp_done = trio.Event()
        on_closing(amqp, self._on_closing)
        if self._options.heartbeat:
            self.tasks.detach(self._watch_heartbeat(self._options.heartbeat))

    # -- the protocol ---------------------------------------------------------------------------

    @property
    def closed(self) -> CloseReason | None:
        """Why the connection ended, or None while it lives."""
        return self.lifetime.reason

    @property
    def blocked(self) -> str | None:
        """The broker's reason while ``connection.blocked`` is in force, else None."""
        return self._blocked

    async def wait_blocked(self) -> None:
        """Return once the connection is blocked or closed."""
        await trio.lowlevel.checkpoint()
        while self._blocked is None and self.closed is None:
            await self._blocked_changed.wait()

    async def wait_unblocked(self) -> None:
        """Return once the connection is not blocked, or closed."""
        await trio.lowlevel.checkpoint()
        while self._blocked is not None and self.closed is None:
            await self._blocked_changed.wait()

    async def wait_closed(self) -> CloseReason:
        """Return why the connection ended, once it has."""
        return await self.lifetime.wait()

    async def open_channel(self, *, confirms: bool = False) -> Channel:
        """Open a channel; one nobody waits for any more is closed when its open-ok arrives."""
        self.lifetime.raise_if_ended()
        call = self.tasks.detach(self._open_channel(confirms))
        try:
            return await self.lifetime.wait_for(call, bound_s=self._options.rpc_timeout, what="open channel")
        except ORDINARY_ENDS as error:
            raise ClosedError(self.end_for(error)) from None
        finally:
            call.abandon(lambda channel: channel.close_abandoned())

    async def aclose(self) -> None:
        """Close gracefully within ``rpc_timeout``, else abort; while blocked, abort at once.

        A blocked broker answers nothing, and would execute behind a FIN what it refuses now.
        """
        try:
            await trio.lowlevel.checkpoint()
            if self.closed is None and self._blocked is None:
                await self._close_gracefully()
        finally:
            self.abort()

    def abort(self) -> None:
        """Reset the transport now; every pending call ends with this step."""
        self._end(LocalClose(aborted=True))
        if not self._bridge.closed:
            self._bridge.run_sync(self._wire.abort)

    async def _close_gracefully(self) -> None:  # noqa: ASYNC910 - an error of the wait is the end awaited
        self._announced = self._announced or LocalClose(aborted=False)
        call = self.tasks.detach(self._connection.close())
        with trio.move_on_after(self._options.rpc_timeout):  # noqa: ASYNC912 - the wait is one
            with suppress(*ORDINARY_ENDS):
                await call.wait()
            if self._wire.lost is None:
                self._end(self._announced)

    async def finish(self) -> None:  # noqa: ASYNC910 - without a loop there is nothing to wait for
        """Reset what is still open and return when every task of the connection has ended."""
        self.abort()
        if not self._bridge.closed:
            await self.tasks.stop()
            await self._amqp_done.wait()
            await self._bridge.pass_through()

    # -- what channels need ---------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Write one frame synchronously. Raises ClosedError where it can no longer have an effect."""
        if not self._wire.writable:
            raise ClosedError(self.end_for(None))
        self._bridge.run_sync(lambda: self._wire.write(frame))

    @property
    def drained(self) -> bool:
        """Whether everything written was handed to the operating system."""
        return self._wire.drained

    def drain(self) -> Work[None]:
        """Return the coroutine that waits until ``drained``."""
        return self._wire.drain()

    @property
    def rpc_timeout(self) -> float:
        """How long one request may take, in seconds."""
        return self._options.rpc_timeout

    def forget_channel(self, number: int) -> None:
        """Drop a channel that has ended; its close stays known until its number is used again."""
        self._channels.pop(number, None)

    def channel_close(self, number: int) -> ChannelClose | None:
        """Return the close the broker sent for a channel, from the moment its frame was read."""
        return self._channel_closes.get(number)

    def end_for(self, error: BaseException | None) -> CloseReason:
        """Return why the connection ended, ending it if a failing call is the first to show it."""
        if self.closed is not None:
            return self.closed
        shown = "the connection is closing" if error is None else f"{type(error).__name__}: {error}"
        self._bridge.run_sync(self._wire.abort)  # ended here must be ended there
        return self._end(self._announced or ConnectionLoss(shown))

    def announced_close(self) -> ConnectionClose | None:
        """Return the ``connection.close`` the broker sent, if it sent one."""
        return self._announced if isinstance(self._announced, ConnectionClose) else None

    @property
    def ending(self) -> CloseReason | None:
        """The end that has come, or that was announced by the broker or begun here; None while it lives."""
        return self.closed or self._announced

    # -- the asyncio side -----------------------------------------------------------------------

    async def _open_channel(self, confirms: bool) -> AioPikaChannel:
        number = self._next_number()
        amqp_channel = await self._amqp.channel(
            channel_number=number, publisher_confirms=confirms, on_return_raises=True
        )
        channel = AioPikaChannel(self, amqp_channel, number, confirms=confirms)
        self._channels[number] = channel
        return channel

    def _next_number(self) -> int:
        """Take the next number round robin: none is reused while its old channel may still answer."""
        limit = self._amqp.connection_tune.channel_max or 65_535
        for _ in range(limit):
            self._last_number = self._last_number % limit + 1
            if self._last_number not in self._amqp.channels:
                self._channel_closes.pop(self._last_number, None)
                return self._last_number
        raise ClosedError(ConnectionLoss("every channel number of the connection is in use"))

    async def _watch_heartbeat(self, interval_s: float) -> None:
        """Reset the connection after two intervals of silence; aiormq alone would wait for three."""
        limit_s = 2 * interval_s
        while True:
            await asyncio.sleep(interval_s / 4)
            if self._silence_s() >= limit_s:
                # What arrived while this process was busy elsewhere is read before the second look.
                await asyncio.sleep(min(0.1, interval_s / 4))
                if self._silence_s() >= limit_s:
                    self.on_lost(f"heartbeat missed: nothing received for {limit_s:g} s")
                    self._wire.abort()
                    return

    def _silence_s(self) -> float:
        return self._bridge.loop.time() - self._wire.last_read

    def on_frame(self, channel: int, frame: Watched) -> None:
        """See a frame before aiormq does (``WireListener``)."""
        match frame:
            case commands.Connection.Close():
                self._announced = ConnectionClose(*close_fields(frame))
            case commands.Connection.Blocked():
                self._set_blocked(frame.reason)
            case commands.Connection.Unblocked():
                self._set_blocked(None)
            case commands.Channel.Close():
                self._channel_closes[channel] = ChannelClose(*close_fields(frame))
            case commands.Channel.CloseOk():
                if channel in self._channels:
                    self._channels[channel].on_close_ok()
            case _:
                if channel in self._channels:
                    self._channels[channel].on_return_frame(frame)

    def on_lost(self, text: str) -> None:
        """Learn that the stream ended (``WireListener``)."""
        self._announced = self._announced or ConnectionLoss(text)

    def _on_closing(self, error: BaseException | None) -> None:
        self.end_for(error)
        self._amqp_done.set()

    def _end(self, reason: CloseReason) -> CloseReason:
        """End, unless it has ended; return the reason that counts."""
        first = self.lifetime.end(reason)
        self._set_blocked(None)
        return first

    def _set_blocked(self, reason: str | None) -> None:
        self._blocked = reason
        changed, self._blocked_changed = self._blocked_changed, trio.Event()
        changed.set()
