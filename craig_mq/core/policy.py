"""THE decision: what becomes of a delivery after its handler spoke (ADR-059 §policy, decisions 1, 2).

The handler always gets its invocations first. The route rule and the park cap apply in place of
parking, in this precedence: noncanonical_route, park_cap_exhausted; oversize is found by building
the capture and comes last.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import msgspec

from craig_mq.core.capture_format import QuarantineReason
from craig_mq.core.disposition import Disposition
from craig_mq.core.timing import retry_delay


class Retry(msgspec.Struct, frozen=True, gc=False):
    """Invoke again in this session after ``delay_s`` seconds."""

    delay_s: float


class Park(msgspec.Struct, frozen=True, gc=False):
    """Publish to the parking queue, then ack."""


class Quarantine(msgspec.Struct, frozen=True, gc=False):
    """Publish to the quarantine queue, then ack."""

    reason: QuarantineReason


Decision: TypeAlias = Retry | Park | Quarantine

PARK = Park()


class PolicyFacts(msgspec.Struct, gc=False):
    """What the decision depends on beside the handler's word, fixed for one delivery."""

    handler_attempts: int
    park_cap: int
    park_count: int
    canonical: bool


def decide(facts: PolicyFacts, disposition: Disposition, *, invocation: int, jitter: float) -> Decision:
    """Decide after invocation ``invocation`` (1-based) failed with ``disposition``; success is simply acked.

    ``jitter`` is a fraction 0..1 of 100 ms. Raises ValueError for numbers out of range.
    """
    match disposition:
        case Disposition.PERMANENT:
            return Quarantine(QuarantineReason.PERMANENT)
        case Disposition.TRANSIENT_RETRY if invocation < facts.handler_attempts:
            return Retry(retry_delay(invocation, jitter))
        case Disposition.TRANSIENT_RETRY | Disposition.TRANSIENT_PARK:
            return _park(facts)
        case _:
            assert_never(disposition)


def _park(facts: PolicyFacts) -> Decision:
    if not facts.canonical:
        return Quarantine(QuarantineReason.NONCANONICAL_ROUTE)
    if facts.park_count >= facts.park_cap:
        return Quarantine(QuarantineReason.PARK_CAP_EXHAUSTED)
    return PARK
