"""The depth sampler: how many messages are ready in the queue and its siblings (ADR-059 §config).

It has a connection and a channel of its own, since a passive declare of a missing queue closes the
channel it was asked on (field failure CHC-09). Nothing that happens to it reaches the arms.
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from craig_mq.core.close import ChannelClose
from craig_mq.core.topology import QueueSpec
from craig_mq.observe.events import DepthSampled, Event
from craig_mq.transport.broker import Broker, Channel, Connection, ConnectionOptions
from craig_mq.transport.errors import ClosedError, TransportError
from supervisors import ChildContext


@attrs.define(slots=True)
class DepthSampler:
    """Looks at ``queues`` every ``interval_s`` seconds and emits one DepthSampled each.

    It starts before the arms; ``wait_declared`` holds it until there is something to look at.

    Only *ready* messages are counted: a delivery that some consumer holds is in no depth.
    """

    broker: Broker
    options: ConnectionOptions
    queues: tuple[QueueSpec, ...]
    interval_s: float
    emit: Callable[[Event], None]
    wait_declared: Callable[[], Awaitable[None]]
    _channel: Channel | None = attrs.field(default=None, init=False)

    async def run(self, context: ChildContext) -> None:
        """Sample until shut down, or until the connection fails; then every depth is None."""
        context.started()
        try:
            with trio.CancelScope() as sampling:
                context.shutdown.listen(lambda reason: sampling.cancel(reason=reason))
                await self._sample_while_connected()
        finally:
            self._channel = None
            for queue in self.queues:
                self._report(queue, None)

    async def _sample_while_connected(self) -> None:
        await self.wait_declared()
        try:
            async with self.broker.connect(self.options) as connection:
                while connection.closed is None:
                    for queue in self.queues:
                        self._report(queue, await self._look(connection, queue))
                    with trio.move_on_after(self.interval_s):
                        await connection.wait_closed()
        except* TransportError:  # a cancel of the same instant comes in one group with it, and goes on
            # The next generation tries again after its backoff; until then the gauges are gone.
            pass

    async def _look(self, connection: Connection, queue: QueueSpec) -> int | None:
        if self._channel is None or self._channel.closed is not None:
            self._channel = await connection.open_channel()
        try:
            return (await self._channel.declare_queue(queue, passive=True)).ready
        except ClosedError as error:
            if isinstance(error.reason, ChannelClose):
                return None
            raise

    def _report(self, queue: QueueSpec, ready: int | None) -> None:
        self.emit(DepthSampled(self.queues[0].name, queue.name, ready))
