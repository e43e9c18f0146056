"""Runs in virtual time whose schedule a seed decides, and the random trees that run so."""

from __future__ import annotations

import math
import runpy
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest
import trio
import trio.testing
from trio._core import _run as trio_run

from supervisors.testing import (
    MissingInternalsError,
    Monitor,
    forest,
    require_internals,
    run_seeded,
    schedule,
)
from supervisors.testing.random_trees import run_random_tree


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


def test_whoever_waits_until_all_is_blocked_goes_before_the_clock():
    """Where nothing can run, whoever waits for just that runs first, and only then the clock jumps."""

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 10)
            await trio.testing.wait_all_tasks_blocked()
            return trio.current_time()

    assert [run_seeded(main, seed=seed) for seed in range(40)] == [0.0] * 40


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
