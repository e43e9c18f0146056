"""Counters of one subscription: what ``Subscription.statistics()`` returns."""

from __future__ import annotations

import attrs


@attrs.define(frozen=True, slots=True)
class DlqStatistics:
    """How often each thing happened since the subscription began; ``in_flight`` is a level.

    ``unsettled`` counts deliveries left to the broker's redelivery, ``tokenless_reruns`` the disclosed
    bound of ADR-059: redelivered deliveries without a token that reached the handler again.
    """

    acked: int
    parked: int
    quarantined: int
    unsettled: int
    returned: int
    invocations: int
    duplicates_absorbed: int
    tokenless_reruns: int
    settlement_failures: int
    sessions: int
    in_flight: int


@attrs.define(slots=True)
class Tally:
    """The mutable counters behind DlqStatistics, shared by both arms of one subscription."""

    acked: int = 0
    parked: int = 0
    quarantined: int = 0
    unsettled: int = 0
    returned: int = 0
    invocations: int = 0
    duplicates_absorbed: int = 0
    tokenless_reruns: int = 0
    settlement_failures: int = 0
    sessions: int = 0
    in_flight: int = 0

    def frozen(self) -> DlqStatistics:
        """Return the counters as they stand."""
        return DlqStatistics(**attrs.asdict(self))
