"""Stopping: who may start no more, in which order children end, and what happens to those that do not."""

from __future__ import annotations

import pytest
import trio

from supervisors import (
    Backoff,
    ChildError,
    ChildSpec,
    SettlementFailed,
    StuckError,
    Supervisor,
    SupervisorSpec,
    run_supervisor,
    supervised,
)
from supervisors.events import ChildEnded, ChildMoved, ChildStuck, StopAccepted
from supervisors.inputs import CancelRequested, DrainRequested
from supervisors.state import ChildState


async def test_run_returns_only_after_every_descendant(autojump_clock, script):
    """S1, S3: run() returns after the slowest cleanup of the deepest descendant, not before."""
    inner = SupervisorSpec("inner", (ChildSpec("leaf", script.forever("leaf", cleanup_s=4)),))
    with trio.move_on_after(1):
        await run_supervisor(SupervisorSpec("top", (ChildSpec("arm", supervised(inner)),)))
    assert script.log == ["leaf up", "leaf cancelled"]
    assert trio.current_time() == pytest.approx(5)


async def test_a_new_generation_waits_for_every_descendant_of_the_old(autojump_clock, script):
    """S2, S3: a restart waits until the tasks the old generation started have cleaned up."""

    async def body(ctx):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script.forever(f"helper{ctx.generation}", cleanup_s=3), ctx)
            await trio.lowlevel.checkpoint()
            if ctx.generation == 1:
                raise ValueError("once")

    spec = SupervisorSpec("top", (ChildSpec("c", body),))
    with trio.move_on_after(10):
        await run_supervisor(spec, observer=script.observe)
    assert script.log[:3] == ["helper1 up", "helper1 cancelled", "helper2 up"]


async def test_stop_time_is_the_sum_of_the_cleanups(autojump_clock, script):
    """S5: under a parent cancel each child is cancelled after the one behind it ended."""
    children = tuple(ChildSpec(n, script.forever(n, cleanup_s=2)) for n in "abc")
    with trio.move_on_after(1):
        await run_supervisor(SupervisorSpec("top", children))
    assert script.log[3:] == ["c cancelled", "b cancelled", "a cancelled"]
    assert trio.current_time() == pytest.approx(1 + 3 * 2)


async def test_a_cancelled_child_cancels_nobody_else(autojump_clock, script, opened):
    """S5: a body that cancels its own scope ends alone; parent and siblings go on."""

    async def suicidal(ctx):
        ctx.started()
        with trio.CancelScope() as scope:
            scope.cancel(reason="mine")
            await trio.sleep_forever()

    spec = SupervisorSpec("top", (ChildSpec("a", script.forever("a")), ChildSpec("b", suicidal)))
    async with opened(spec) as handle:
        await trio.sleep(1.5)
        assert [child.generation for child in handle.which_children()] == [1, 2]
        assert script.log == ["a up"]


async def test_a_parent_cancel_overtakes_a_start(autojump_clock, script):
    """S11, S48: a cancel that arrives while a child starts lets no further child start."""

    async def slow(ctx):
        await trio.sleep(5)

    spec = SupervisorSpec("top", (ChildSpec("slow", slow), ChildSpec("b", script.forever("b"))))
    with trio.move_on_after(1):
        await run_supervisor(spec)
    assert script.log == []


async def test_a_drain_cancels_a_child_that_is_starting(autojump_clock, script, opened):
    """S11, S47: a child that is STARTING when the drain comes is cancelled, and the next never starts."""

    async def slow(ctx):
        try:
            await trio.sleep_forever()
        finally:
            script.log.append(f"slow {ctx.shutdown.requested}")

    spec = SupervisorSpec("top", (ChildSpec("slow", slow), ChildSpec("b", script.forever("b"))))
    async with opened(spec, ready=False):
        await trio.sleep(1)
    assert script.log == ["slow False"]


async def test_a_stop_during_backoff_ends_the_wait_at_once(autojump_clock, script, opened):
    """S33, S48: a stop request ends a backoff within one scheduler step, and nothing restarts."""
    spec = SupervisorSpec(
        "top",
        (ChildSpec("c", script.failing("c", ValueError, runs=9), backoff=Backoff(base_s=30)),),
        max_restarts=None,
    )
    async with opened(spec, ready=False) as handle:
        await trio.sleep(1)
        assert handle.which_children()[0].state == "backoff"
    assert trio.current_time() == pytest.approx(1)
    assert script.log == ["c up"]


