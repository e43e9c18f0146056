"""A repetition needs a reason: each kind is told from the others, and none is made up."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from craig_mq.observe.events import Parked, ParkedReturned, SessionDown
from craig_mq.testing import dead_letter
from craig_mq.testing.chaos.trail import Trail
from craig_mq.testing.chaos.workload import body_of, id_of

N = 7
DOWN = SessionDown("q", "main", 1, "CONNECTION_LOST", "gone")
PARKING_DOWN = SessionDown("q", "parking", 1, "SETTLEMENT_FAILED", "gone")


@pytest.fixture
def trail():
    """A trail on a clock that advances by one at every look."""
    ticks = itertools.count()
    return Trail(now=lambda: float(next(ticks)))


def receive(trail, *, parks=0, redelivered=False, attempt=1):
    """Let the handler get message N."""
    trail.invoked(N, dead_letter(body_of(N), park_count=parks, redelivered=redelivered, attempt=attempt))


def reasons(trail, producer_repeats=0):
    """Return the reasons found for message N."""
    return trail.explain(Counter({N: producer_repeats})).get(N, [])


def test_one_receipt_needs_no_reason(trail):
    """A message handled once, retried in its session and returned from parking once is no repetition."""
    receive(trail)
    receive(trail, attempt=2)
    receive(trail, parks=1)
    assert reasons(trail) == []
    assert trail.receipts(N) == 2


def test_a_repetition_without_a_cause_is_unexplained(trail):
    """Handled again though no session ended, no broker went down and nobody published twice: unexplained."""
    receive(trail)
    trail.dealt_with(N)
    receive(trail, redelivered=True)
    assert reasons(trail) == ["unexplained"]
    assert "redelivered" in trail.tell(N)


def test_a_session_that_ended_explains_by_what_was_known(trail):
    """After a session's end the reason is a missing ack where there was evidence, else an unknown outcome."""
    receive(trail)
    trail.observe(DOWN)
    receive(trail, redelivered=True)
    trail.dealt_with(N)
    trail.observe(DOWN)
    receive(trail, redelivered=True)
    assert reasons(trail) == ["unknown outcome or unfinished work", "dealt with but not acked"]


def test_a_broker_that_went_down_may_have_forgotten_an_ack(trail):
    """What was dealt with and comes back after an outage had its ack not yet on the broker's disk."""
    receive(trail)
    trail.dealt_with(N)
    trail.outages.append(trail.now())
    receive(trail, redelivered=True)
    assert reasons(trail) == ["ack not yet on the broker's disk"]


def test_a_producer_explains_as_often_as_it_repeated(trail):
    """A second publish explains one fresh receipt, not two."""
    for _ in range(3):
        receive(trail)
    assert reasons(trail, producer_repeats=1) == ["unknown outcome of the producer's publish", "unexplained"]


def test_a_second_copy_in_parking_explains_its_return(trail):
    """Parked twice, for a reason, a message returns twice; the second return needs no other reason."""
    receive(trail)
    trail.observe(DOWN)
    receive(trail, redelivered=True)
    receive(trail, parks=1)
    receive(trail, parks=1)
    assert reasons(trail) == ["unknown outcome or unfinished work", "second copy in parking"]


def test_a_return_made_twice_is_explained_from_its_making(trail):
    """One copy returned twice, with a parking session's end before either is received, is explained."""
    receive(trail)
    trail.observe(Parked("q", id_of(N), "capture", 1))
    trail.observe(ParkedReturned("q", id_of(N), "capture", 2.0))
    trail.observe(PARKING_DOWN)
    receive(trail, parks=1)
    receive(trail, parks=1)
    assert reasons(trail) == ["dealt with but not acked"]
    assert trail.ends == {"parking: SETTLEMENT_FAILED": 1}


def test_two_copies_redelivered_together_are_told_apart(trail):
    """Two copies in parking, returned, and both redelivered after one session's end: each has its reason."""
    receive(trail)
    trail.observe(DOWN)
    receive(trail, redelivered=True)
    receive(trail, parks=1)
    receive(trail, parks=1)
    trail.observe(DOWN)
    receive(trail, parks=1, redelivered=True)
    receive(trail, parks=1, redelivered=True)
    assert reasons(trail) == [
        "unknown outcome or unfinished work",
        "second copy in parking",
        "unknown outcome or unfinished work",
        "unknown outcome or unfinished work",
    ]
    receive(trail, parks=1, redelivered=True)
    assert reasons(trail)[-1] == "unexplained"


def test_a_copy_first_received_as_redelivered_is_a_copy(trail):
    """A second copy in hand when its session ended comes marked redelivered, and is still explained."""
    receive(trail)
    trail.observe(DOWN)
    receive(trail, redelivered=True)
    receive(trail, parks=1, redelivered=True)
    receive(trail, parks=1, redelivered=True)
    assert reasons(trail)[-1] == "second copy in parking"
