"""The invariants that hold for every parameter set, by number."""

from collections import Counter

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.review import Params, export, outcome, simulate
from craig_mq.review.events import Delivered, Inspected, Redriven, record
from craig_mq.review.params import PARAMETERS, WholeNumber
from craig_mq.review.snapshots import state_after

NAMES = ["healthy", "transient", "poison", "uncertain"]
DOMAINS = {
    parameter.name: st.integers(*parameter.domain.bounds) | st.sampled_from(parameter.domain.listed)
    if isinstance(parameter.domain, WholeNumber)
    else st.sampled_from(parameter.domain.listed)
    for parameter in PARAMETERS
}
ANY = st.builds(Params, **DOMAINS)
RUNS = ANY.map(simulate)


def deliveries(run, name=None):
    """Return the run's deliveries, of one message if named."""
    return [event for event in run.events if isinstance(event, Delivered) and name in {None, event.message}]


def before_inspection(run):
    """Return the transitions before the operator looks."""
    return run.events[: next(i for i, event in enumerate(run.events) if isinstance(event, Inspected))]


@given(RUNS)
def test_four_messages_in_every_snapshot(run):
    """Invariant 1: every snapshot shows the four messages, and their statuses add up to four."""
    for snapshot in run.snapshots:
        assert [message.name for message in snapshot.messages] == NAMES
        assert snapshot.count("ready", "waiting", "quarantined", "acked", "expired") == 4


@given(RUNS)
def test_effects_are_ledger_rows(run):
    """Invariant 2: total effects, ledger rows and the sum over messages are one number that never falls."""
    totals = [snapshot.effects_total for snapshot in run.snapshots]
    assert totals == sorted(totals)
    assert totals[-1] == len(run.ledger) == sum(message.effects for message in run.snapshots[-1].messages)
    assert [row.n for row in run.ledger] == list(range(1, len(run.ledger) + 1))
    by_intent = Counter(row.intent for row in run.ledger)
    assert all(message.effects == by_intent[message.name] for message in run.snapshots[-1].messages)


@given(RUNS)
def test_time_never_runs_back(run):
    """Invariant 3: modeled time never decreases from one transition to the next."""
    times = [event.at for event in run.events]
    assert times == sorted(times)
    assert times[0] == 0


@given(RUNS)
def test_receives_stay_within_the_budget(run):
    """Invariant 4: a cycle has at most N receives, a message at most 2N in all."""
    budget = run.params.max_receives
    for event in deliveries(run):
        assert 1 <= event.cycle_receive <= budget
        assert event.cycle_receive <= event.total_receive <= 2 * budget


@given(RUNS)
def test_one_redrive_at_most(run):
    """Invariant 5: no message is redriven twice."""
    redriven = [event.message for event in run.events if isinstance(event, Redriven)]
    assert len(redriven) == len(set(redriven))


@given(RUNS)
def test_nothing_is_delivered_after_its_end(run):
    """Invariant 6: no message is delivered after it was acknowledged or expired."""
    for before, event in zip(run.snapshots, run.events, strict=False):
        if isinstance(event, Delivered):
            status = {message.name: message.status for message in before.messages}[event.message]
            assert status in {"ready", "waiting"}


@given(RUNS)
def test_a_delivery_is_an_effect_or_a_hit(run):
    """Invariant 7: a delivery adds one effect, or one hit, or neither; never both."""
    for before, after, event in zip(run.snapshots[:-1], run.snapshots[1:], run.events, strict=True):
        effects = after.effects_total - before.effects_total
        hits = sum(m.dedup_hits for m in after.messages) - sum(m.dedup_hits for m in before.messages)
        assert effects + hits == (isinstance(event, Delivered) and event.result != "none")


@given(RUNS)
def test_healthy_is_healthy(run):
    """Invariant 8: healthy has exactly one receive and one effect, at time zero."""
    (only,) = deliveries(run, "healthy")
    assert (only.at, only.result, only.status) == (0, "effect", "acked")
    assert run.snapshots[-1].messages[0].effects == 1


@given(RUNS)
def test_failures_before_the_effect_never_duplicate(run):
    """Invariant 9: poison and transient commit at most once under any policy."""
    effects = outcome(run)["effects"]
    assert effects["poison"] <= 1
    assert effects["transient"] <= 1


