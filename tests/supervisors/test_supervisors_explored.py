"""Schedules are explored and merged soundly, and those of the two arms are all explored."""

from __future__ import annotations

import runpy
import sys

import pytest
import trio
import trio.testing

from supervisors import ChildSpec, SupervisorSpec, run_supervisor
from supervisors.testing import (
    arms,
    explore,
    fingerprint,
    replay,
    run_seeded,
)
from supervisors.testing.arms import Arms, ArmsPlan
from supervisors.testing.random_trees import RandomTree


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
