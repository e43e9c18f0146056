"""Specs: what contradicts itself is refused before anything runs."""

from __future__ import annotations

import pytest

from supervisors import Backoff, ChildSpec, EndClass, RestartType, SpecError, SupervisorSpec


async def idle(ctx):
    await ctx.shutdown.wait()


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": "a/b"},
        {"start_timeout_s": 0},
        {"drain_timeout_s": -1},
        {"stop_timeout_s": -1},
        {"stuck_interval_s": 0},
        {"max_restarts": -1},
        {"period_s": 0},
    ],
)
def test_bad_child_limits_are_refused(fields):
    """S56: every limit of a child is checked when the spec is made."""
    with pytest.raises(SpecError) as info:
        ChildSpec(**{"id": "c", "run": idle, **fields})
    assert info.value.field in fields


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"max_restarts": -1},
        {"period_s": 0},
        {"counted": frozenset({EndClass.FATAL})},
        {"children": (ChildSpec("c", idle), ChildSpec("c", idle))},
    ],
)
def test_bad_supervisor_limits_are_refused(fields):
    """S36: the budget and the set of ends it counts are checked when the spec is made."""
    with pytest.raises(SpecError) as info:
        SupervisorSpec(**{"name": "s", **fields})
    assert info.value.field in fields


def test_a_budget_no_backoff_can_reach_is_refused():
    """S38: three restarts after 1, 2 and 4 s need 7 s; in a period of 6 s the budget would never act."""
    child = ChildSpec("c", idle)
    with pytest.raises(SpecError, match="unreachable"):
        SupervisorSpec("s", (child,), max_restarts=3, period_s=6)
    assert SupervisorSpec("s", (child,), max_restarts=3, period_s=7).max_restarts == 3


def test_one_quick_child_makes_a_budget_reachable():
    """S38: it is enough that one child's backoff can reach the supervisor's budget."""
    quick = ChildSpec("q", idle, backoff=Backoff(base_s=0.1))
    assert SupervisorSpec("s", (ChildSpec("c", idle), quick), max_restarts=3, period_s=6).children


def test_a_child_budget_no_backoff_can_reach_is_refused():
    """S38, S60: a child's own budget is held against its own backoff."""
    with pytest.raises(SpecError, match="unreachable"):
        ChildSpec("c", idle, max_restarts=10, period_s=60)


def test_a_permanent_child_cannot_trigger_auto_shutdown():
    """S58: a significant permanent child with auto_shutdown is a contradiction; without."""
    child = ChildSpec("c", idle, significant=True)
    with pytest.raises(SpecError, match="auto_shutdown"):
        SupervisorSpec("s", (child,), auto_shutdown="any")
    assert SupervisorSpec("s", (child,)).auto_shutdown == "never"
    transient = ChildSpec("c", idle, RestartType.TRANSIENT, significant=True)
    assert SupervisorSpec("s", (transient,), auto_shutdown="all").children