async def test_the_waits_of_all_children_end_before_the_first_drain(autojump_clock, script, opened):
    """S33: a child in backoff is done at the stop request itself, however long the others take to drain."""
    flaky = ChildSpec("flaky", script.failing("flaky", ValueError, runs=9), backoff=Backoff(base_s=30))
    slow = ChildSpec("slow", script.forever("slow", cleanup_s=20))
    async with opened(SupervisorSpec("top", (flaky, slow), max_restarts=None), ready=False) as handle:
        await trio.sleep(1)
        handle.shutdown()
        await trio.testing.wait_all_tasks_blocked()
        assert [child.state for child in handle.which_children()] == ["done", "draining"]


async def test_drain_and_cancel_are_separate_and_cancel_may_overtake(autojump_clock, script, opened):
    """S45: a drain lets the body finish; a cancel accepted during the drain ends it at once."""

    async def finishing(ctx):
        ctx.started()
        try:
            await ctx.shutdown.wait()
            await trio.sleep(10)
            script.log.append("finished")
        except trio.Cancelled as error:
            script.log.append(f"cancelled: {error.reason}")
            raise

    async with opened(SupervisorSpec("top", (ChildSpec("c", finishing),))) as handle:
        handle.shutdown()
        handle.shutdown("again: no effect")
        await trio.sleep(4)
        handle.cancel("hurry")
        handle.cancel("hurry again: no effect")
        await handle.wait_closed()
        assert trio.current_time() == pytest.approx(4)
    assert script.log == ["cancelled: hurry"]
    assert [event.reason for event in script.seen(StopAccepted)] == ["shutdown requested", "hurry"]


async def test_a_fatal_end_during_a_drain_cancels_the_rest(autojump_clock, script):
    """S17: a fatal leaf turns a drain into a cancel; siblings stop in reverse, then it is raised whole."""

    async def fatal(ctx):
        ctx.started()
        await ctx.shutdown.wait()
        raise BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError("lost?")])

    async def deaf(ctx):
        ctx.started()
        await trio.sleep_forever()

    children = (ChildSpec("deaf", deaf), ChildSpec("fatal", fatal))
    handle = Supervisor(SupervisorSpec("top", children))
    with pytest.RaisesGroup(pytest.RaisesGroup(KeyboardInterrupt, ValueError)):
        async with trio.open_nursery() as nursery:
            await nursery.start(handle.run)
            await handle.wait_ready()
            handle.shutdown()
    assert trio.current_time() < 1


async def test_a_fatal_end_is_never_restarted(autojump_clock, script):
    """S17: a fatal end of a permanent child stops the siblings in reverse and is raised."""
    children = (
        ChildSpec("a", script.forever("a")),
        ChildSpec("f", script.failing("f", KeyboardInterrupt)),
        ChildSpec("z", script.forever("z")),
    )
    with pytest.raises(KeyboardInterrupt):
        await run_supervisor(SupervisorSpec("top", children))
    assert script.log[:2] == ["a up", "f up"]
    assert script.log[2:] in (["z up", "z cancelled", "a cancelled"], ["a cancelled"])


async def test_a_fatal_sibling_not_at_the_cursor_hurries_the_drain(autojump_clock, script, opened):
    """S17, S45: a fatal end elsewhere turns the drain under way into a cancel of the child being drained."""
    go = trio.Event()

    async def fatal(ctx):
        ctx.started()
        await go.wait()
        raise KeyboardInterrupt

    async def deaf(ctx):
        ctx.started()
        await trio.sleep_forever()

    with pytest.RaisesGroup(KeyboardInterrupt):
        async with opened(
            SupervisorSpec("top", (ChildSpec("fatal", fatal), ChildSpec("deaf", deaf)))
        ) as handle:
            handle.shutdown()
            await trio.sleep(1)
            go.set()
    assert trio.current_time() == pytest.approx(1)


async def test_settlement_failures_while_stopping_are_reported_only(autojump_clock, script, opened):
    """S14: a settlement failure met during a drain is an event, not an error of run()."""

    async def unlucky(ctx):
        ctx.started()
        await ctx.shutdown.wait()
        return SettlementFailed("ack")

    async with opened(SupervisorSpec("top", (ChildSpec("c", unlucky),))):
        pass
    assert [event.end for event in script.seen(ChildEnded)] == [SettlementFailed("ack")]


