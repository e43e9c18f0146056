"""Publishing with confirms, on the client's half of a channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from craig_mq.core.close import CloseReason, LocalClose
from craig_mq.core.delivery import Publication
from craig_mq.core.outcome import Confirmation, Returned, Unconfirmed
from craig_mq.transport.errors import TransportError
from craig_mq.transport.memory.fault_actions import Nack, Operation, Return
from craig_mq.transport.memory.injection import Struck, strike
from craig_mq.transport.memory.refusals import Refused
from craig_mq.transport.memory.reply import Reply
from craig_mq.transport.memory.trace import OutcomeTold
from craig_mq.transport.names import require_names

if TYPE_CHECKING:
    from craig_mq.transport.memory.channel import MemoryChannel
    from craig_mq.transport.memory.connection import MemoryConnection


class _Announced(Reply[Confirmation]):
    """A confirm that no task waits for: it is handed on as it comes."""

    __slots__ = ("_hand_on",)

    def __init__(self, hand_on: Callable[[Confirmation], None]) -> None:
        """Start unanswered."""
        super().__init__()
        self._hand_on = hand_on

    def set(self, value: Confirmation) -> None:
        """Hand the first answer on."""
        if not self.done:
            super().set(value)
            self._hand_on(value)


class Publisher:
    """The publishes of one channel that wait for their confirms."""

    def __init__(self, connection: MemoryConnection, channel: MemoryChannel) -> None:
        """Start with none pending."""
        self._connection = connection
        self._channel = channel
        self._pending: dict[Reply[Confirmation], None] = {}
        self._to_tell: list[tuple[Publication, Confirmation, Callable[[Confirmation], None]]] = []

    async def publish(self, publication: Publication) -> Confirmation:
        """Publish and wait. Cancelled: the message may already be stored; the confirm is dropped."""
        require_names(publication)
        await trio.lowlevel.checkpoint_if_cancelled()
        ended = self._channel.closed
        if ended is not None:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return Unconfirmed(describe(ended), sent=False)
        if self._connection.undisturbed:
            outcome = self._publish_now(publication)
            await trio.lowlevel.checkpoint()
        else:
            outcome = await self._publish_in_turn(publication)
        return self._as_seen(publication, outcome)

    def publish_nowait(self, publication: Publication, told: Callable[[Confirmation], None]) -> bool:
        """Publish, and tell the outcome in a later scheduling pass, or at once where the channel ends."""
        require_names(publication)
        if self._channel.closed is not None:
            return False
        if self._connection.undisturbed:
            self._tell_later(publication, told, self._publish_now(publication))
            return True

        def hand_on(outcome: Confirmation) -> None:
            self._pending.pop(reply, None)
            self._tell_later(publication, told, outcome)

        reply = _Announced(hand_on)
        self._send(publication, reply)
        return True

    def _tell_later(
        self, publication: Publication, told: Callable[[Confirmation], None], outcome: Confirmation
    ) -> None:
        self._to_tell.append((publication, outcome, told))
        if self._channel.closed is not None:
            self._tell_all()
        elif len(self._to_tell) == 1:
            self._channel.served.node.timers.after(0, self._tell_all)

    def _tell_all(self) -> None:
        to_tell, self._to_tell = self._to_tell, []
        for publication, outcome, told in to_tell:
            told(self._as_seen(publication, outcome))

    def _as_seen(self, publication: Publication, outcome: Confirmation) -> Confirmation:
        """A channel that ended before its confirm was read never saw it (rabbitmq-facts, 8)."""
        ended = self._channel.closed
        if ended is not None and not isinstance(outcome, Unconfirmed):
            outcome = Unconfirmed(describe(ended))
        node = self._channel.served.node
        if node.trace is not None:
            number = self._channel.served.connection.number
            node.trace.append(OutcomeTold(node.now(), number, publication, outcome))
        return outcome

    def ended(self, reason: CloseReason) -> None:
        """Resolve what is pending: nobody knows what became of it."""
        for reply in tuple(self._pending):
            reply.set(Unconfirmed(describe(reason)))
        self._tell_all()

    def _publish_now(self, publication: Publication) -> Confirmation:
        served = self._channel.served
        try:
            return served.publish(publication)
        except Refused as refusal:
            served.refuse(refusal)
            return Unconfirmed(refusal.reason.text)

    async def _publish_in_turn(self, publication: Publication) -> Confirmation:
        reply: Reply[Confirmation] = Reply()
        try:
            self._send(publication, reply)
            return await reply.wait()
        finally:
            self._pending.pop(reply, None)

    def _send(self, publication: Publication, reply: Reply[Confirmation]) -> None:
        self._pending[reply] = None
        connection = self._connection

        def fail(error: TransportError) -> None:
            reply.set(Unconfirmed(str(error), sent=False))

        connection.served.publish_seen()
        connection.issue(
            Operation.PUBLISH,
            publication.exchange or publication.routing_key,
            self._channel,
            partial(self._carry_out, publication, reply),
            fail,
            subject=publication,
            answer=reply.set,
        )

    def _carry_out(self, publication: Publication, reply: Reply[Confirmation]) -> None:
        served = self._channel.served
        if not served.open:
            return
        try:
            outcome = served.publish(publication)
        except Refused as refusal:
            served.refuse(refusal)
            return
        self._tell_outcome(publication, outcome, reply)

    def _tell_outcome(
        self, publication: Publication, outcome: Confirmation, reply: Reply[Confirmation]
    ) -> None:
        """Send the confirm, or the return and the confirm behind it, past whatever fault they meet."""
        connection = self._channel.served.connection
        faults = connection.node.faults
        operation = Operation.RETURN if isinstance(outcome, Returned) else Operation.CONFIRM
        name = publication.exchange or publication.routing_key
        action = None if faults is None else faults.meet(operation, connection.name, name, publication)

        def told() -> None:
            reply.set(outcome)

        if action is None:
            connection.tell(told)
        elif isinstance(action, Nack | Return):
            answer = partial(
                strike, action, Struck(connection, None, connection.outward, told, answer=reply.set)
            )
            connection.tell(answer)
        else:
            strike(action, Struck(connection, self._channel.served, connection.outward, told))


def describe(reason: CloseReason) -> str:
    """Say a close reason in the broker's own words."""
    match reason:
        case LocalClose(aborted):
            return "aborted by this side" if aborted else "closed by this side"
        case _:
            return getattr(reason, "text", None) or str(reason)
