"""Which terminal failures of ordinary queues are one (decisions, 19)."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.first_failure import MAX_FIRST_FAILURES, SAME_FAILURE_WITHIN_S, FirstFailures
from craig_mq.core.last_error import describe_error

BOOM = describe_error(ValueError("boom"))


def test_the_same_failure_keeps_its_first_moment() -> None:
    """Within an hour the same bytes with the same error failed when they first did."""
    failures = FirstFailures()
    assert failures.moment(b"event", BOOM, 1_000.0) == 1_000.0
    assert failures.moment(b"event", describe_error(ValueError("boom")), 1_059.0) == 1_000.0
    assert failures.moment(b"event", BOOM, 1_000.0 + SAME_FAILURE_WITHIN_S - 1) == 1_000.0


def test_another_event_or_another_error_is_another_failure() -> None:
    """Other bytes, another text or another type of error have a moment of their own."""
    failures = FirstFailures()
    failures.moment(b"event", BOOM, 1_000.0)
    assert failures.moment(b"other", BOOM, 1_001.0) == 1_001.0
    assert failures.moment(b"event", describe_error(ValueError("bang")), 1_002.0) == 1_002.0
    assert failures.moment(b"event", describe_error(TypeError("boom")), 1_003.0) == 1_003.0


def test_an_hour_later_it_is_a_new_failure() -> None:
    """The bound: an hour after the first, or after a clock set back by as much, it counts anew."""
    failures = FirstFailures()
    failures.moment(b"event", BOOM, 10_000.0)
    late = 10_000.0 + SAME_FAILURE_WITHIN_S
    assert failures.moment(b"event", BOOM, late) == late
    assert failures.moment(b"event", BOOM, late - SAME_FAILURE_WITHIN_S) == late - SAME_FAILURE_WITHIN_S


@given(st.lists(st.integers(0, 2 * MAX_FIRST_FAILURES), max_size=60), st.integers(0, MAX_FIRST_FAILURES))
def test_the_memory_is_bounded_and_forgets_what_was_used_longest_ago(events: list[int], filler: int) -> None:
    """At most 1,000 are remembered; the one to go is the one not failing for longest."""
    failures = FirstFailures()
    model: OrderedDict[int, float] = OrderedDict()
    for moment, event in enumerate([*range(filler), *events, *range(MAX_FIRST_FAILURES - 5)]):
        expected = model.setdefault(event, float(moment))
        model.move_to_end(event)
        if len(model) > MAX_FIRST_FAILURES:
            model.popitem(last=False)
        assert failures.moment(b"%d" % event, BOOM, float(moment)) == expected
    assert len(failures) == len(model) <= MAX_FIRST_FAILURES
