"""The delay laws, as pure values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors import Backoff, EndClass, SpecError
from supervisors.backoff import Counters, after_end, chance
from supervisors.exits import Completed, EndRecord
from supervisors.intensity import Window

RESTARTED = [EndClass.SETTLEMENT_FAILED, EndClass.FAILED, EndClass.COMPLETED, EndClass.DRAINED]
RAN = st.one_of(st.none(), st.floats(0, 1_000))


def delays(backoff: Backoff, ends: list[tuple[EndClass, float | None]]) -> list[float]:
    counters, out = Counters(), []
    for end, ran_s in ends:
        counters = after_end(backoff, counters, end, ran_s)
        out.append(backoff.delay(counters, 0.0))
    return out


def test_settlement_failures_follow_the_adr_sequence():
    """S27, S28: consecutive settlement failures wait 1, 2, 4, 8, 16, 30, 30 s (ADR-059 §backoff)."""
    ends = [(EndClass.SETTLEMENT_FAILED, 3.0)] * 7
    assert delays(Backoff(), ends) == [1, 2, 4, 8, 16, 30, 30]


def test_a_connect_and_die_flapper_backs_off_too():
    """S28: ends within stable_after of RUNNING count, so connecting and dying at once doubles the wait."""
    assert delays(Backoff(), [(EndClass.FAILED, 0.1)] * 4) == [1, 2, 4, 8]


def test_a_stable_run_forgives_failed_starts():
    """S28: after at least stable_after of RUNNING the failed starts are forgiven."""
    backoff = Backoff(stable_after_s=10, min_delay_s=0.5)
    assert delays(backoff, [(EndClass.FAILED, None)] * 3 + [(EndClass.FAILED, 10.0)]) == [1, 2, 4, 0.5]


def test_a_failed_start_never_resets_the_settlement_count():
    """S28: k is reset by a non-settlement end of an established session only, never by a failed start."""
    ends = [(EndClass.SETTLEMENT_FAILED, 5.0)] * 3 + [
        (EndClass.FAILED, None),
        (EndClass.SETTLEMENT_FAILED, 5.0),
    ]
    assert delays(Backoff(), ends) == [1, 2, 4, 4, 8]


def test_an_established_end_of_another_kind_resets_the_settlement_count():
    """S28: a connection lost after the session stood starts the settlement law anew."""
    ends = [(EndClass.SETTLEMENT_FAILED, 5.0)] * 3 + [
        (EndClass.FAILED, 60.0),
        (EndClass.SETTLEMENT_FAILED, 5.0),
    ]
    assert delays(Backoff(), ends) == [1, 2, 4, 0.05, 1]


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8))
def test_successes_inside_a_generation_change_nothing(running_times):
    """S29, S31: only the way generations end counts, however long each ran: settlement failures never age."""
    ends = [(EndClass.SETTLEMENT_FAILED, ran_s) for ran_s in running_times]
    assert delays(Backoff(stable_after_s=0.0), ends) == [min(2.0**n, 30) for n in range(len(ends))]


def test_ageing_is_opt_in():
    """S31: with settlement_reset_after_s a long RUNNING time forgives settlement failures."""
    ends = [(EndClass.SETTLEMENT_FAILED, 5.0)] * 3 + [(EndClass.SETTLEMENT_FAILED, 600.0)]
    assert delays(Backoff(settlement_reset_after_s=600), ends) == [1, 2, 4, 1]


@given(
    st.lists(st.tuples(st.sampled_from(RESTARTED), RAN), max_size=40),
    st.floats(0, 0.5),
    st.floats(0, 1, exclude_max=True),
)
def test_every_delay_lies_between_min_delay_and_cap(ends, jitter, u):
    """S30, S32: whatever the history and the jitter."""
    backoff, counters = Backoff(jitter=jitter), Counters()
    for end, ran_s in ends:
        counters = after_end(backoff, counters, end, ran_s)
        plain = backoff.delay(counters, 0.0)
        jittered = backoff.delay(counters, u)
        assert backoff.min_delay_s <= jittered <= plain <= backoff.cap_s
        assert jittered >= plain * (1 - jitter)


def test_the_default_has_no_jitter():
    """S30: jitter is off by default."""
    assert Backoff().delay(Counters(3, 0), 0.999) == 4


def test_a_count_without_end_stays_at_the_cap():
    """S27: the law never overflows, however many failures there were."""
    assert Backoff().law(100_000) == 30


def test_chance_is_a_function_of_seed_path_and_generation():
    """S26: u comes from (seed, child path, generation) alone, lies in [0, 1)."""
    seen = {chance(seed, path, n) for seed in (0, 1) for path in ("a/b", "a/c") for n in range(1, 50)}
    assert len(seen) == 2 * 2 * 49
    assert all(0 <= u < 1 for u in seen)
    assert chance(7, "a/b", 3) == chance(7, "a/b", 3)


@pytest.mark.parametrize(
    "fields",
    [
        {"base_s": 0},
        {"cap_s": 0.5},
        {"min_delay_s": 0},
        {"min_delay_s": 31},
        {"stable_after_s": -1},
        {"jitter": 0.6},
        {"settlement_reset_after_s": 0},
    ],
)
def test_bad_laws_are_refused(fields):
    """S30, S32: a backoff without a minimal wait, or with jitter above one half, cannot be written down."""
    with pytest.raises(SpecError) as info:
        Backoff(**fields)
    assert info.value.field in fields


@given(st.lists(st.floats(0, 100), max_size=30).map(sorted), st.integers(0, 5), st.floats(0.1, 50))
def test_the_window_counts_the_ends_of_the_last_period(times, max_restarts, period_s):
    """S36: exceeded iff more than max_restarts ends lie within the period, both borders included."""
    window = Window()
    for index, at in enumerate(times):
        window = window.add(EndRecord(at, "c", index, Completed()), max_restarts, period_s)
        recent = [t for t in times[: index + 1] if at - t <= period_s]
        assert window.exceeded(max_restarts) == (len(recent) > max_restarts)
    assert Window().add(EndRecord(0, "c", 1, Completed()), None, 1) == Window()
