"""Starts, readiness, deadlines and budgets of a running tree."""

from __future__ import annotations

import pytest
import trio

from supervisors import (
    Backoff,
    ChildSpec,
    ClosedError,
    EndClass,
    Failed,
    IntensityError,
    RestartType,
    SettlementError,
    SettlementFailed,
    StartError,
    Supervisor,
    SupervisorSpec,
    run_supervisor,
    supervised,
)
from supervisors.events import BackoffChosen, ChildEnded, ChildMoved, ReadinessChanged
from supervisors.exits import StartTimedOut


async def test_the_next_child_waits_for_the_one_before(autojump_clock, script, opened):
    """S8: child n+1 starts only after n reported started, however long that takes."""

    async def slow(ctx):
        await trio.sleep(5)
        await script.forever("slow")(ctx)

    async with opened(SupervisorSpec("top", (ChildSpec("slow", slow), ChildSpec("b", script.forever("b"))))):
        assert trio.current_time() == pytest.approx(5)
    assert script.log[:2] == ["slow up", "b up"]


async def test_a_start_past_its_deadline_is_a_failed_start(autojump_clock, script):
    """S61, S10: past its deadline a start is cancelled and awaited before anything else."""

    async def late(ctx):
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 4):
            await trio.sleep_forever()
        ctx.started()
        script.log.append("late")

    children = (ChildSpec("a", script.forever("a")), ChildSpec("late", late, start_timeout_s=2))
    with pytest.raises(StartError) as info:
        await run_supervisor(SupervisorSpec("top", children))
    assert info.value.end == Failed(StartTimedOut(2))
    assert script.log == ["a up", "late", "a cancelled"]
    assert trio.current_time() == pytest.approx(4)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SettlementError("s"), SettlementFailed("s")),
        (None, Failed(StartTimedOut(2))),
    ],
)
async def test_what_a_timed_out_start_raised_is_kept(autojump_clock, script, opened, error, expected):
    """S61, S16: the body's own error stays with the failed start; a settlement failure keeps its class."""

    async def late(ctx):
        try:
            await trio.sleep_forever()
        finally:
            if error is not None:
                raise error

    spec = SupervisorSpec("top", (ChildSpec("c", late, start_timeout_s=2, start_failure="retry"),))
    async with opened(spec, ready=False):
        await trio.sleep(2.5)
    assert script.seen(ChildEnded)[0].end == expected


async def test_a_timed_out_start_keeps_its_own_detail(autojump_clock, script, opened):
    """S61, S16: Failed(detail) returned by a start cancelled at its deadline is kept within the end."""

    async def late(ctx):
        with trio.move_on_after(3, shield=True):
            await trio.sleep_forever()
        return Failed("half open")

    spec = SupervisorSpec("top", (ChildSpec("c", late, start_timeout_s=2, start_failure="retry"),))
    async with opened(spec, ready=False):
        await trio.sleep(3.5)
    assert script.seen(ChildEnded)[0].end == Failed(StartTimedOut(2, "half open"))


async def test_retried_starts_react_to_a_stop_at_once(autojump_clock, script, opened):
    """S9, S33: between the attempts of a retried start the supervisor reacts to stop requests at once."""

    async def never(ctx):
        await trio.lowlevel.checkpoint()
        raise OSError("unreachable")

    spec = SupervisorSpec("top", (ChildSpec("c", never, start_failure="retry"),), max_restarts=None)
    async with opened(spec, ready=False) as handle:
        await trio.sleep(10)
        assert [event.delay_s for event in script.seen(BackoffChosen)] == [1, 2, 4, 8]
        before = trio.current_time()
        handle.shutdown()
        await handle.wait_closed()
        assert trio.current_time() == before


async def test_restarts_always_retry(autojump_clock, script, opened):
    """S9: start_failure="fail" speaks of the first start; a restart that fails to start is retried."""
    tries = 0

    async def body(ctx):
        nonlocal tries
        tries += 1
        if tries == 1:
            ctx.started()
        await trio.lowlevel.checkpoint()
        if tries < 4:
            raise OSError("again")
        await script.forever("c")(ctx)

    async with opened(SupervisorSpec("top", (ChildSpec("c", body),), max_restarts=None), ready=False):
        await trio.sleep(30)
    assert script.log[0] == "c up"


