"""The model alone: legal inputs only, one table of transitions, O(1) rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors import ChildSpec, ClosedError, IllegalInputError, Strategy, Supervisor, SupervisorSpec, step
from supervisors.actions import Finish
from supervisors.draft import Draft
from supervisors.exits import Returned
from supervisors.inputs import BringUp, DrainRequested, Ended, Reached, Started, TimerFired, WalkOver
from supervisors.mailbox import Timers
from supervisors.roster import Roster
from supervisors.row import Row
from supervisors.state import LIVE, Child, ChildState, Head, Walk, WalkKind
from supervisors.transitions import TRANSITIONS
from supervisors.walks import wake_group


async def idle(ctx):
    await ctx.shutdown.wait()


def roster(*names: str, strategy: Strategy = Strategy.ONE_FOR_ONE) -> Roster:
    return Roster(SupervisorSpec("top", tuple(ChildSpec(n, idle) for n in names), strategy), "top", 0.0)


@pytest.mark.parametrize(
    "event",
    [
        Started("a", 2),
        Started("b", 1),
        Started("nobody", 1),
        Ended("a", 2, Returned()),
        Ended("b", 1, Returned()),
        TimerFired("a"),
        TimerFired("b"),
        BringUp(),
    ],
)
def test_an_illegal_input_changes_nothing(event):
    """S52: the model refuses what cannot happen, and head, children and order stay as they were."""
    tree = roster("a", "b")
    tree.feed(BringUp(), 0.0)
    before = (tree.head, list(tree))
    with pytest.raises(IllegalInputError):
        tree.feed(event, 1.0)
    assert (tree.head, list(tree)) == before


def test_a_closed_supervisor_takes_no_input():
    """S6: after the end no input is legal."""
    tree = roster()
    tree.feed(DrainRequested("now"), 0.0)
    assert tree.head.closed
    with pytest.raises(IllegalInputError):
        tree.feed(BringUp(), 0.0)


def test_derived_events_need_a_walk():
    """S52: Reached and WalkOver are legal during a walk only, a group wake during a group restart only."""
    spec = SupervisorSpec("top", (ChildSpec("a", idle),))
    head, child = Head(spec, "top"), Child(spec.children[0], 0)
    for event in (Reached("a"), WalkOver()):
        with pytest.raises(IllegalInputError):
            step(head, child, event, 0.0)
    with pytest.raises(IllegalInputError):
        wake_group(Draft(head, child, 0.0), leader=None)
    lost = Head(spec, "top", walk=Walk(WalkKind.GATHER))
    with pytest.raises(IllegalInputError):
        step(lost, None, WalkOver(), 0.0)


def test_an_edge_outside_the_table_is_refused():
    """S52: the model moves a child along the table's edges only; the docs' diagram is that table."""
    spec = SupervisorSpec("top", (ChildSpec("a", idle),))
    draft = Draft(Head(spec, "top"), Child(spec.children[0], 0), 0.0)
    with pytest.raises(IllegalInputError, match="no transition"):
        draft.move(ChildState.RUNNING, "from nowhere")
    assert {before for before, _ in TRANSITIONS} | {ChildState.REMOVED} == set(ChildState)
    assert all(after is not ChildState.STARTING for before, after in TRANSITIONS if before in LIVE)


def test_step_is_a_function_of_its_arguments():
    """S52, S56: the same head, child, event and time give the same result, and leave the arguments alone."""
    tree = roster("a")
    head, child = tree.head, tree["a"]
    first = step(head, None, BringUp(), 0.0)
    assert first == step(head, None, BringUp(), 0.0)
    assert (head, child) == (tree.head, tree["a"])
    assert "a" in tree
    assert len(tree) == 1


@given(st.lists(st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 9))))
def test_a_row_keeps_order_under_appends_and_removals(operations):
    """S8, S59: the row's order is the order of appends, whatever is removed in between."""
    row, model = Row(), {}
    for position, (what, number) in enumerate(operations):
        name = str(number)
        if what == "add" and name not in model:
            row.append(name, position)
            model[name] = position
        elif what == "remove" and name in model:
            row.remove(model.pop(name))
    assert list(row) == list(model)
    for forward, names in ((True, list(model)), (False, list(model)[::-1])):
        walked, name = [], row.neighbour(None, forward=forward)
        while name is not None:
            assert row.neighbour(model[name], forward=forward, inclusive=True) == name
            walked.append(name)
            name = row.neighbour(model[name], forward=forward)
        assert walked == names


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20)))))
def test_timers_fire_in_order_and_only_as_last_set(settings):
    """S35: a child has one timer, the last one set; due timers come out earliest first."""
    timers, model = Timers(), {}
    for child, at in settings:
        timers.set(child, at)
        model.pop(child, None)
        if at is not None:
            model[child] = at
    assert sorted(at for at, _ in timers.pending()) == sorted(model.values())
    fired = []
    while (child := timers.pop_due(10)) is not None:
        fired.append(model.pop(child))
    assert fired == sorted(fired)
    assert all(at > 10 for at in model.values())


def test_an_idle_supervisor_does_nothing():
    """S6: outside run() no effect is carried out, and a parent's drain of one that ended is no error."""
    handle = Supervisor(SupervisorSpec("top"))
    with pytest.raises(ClosedError):
        handle._perform(Finish())
    handle._close()
    handle.drain_from_parent("late")
