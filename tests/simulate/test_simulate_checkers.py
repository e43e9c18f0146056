"""Each checker sees its own violation: a clean run's evidence is tampered with, one law at a time."""

from __future__ import annotations

import attrs
import msgspec
import pytest

from craig_mq.observe.events import BackoffChanged, SessionDown
from craig_mq.testing.simulate.checking import INVARIANTS, check
from craig_mq.testing.simulate.crash_points import scenario_for
from craig_mq.testing.simulate.notes import Committed, Dialled, Invoked, ShutdownAsked
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.scenario import QUEUE
from craig_mq.transport.memory.trace import (
    MessageAcked,
    MessageDelivered,
    MessagePublished,
    MessageRequeued,
    Noted,
    OutcomeTold,
)


def noted(record, kind):
    return isinstance(record, Noted) and isinstance(record.what, kind)


def without(evidence, unwanted):
    return attrs.evolve(evidence, trace=tuple(r for r in evidence.trace if not unwanted(r)))


def replaced(evidence, replace):
    """Replace each record by those that ``replace`` returns."""
    return attrs.evolve(evidence, trace=tuple(new for old in evidence.trace for new in replace(old)))


def notes_changed(evidence, kind, change):
    def replace(record):
        return [attrs.evolve(record, what=change(record.what)) if noted(record, kind) else record]

    return replaced(evidence, replace)


def given_back_at_drain(evidence):
    """Turn the main arm's acks into returns at the moment its session was drained."""
    [life] = evidence.lives
    at = next(at for at, event in life.events if isinstance(event, SessionDown) and event.arm == "main")

    def replace(record):
        if isinstance(record, MessageAcked) and record.queue == QUEUE:
            return [MessageRequeued(at, record.connection, record.serial, record.queue)]
        return [record]

    return replaced(evidence, replace)


def parked_too_often(evidence):
    def replace(record):
        if not isinstance(record, MessagePublished):
            return [record]
        body = record.publication.body.replace(b'"park_count":1', b'"park_count":9')
        return [attrs.evolve(record, publication=msgspec.structs.replace(record.publication, body=body))]

    return replaced(evidence, replace)


def waiting_too_long(evidence):
    [life] = evidence.lives
    events = (*life.events, (9.0, BackoffChanged(QUEUE, "main", 99.0)))
    return attrs.evolve(evidence, lives=(attrs.evolve(life, events=events),))


TAMPERED = {
    "conservation": lambda e: without(e, lambda r: noted(r, Committed)),
    "evidence before ack": lambda e: without(e, lambda r: isinstance(r, OutcomeTold)),
    "settled once": lambda e: replaced(e, lambda r: [r, r] if isinstance(r, MessageAcked) else [r]),
    "drain settles": given_back_at_drain,
    "shutdown ends retries": lambda e: replaced(
        e,
        lambda r: [Noted(r.at, ShutdownAsked(0)), r] if noted(r, Invoked) and r.what.attempt > 1 else [r],
    ),
    "attempts per receipt": lambda e: notes_changed(e, Invoked, lambda w: attrs.evolve(w, attempt=99)),
    "total invocations": lambda e: replaced(e, lambda r: [r] * 50 if noted(r, Invoked) else [r]),
    "explained copies": lambda e: replaced(e, lambda r: [r, r] if noted(r, Committed) else [r]),
    "park counts": parked_too_often,
    "no overlap": lambda e: notes_changed(e, Dialled, lambda w: attrs.evolve(w, open_roles=(w.role,))),
    "backoff law": waiting_too_long,
    "progress": lambda e: attrs.evolve(e, unsettled=("sim.dlq: 1 ready, 0 unacked",)),
    "nothing left behind": lambda e: attrs.evolve(e, left_behind=("1 tasks",)),
}


def test_every_invariant_has_a_violation_of_its_own():
    """No checker is left without evidence that it must object to."""
    assert TAMPERED.keys() == INVARIANTS.keys()


@pytest.mark.parametrize("invariant", TAMPERED)
def test_a_checker_sees_its_violation(invariant):
    """A clean run passes every checker; with its evidence tampered with, the checker of that law objects."""
    path = "retry" if invariant == "shutdown ends retries" else "park and replay"
    evidence = run_scenario(scenario_for(path))
    assert check(evidence) == []
    broken = {violation.invariant for violation in check(TAMPERED[invariant](evidence))}
    assert invariant in broken


def begun_by_two(evidence, *, ends: int, later: float = 0.0):
    """Let a second replica begin the one letter, ``later`` s after its first session lost it, and end it."""
    taken = next(one for one in evidence.trace if isinstance(one, MessageDelivered) and one.queue == QUEUE)
    at = taken.at + later
    begun = [
        MessageRequeued(taken.at, taken.connection, taken.serial, QUEUE),
        attrs.evolve(taken, at=at, connection=1_000, redelivered=True),
        Noted(at, Invoked(1, 1, 1, 0, intact=True)),
        *[Noted(at, Committed(1, 1))] * (ends - 1),
    ]
    replicas = evidence.scenario.replicas * 2
    evidence = attrs.evolve(evidence, scenario=attrs.evolve(evidence.scenario, replicas=replicas))
    return replaced(evidence, lambda record: [record, *begun] if record is taken else [record])


def explained(evidence):
    return all(violation.invariant != "explained copies" for violation in check(evidence))


def test_a_delivery_that_two_replicas_begin_at_one_instant():
    """A lost session's delivery, redelivered and begun before its own replica reads the loss, ends twice."""
    evidence = run_scenario(scenario_for("ok"))
    assert explained(evidence)
    assert explained(begun_by_two(evidence, ends=2))


def test_an_end_more_than_two_replicas_explain_is_objected_to():
    """Two replicas that begin a letter at one instant explain two ends of it: no third, and none later."""
    evidence = run_scenario(scenario_for("ok"))
    assert not explained(begun_by_two(evidence, ends=3))
    assert not explained(begun_by_two(evidence, ends=2, later=1.0))