async def test_an_own_error_under_cancel_is_raised_beside_cancelled(autojump_clock, script):
    """S14: under a parent's cancel a child's own error is raised in a group beside Cancelled."""

    async def sore(ctx):
        ctx.started()
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cleanup failed")

    with pytest.RaisesGroup(ValueError) as caught, trio.move_on_after(1) as scope:
        await run_supervisor(SupervisorSpec("top", (ChildSpec("c", sore),)))
    assert [str(error) for error in caught.value.exceptions] == ["cleanup failed"]
    assert scope.cancelled_caught


class CancelOnExit(trio.abc.Instrument):
    """Cancels a scope the moment a task has ended, before whoever waits for that end runs."""

    def __init__(self, name, scope):
        self.name, self.scope = name, scope

    def task_exited(self, task):
        if task.name == self.name:
            self.scope.cancel(reason="the parent is cancelled")


async def test_an_own_error_survives_a_cancel_that_is_seen_before_it_is_raised(autojump_clock):
    """S14: an end that waits to be read when the parent is cancelled keeps its error beside Cancelled."""

    async def sore(ctx):
        ctx.started()
        await trio.sleep(1)
        raise ValueError("own")

    spec = SupervisorSpec("top", (ChildSpec("c", sore),))
    with pytest.RaisesGroup(ValueError) as caught, trio.CancelScope() as scope:
        trio.lowlevel.add_instrument(CancelOnExit("top/c#1", scope))
        await run_supervisor(spec)
    assert [str(error) for error in caught.value.exceptions] == ["own"]
    assert scope.cancelled_caught


async def test_a_child_that_fails_during_the_drain_stays_down(autojump_clock, script, opened):
    """S14, S48: a child that ends by itself while others drain is not restarted."""
    children = (
        ChildSpec("flaky", script.failing("flaky", SettlementFailed, runs=9, after_s=2)),
        ChildSpec("slow", script.forever("slow", cleanup_s=20)),
    )
    async with opened(SupervisorSpec("top", children, max_restarts=None)) as handle:
        handle.shutdown()
        await trio.sleep(10)
        assert [child.state for child in handle.which_children()] == ["done", "draining"]
    assert script.log == ["flaky up", "slow up", "slow drained"]


async def test_failed_data_under_cancel_is_raised_too(autojump_clock, script, opened):
    """S14: a Failed that a body returns while it is cancelled is raised as ChildError: no error is lost."""
    from supervisors import Failed

    async def sore(ctx):
        ctx.started()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 3):
            await trio.sleep_forever()
        return Failed("state lost")

    with pytest.RaisesGroup(ChildError) as caught:
        async with opened(SupervisorSpec("top", (ChildSpec("c", sore),))) as handle:
            handle.cancel("now")
    assert [error.end.beside for error in caught.value.exceptions] == [Failed("state lost")]


async def test_the_accepted_stop_comes_before_a_wakeup_of_the_same_instant(autojump_clock, script, opened):
    """S48: a stop request taken from the mailbox before a wake-up that is due lets nothing start."""
    spec = SupervisorSpec("top", (ChildSpec("c", script.failing("c", ValueError, runs=9)),))
    async with opened(spec, ready=False) as handle:
        await trio.sleep(1 - 1e-9)
        assert handle.which_children()[0].state == "backoff"
        await trio.sleep_until(1)
        handle.shutdown()
        await handle.wait_closed()
    started = [event for event in script.seen(ChildMoved) if event.after is ChildState.STARTING]
    stopped = script.events.index(script.seen(StopAccepted)[0])
    assert all(script.events.index(event) < stopped for event in started)


async def test_nothing_starts_once_the_own_scope_is_cancelled(autojump_clock, script):
    """S48: an input taken after the parent's cancel starts nothing, even if it was posted before it."""
    handle = Supervisor(SupervisorSpec("top", (ChildSpec("a", script.forever("a")),)))
    with trio.CancelScope() as scope:
        scope.cancel(reason="before the first start")
        await handle.run()
    assert scope.cancelled_caught
    assert script.log == []


