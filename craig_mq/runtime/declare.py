"""Brings a subscription's topology to be, or makes sure that what stands in its place is safe.

A refused declare closes its channel, so none of this ever runs on a channel that consumes or
publishes. What others created with other arguments is accepted only where nothing can be lost by it
(decisions, 13; field failure CHC-05).
"""

# flake8: noqa: ASYNC910 - internal: it waits only where there is something to wait for
from __future__ import annotations

from collections.abc import Callable

import attrs

from craig_mq.core.close import ChannelClose
from craig_mq.core.errors import DlqConfigError
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec, Topology
from craig_mq.observe.events import Event, TopologyDeclined, TopologyRepaired
from craig_mq.transport.broker import Channel, Connection
from craig_mq.transport.errors import ClosedError

ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406


class TopologyRefused(Exception):
    """The broker refuses part of the topology and what stands in its place could lose messages."""

    def __init__(self, what: str, close: ChannelClose) -> None:
        """Name the part and keep the broker's own text, which names the argument."""
        super().__init__(f"{what}: {close.code} {close.text}")
        self.what = what
        self.close = close


@attrs.define(slots=True)
class Declarer:
    """Declares one topology over one connection; ``emit`` hears what was repaired or declined."""

    connection: Connection
    topology: Topology
    emit: Callable[[Event], None]
    _channel: Channel | None = attrs.field(default=None, init=False)

    async def declare(self, *, repairing: bool) -> None:
        """Declare everything; ``repairing`` looks first, so that what was missing can be reported.

        Raises TopologyRefused or DlqConfigError where going on could lose messages, ClosedError or
        OperationTimedOut where the connection failed. Cancelled: some parts may stand, which is
        harmless, since every part is declared again by the next session.
        """
        for exchange in self.topology.exchanges:
            await self._ensure(exchange, repairing=repairing)
        for queue in self.topology.queues:
            await self._ensure(queue, repairing=repairing)
        for binding in self.topology.bindings:
            await self._bind(binding)
        if self._channel is not None:
            await self._channel.aclose()

    async def _ensure(self, part: ExchangeSpec | QueueSpec, *, repairing: bool) -> None:
        if repairing:
            missing = await self._refusal(part, passive=True)
            if missing is None:
                return
            if missing.code != NOT_FOUND:
                raise TopologyRefused(_name(part), missing)
        refusal = await self._refusal(part, passive=False)
        if refusal is None:
            if repairing:
                self.emit(TopologyRepaired(self._queue, _name(part)))
            return
        if refusal.code not in (ACCESS_REFUSED, PRECONDITION_FAILED) or not self._may_differ(part, refusal):
            raise TopologyRefused(_name(part), refusal)
        if await self._refusal(part, passive=True) is not None:
            raise TopologyRefused(_name(part), refusal)
        self.emit(TopologyDeclined(self._queue, _name(part), refusal.text))

    def _may_differ(self, part: ExchangeSpec | QueueSpec, refusal: ChannelClose) -> bool:
        """Whether what stands may be used unseen: never where its arguments can destroy a copy."""
        if self.topology.exact and isinstance(part, QueueSpec):
            return False
        if refusal.code == PRECONDITION_FAILED:
            return part.name == self._queue
        if part.name == self.topology.parking_name and _is_quorum(part):
            raise DlqConfigError(
                "queue_type",
                "quorum",
                f"a parking queue whose x-delivery-limit can be checked; {refusal.text}",
            )
        return True

    async def _refusal(self, part: ExchangeSpec | QueueSpec, *, passive: bool) -> ChannelClose | None:
        return await refusal_of(await self._open(), part, passive=passive)

    async def _bind(self, binding: BindingSpec) -> None:
        channel = await self._open()
        what = f"binding {binding.routing_key} of {binding.queue} to {binding.exchange}"
        try:
            await channel.bind_queue(binding)
        except ClosedError as error:
            if not isinstance(error.reason, ChannelClose):
                raise
            if error.reason.code != ACCESS_REFUSED:
                raise TopologyRefused(what, error.reason) from error
            self.emit(TopologyDeclined(self._queue, what, error.reason.text))

    async def _open(self) -> Channel:
        if self._channel is None or self._channel.closed is not None:
            self._channel = await self.connection.open_channel()
        return self._channel

    @property
    def _queue(self) -> str:
        return self.topology.queue_name


async def refusal_of(
    channel: Channel, part: ExchangeSpec | QueueSpec, *, passive: bool
) -> ChannelClose | None:
    """Declare a part, or look at it (``passive``); return how the broker refused, None if it did not.

    A refusal closes the channel. Raises TransportError where anything more than the channel ended.
    """
    try:
        if isinstance(part, QueueSpec):
            await channel.declare_queue(part, passive=passive)
        else:
            await channel.declare_exchange(part, passive=passive)
    except ClosedError as error:
        if isinstance(error.reason, ChannelClose):
            return error.reason
        raise
    return None


def _is_quorum(part: ExchangeSpec | QueueSpec) -> bool:
    return part.arguments.get("x-queue-type") == "quorum"


def _name(part: ExchangeSpec | QueueSpec) -> str:
    return f"{'queue' if isinstance(part, QueueSpec) else 'exchange'} {part.name}"
