"""What one arm remembers from session to session: the arm outlives them (architecture, the tree)."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from craig_mq.core.capture_format import MAX_CAPTURE_BYTES
from craig_mq.core.close import CloseReason
from craig_mq.core.delivery import Delivery
from craig_mq.core.identity import MAX_CONFIRMED_UNACKED, ConfirmedUnacked, delivery_identity
from craig_mq.core.outcome import Acked, Confirmation, Unconfirmed
from craig_mq.core.replay import ReplayMemory
from craig_mq.core.session_end import SessionEnd
from craig_mq.core.size_limit import learned_limit
from craig_mq.observe.events import Arm

KEPT_WHOLE_BYTES = 4 * 1024
"""Up to here a confirmed delivery is kept as it is, and identified only once a redelivery asks."""

_NONE_YET: Final[deque[Delivery]] = deque(maxlen=0)
"""Stands in for a deque of one's own, which takes 760 bytes, until there is something to remember."""


@attrs.define(slots=True, eq=False)
class ArmMemory:
    """One arm's memory, and where its current session stands.

    ``size_limit`` is what the broker's refusals taught (bytes of a serialised capture),
    ``publish_alone_first`` asks the next session to publish one message alone (decisions, 7),
    ``receipts`` are first receipts of parked captures. ``up``, ``blocked``, ``generation`` and
    ``last_end`` are for ``snapshot()``.
    """

    name: Arm
    size_limit: int = MAX_CAPTURE_BYTES
    publish_alone_first: bool = False
    receipts: ReplayMemory = attrs.Factory(ReplayMemory)
    generation: int = 0
    up: bool = False
    has_consumed: bool = False
    blocked: str | None = None
    last_end: SessionEnd | None = None
    _confirmed: ConfirmedUnacked = attrs.Factory(ConfirmedUnacked)
    _recent: deque[Delivery] = _NONE_YET

    def went_up(self) -> None:
        """Note that a session consumes."""
        self.up = self.has_consumed = True

    def went_down(self, end: SessionEnd) -> None:
        """Note that a session ended."""
        self.up = False
        self.blocked = None
        self.last_end = end

    def publish_resolved(self, confirmation: Confirmation) -> None:
        """Remember an unknown outcome until a later publish is confirmed."""
        if isinstance(confirmation, Unconfirmed):
            self.publish_alone_first = self.publish_alone_first or confirmation.sent
        elif isinstance(confirmation, Acked):
            self.publish_alone_first = False

    def size_refused(self, reason: CloseReason | None) -> None:
        """Lower ``size_limit`` if this close was about a message's size."""
        limit = None if reason is None else learned_limit(self.size_limit, reason)
        if limit is not None:
            self.size_limit = limit

    def confirmed(self, delivery: Delivery) -> None:
        """Remember that a copy of this delivery is confirmed; its ack may yet fail (decisions, 8)."""
        if len(delivery.body) <= KEPT_WHOLE_BYTES:
            if self._recent is _NONE_YET:
                self._recent = deque(maxlen=MAX_CONFIRMED_UNACKED)
            self._recent.append(delivery)
        else:
            self._confirmed.remember(delivery_identity(delivery))

    def confirmed_before(self, delivery: Delivery) -> bool:
        """Whether this redelivery's copy is confirmed already, so that it only needs its ack. Serves once."""
        if not delivery.redelivered:
            return False
        while self._recent:
            self._confirmed.remember(delivery_identity(self._recent.popleft()))
        return len(self._confirmed) > 0 and self._confirmed.absorb(delivery_identity(delivery))

    def forget(self, delivery: Delivery) -> None:
        """Drop the memory of a confirmed delivery whose ack is written.

        Without a token two messages can be alike in every byte; the evidence of one must never ack the
        other (field failure RET-01), so what a crashed broker returns of these costs a second copy.
        """
        if delivery in self._recent:
            self._recent.remove(delivery)
        elif len(self._confirmed) > 0:
            self._confirmed.absorb(delivery_identity(delivery))
