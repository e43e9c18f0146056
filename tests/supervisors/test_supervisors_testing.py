"""The test kit: schedules are controlled, explored and merged soundly."""

from __future__ import annotations

import math
import runpy
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import attrs
import pytest
import trio
import trio.testing
from trio._core import _run as trio_run

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
    MissingInternalsError,
    Monitor,
    arms,
    explore,
    fingerprint,
    forest,
    replay,
    require_internals,
    run_seeded,
    schedule,
    sweep,
)
from supervisors.testing.arms import Arms, ArmsPlan
from supervisors.testing.random_trees import RandomTree, run_random_tree


def race(seed: int) -> str:
    """Eight tasks that append their letter at every step, under the schedule of ``seed``."""
    log: list[str] = []

    async def writer(letter: str) -> None:
        for _ in range(4):
            await trio.lowlevel.checkpoint()
            log.append(letter)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for letter in "abcdefgh":
                nursery.start_soon(writer, letter)

    run_seeded(main, seed=seed)
    return "".join(log)


def test_the_seed_decides_the_schedule():
    """S57: a canary for each Trio release: one seed gives one trace, two hundred seeds give many."""
    assert race(1) == race(1)
    assert len({race(seed) for seed in range(200)}) > 150


def sleepers(log: list[tuple[float, str, int]]) -> Callable[[], Awaitable[None]]:
    """Six tasks under scopes whose deadlines are met, moved, shielded from, overtaken, or not there."""

    async def sleeper(number: int) -> None:
        for step in range(1, 6):
            with trio.CancelScope(deadline=trio.current_time() + step / 4, shield=step == 2) as scope:
                if step == 3:
                    scope.deadline += number / 8
                if step == 4:
                    scope.deadline = math.inf
                with trio.move_on_after(number / 8):
                    await trio.sleep(step / 8)
                    log.append((trio.current_time(), "slept", number))
                scope.cancel(reason="enough") if step == 5 else None
                await trio.sleep(0 if step == 4 else 1)
            log.append((trio.current_time(), f"caught {scope.cancelled_caught}", number))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = 4
            for number in range(6):
                nursery.start_soon(sleeper, number)

    return main


def test_what_makes_a_run_cheap_changes_nothing(monkeypatch):
    """S57: a seeded run is the same, step for step, on Trio as it is: its own clock, deadlines and looks."""
    cheap: list[tuple[float, str, int]] = []
    run_seeded(sleepers(cheap), seed=3)
    plain: list[tuple[float, str, int]] = []
    monkeypatch.setattr(schedule, "economical", nullcontext)
    monkeypatch.setattr(schedule, "virtual_clock", lambda: trio.testing.MockClock(autojump_threshold=0))
    run_seeded(sleepers(plain), seed=3)
    assert plain == cheap
    assert {text for _, text, _ in plain} == {"slept", "caught True", "caught False"}


def test_news_from_outside_reaches_a_run_in_virtual_time():
    """What another thread says is heard, also while nothing inside can happen before it."""

    async def main() -> int:
        return await trio.to_thread.run_sync(threading.get_ident)

    assert run_seeded(main, seed=0) != threading.get_ident()


