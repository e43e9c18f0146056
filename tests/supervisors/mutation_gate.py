# ruff: noqa: E501, T201 - the mutants quote lines of the shipped code; the command prints
"""The mutation gate: known defects of real supervisors, planted in the shipped code, each killed by a named test.

``python tests/supervisors/mutation_gate.py`` prints the kill matrix. Each mutant is one textual change of one file in
a private copy of the package; the named test runs alone against that copy and must fail, and must pass without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SECONDS_PER_TEST = 60


class Mutant(NamedTuple):
    """A defect: ``old`` becomes ``new``, once, in ``supervisors/<file>``; ``test`` kills it and names ``rule``."""

    name: str
    rule: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = (
    Mutant(
        "start the new generation while the old one lives",
        "S2",
        "generations.py",
        "            live[1].cancel(reason=reason)",
        "            live[1].cancel(reason=reason)\n"
        "            self._post(Ended(child, live[0].generation, Interrupted()))",
        "test_supervisors_settling.py::test_a_close_that_hangs_is_aborted_before_the_next_generation",
    ),
    Mutant(
        "reset the backoff on connect",
        "S28",
        "decide.py",
        "ever_ran=True, start_tickets=()",
        "ever_ran=True, start_tickets=(), counters=type(child.counters)()",
        "test_supervisors_core.py::test_settlement_failures_back_off_one_two_four",
    ),
    Mutant(
        "jitter above the cap",
        "S30",
        "backoff.py",
        "(1.0 - self.jitter * u)",
        "(1.0 + self.jitter * u)",
        "test_supervisors_backoff.py::test_every_delay_lies_between_min_delay_and_cap",
    ),
    Mutant(
        "order kept only on the graceful path",
        "S5",
        "walks.py",
        "        draft.cancel(reason, Then.CLOSE)\n    return draft.child.live",
        "        draft.cancel(reason, Then.CLOSE)\n"
        "    return draft.child.live and draft.head.stop is StopMode.DRAIN",
        "test_supervisors_core.py::test_a_parent_cancel_stops_children_in_reverse",
    ),
    Mutant(
        "start after the stop was accepted",
        "S33",
        "walks.py",
        "if draft.child.state in {ChildState.WAITING, ChildState.BACKOFF}:",
        "if draft.child.state in {ChildState.WAITING}:",
        "test_supervisors_stop.py::test_the_waits_of_all_children_end_before_the_first_drain",
    ),
    Mutant(
        "operations after close",
        "S6",
        "handle.py",
        '        if self._closed.is_set():\n            raise ClosedError(f"{self.path} has ended")\n        self._post(event)',
        "        self._post(event)",
        "test_supervisors_starts.py::test_waiting_for_readiness_ends_with_the_supervisor",
    ),
    Mutant(
        "one budget event per sibling",
        "S23",
        "ends.py",
        "        _rejoin(draft)\n    else:",
        "        _spend(draft, attrs.evolve(record, end=Completed()))\n        _rejoin(draft)\n    else:",
        "test_supervisors_groups.py::test_a_group_restart_is_one_budget_event",
    ),
    Mutant(
        "stop request lost during start",
        "S11",
        "decide.py",
        "            if draft.head.stop is None:",
        "            if draft.head.stop is None and not draft.head.bring_up:",
        "test_supervisors_stop.py::test_a_drain_cancels_a_child_that_is_starting",
    ),
    Mutant(
        "restart after drain",
        "S14",
        "ends.py",
        "    elif draft.head.stop is not None:\n        _close(draft, record)",
        "    elif draft.head.stop is not None and child.then is not None:\n        _close(draft, record)",
        "test_supervisors_stop.py::test_a_child_that_fails_during_the_drain_stays_down",
    ),
    Mutant(
        "leaf of a group lost",
        "S16",
        "exits.py",
        "    found = list(leaves(error))",
        "    found = list(leaves(error))[:1]",
        "test_supervisors_exits.py::test_no_leaf_of_a_group_is_dropped",
    ),
    Mutant(
        "children's errors hidden by the parent's cancel",
        "S14",
        "supervisor.py",
        "        except trio.Cancelled as error:  # noqa: ASYNC103 - run() raises it, beside those errors\n"
        "            self._cancelled = error",
        "        except ZeroDivisionError:\n            raise",
        "test_supervisors_stop.py::test_an_own_error_survives_a_cancel_that_is_seen_before_it_is_raised",
    ),
    Mutant(
        "unbounded shield",
        "S50",
        "draft.py",
        "            timer_at=self.at + self.child.spec.stop_timeout_s,",
        "            timer_at=None,",
        "test_supervisors_stop.py::test_a_stuck_child_is_reported_every_interval_and_waited_for",
    ),
    Mutant(
        "wall-clock window",
        "S35",
        "supervisor.py",
        "        now = trio.current_time()\n        if not self._parent",
        "        now = __import__('time').time()\n        if not self._parent",
        "test_supervisors_starts.py::test_the_delay_is_published_before_the_wait",
    ),
    Mutant(
        "retry loop deaf to shutdown",
        "S33",
        "supervisor.py",
        "                        await self._mailbox.wait()",
        "                        await (trio.sleep_forever() if self._timers.pending() else self._mailbox.wait())",
        "test_supervisors_stop.py::test_a_stop_during_backoff_ends_the_wait_at_once",
    ),
    Mutant(
        "cancelled inferred from the exception",
        "S15",
        "exits.py",
        "    if isinstance(own, Fatal) or cancel_reason is None:",
        "    if isinstance(own, Fatal | Failed) or cancel_reason is None:",
        "test_supervisors_exits.py::test_cancelled_means_a_cancel_was_issued",
    ),
    Mutant(
        "temporary child restarted by its group",
        "S25",
        "ends.py",
        '    if draft.child.spec.restart is RestartType.TEMPORARY:\n        _retire(draft, "stopped with its group")',
        '    if draft.child.spec.restart is RestartType.TRANSIENT:\n        _retire(draft, "stopped with its group")',
        "test_supervisors_groups.py::test_a_temporary_member_is_stopped_and_removed",
    ),
    Mutant(
        "late success taken for written",
        "S41",
        "settling.py",
        "        return not scope.cancel_called",
        "        return True",
        "test_supervisors_settling.py::test_a_late_success_is_unknown",
    ),
)


class Kill(NamedTuple):
    """One row of the matrix."""

    mutant: Mutant
    killed: bool
    text: str


def plant(mutant: Mutant, copy: Path) -> None:
    """Change the copy; raises ValueError unless the old text stands there exactly once."""
    path = copy / "supervisors" / mutant.file
    source = path.read_text("utf-8")
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: the text to change occurs {source.count(mutant.old)} times")
    path.write_text(source.replace(mutant.old, mutant.new), "utf-8")


def run_tests(copy: Path, tests: list[str]) -> tuple[int, str]:
    """Run named tests against a copy; pytest's exit code (0 passed, 1 failed, else broken), and the last lines."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        f"--timeout={SECONDS_PER_TEST}",
    ]
    named = [f"tests/supervisors/{test}" for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *named], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout[-400:]