async def test_a_failed_start_uses_the_budget(autojump_clock):
    """S9, S36: failed starts count as ends for the budget."""

    async def never(ctx):
        await trio.lowlevel.checkpoint()
        raise OSError("unreachable")

    with pytest.raises(IntensityError) as info:
        await run_supervisor(SupervisorSpec("top", (ChildSpec("c", never, start_failure="retry"),)))
    assert [record.at for record in info.value.history] == [0, 1, 3, 7]


async def test_no_limit_never_gives_up(autojump_clock, script):
    """S36: max_restarts=None restarts for ever, and says so in the spec."""
    spec = SupervisorSpec(
        "top", (ChildSpec("c", script.failing("c", ValueError, runs=999)),), max_restarts=None
    )
    with trio.move_on_after(3_000):
        await run_supervisor(spec)
    assert len(script.log) > 90


async def test_ends_outside_the_counted_set_use_no_budget(autojump_clock, script, opened):
    """S36: a budget counts a stated set of end classes; others restart for free."""
    spec = SupervisorSpec(
        "top",
        (ChildSpec("c", script.failing("c", lambda: SettlementFailed("s"), runs=5)),),
        max_restarts=0,
        counted=frozenset({EndClass.FAILED}),
    )
    async with opened(spec, ready=False) as handle:
        await trio.sleep(60)
        assert handle.ready
        assert handle.snapshot().restarts == ()


async def test_a_budget_of_a_childs_own_acts_first(autojump_clock, script):
    """S60: a per-child budget is counted apart; whichever is exceeded first acts, and names its owner."""
    child = ChildSpec("c", script.failing("c", ValueError, runs=9), max_restarts=1)
    with pytest.raises(IntensityError) as info:
        await run_supervisor(SupervisorSpec("top", (child,)))
    assert (info.value.owner, len(info.value.history)) == ("top/c", 2)


async def test_a_parent_treats_an_exhausted_supervisor_as_an_ordinary_end(autojump_clock, script, opened):
    """S37: a nested supervisor that gives up is a failed child: its parent restarts it whole."""
    inner = SupervisorSpec(
        "inner", (ChildSpec("c", script.failing("c", ValueError, runs=9)),), max_restarts=0
    )
    async with opened(SupervisorSpec("outer", (ChildSpec("arm", supervised(inner)),)), ready=False) as handle:
        await trio.sleep(2)
        arm = handle.which_children()[0]
        assert arm.generation == 2
        assert arm.last_end is not None
        assert arm.last_end.startswith("failed: IntensityError")


async def test_readiness_follows_the_significant_children(autojump_clock, script, opened):
    """S12: ready iff every significant child is RUNNING; never in backoff, never while stopping."""
    children = (
        ChildSpec("sig", script.failing("sig", ValueError, after_s=2), significant=True),
        ChildSpec("other", script.failing("other", ValueError, after_s=1)),
    )
    async with opened(SupervisorSpec("top", children)) as handle:
        await trio.sleep(1.5)
        assert handle.ready
        await trio.sleep(1)
        assert not handle.ready
        await handle.wait_ready()
        handle.shutdown()
        await trio.testing.wait_all_tasks_blocked()
        assert not handle.ready
    assert [event.ready for event in script.seen(ReadinessChanged)] == [True, False, True, False]


async def test_waiting_for_readiness_ends_with_the_supervisor(autojump_clock, script):
    """S6, S12: wait_ready on a supervisor that ends first raises, as does a second run()."""

    async def never(ctx):
        await trio.sleep_forever()

    handle = Supervisor(SupervisorSpec("top", (ChildSpec("c", never, significant=True),)))
    assert not handle.ready
    assert handle.snapshot().state == "starting"
    async with trio.open_nursery() as nursery:
        await nursery.start(handle.run)
        handle.shutdown()
        with pytest.raises(ClosedError):
            await handle.wait_ready()
    for call in (handle.shutdown, lambda: handle.cancel("x")):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        await handle.run()
    assert handle.snapshot().state == "closed"