def test_missing_internals_are_refused(monkeypatch):
    """S57: where Trio lacks an internal the kit sets, it refuses to run, and says which."""
    monkeypatch.delattr(trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING")
    with pytest.raises(MissingInternalsError, match="_ALLOW_DETERMINISTIC_SCHEDULING"):
        require_internals()


def test_one_seed_one_trace():
    """S56, S57: a run is a function of (spec, fault script, seed): its log repeats byte for byte."""
    for seed in range(40):
        first, second = repr(run_random_tree(seed)), repr(run_random_tree(seed))
        assert first == second
        assert " at 0x" not in first


def test_random_trees_keep_every_law():
    """S1, S2, S3, S48, S52: random trees under random faults, requests and schedules break no law."""
    assert all(run_random_tree(seed) for seed in range(300))


@pytest.mark.soak
def test_five_thousand_random_trees_keep_every_law(capsys):
    """S1, S2, S3, S48, S52: five thousand seeded runs of random trees: no violation."""
    events = forest.run_forest(5_000)
    assert events > 5_000
    with capsys.disabled():
        sys.stdout.write(f"\n5000 random trees, {events} events, no violation\n")


def test_the_command_for_random_trees_prints_what_it_ran(capsys, monkeypatch):
    """S57: the command that runs many seeds prints their number, and the events they logged."""
    monkeypatch.setattr(sys, "argv", ["forest", "3"])
    runpy.run_path(forest.__file__, run_name="__main__")
    events = sum(len(run_random_tree(seed)) for seed in range(3))
    assert capsys.readouterr().out.startswith(f"3 random trees, {events} events, no violation, ")


def test_seeds_may_be_run_in_processes():
    """S57: seeds run in several processes give the logs they give in one."""
    here = forest.count_events(range(51))
    assert forest.run_forest(51) == here


def test_a_failing_seed_is_named(monkeypatch):
    """S57: the error of a random tree carries the seed that repeats it."""
    monkeypatch.setattr(Monitor, "finish", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError) as info:
        run_random_tree(17)
    assert any("run_random_tree(17)" in note for note in info.value.__notes__)


class Steps:
    """Two tasks of a few steps and one shared list; small enough for every raw schedule."""

    def __init__(self, steps: int = 2, tasks: int = 2, *, forbidden: str = "") -> None:
        self.log: list[str] = []
        self.steps, self.tasks, self.forbidden = steps, tasks, forbidden
        self.injections = {"poke": self._poke}
        self._scope = trio.CancelScope()
        self._limit = 20

    def __fingerprint__(self) -> object:
        return tuple(self.log)

    def _poke(self) -> None:
        self.log.append("!")

    def abandon(self) -> None:
        self._scope.cancel(reason="abandoned")

    async def _walk(self, letter: str) -> None:
        for _ in range(self.steps):
            await trio.lowlevel.checkpoint()
            self.log.append(letter)

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                for letter in "abcd"[: self.tasks]:
                    nursery.start_soon(self._walk, letter)
        if self.forbidden and "".join(self.log) == self.forbidden:
            raise AssertionError(self.forbidden)


def test_merged_and_raw_exploration_agree():
    """S56: on cases small enough for both."""
    raw = explore(Steps, merge=False, keep_transitions=True)
    merged = explore(Steps, merge=True, keep_transitions=True)
    assert raw.complete
    assert merged.complete
    assert raw.transitions == merged.transitions
    assert merged.runs < raw.runs


def test_merged_and_raw_exploration_agree_on_a_supervised_tree():
    """S56: merged and raw exploration agree on every transition of two arms, cancelled at every task step."""
    plan = ArmsPlan((1.0, 1.0), generations=1, requests=("cancel",), sampler=False)
    raw = explore(lambda: Arms(plan), merge=False, keep_transitions=True)
    merged = explore(lambda: Arms(plan), merge=True, keep_transitions=True)
    assert raw.complete
    assert (raw.violations, merged.violations) == ((), ())
    assert raw.transitions == merged.transitions
    assert merged.runs < raw.runs


def test_exploration_finds_what_only_one_schedule_shows():
    """S56: a violation that needs one order of many is found, with the choices that repeat it."""
    found = explore(lambda: Steps(forbidden="ba!ab"), merge=True)
    (violation,) = found.violations
    assert str(violation.error) == "ba!ab"
    assert isinstance(replay(lambda: Steps(forbidden="ba!ab"), violation.choices), AssertionError)
    assert replay(lambda: Steps(forbidden="ba!ab"), ()) is None


def test_a_bound_on_runs_is_told():
    """S56: an exploration cut short by its bound says that it is not complete."""
    assert not explore(Steps, merge=False, max_runs=3).complete


def test_every_schedule_of_the_arms_keeps_every_law(capsys, monkeypatch):
    """S1, S2, S3, S46, S48, S52: the arms under every schedule, aligned ends, drain at every task step."""
    monkeypatch.setattr(sys, "argv", ["arms", "--quick"])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(arms.__file__, run_name="__main__")
    assert done.value.code == 0
    assert "complete True, violations 0" in capsys.readouterr().out


def test_plans_may_be_explored_in_processes():
    """S56: an exploration in a process of its own gives the counts it gives here."""
    plan = ArmsPlan((1.0, 1.0), generations=1, requests=(), sampler=False)
    (apart, _), here = arms.explore_all((plan, plan)), arms.explore_arms(plan)
    assert (apart.runs, apart.states, apart.violations) == (here.runs, here.states, ())


async def test_an_observer_that_failed_fails_the_scenario(autojump_clock):
    """S52: a scenario of the kit raises what its own observers raised."""
    for scenario in (Arms(ArmsPlan(generations=1)), RandomTree(1)):
        scenario.handle.last_observer_error = ValueError("observer")
        with pytest.raises(ValueError, match="observer"):
            await scenario.run()


def test_an_awaitable_without_a_frame_is_named_by_type():
    """S56: the digest names what it cannot see into by its type, and goes on."""
    digests = []

    class Steps:
        def __init__(self, inner):
            self._inner = inner

        def __await__(self):
            return self

        def __iter__(self):
            return self

        def __next__(self):
            return next(self._inner)

        def send(self, value):
            return self._inner.send(value)

        def throw(self, *error):
            return self._inner.throw(*error)

    async def opaque():
        await Steps(trio.sleep_until(1).__await__())  # noqa: ASYNC105 - awaited, through Steps

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(opaque)
            for _ in range(3):
                await trio.sleep(0.1)
                digests.append(fingerprint({"a", "b"}, trio))

    run_seeded(main, seed=0)
    assert len(set(digests)) == 3


class Leaky:
    """A planted overlap: the first generation leaves its cleanup to a task that outlives it."""

    def __init__(self) -> None:
        self.injections: dict[str, object] = {}
        self.live = 0
        self._scope = trio.CancelScope()
        self._overlap = False

    def __fingerprint__(self) -> object:
        return self.live, self._overlap

    def abandon(self) -> None:
        self._scope.cancel(reason="abandoned")

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as outside:

                async def body(ctx):
                    self._overlap |= self.live > 0
                    ctx.started()
                    if ctx.generation > 1:
                        await trio.sleep_forever()
                    self.live += 1
                    outside.start_soon(self._cleanup)
                    await trio.lowlevel.checkpoint()
                    raise ValueError("restart me in a second")

                outside.start_soon(run_supervisor, SupervisorSpec("top", (ChildSpec("c", body),)))
                await trio.sleep(5)
                self.abandon()
        assert not self._overlap

    async def _cleanup(self) -> None:
        await trio.sleep(1)
        await trio.lowlevel.checkpoint()
        self.live -= 1


def test_a_planted_overlap_that_the_default_order_hides_is_found():
    """S2, S3: an overlap that the default schedule does not show is found by exploring all schedules."""
    assert replay(Leaky, ()) is None
    (violation,) = explore(Leaky).violations
    assert isinstance(violation.error, AssertionError)
    assert isinstance(replay(Leaky, violation.choices), AssertionError)


@pytest.mark.soak
def test_ten_thousand_schedules_of_the_arms_keep_every_law(capsys):
    """S1, S2, S3, S46, S48, S52: every schedule of the arms, three generations."""
    explored = arms.explore_all()
    runs = sum(seen.runs for seen in explored)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{runs} schedules, {sum(seen.states for seen in explored)} states, no violation\n"
        )
    assert all(seen.complete and not seen.violations for seen in explored)
    assert runs >= 10_000


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
