"""The running supervisor under virtual time: starts, ends, restarts, stops."""

from __future__ import annotations

import itertools

import pytest
import trio

from supervisors import (
    Backoff,
    ChildContext,
    ChildError,
    ChildSpec,
    ClosedError,
    IntensityError,
    RestartType,
    SettlementFailed,
    StartError,
    Strategy,
    Supervisor,
    SupervisorSpec,
    run_supervisor,
    supervised,
)


class Script:
    """Bodies that note what happens to them, in one shared list."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def forever(self, name: str, *, cleanup_s: float = 0.0):
        async def body(ctx: ChildContext) -> None:
            self.log.append(f"{name} up")
            ctx.started()
            try:
                await ctx.shutdown.wait()
                self.log.append(f"{name} drained")
            except trio.Cancelled:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + cleanup_s):
                    await trio.sleep_forever()
                self.log.append(f"{name} cancelled")
                raise

        return body


async def test_children_start_in_order_and_drain_in_reverse(autojump_clock):
    """S8, S46: children start in declaration order and drain in reverse; run() then returns."""
    script = Script()
    spec = SupervisorSpec("top", tuple(ChildSpec(n, script.forever(n)) for n in "abc"))
    async with trio.open_nursery() as nursery:
        handle: Supervisor = await nursery.start(run_supervisor, spec)
        await handle.wait_ready()
        assert script.log == ["a up", "b up", "c up"]
        handle.shutdown()
        await handle.wait_closed()
    assert script.log[3:] == ["c drained", "b drained", "a drained"]


async def test_a_parent_cancel_stops_children_in_reverse(autojump_clock):
    """S5: a parent's cancel reaches children through the supervisor, each after the previous one ended."""
    script = Script()
    # Cancelled together they would end the other way round.
    slow = [ChildSpec(name, script.forever(name, cleanup_s=s)) for name, s in (("a", 1), ("b", 2), ("c", 3))]
    spec = SupervisorSpec("top", tuple(slow))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            handle: Supervisor = await nursery.start(run_supervisor, spec)
            await handle.wait_ready()
            scope.cancel(reason="enough")
    assert scope.cancelled_caught
    assert script.log[3:] == ["c cancelled", "b cancelled", "a cancelled"]


async def test_settlement_failures_back_off_one_two_four(autojump_clock):
    """S27, S28: consecutive settlement failures wait 1, 2, 4, 8, 16, 30, 30 seconds."""
    starts: list[float] = []

    async def body(ctx: ChildContext) -> SettlementFailed:
        starts.append(trio.current_time())
        ctx.started()
        await trio.lowlevel.checkpoint()
        return SettlementFailed("ack lost")

    spec = SupervisorSpec("top", (ChildSpec("session", body),), max_restarts=None)
    with trio.move_on_after(120):
        await run_supervisor(spec)
    assert [later - sooner for sooner, later in itertools.pairwise(starts)] == pytest.approx(
        [1, 2, 4, 8, 16, 30, 30]
    )


async def test_an_exceeded_budget_raises_with_its_history(autojump_clock):
    """S36, S37: exactly max_restarts are allowed; one more raises IntensityError with the history."""
    starts = 0

    async def body(ctx: ChildContext) -> None:
        nonlocal starts
        starts += 1
        ctx.started()
        await trio.lowlevel.checkpoint()
        raise ValueError("no")

    child = ChildSpec("c", body, backoff=Backoff(base_s=0.1))
    with pytest.raises(IntensityError) as info:
        await run_supervisor(SupervisorSpec("top", (child,), max_restarts=2))
    assert starts == 3
    assert [record.generation for record in info.value.history] == [1, 2, 3]


async def test_a_failed_first_start_stops_the_started_in_reverse(autojump_clock):
    """S9, S10: with start_failure="fail" the first failed start stops the started children and raises."""
    script = Script()

    async def refused(ctx: ChildContext) -> None:
        await trio.lowlevel.checkpoint()
        raise PermissionError("refused")

    children = (
        *(ChildSpec(n, script.forever(n)) for n in "ab"),
        ChildSpec("c", refused),
        ChildSpec("d", script.forever("d")),
    )
    with pytest.raises(StartError) as info:
        await run_supervisor(SupervisorSpec("top", children))
    assert isinstance(info.value.__cause__, PermissionError)
    assert script.log == ["a up", "b up", "b cancelled", "a cancelled"]


async def test_a_failed_first_start_may_retry(autojump_clock):
    """S9, S12: with start_failure="retry" the next child starts; ready comes when the retry succeeds."""
    script = Script()
    tries = 0

    async def flaky(ctx: ChildContext) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError("unreachable")
        await script.forever("flaky")(ctx)

    children = (
        ChildSpec("flaky", flaky, start_failure="retry", significant=True),
        ChildSpec("b", script.forever("b")),
    )
    async with trio.open_nursery() as nursery:
        handle: Supervisor = await nursery.start(
            run_supervisor, SupervisorSpec("top", children, max_restarts=None)
        )
        await handle.wait_ready()
        assert script.log == ["b up", "flaky up"]
        assert trio.current_time() == pytest.approx(3)
        handle.shutdown()