@pytest.mark.parametrize(
    ("restart", "result", "generations"),
    [
        (RestartType.PERMANENT, None, 2),
        (RestartType.PERMANENT, ValueError(), 2),
        (RestartType.TRANSIENT, None, 1),
        (RestartType.TRANSIENT, ValueError(), 2),
        (RestartType.TRANSIENT, SettlementFailed(), 2),
    ],
)
async def test_restart_types(autojump_clock, script, opened, restart, result, generations):
    """S18: permanent children restart after any end, transient ones after abnormal ends only."""
    spec = SupervisorSpec("top", (ChildSpec("c", script.failing("c", lambda: result), restart),))
    async with opened(spec, ready=False) as handle:
        await trio.sleep(5)
        assert handle.which_children()[0].generation == generations


async def test_a_temporary_child_is_forgotten_after_its_end(autojump_clock, script, opened):
    """S18: a temporary child is never restarted."""
    spec = SupervisorSpec("top", (ChildSpec("c", script.failing("c", ValueError), RestartType.TEMPORARY),))
    async with opened(spec, ready=False) as handle:
        await trio.sleep(5)
        assert handle.which_children() == ()


async def test_a_job_that_completes_without_reporting_is_no_failed_start(autojump_clock, script, opened):
    """S9, S18: a transient job may return without having reported started; the next child starts."""

    async def job(ctx):
        await trio.sleep(1)

    children = (ChildSpec("job", job, RestartType.TRANSIENT), ChildSpec("b", script.forever("b")))
    async with opened(SupervisorSpec("top", children)) as handle:
        assert [child.state for child in handle.which_children()] == ["done", "running"]


async def test_the_delay_is_published_before_the_wait(autojump_clock, script, opened):
    """S26, S34, S35: the wait is told when it begins, with its wake-up on Trio's clock."""
    async with opened(
        SupervisorSpec("top", (ChildSpec("c", script.failing("c", SettlementFailed, after_s=3)),)),
        ready=False,
    ) as handle:
        await trio.sleep(3.5)
        (chosen,) = script.seen(BackoffChosen)
        assert (chosen.at, chosen.delay_s, chosen.wake_at, chosen.generation) == (3, 1, 4, 2)
        child = handle.which_children()[0]
        assert (child.state, child.timer_at, child.delay_s) == ("backoff", 4, 1)
        await trio.sleep(0.6)
        restarted = [event.at for event in script.seen(ChildMoved) if event.after.value == "starting"]
        assert restarted == [0, 4]


async def test_jitter_comes_from_the_seed(autojump_clock, script):
    """S26, S56: two runs with one seed wait the same jittered delays, another seed waits others."""

    async def delays(seed):
        events = []
        child = ChildSpec("c", script.failing("c", ValueError, runs=9), backoff=Backoff(jitter=0.5))
        spec = SupervisorSpec("top", (child,), max_restarts=None, seed=seed)
        with trio.move_on_after(60):
            await run_supervisor(spec, observer=events.append)
        return [event.delay_s for event in events if isinstance(event, BackoffChosen)][:4]

    assert await delays(1) == await delays(1) != await delays(2)


async def test_restarted_only_past_the_minimal_delay(autojump_clock, script, opened):
    """S32: even a child that ran for long waits min_delay before its restart."""
    backoff = Backoff(min_delay_s=0.25)
    child = ChildSpec("c", script.failing("c", ValueError, after_s=60), backoff=backoff)
    async with opened(SupervisorSpec("top", (child,)), ready=False):
        await trio.sleep(61)
    assert [event.delay_s for event in script.seen(BackoffChosen)] == [0.25]


async def test_started_twice_is_a_defect_of_the_body(autojump_clock, script):
    """S8: a generation reports started once; a second report raises in the body."""

    async def twice(ctx):
        ctx.started()
        await trio.lowlevel.checkpoint()
        ctx.started()

    with pytest.raises(IntensityError) as info:
        await run_supervisor(SupervisorSpec("top", (ChildSpec("c", twice),), max_restarts=0))
    assert isinstance(info.value.__cause__, RuntimeError)