@given(ANY)
def test_without_deduplication_nothing_is_stored(params):
    """Invariant 10: with deduplication off there are no hits and the store stays empty."""
    run = simulate(attrs.evolve(params, dedup=False))
    assert all(not snapshot.store for snapshot in run.snapshots)
    assert set(outcome(run)["dedup_hits"].values()) == {0}


@given(ANY)
def test_a_new_identity_changes_only_redrives(params):
    """Invariant 11: up to the first redrive, a new identity gives the same transitions as a stable one."""
    stable = simulate(attrs.evolve(params, identity="stable")).events
    new = simulate(attrs.evolve(params, identity="new")).events
    first = next((i for i, event in enumerate(stable) if isinstance(event, Redriven)), len(stable))
    assert new[:first] == stable[:first]
    assert len(new) == len(stable) or first < len(stable)


@given(ANY, DOMAINS["action"], DOMAINS["repair"])
def test_the_operator_changes_nothing_before_looking(params, action, repair):
    """Invariant 12: action and repair change no transition before the inspection."""
    other = attrs.evolve(params, action=action, repair=repair)
    assert before_inspection(simulate(other)) == before_inspection(simulate(params))


@given(RUNS, st.data())
def test_a_snapshot_is_its_transitions(run, data):
    """Invariant 13: snapshot i is the fold of the first i transitions, and its counts are theirs."""
    index = data.draw(st.integers(0, len(run.events)))
    snapshot, past = run.snapshots[index], run.events[:index]
    assert state_after(past) == snapshot
    assert snapshot.index == index
    for message in snapshot.messages:
        received = [event for event in past if isinstance(event, Delivered) and event.message == message.name]
        redriven = any(isinstance(event, Redriven) and event.message == message.name for event in past)
        assert message.total_receives == len(received)
        assert message.cycle_receives == sum(event.cycle == message.cycle for event in received)
        assert message.redriven == redriven == (message.cycle == 2)
        assert message.dedup_hits == sum(event.result == "hit" for event in received)
    for entry in snapshot.store:
        assert entry.valid == (snapshot.at < entry.expires_at)
        assert entry.expires_at == entry.committed_at + run.params.result_retention


@given(ANY)
def test_the_export_is_deterministic(params):
    """Invariant 14: equal parameters give byte-identical exports."""
    assert export(simulate(params)) == export(simulate(attrs.evolve(params)))


@given(ANY, DOMAINS["result_retention"])
def test_longer_result_retention_never_adds_effects(params, other):
    """Invariant 15: a larger result retention never gives more effects."""
    shorter, longer = sorted((params.result_retention, other))
    effects = [
        outcome(simulate(attrs.evolve(params, result_retention=seconds)))["effects_total"]
        for seconds in (shorter, longer)
    ]
    assert effects[1] <= effects[0]


@given(ANY, st.sampled_from(["all", "uncertain"]), st.tuples(st.integers(0, 299), st.integers(0, 299)))
def test_waiting_longer_never_saves_an_effect(params, action, waits):
    """Invariant 16: while uncertain is still redriven, a larger wait never gives fewer of its effects."""
    shorter, longer = (
        outcome(
            simulate(attrs.evolve(params, action=action, operator_wait=seconds, quarantine_retention=300)),
        )
        for seconds in sorted(waits)
    )
    assert shorter["cycle"]["uncertain"] == longer["cycle"]["uncertain"] == 2
    assert shorter["effects"]["uncertain"] <= longer["effects"]["uncertain"]


@given(RUNS)
def test_transition_records_are_numbered(run):
    """Every transition's record carries its number, kind, phase and time."""
    for number, event in enumerate(run.events, start=1):
        written = record(number, event)
        assert (written["n"], written["kind"], written["at"]) == (number, event.kind, event.at)
        assert written["phase"] == run.snapshots[number].phase


@pytest.mark.parametrize("index", [-1, 18])
def test_a_caption_needs_a_snapshot(index):
    """A caption outside the run's snapshots is an IndexError, not a wrapped-around sentence."""
    from craig_mq.review import caption

    with pytest.raises(IndexError, match="0 to 17"):
        caption(simulate(Params()), index)
