"""Runs in processes of their own: whatever becomes of one, the command ends and says so."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from craig_mq.testing.simulate.runner import run_seed

ROOT = Path(__file__).resolve().parents[2]

# Forking wants a process of one thread: each case is one of its own.
TROUBLES = """
import os, signal, time
from craig_mq.testing.simulate import runner

class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__(one)

def trouble(seed):
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 5:
        while True:
            pass
    if seed == 7:
        raise Unpicklable("one", lambda: None)

original = runner.run_seed

def run_seed(seed):
    trouble(seed)
    return original(seed)

runner.run_seed = run_seed
totals = runner.run_many(12, 0, {jobs}, patience_s=2.0)
print(totals.runs, totals.letters > 9 * 15, sorted(totals.broken.items()))
"""

PLANTED = """
import sys
from craig_mq.testing.planted import PLANTED
from craig_mq.testing.simulate import runner

bug = next(planted for planted in PLANTED if planted.title == "park without cap")
with bug.planted():
    sys.argv = ["simulate", "--runs", "10", "--jobs", "2", "--no-coverage"]
    import craig_mq.testing.simulate.__main__
"""

LINGERING = """
import math, threading, time
from craig_mq.testing.simulate.workers import in_processes

def run(seed):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return seed

print(list(in_processes(run, range(2), 1, until=math.inf, patience_s=1.0)))
"""

LATE = """
import sys
sys.argv = ["simulate", "--runs", "10", "--jobs", "1", "--no-coverage", "--at-most", "0", "--every-cell"]
import craig_mq.testing.simulate.__main__
"""


def run_python(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_dies_hangs_or_raises_costs_its_seed_alone(jobs: int) -> None:
    """A killed process, an endless run and an error that cannot be pickled are reported, seed by seed."""
    done = run_python(TROUBLES.replace("{jobs}", str(jobs)))
    assert done.returncode == 0, done.stderr
    died, hung, raised = (3, "its process died"), (5, "it did not end within 2 s"), (7, "Unpicklable('one')")
    assert done.stdout.startswith("12 True [")
    assert all(f"({seed}, '{why}" in done.stdout.replace('"', "'") for seed, why in (died, hung, raised))
    assert done.stdout.count("), (") == 2


def test_a_failing_seed_ends_the_command_with_two_processes() -> None:
    """With two processes a failing seed is reported, shrunk to a script, and fails the command."""
    done = run_python(PLANTED)
    assert done.returncode == 1, done.stderr
    assert "10 runs in" in done.stdout
    assert "seed 0: park counts" in done.stdout
    assert "seed 0, shrunk for “park counts”" in done.stdout
    assert "for violation in check(run_scenario(scenario))" in done.stdout


def test_a_worker_that_answered_and_does_not_exit_is_ended() -> None:
    """A process that lingers after its last seed is closed within the patience, and no seed is blamed."""
    done = run_python(LINGERING)
    assert (done.returncode, done.stdout) == (0, "[0, 1]\n"), done.stderr


def test_every_cell_fails_where_the_time_ran_out() -> None:
    """Asked for every cell, the command fails where its runs came to no end in time."""
    done = run_python(LATE)
    assert done.returncode == 1, done.stderr
    assert "10 runs came to no end in time" in done.stdout


def test_what_crosses_processes_is_plain() -> None:
    """The summary of a run consists of numbers and words, and survives pickling."""
    summary = run_seed(0)

    def plain(value: object) -> bool:
        return isinstance(value, int | float | str) or (isinstance(value, tuple) and all(map(plain, value)))

    assert all(map(plain, attrs.astuple(summary, recurse=False)))
    assert summary.hits
    assert pickle.loads(pickle.dumps(summary)) == summary
