"""The rules of a fault plan together, and the same plan on every version of the broker."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from craig_mq.core.delivery import NO_PROPERTIES, Publication
from craig_mq.core.outcome import ACKED, NACKED, Unconfirmed
from craig_mq.testing import Delay, Drop, Fault, FaultPlan, MemoryBroker, Nack, Occurrence, Operation, Raise
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.memory.faults import FaultRun
from craig_mq.transport.memory.profiles import PROFILES

OPERATIONS = st.sampled_from([Operation.ACK, Operation.PUBLISH])
NAMES = st.sampled_from(["a", "b"])
ACTIONS = st.sampled_from([Drop(), Raise("one"), Raise("two")])


def is_odd(occurrence: Occurrence) -> bool:
    return occurrence.index % 2 == 1


FAULTS = st.builds(
    Fault,
    OPERATIONS,
    ACTIONS,
    name=st.none() | NAMES,
    index=st.none() | st.integers(0, 4),
    connection=st.none() | NAMES,
    probability=st.sampled_from([1.0, 1.0, 0.0]),
    where=st.sampled_from([None, is_odd]),
    times=st.none() | st.integers(0, 2),
)


def struck_by_the_rules(faults, operations):
    """What the documentation of plans says, word for word: the first fault that fits, so many times."""
    left = [fault.times for fault in faults]
    met: Counter[Operation] = Counter()
    for operation, connection, name in operations:
        index = met[operation]
        met[operation] += 1
        for at, fault in enumerate(faults):
            fits = (
                (fault.on, fault.probability) == (operation, 1.0)
                and fault.name in (None, name)
                and fault.index in (None, index)
                and fault.connection in (None, connection)
                and (fault.where is None or index % 2 == 1)
                and left[at] != 0
            )
            if fits:
                left[at] = None if left[at] is None else left[at] - 1
                yield fault.action
                break
        else:
            yield None


@settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(st.lists(FAULTS, max_size=4), st.lists(st.tuples(OPERATIONS, NAMES, NAMES), max_size=12))
def test_the_rules_of_a_plan_hold_together(faults, operations):
    """A plan strikes with the first fault all of whose conditions hold, and that ``times`` times at most."""
    run = FaultRun(FaultPlan(faults))
    met = [run.meet(*operation) for operation in operations]
    assert met == list(struck_by_the_rules(faults, operations))
    assert [strike.action for strike in run.strikes] == [action for action in met if action is not None]


PLAN = FaultPlan(
    (
        Fault("publish", Nack(), name="q", connection="one", index=1),
        Fault("publish", Raise("two"), connection="two", where=is_odd, times=1),
        Fault("confirm", Delay(1.0), connection="one", times=2),
        Fault("publish", Drop(), name="nowhere", times=None),
    )
)


@pytest.mark.parametrize("version", PROFILES)
async def test_a_plan_strikes_alike_on_every_version(version, autojump_clock):
    """A plan of several rules on two connections strikes the same operations under each version's profile."""
    broker = MemoryBroker(version, faults=PLAN)
    broker.declare_queue("q")
    async with (
        broker.connect(ConnectionOptions("one")) as one,
        broker.connect(ConnectionOptions("two")) as two,
    ):
        channels = [await connection.open_channel(confirms=True) for connection in (one, two)]
        publication = Publication("", "q", b"", NO_PROPERTIES)
        outcomes = [await channels[at].publish(publication) for at in (0, 0, 0, 1, 1)]
    assert outcomes == [ACKED, NACKED, ACKED, Unconfirmed("two", sent=False), ACKED]
    assert [(strike.occurrence.operation.value, strike.occurrence.index) for strike in broker.strikes] == [
        ("confirm", 0),
        ("publish", 1),
        ("confirm", 1),
        ("publish", 3),
    ]
    assert broker.queue("q").ready == 3
