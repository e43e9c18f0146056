"""Strategies: who is stopped with the child that ended, and when the group starts again."""

from __future__ import annotations

import pytest
import trio

from supervisors import (
    Backoff,
    ChildSpec,
    IntensityError,
    RestartType,
    SettlementFailed,
    Strategy,
    SupervisorSpec,
    run_supervisor,
)
from supervisors.events import ChildEnded, GroupRestart
from supervisors.exits import Cancelled, EndClass

ALL, REST = Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE


async def test_the_group_starts_at_the_later_of_wake_and_last_end(autojump_clock, script, opened):
    """S22: members stop at once; the restart begins at max(leader's wake, last member's end)."""
    children = (
        ChildSpec("slow", script.forever("slow", cleanup_s=7)),
        ChildSpec("lead", script.failing("lead", ValueError)),
    )
    async with opened(SupervisorSpec("top", children, ALL), ready=False):
        await trio.sleep(6.9)
        assert script.log == ["slow up", "lead up"]
        await trio.sleep(0.2)
        assert script.log[2:] == ["slow cancelled", "slow up", "lead up"]


async def test_the_group_waits_for_the_leaders_backoff(autojump_clock, script, opened):
    """S22: quick members are stopped at once and stay down until the leader's backoff is over."""
    children = (
        ChildSpec("quick", script.forever("quick")),
        ChildSpec("lead", script.failing("lead", ValueError), backoff=Backoff(base_s=4)),
    )
    async with opened(SupervisorSpec("top", children, ALL), ready=False) as handle:
        await trio.sleep(3.9)
        assert [child.state for child in handle.which_children()] == ["waiting", "backoff"]
        await trio.sleep(0.2)
        assert handle.ready


async def test_a_group_restart_is_one_budget_event(autojump_clock, script, opened):
    """S23, S19: one end and its group's restart use the budget once, and only the leader's counters move."""
    children = (
        *(ChildSpec(n, script.forever(n)) for n in "abc"),
        ChildSpec("lead", script.failing("lead", ValueError)),
    )
    async with opened(SupervisorSpec("top", children, ALL, max_restarts=1), ready=False) as handle:
        await trio.sleep(3)
        tree = handle.snapshot()
        assert len(tree.restarts) == 1
        assert [child.start_failures for child in tree.children] == [0, 0, 0, 1]
    assert len(script.seen(GroupRestart)) == 1


async def test_a_members_own_failure_during_the_group_stop_is_absorbed(autojump_clock, script, opened):
    """S24: a member that fails while its group is being stopped ends as cancelled, ours: no budget."""

    async def member(ctx):
        ctx.started()
        await trio.sleep(1 if ctx.generation == 1 else 1_000)
        raise ValueError("in the middle of the group's stop")

    children = (
        ChildSpec("member", member),
        ChildSpec("lead", script.failing("lead", lambda: SettlementFailed("x"))),
        ChildSpec("slow", script.forever("slow", cleanup_s=3)),
    )
    async with opened(SupervisorSpec("top", children, ALL, max_restarts=1), ready=False) as handle:
        await trio.sleep(4)
        assert [child.generation for child in handle.which_children()] == [2, 2, 2]
        assert len(handle.snapshot().restarts) == 1
        handle.cancel("done")
    ended = {event.child: event for event in reversed(script.seen(ChildEnded))}
    assert (ended["member"].end.end_class, ended["member"].ours) == (EndClass.CANCELLED, True)
    assert isinstance(ended["member"].end, Cancelled)


async def test_a_temporary_member_is_stopped_and_removed(autojump_clock, script, opened):
    """S25: a temporary child is never restarted, not even by its group."""
    children = (
        ChildSpec("temp", script.forever("temp"), RestartType.TEMPORARY),
        ChildSpec("lead", script.failing("lead", ValueError)),
        ChildSpec("mate", script.forever("mate")),
    )
    async with opened(SupervisorSpec("top", children, ALL), ready=False) as handle:
        await trio.sleep(3)
        assert [child.id for child in handle.which_children()] == ["lead", "mate"]
    assert script.log.count("temp up") == 1


async def test_temporary_and_completed_children_are_left_down(autojump_clock, script, opened):
    """S18, S25: a temporary child's end restarts nobody, and a transient one that completed stays done."""
    children = (
        ChildSpec("temp", script.failing("temp", ValueError), RestartType.TEMPORARY),
        ChildSpec("job", script.failing("job", lambda: None), RestartType.TRANSIENT),
        ChildSpec("mate", script.forever("mate")),
        ChildSpec("lead", script.failing("lead", ValueError, after_s=5)),
    )
    async with opened(SupervisorSpec("top", children, ALL), ready=False) as handle:
        await trio.sleep(9)
        assert [(child.id, child.state) for child in handle.which_children()] == [
            ("job", "done"),
            ("mate", "running"),
            ("lead", "running"),
        ]