async def test_a_stuck_child_is_reported_every_interval_and_waited_for(autojump_clock, script, opened):
    """S49, S50: a shield longer than the stop deadline shows as STUCK reports; run() waits."""
    spec = SupervisorSpec(
        "top", (ChildSpec("c", script.forever("c", cleanup_s=11), stop_timeout_s=2, stuck_interval_s=5),)
    )
    with pytest.RaisesGroup(pytest.RaisesExc(StuckError, match="2 reports")):
        async with opened(spec, ready=True) as handle:
            handle.cancel("now")
    assert [(event.at, event.count) for event in script.seen(ChildStuck)] == [(2, 1), (7, 2)]
    assert trio.current_time() == pytest.approx(11)


async def test_the_last_rung_pulls_the_abort_hook(autojump_clock, script, opened):
    """S42, S50: with on_stuck="abort" the child's synchronous hook is called."""
    aborted = trio.Event()

    async def stuck(ctx):
        calls = 0

        def abort() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise OSError("hook")
            aborted.set()

        ctx.set_abort(abort)
        ctx.started()
        with trio.CancelScope(shield=True):
            await aborted.wait()

    spec = SupervisorSpec(
        "top", (ChildSpec("c", stuck, stop_timeout_s=2, stuck_interval_s=5, on_stuck="abort"),)
    )
    with pytest.RaisesGroup(StuckError):
        async with opened(spec) as handle:
            handle.cancel("now")
    assert trio.current_time() == pytest.approx(7)
    assert [event.error.args for event in script.events if hasattr(event, "error")] == [("hook",)]


async def test_an_abort_without_a_hook_just_waits(autojump_clock, script, opened):
    """S50: the abort rung without a hook is the wait rung."""
    spec = SupervisorSpec(
        "top", (ChildSpec("c", script.forever("c", cleanup_s=6), stop_timeout_s=2, on_stuck="abort"),)
    )
    with pytest.RaisesGroup(StuckError):
        async with opened(spec) as handle:
            handle.cancel("now")
    assert script.log == ["c up", "c cancelled"]


async def test_a_broken_supervisor_cancels_every_child_first(autojump_clock, script, monkeypatch):
    """S51: if the supervisor's own loop raises, every child scope is cancelled, then the error is raised."""
    handle = Supervisor(SupervisorSpec("top", tuple(ChildSpec(n, script.forever(n)) for n in "ab")))

    def broken(*_):
        raise RuntimeError("defect")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="defect")):
        async with trio.open_nursery() as nursery:
            await nursery.start(handle.run)
            await handle.wait_ready()
            monkeypatch.setattr(Supervisor, "_take", broken)
            handle.shutdown()
    assert sorted(script.log[2:]) == ["a cancelled", "b cancelled"]


async def test_a_cancel_that_meets_a_timer_is_not_lost(autojump_clock, script):
    """S51: a parent's cancel at the very instant a wake-up is due stops the tree."""
    spec = SupervisorSpec("top", (ChildSpec("c", script.failing("c", ValueError, runs=99)),))
    with trio.move_on_after(1) as scope:
        await run_supervisor(spec)
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(1)


async def test_every_cancel_carries_a_reason(autojump_clock, script, opened):
    """S54: each cancel a body sees names its cause: a request, or the deadline that passed, by its source."""
    reasons: dict[str, str | None] = {}

    def deaf(name):
        async def body(ctx):
            if name != "starting":
                ctx.started()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                reasons[name] = error.reason
                raise

        return body

    children = (
        ChildSpec("a", deaf("a")),
        ChildSpec("b", deaf("b"), drain_timeout_s=2),
        ChildSpec("starting", deaf("starting"), start_timeout_s=3, start_failure="retry"),
    )
    async with opened(SupervisorSpec("top", children, max_restarts=None), ready=False) as handle:
        await trio.sleep(3.5)
        handle.shutdown("deploy")
        await trio.sleep(2.1)
        handle.cancel("second signal")
    assert reasons == {
        "starting": "start deadline of 3 s",
        "b": "drain deadline of 2 s",
        "a": "second signal",
    }


async def test_one_parent_cancel_is_taken_once(autojump_clock, script):
    """S45, S48: a parent's cancel becomes one input, however often the supervisor is woken after it."""
    spec = SupervisorSpec("top", tuple(ChildSpec(n, script.forever(n, cleanup_s=1)) for n in "abc"))
    with trio.move_on_after(1):
        await run_supervisor(spec, observer=script.observe)
    requests = [event.input for event in script.events if hasattr(event, "input")]
    assert sum(isinstance(request, CancelRequested | DrainRequested) for request in requests) == 1
