"""One dead letter between its arrival and its settlement."""

from __future__ import annotations

import msgspec

from craig_mq.core.dead_letter import DeadLetterDelivery, Subject
from craig_mq.core.delivery import Delivery
from craig_mq.core.machine import Settlement
from craig_mq.core.steps import Effect, Event


class InFlight(msgspec.Struct, eq=False):
    """A delivery, what it was read as, its settlement machine and the effect that is due next."""

    delivery: Delivery
    subject: Subject
    settlement: Settlement
    effect: Effect

    def feed(self, event: Event) -> None:
        """Take one event; the effect that is due next follows from it."""
        self.effect = self.settlement.feed(event)

    @property
    def attempts(self) -> int:
        """Invocations so far."""
        return self.settlement.attempts

    @property
    def tokenless(self) -> bool:
        """Whether no occurrence token tells it apart from a message with the same bytes."""
        return not isinstance(self.subject, DeadLetterDelivery) or self.subject.token is None

    @property
    def reran_without_token(self) -> bool:
        """Whether a redelivery without a token reached the handler: ADR-059's disclosed bound."""
        subject = self.subject
        return (
            self.delivery.redelivered
            and isinstance(subject, DeadLetterDelivery)
            and subject.token is None
            and self.settlement.attempts > 0
        )

    @property
    def envelope_id(self) -> str | None:
        """The envelope's id, None where there is no envelope."""
        return self.subject.envelope.id if isinstance(self.subject, DeadLetterDelivery) else None

    def original_properties(self) -> bytes:
        """The original message's properties as JSON."""
        return self.subject.original_properties()
