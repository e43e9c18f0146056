"""Simulated runs: no violation, repeatable, covering; and the machinery that shrinks a failure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from craig_mq.testing.planted import PLANTED
from craig_mq.testing.simulate.cells import CELLS, REACHABLE, UNREACHABLE, aimed_at, reason_for, target_of
from craig_mq.testing.simulate.checking import INVARIANTS, check
from craig_mq.testing.simulate.runner import TRIES, judge, run_seeds, scenario_of
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.script import script_of, smaller
from craig_mq.testing.simulate.summary import Summary
from craig_mq.testing.simulate.totals import Totals

ROOT = Path(__file__).resolve().parents[2]
RUNS = 60


def test_no_run_violates_an_invariant():
    """In sixty runs every invariant holds, and nothing that is called unreachable is reached."""
    totals = run_seeds(range(RUNS))
    assert totals.failures == {}, f"first seed: {min(totals.failures)}"
    assert totals.wrongly_unreachable == []
    assert totals.letters == sum(len(scenario_of(seed).letters) for seed in range(RUNS))
    assert totals.faults >= 2.5 * RUNS  # the mean of many runs is above 3


def test_runs_are_big_enough():
    """On average a run has more than twenty letters."""
    letters = [len(scenario_of(seed).letters) for seed in range(2_000)]
    assert sum(letters) > 20 * len(letters)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_thousand_runs():
    """In 20,000 runs every invariant holds, and every fault has met every state it can meet."""
    command = [
        sys.executable,
        "-m",
        "craig_mq.testing.simulate",
        "--runs",
        "20000",
        "--jobs",
        "2",
        "--every-cell",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    numbers = re.search(r"([0-9.]+) a run.* ([0-9.]+) a run.* 0 failing seeds", done.stdout)
    assert numbers is not None
    assert float(numbers[1]) >= 20
    assert float(numbers[2]) >= 3
    assert "reachable cells never hit: 0\n" in done.stdout


def test_a_run_is_a_function_of_its_seed():
    """The same seed gives the same trace, fault for fault and ack for ack; another seed another one."""
    first, again, other = (run_scenario(scenario_of(seed)) for seed in (7, 7, 8))
    assert repr(first) == repr(again)
    assert repr(first.trace) != repr(other.trace)


def test_every_cell_is_aimed_at_or_has_its_reason():
    """Each fault and state is the target of seeds of its own, or listed with the reason it cannot be."""
    for cell in REACHABLE:
        target = target_of(aimed_at(cell, 20_000))
        assert target is not None
        aimed = target.fault.on, type(target.fault.action), target.role, target.lifecycle
        assert aimed == attrs.astuple(cell)
        assert target_of(aimed_at(cell, aimed_at(cell, 0) + 1)) is not None
    assert min(aimed_at(cell, 20_000) for cell in REACHABLE) >= 20_000
    assert all(reason_for(cell) for cell in set(CELLS) - set(REACHABLE))
    assert all(rule.reason for rule in UNREACHABLE)


def test_what_is_aimed_at_is_hit():
    """Runs aimed at a fault and a state meet it, for a sample of all there are; the command does the rest."""
    for cell in REACHABLE[::75]:
        seed = 0
        for _ in range(TRIES):
            seed = aimed_at(cell, seed + 1)
            totals = run_seeds([seed])
            assert totals.failures == {}
            if totals.hits[cell]:
                break
        assert totals.hits[cell], cell


def test_a_hit_of_what_is_called_unreachable_is_told():
    """A cell that is listed as unreachable and is hit all the same is named, and so is one never hit."""
    cell = next(cell for cell in CELLS if reason_for(cell))
    totals = Totals()
    totals.add(
        Summary(
            0, 20, 1.0, ((cell.operation.value, cell.action.__name__, cell.role, cell.lifecycle),), (), ()
        )
    )
    assert totals.wrongly_unreachable == [cell]
    assert totals.never_hit == list(REACHABLE)


def test_a_failure_shrinks_to_a_script_that_shows_it(tmp_path):
    """A failing run loses the letters, acts and faults it does not need, and its script still fails."""
    bug = next(planted for planted in PLANTED if planted.title == "park without cap")
    with bug.planted():
        seed, invariant = next(
            (seed, found[0].invariant) for seed in range(50) if (found := judge(scenario_of(seed))[1])
        )
        scenario = smaller(scenario_of(seed), invariant)
        assert check(run_scenario(scenario))
    assert len(scenario.letters) <= 2
    assert len(scenario.faults.faults) + len(scenario.acts) <= 2
    script = tmp_path / "script.py"
    script.write_text(script_of(scenario))
    done = subprocess.run([sys.executable, script], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=True)
    assert done.returncode == 0


def test_each_invariant_of_the_design_has_its_checker():
    """The checkers are named after what they check, and each says so in one sentence."""
    assert len(INVARIANTS) >= 11
    assert all((checker.__doc__ or "").endswith(".") for checker in INVARIANTS.values())