async def test_an_earlier_failure_takes_over_a_rest_for_one_restart(autojump_clock, script, opened):
    """S21: while a rest_for_one group waits, an earlier child's end widens the group; all start in order."""
    children = (
        ChildSpec("a", script.failing("a", ValueError, after_s=1)),
        ChildSpec("b", script.forever("b")),
        ChildSpec("c", script.failing("c", ValueError), backoff=Backoff(base_s=4)),
        ChildSpec("d", script.forever("d")),
    )
    async with opened(SupervisorSpec("top", children, REST), ready=False) as handle:
        await trio.sleep(3.9)
        states = [child.state for child in handle.which_children()]
        assert states == ["backoff", "waiting", "backoff", "waiting"]
        await trio.sleep(0.2)
        assert handle.ready
    ups = [line for line in script.log if line.endswith(" up")]
    assert ups[-4:] == ["a up", "b up", "c up", "d up"]


async def test_an_earlier_failure_joins_a_group_that_is_still_stopping(autojump_clock, script, opened):
    """S21, S24: an earlier child's end during the group's stop extends that stop."""
    children = (
        ChildSpec("a", script.failing("a", ValueError, after_s=1)),
        ChildSpec("b", script.forever("b")),
        ChildSpec("c", script.failing("c", ValueError)),
        ChildSpec("d", script.forever("d", cleanup_s=5)),
    )
    async with opened(SupervisorSpec("top", children, REST), ready=False) as handle:
        await trio.sleep(10)
        assert handle.ready
    middle = script.log[4:]
    assert middle[:6] == ["d cancelled", "b cancelled", "a up", "b up", "c up", "d up"]


async def test_a_failed_start_retries_alone(autojump_clock, script, opened):
    """S8, S9: in a group restart a failed start backs off alone; the next child starts, the group stands."""
    tries = 0

    async def flaky(ctx):
        nonlocal tries
        tries += 1
        if tries == 2:
            await trio.lowlevel.checkpoint()
            raise OSError("not yet")
        await script.forever("flaky")(ctx)

    children = (
        ChildSpec("lead", script.failing("lead", ValueError, after_s=0.5)),
        ChildSpec("flaky", flaky),
        ChildSpec("last", script.forever("last")),
    )
    async with opened(SupervisorSpec("top", children, ALL), ready=False) as handle:
        await trio.sleep(2)
        assert [child.state for child in handle.which_children()] == ["running", "backoff", "running"]
        await trio.sleep(2)
        assert [child.generation for child in handle.which_children()] == [2, 3, 2]


async def test_a_failing_group_exhausts_the_budget(autojump_clock, script):
    """S23, S37: group restarts beyond the budget stop everyone in reverse and raise."""
    children = (
        ChildSpec("a", script.forever("a")),
        ChildSpec("lead", script.failing("lead", ValueError, runs=99), backoff=Backoff(base_s=0.1)),
    )
    with pytest.raises(IntensityError) as info:
        await run_supervisor(SupervisorSpec("top", children, ALL, max_restarts=2))
    assert len(info.value.history) == 3
    assert isinstance(info.value.__cause__, BaseExceptionGroup)
    assert script.log[-1] == "a cancelled"


async def test_a_member_in_its_own_backoff_waits_for_its_turn(autojump_clock, script, opened):
    """S22, S34: a member that was backing off by itself wakes into the group and starts in its turn."""
    tries = 0

    async def flaky(ctx):
        nonlocal tries
        tries += 1
        if tries == 1:
            await trio.lowlevel.checkpoint()
            raise OSError("first start")
        await script.forever("flaky")(ctx)

    children = (
        ChildSpec("flaky", flaky, start_failure="retry"),
        ChildSpec("slow", script.forever("slow", cleanup_s=4)),
        ChildSpec("lead", script.failing("lead", ValueError, after_s=0.5)),
    )
    async with opened(SupervisorSpec("top", children, ALL), ready=False) as handle:
        await trio.sleep(2)
        assert [child.state for child in handle.which_children()] == ["waiting", "stopping", "waiting"]
        await trio.sleep(4)
        assert [child.state for child in handle.which_children()] == ["running"] * 3
