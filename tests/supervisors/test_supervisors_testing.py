"""The test kit: a fault at every checkpoint, and a monitor that names the law that broke."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from supervisors import ChildSpec, Supervisor, SupervisorSpec, run_supervisor
from supervisors.events import (
    BackoffChosen,
    CauseNoted,
    ChildEnded,
    ChildMoved,
    StopAccepted,
    SupervisorStarted,
)
from supervisors.exits import EndRecord, Failed
from supervisors.spec import RestartType
from supervisors.state import ChildState, OwnError, StopMode
from supervisors.testing import (
    Fault,
    LawBrokenError,
    Monitor,
    sweep,
)


async def checked(plan, bodies, **fields):
    monitor = Monitor()
    children = tuple(
        ChildSpec(name, plan.wrap(monitor.watch(body)), start_failure="retry", start_timeout_s=5, **fields)
        for name, body in bodies.items()
    )
    handle = Supervisor(SupervisorSpec("top", children, max_restarts=None), observer=monitor)
    with plan.scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.run)
            await trio.sleep(60)
            handle.shutdown()
    monitor.finish()
    assert handle.closed
    assert handle.last_observer_error is None


async def two_step(ctx):
    await trio.sleep(0.5)
    ctx.started()
    await trio.sleep(1)
    await ctx.shutdown.wait()
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
        await trio.sleep(0.2)


def test_a_fault_at_every_checkpoint_breaks_no_law(monkeypatch):
    """S1, S2, S3, S50: raise, cancel, hang and late success at every checkpoint: no overlap."""
    result = sweep(lambda plan: checked(plan, {"a": two_step, "b": two_step}, drain_timeout_s=5))
    assert result.checkpoints >= 8
    assert result.runs == result.checkpoints * len(Fault)
    unexpected = [
        (at, fault, error) for at, fault, error in result.failures if not _is_reported(fault, error)
    ]
    assert unexpected == []


def _is_reported(fault, error):
    """An error injected while stopping is raised (S14)."""
    leaf = error
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    names = {Fault.RAISE: {"ChildError", "InjectedError"}, Fault.LATE_SUCCESS: {"StuckError"}}
    return type(leaf).__name__ in names.get(fault, set())


def test_the_sweep_finds_a_planted_hang():
    """S49: a body whose cleanup has an unbounded shield is found by the sweep: the run never ends."""

    async def unbounded(ctx):
        ctx.started()
        await trio.sleep(1)
        try:
            await ctx.shutdown.wait()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(5_000)
            raise

    result = sweep(lambda plan: checked(plan, {"a": unbounded}), faults=(Fault.CANCEL,), limit_s=1_000)
    assert result.failures != ()


def moved(before, after, *, path="top", child="c", at=0.0):
    return ChildMoved(path, at, child, 1, before, after, "test")


async def test_the_monitor_names_the_law_that_broke(autojump_clock):
    """S2, S3, S32, S48: each law of the monitor is seen to break, and its rule is named."""

    @attrs.frozen
    class Context:
        path: str
        generation: int

    async def enter(monitor, generation):
        async def nothing(_):
            await trio.lowlevel.checkpoint()

        await monitor.watch(nothing)(Context("top/c", generation))

    monitor = Monitor()
    await enter(monitor, 1)
    with pytest.raises(LawBrokenError, match="S2: top/c ran generation 1 twice"):
        await enter(monitor, 1)
    monitor = Monitor()
    monitor._live["top/c"] = 1
    with pytest.raises(LawBrokenError, match=r"S2: .* overlaps"):
        await enter(monitor, 2)
    monitor = Monitor()
    monitor._live["top/c"] = 1
    with pytest.raises(LawBrokenError, match="S1"):
        monitor.finish()
    with pytest.raises(LawBrokenError, match="S3"):
        monitor(moved(ChildState.RUNNING, ChildState.BACKOFF))
    monitor = Monitor()
    monitor(BackoffChosen("top", 0.0, "c", 2, 5.0, 5.0))
    with pytest.raises(LawBrokenError, match="S32"):
        await enter(monitor, 2)
    with pytest.raises(LawBrokenError, match="S32"):
        monitor.finish()
    monitor = Monitor()
    monitor(BackoffChosen("top", 0.0, "c", 2, 5.0, 5.0))
    monitor(moved(ChildState.BACKOFF, ChildState.DONE))
    await enter(monitor, 2)
    monitor.finish()
    monitor = Monitor()
    monitor(StopAccepted("top", 0.0, "drain", "test"))
    with pytest.raises(LawBrokenError, match="S48"):
        monitor(moved(ChildState.WAITING, ChildState.STARTING))
    monitor(SupervisorStarted("top", 0.0, SupervisorSpec("top")))
    monitor(moved(ChildState.WAITING, ChildState.STARTING))


def test_a_supervisor_that_ends_without_a_noted_error_breaks_the_law():
    """S14: an error noted while stopping must be a leaf, or a cause, of what the supervisor ends with."""
    own = ValueError("own")
    noted = CauseNoted("top/arm", 0.0, OwnError(EndRecord(0.0, "c", 1, Failed(own)), StopMode.CANCEL))
    reported = RuntimeError("the arm failed")
    reported.__cause__ = own
    for carried in (own, ExceptionGroup("several", [KeyError(), own]), reported):
        monitor = Monitor()
        monitor(noted)
        monitor(ChildEnded("top", 0.0, "arm", 1, Failed(carried), ours=False))
        monitor.finish()
    monitor = Monitor()
    monitor(noted)
    with pytest.raises(LawBrokenError, match=r"S14: top/arm noted ValueError\('own'\)"):
        monitor(ChildEnded("top", 0.0, "arm", 1, Failed(KeyError()), ours=False))
    with pytest.raises(LawBrokenError, match="S14"):
        monitor.finish()
    monitor = Monitor()
    monitor(CauseNoted("top", 0.0, OwnError(EndRecord(0.0, "c", 1, Failed("data")), StopMode.DRAIN)))
    monitor.ended("top", None)
    monitor.finish()


async def test_a_watched_job_runs_as_it_would_unwatched(autojump_clock):
    """S1: watching a body changes nothing about its end."""

    async def job(ctx):
        await trio.sleep(1)

    monitor = Monitor()
    spec = SupervisorSpec(
        "top",
        (ChildSpec("job", monitor.watch(job), RestartType.TRANSIENT, significant=True),),
        auto_shutdown="any",
    )
    await run_supervisor(spec, observer=monitor)
    monitor.finish()
    assert monitor.starts == 1
