"""Fault plans: printing, chance, pinning and shrinking."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import craig_mq.testing as kit
from craig_mq.core.delivery import Properties, Publication
from craig_mq.testing import (
    Block,
    CloseChannel,
    Delay,
    Drop,
    Fault,
    FaultPlan,
    Hang,
    LateSuccess,
    MemoryBroker,
    Nack,
    Occurrence,
    Operation,
    Raise,
    Reorder,
    shrink,
)
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory.fault_actions import POSSIBLE
from craig_mq.transport.memory.faults import FaultRun

texts = st.text(alphabet="ab \\'\"\n\u00e9\u2028", max_size=8)
actions = st.one_of(
    st.builds(Delay, st.floats(0, 100)),
    st.just(Drop()),
    st.just(Hang()),
    st.just(Reorder()),
    st.builds(Raise, texts),
    st.builds(Block, st.floats(0, 100), texts),
    st.builds(CloseChannel, st.integers(200, 600), texts),
)


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    action = draw(actions)
    on = draw(st.sampled_from([operation for operation in Operation if type(action) in POSSIBLE[operation]]))
    return Fault(
        on,
        action,
        name=draw(st.none() | texts),
        index=draw(st.none() | st.integers(0, 99)),
        probability=draw(st.floats(0, 1)),
        times=draw(st.none() | st.integers(0, 9)),
    )


@settings(
    suppress_health_check=[HealthCheck.too_slow]
)  # on a busy machine: nothing is drawn that need not be
@given(st.lists(faults(), max_size=3), st.integers())
def test_a_plan_prints_as_python_that_rebuilds_it(listed, seed):
    """Evaluating a plan's repr gives an equal plan."""
    plan = FaultPlan(tuple(listed), seed=seed)
    assert eval(repr(plan), vars(kit).copy()) == plan


def is_second(occurrence: Occurrence) -> bool:
    return occurrence.index == 1


def test_a_predicate_prints_as_its_name():
    """A predicate appears in the repr under the name it can be imported by."""
    fault = Fault("ack", Drop(), where=is_second)
    assert repr(fault) == f"Fault('ack', Drop(), where={__name__}.is_second)"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Fault("ack", Nack()),
        lambda: Fault("no such operation", Drop()),
        lambda: Fault("ack", Drop(), probability=1.1),
        lambda: Fault("deliver", Raise()),
        lambda: Fault("ack", Delay(1), times=-1),
        lambda: Fault("ack", Delay(1), index=-1),
        lambda: Delay(-1),
        lambda: Delay(float("nan")),
        lambda: LateSuccess(float("inf")),
        lambda: FaultPlan((Delay(1),)),
    ],
)
def test_an_impossible_fault_is_refused(wrong):
    """What cannot happen is a ValueError where the plan is written."""
    with pytest.raises(ValueError, match=r"cannot meet|is not a valid|must be"):
        wrong()


def strikes_of(plan: FaultPlan, count: int = 200) -> list[int]:
    run = FaultRun(plan)
    return [index for index in range(count) if run.meet(Operation.ACK, "c", "q") is not None]


def test_conditions_all_have_to_hold():
    """Name, index, connection and predicate narrow a fault together."""
    run = FaultRun(FaultPlan([Fault("ack", Drop(), name="q", connection="c", where=is_second, times=None)]))
    met = [
        run.meet(Operation.ACK, connection, name)
        for connection, name in (("c", "q"), ("c", "q"), ("d", "q"), ("c", "r"))
    ]
    assert met == [None, Drop(), None, None]
    assert run.meet(Operation.NACK, "c", "q") is None


def test_a_fault_strikes_so_many_times():
    """``times`` bounds the strikes, once by default; None means always."""
    assert strikes_of(FaultPlan([Fault("ack", Drop())])) == [0]
    assert strikes_of(FaultPlan([Fault("ack", Drop(), times=3)])) == [0, 1, 2]
    assert len(strikes_of(FaultPlan([Fault("ack", Drop(), times=None)]))) == 200


@given(st.integers())
def test_chance_is_the_seeds_alone(seed):
    """The same plan strikes the same operations again; a fault's chance ignores its neighbours."""
    chance = Fault("ack", Drop(), probability=0.3, times=None)
    alone = strikes_of(FaultPlan([chance], seed=seed))
    assert alone == strikes_of(FaultPlan([chance], seed=seed))
    assert alone == strikes_of(FaultPlan([Fault("nack", Drop(), times=None), chance], seed=seed))
    assert 10 < len(alone) < 120


def test_two_equal_faults_have_two_chances():
    """Equal faults in one plan draw independently of one another."""
    chance = Fault("ack", Drop(), probability=0.5, times=None)
    one, two = (len(strikes_of(FaultPlan([chance] * count, seed=1))) for count in (1, 2))
    assert two > one


async def test_a_pinned_plan_replays_what_struck(autojump_clock):
    """Pinned, a plan of chances strikes exactly the operations it struck before."""

    async def outcomes(plan: FaultPlan) -> tuple[list[object], MemoryBroker]:
        broker = MemoryBroker(faults=plan)
        broker.declare_queue("q")
        async with broker.connect(ConnectionOptions("c")) as connection:
            channel = await connection.open_channel(confirms=True)
            publication = Publication("", "q", b"", Properties(message_id="m"))
            return [await channel.publish(publication) for _ in range(50)], broker

    first, broker = await outcomes(FaultPlan([Fault("publish", Nack(), probability=0.2, times=None)], seed=3))
    pinned = broker.pinned_faults
    assert 0 < len(pinned.faults) == len(broker.strikes) < 50
    again, _ = await outcomes(pinned)
    assert again == first


@given(st.sets(st.integers(0, 39), min_size=1, max_size=4))
def test_shrinking_keeps_exactly_what_is_needed(needed):
    """Shrinking a plan of forty faults leaves just those that the failure needs."""
    plan = FaultPlan(tuple(Fault("ack", Drop(), index=index) for index in range(40)))
    tried: list[FaultPlan] = []

    def fails(candidate: FaultPlan) -> bool:
        tried.append(candidate)
        return needed <= {fault.index for fault in candidate.faults}

    assert {fault.index for fault in shrink(plan, fails).faults} == needed
    assert len(set(tried)) == len(tried) <= 400


def test_shrinking_needs_a_failure():
    """A plan that does not fail cannot be shrunk."""
    with pytest.raises(ValueError, match="does not fail"):
        shrink(FaultPlan(), lambda _: False)