def copy_project(target: Path) -> Path:
    """A private copy of the package and its tests."""
    shutil.copytree(
        ROOT / "supervisors", target / "supervisors", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "tests/supervisors", target / "tests/supervisors")
    shutil.copy(ROOT / "pyproject.toml", target / "pyproject.toml")
    return target


def try_to_kill(mutant: Mutant) -> Kill:
    """Plant one mutant in a copy of its own and run its test alone."""
    with tempfile.TemporaryDirectory() as directory:
        copy = copy_project(Path(directory))
        plant(mutant, copy)
        code, text = run_tests(copy, [mutant.test])
    return Kill(mutant, code == 1, text)


def healthy() -> tuple[int, str]:
    """All named tests pass on the unchanged package: a kill is the mutant's doing."""
    with tempfile.TemporaryDirectory() as directory:
        return run_tests(copy_project(Path(directory)), sorted({mutant.test for mutant in MUTANTS}))


def kill_all(workers: int = 2) -> list[Kill]:
    """Every mutant, two at a time."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(try_to_kill, MUTANTS))


def main() -> int:
    """Print the kill matrix; 0 iff every mutant is killed and the unchanged package passes."""
    code, text = healthy()
    passed = code == 0
    print(f"{'passes' if passed else 'FAILS'}  unchanged package, all {len(MUTANTS)} named tests")
    if not passed:
        print(text)
    kills = kill_all()
    for kill in kills:
        print(
            f"{'killed' if kill.killed else 'LIVES':8}{kill.mutant.rule:5}{kill.mutant.name:52}{kill.mutant.test}"
        )
    return 0 if passed and all(kill.killed for kill in kills) else 1


if __name__ == "__main__":
    sys.exit(main())
