"""Simulated runs: no violation, repeatable, covering; and the machinery that shrinks a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from craig_mq.testing.planted import PLANTED
from craig_mq.testing.simulate.cells import CELLS, REACHABLE, UNREACHABLE, reason_for, target_of
from craig_mq.testing.simulate.checking import INVARIANTS, check
from craig_mq.testing.simulate.runner import judge, run_many, run_seeds, scenario_of
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.script import script_of, smaller

ROOT = Path(__file__).resolve().parents[2]
RUNS = 60


def test_no_run_violates_an_invariant():
    """In sixty runs every invariant holds, and nothing that is called unreachable is reached."""
    totals = run_seeds(range(RUNS))
    assert totals.failures == {}, f"first seed: {min(totals.failures)}"
    assert totals.wrongly_unreachable == []
    assert totals.letters >= 20 * RUNS
    assert totals.faults >= 3 * RUNS


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_thousand_runs():
    """In 20,000 runs every invariant holds, and every fault has met every state it can meet."""
    totals = run_many(20_000, 0, jobs=2)
    assert totals.failures == {}, f"first seed: {min(totals.failures)}"
    assert totals.wrongly_unreachable == []
    assert totals.never_hit == []
    assert totals.letters >= 400_000
    assert totals.faults >= 60_000


def test_a_run_is_a_function_of_its_seed():
    """The same seed gives the same trace, fault for fault and ack for ack; another seed another one."""
    first, again, other = (run_scenario(scenario_of(seed)) for seed in (7, 7, 8))
    assert repr(first) == repr(again)
    assert repr(first.trace) != repr(other.trace)


def test_every_cell_is_aimed_at_or_has_its_reason():
    """Each fault and state is either the target of some seed or listed with the reason it cannot be."""
    aimed = {
        (target.fault.on, type(target.fault.action), target.role, target.lifecycle)
        for target in map(target_of, range(3 * len(REACHABLE)))
        if target is not None
    }
    assert aimed == {attrs.astuple(cell) for cell in REACHABLE}
    assert all(reason_for(cell) for cell in set(CELLS) - set(REACHABLE))
    assert all(rule.reason for rule in UNREACHABLE)


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


@pytest.mark.parametrize("seed", [552, 1764])
def test_a_lost_connection_and_a_cancel_of_one_instant(seed: int) -> None:
    """S14: a sampler that is cancelled as its connection is lost ends cancelled, and crashes nothing."""
    assert check(run_scenario(scenario_of(seed))) == []
