"""Every schedule of a small scenario: each order of each batch, and each injection before each task step.

A run is a list of choices. The exploration runs the scenario from the start for every list that leads
somewhere new; with ``merge`` a run that reaches a state already explored goes no further.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import trio

from supervisors.testing.fingerprint import fingerprint
from supervisors.testing.schedule import controlled
from supervisors.testing.virtual_time import virtual_clock


class Scenario(Protocol):
    """One run's worth of program. A fresh one is made for every run.

    ``injections`` are synchronous calls the schedule may make before any task step, each once. ``run`` raises
    for any violation. ``abandon`` makes ``run`` end soon: the rest of a merged run is of no interest.
    """

    @property
    def injections(self) -> Mapping[str, Callable[[], None]]:
        """Name -> call."""
        ...

    async def run(self) -> None:
        """The program."""
        ...

    def abandon(self) -> None:
        """End soon, by cancelling whatever ``run`` does."""
        ...


@attrs.frozen
class Violation:
    """A run that raised, and the choices that lead there again (``replay``)."""

    choices: tuple[int, ...]
    error: BaseException


@attrs.frozen
class Exploration:
    """What an exploration saw. ``complete``: no bound cut it short, so it saw every schedule."""

    runs: int
    states: int
    merged: int
    complete: bool
    violations: tuple[Violation, ...]
    transitions: frozenset[tuple[bytes, int, bytes]]


@attrs.define(eq=False)
class _Run(trio.abc.Instrument):
    """One run: decides each batch, and injects before the chosen step of it."""

    scenario: Scenario
    prefix: Sequence[int]
    seen: set[bytes] | None
    keep_transitions: bool
    taken: list[int] = attrs.field(factory=list[int])
    forks: list[tuple[int, ...]] = attrs.field(factory=list[tuple[int, ...]])
    transitions: list[tuple[bytes, int, bytes]] = attrs.field(factory=list[tuple[bytes, int, bytes]])
    merged: bool = False
    _last: tuple[bytes, int] | None = None
    left: list[str] = attrs.field(factory=list[str])
    _pending: tuple[int, str] | None = None

    def shuffle(self, batch: list[Any]) -> None:
        """One choice: the order of the batch, and whether and where to inject."""
        movable = [task for task in batch if not _is_system(task)]
        if self.merged or not movable:
            return
        options = math.factorial(len(movable)) * (1 + len(movable) * len(self.left))
        order, injection = divmod(self._choose(options), 1 + len(movable) * len(self.left))
        fixed = [task for task in batch if _is_system(task)]
        chosen = _permutation(movable, order)
        batch[:] = [*reversed(chosen), *fixed]  # the last runs first
        if injection:
            position, which = divmod(injection - 1, len(self.left))
            self._pending = (position + len(fixed), self.left.pop(which))

    def before_task_step(self, task: Any) -> None:  # noqa: ARG002 - the instrument's signature
        """Inject before the step the choice named."""
        if self._pending is None:
            return
        position, name = self._pending
        if position:
            self._pending = (position - 1, name)
            return
        self._pending = None
        self.scenario.injections[name]()

    def _choose(self, options: int) -> int:
        depth = len(self.taken)
        state = b""
        if self.keep_transitions or depth >= len(self.prefix):
            state = fingerprint(self.scenario, self.left)
        if self._last is not None and state:
            self.transitions.append((*self._last, state))
        if depth >= len(self.prefix) and self.seen is not None:
            if state in self.seen:
                self.merged = True
                self.scenario.abandon()
                return 0
            self.seen.add(state)
        choice = self.prefix[depth] if depth < len(self.prefix) else 0
        if depth >= len(self.prefix):
            self.forks.extend((*self.taken, other) for other in range(1, options))
        self.taken.append(choice)
        self._last = (state, choice)
        return choice


def explore(
    make: Callable[[], Scenario],
    *,
    merge: bool = True,
    max_runs: int = 100_000,
    keep_transitions: bool = False,
    stop_at_first: bool = True,
) -> Exploration:
    """Run ``make()`` under every schedule, at most ``max_runs`` of them.

    ``merge=False`` enumerates raw schedules. ``keep_transitions`` collects (state, choice, next state), to
    compare the two. Same arguments, same exploration.
    """
    seen: set[bytes] = set()
    pending: list[tuple[int, ...]] = [()]
    violations: list[Violation] = []
    transitions: set[tuple[bytes, int, bytes]] = set()
    runs = merged = 0
    while pending and runs < max_runs and not (violations and stop_at_first):
        run = _Run(make(), pending.pop(), seen if merge else None, keep_transitions)
        run.left.extend(run.scenario.injections)
        error = _execute(run)
        runs += 1
        merged += run.merged
        pending.extend(run.forks)
        if keep_transitions:
            transitions.update(run.transitions)
        if error is not None:
            violations.append(Violation(tuple(run.taken), error))
    return Exploration(runs, len(seen), merged, not pending, tuple(violations), frozenset(transitions))


def replay(make: Callable[[], Scenario], choices: Sequence[int]) -> BaseException | None:
    """Run one schedule again; what it raised, if it raised."""
    run = _Run(make(), choices, None, keep_transitions=False)
    run.left.extend(run.scenario.injections)
    return _execute(run)


def _execute(run: _Run) -> BaseException | None:
    with controlled(run):
        try:
            trio.run(run.scenario.run, clock=virtual_clock(), instruments=[run])
        except BaseException as error:  # noqa: BLE001, ASYNC103 - a violation is data here
            return error  # noqa: ASYNC104
    return None


def _is_system(task: Any) -> bool:
    """Trio's own two tasks, ``<init>`` and ``<TrioToken.run_sync_soon task>``, do nothing of interest."""
    return str(task.name).startswith("<")


def _permutation(items: list[Any], index: int) -> list[Any]:
    if index == 0:
        return list(items)
    return list(next(itertools.islice(itertools.permutations(items), index, None)))
