"""The decision: every row of ADR-059's disposition policy."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.capture_format import MAX_U32, QuarantineReason
from craig_mq.core.disposition import Disposition
from craig_mq.core.policy import PARK, Park, PolicyFacts, Quarantine, Retry, decide

FACTS = PolicyFacts(handler_attempts=3, park_cap=12, park_count=0, canonical=True)
PARKABLE = [(Disposition.TRANSIENT_PARK, 1), (Disposition.TRANSIENT_RETRY, 3)]


def test_a_transient_failure_is_retried_until_its_invocations_are_used_up() -> None:
    """TRANSIENT_RETRY retries after 100 ms times n plus jitter, up to handler_attempts in all, then parks."""
    delays = [decide(FACTS, Disposition.TRANSIENT_RETRY, invocation=n, jitter=0.5) for n in (1, 2)]
    assert delays == [Retry(pytest.approx(0.15)), Retry(pytest.approx(0.25))]
    assert decide(FACTS, Disposition.TRANSIENT_RETRY, invocation=3, jitter=0.5) == PARK


def test_a_single_invocation_means_no_retry() -> None:
    """With handler_attempts 1 a TRANSIENT_RETRY parks at once."""
    facts = msgspec.structs.replace(FACTS, handler_attempts=1)
    assert decide(facts, Disposition.TRANSIENT_RETRY, invocation=1, jitter=0.0) == PARK


def test_an_outage_is_parked_at_once() -> None:
    """TRANSIENT_PARK parks on its first invocation."""
    assert decide(FACTS, Disposition.TRANSIENT_PARK, invocation=1, jitter=0.0) == PARK


@pytest.mark.parametrize("facts", [FACTS, msgspec.structs.replace(FACTS, park_count=99, canonical=False)])
def test_a_permanent_failure_is_quarantined_for_its_own_sake(facts: PolicyFacts) -> None:
    """PERMANENT quarantines as permanent, whatever the route and the count."""
    decision = decide(facts, Disposition.PERMANENT, invocation=1, jitter=0.0)
    assert decision == Quarantine(QuarantineReason.PERMANENT)


@pytest.mark.parametrize(("disposition", "invocation"), PARKABLE)
@pytest.mark.parametrize(
    ("count", "canonical", "reason"),
    [
        (11, True, None),
        (12, True, QuarantineReason.PARK_CAP_EXHAUSTED),
        (MAX_U32, True, QuarantineReason.PARK_CAP_EXHAUSTED),
        (0, False, QuarantineReason.NONCANONICAL_ROUTE),
        (12, False, QuarantineReason.NONCANONICAL_ROUTE),
    ],
)
def test_route_and_cap_apply_in_place_of_parking(
    *, disposition: Disposition, invocation: int, count: int, canonical: bool, reason: QuarantineReason | None
) -> None:
    """In place of a park: noncanonical_route first, then park_cap_exhausted once park_count is park_cap."""
    facts = msgspec.structs.replace(FACTS, park_count=count, canonical=canonical)
    decision = decide(facts, disposition, invocation=invocation, jitter=0.0)
    assert decision == (PARK if reason is None else Quarantine(reason))


def test_neither_route_nor_cap_takes_invocations_away() -> None:
    """A non-canonical delivery at its cap still gets its retries first."""
    facts = msgspec.structs.replace(FACTS, park_count=12, canonical=False)
    assert isinstance(decide(facts, Disposition.TRANSIENT_RETRY, invocation=2, jitter=0.0), Retry)


@given(
    facts=st.builds(
        PolicyFacts, st.integers(1, 10), st.integers(1, 100), st.integers(0, MAX_U32), st.booleans()
    ),
    disposition=st.sampled_from(Disposition),
    jitter=st.floats(0, 1),
    data=st.data(),
)
def test_every_delivery_ends(
    facts: PolicyFacts, disposition: Disposition, jitter: float, data: st.DataObject
) -> None:
    """After handler_attempts invocations there is never another retry, and a park is always allowed one."""
    invocation = data.draw(st.integers(1, facts.handler_attempts))
    decision = decide(facts, disposition, invocation=invocation, jitter=jitter)
    assert not (isinstance(decision, Retry) and invocation >= facts.handler_attempts)
    assert not (isinstance(decision, Park) and (facts.park_count >= facts.park_cap or not facts.canonical))
    if isinstance(decision, Retry):
        assert 0.1 * invocation <= decision.delay_s <= 0.1 * invocation + 0.1 + 1e-9