async def test_a_drain_deadline_becomes_a_cancel(autojump_clock):
    """S47: past its drain deadline a child is cancelled, with a reason naming the drain."""
    reasons: list[str | None] = []

    async def deaf(ctx: ChildContext) -> None:
        ctx.started()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            reasons.append(error.reason)
            raise

    spec = SupervisorSpec("top", (ChildSpec("deaf", deaf, drain_timeout_s=2),))
    async with trio.open_nursery() as nursery:
        handle: Supervisor = await nursery.start(run_supervisor, spec)
        await handle.wait_ready()
        before = trio.current_time()
        handle.shutdown()
        await handle.wait_closed()
        assert trio.current_time() - before == pytest.approx(2)
    assert reasons == ["drain deadline of 2 s"]


async def test_an_error_during_a_drain_is_raised_after_it(autojump_clock):
    """S14: a child's own error during a drain is raised, typed, after the stop."""

    async def sore(ctx: ChildContext) -> None:
        ctx.started()
        await ctx.shutdown.wait()
        raise ValueError("lost my place")

    handle = Supervisor(SupervisorSpec("top", (ChildSpec("sore", sore),)))
    with pytest.RaisesGroup(pytest.RaisesExc(ChildError)) as caught:
        async with trio.open_nursery() as nursery:
            await nursery.start(handle.run)
            await handle.wait_ready()
            handle.shutdown()
    assert str(caught.value.exceptions[0].__cause__) == "lost my place"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ONE_FOR_ONE, ["b up"]),
        (Strategy.REST_FOR_ONE, ["c cancelled", "b up", "c up"]),
        (Strategy.ONE_FOR_ALL, ["c cancelled", "a cancelled", "a up", "b up", "c up"]),
    ],
)
async def test_strategies_stop_in_reverse_and_start_forward(autojump_clock, strategy, expected):
    """S20, S21, S22: a strategy restarts the ended child, it and the later ones, or all."""
    script = Script()
    fail = trio.Event()

    async def once(ctx: ChildContext) -> None:
        if ctx.generation == 1:
            script.log.append("b up")
            ctx.started()
            await fail.wait()
            raise ValueError("once")
        await script.forever("b")(ctx)

    children = (
        ChildSpec("a", script.forever("a")),
        ChildSpec("b", once),
        ChildSpec("c", script.forever("c")),
    )
    async with trio.open_nursery() as nursery:
        handle: Supervisor = await nursery.start(run_supervisor, SupervisorSpec("top", children, strategy))
        await handle.wait_ready()
        del script.log[:]
        fail.set()
        await trio.sleep(5)
        assert script.log == expected
        assert handle.ready
        handle.shutdown()


async def test_a_supervisor_nests_as_the_body_of_a_child(autojump_clock):
    """S12, S46: a nested supervisor drains with its child, inner children first; readiness sees inside."""
    script = Script()
    inner = SupervisorSpec("inner", tuple(ChildSpec(n, script.forever(n), significant=True) for n in "xy"))
    outer = SupervisorSpec(
        "outer",
        (
            ChildSpec("a", script.forever("a")),
            ChildSpec("arm", supervised(inner), significant=True),
            ChildSpec("b", script.forever("b")),
        ),
    )
    async with trio.open_nursery() as nursery:
        handle: Supervisor = await nursery.start(run_supervisor, outer)
        await handle.wait_ready()
        await trio.testing.wait_all_tasks_blocked()
        arm = handle.snapshot().children[1]
        assert arm.supervisor is not None
        assert [child.state for child in arm.supervisor.children] == ["running", "running"]
        handle.shutdown()
    assert script.log == [
        *("a up", "x up", "y up", "b up"),
        *("b drained", "y drained", "x drained", "a drained"),
    ]


async def test_children_come_and_go_by_id(autojump_clock):
    """S59, S6: children start, terminate, restart and are deleted by id; afterwards the handle refuses."""
    script = Script()
    async with trio.open_nursery() as nursery:
        handle: Supervisor = await nursery.start(run_supervisor, SupervisorSpec("top"))
        await handle.start_child(ChildSpec("a", script.forever("a")))
        assert str(await handle.terminate_child("a")) == "Drained()"
        await handle.restart_child("a")
        await handle.terminate_child("a")
        await handle.delete_child("a")
        assert handle.count_children().specs == 0
        handle.shutdown()
    assert script.log == ["a up", "a drained"] * 2
    with pytest.raises(ClosedError):
        await handle.start_child(ChildSpec("b", script.forever("b")))


async def test_a_stop_request_before_the_run_starts_nothing(autojump_clock):
    """S11: a shutdown requested before run() is remembered: no child starts and run() ends normally."""
    script = Script()
    handle = Supervisor(SupervisorSpec("top", (ChildSpec("a", script.forever("a")),)))
    handle.shutdown()
    async with trio.open_nursery() as nursery:
        assert await nursery.start(handle.run) is handle
    assert script.log == []


async def test_a_transient_child_that_completes_stays_down(autojump_clock):
    """S18: a transient child restarts after an abnormal end only."""
    runs = 0

    async def job(ctx: ChildContext) -> None:
        nonlocal runs
        runs += 1
        ctx.started()
        await trio.lowlevel.checkpoint()
        if runs == 1:
            raise ValueError("again")

    async with trio.open_nursery() as nursery:
        spec = SupervisorSpec("top", (ChildSpec("job", job, RestartType.TRANSIENT),))
        handle: Supervisor = await nursery.start(run_supervisor, spec)
        await trio.sleep(60)
        assert (runs, handle.which_children()[0].state) == (2, "done")
        handle.shutdown()
