"""From a failing seed to a small script that shows the failure by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from craig_mq.testing.shrinking import shrink
from craig_mq.testing.simulate.checking import check
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.scenario import Scenario
from craig_mq.testing.simulate.world import World
from craig_mq.transport.memory import FaultPlan
from supervisors.testing import run_seeded

_IMPORTS = """\
from datetime import timedelta
import datetime

from craig_mq import DlqRetryConfig, SubscriptionOptions
from craig_mq.testing import *
from craig_mq.testing.simulate.checking import check
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.scenario import Act, Letter, Replica, Scenario
"""


def pinned(scenario: Scenario) -> Scenario:
    """Return the same run with its faults by index: no chance, no predicate and no target is left in it."""
    world = World(scenario)
    run_seeded(world.run, seed=scenario.seed)
    return attrs.evolve(scenario, faults=world.pinned, target=None)


def smaller(scenario: Scenario, invariant: str) -> Scenario:
    """Return a scenario that still breaks the invariant, with what it does not need taken away.

    Letters first, since fewer run faster, then faults, then acts.
    Raises ValueError if the scenario does not break it.
    """

    def fails(candidate: Scenario) -> bool:
        return any(violation.invariant == invariant for violation in check(run_scenario(candidate)))

    fixed = pinned(scenario)
    scenario = fixed if fails(fixed) else scenario

    def fails_with(plan: FaultPlan) -> bool:
        return fails(attrs.evolve(scenario, faults=plan))

    scenario = _without_letters(scenario, fails)
    scenario = attrs.evolve(scenario, faults=shrink(scenario.faults, fails_with))
    scenario = _without_acts(scenario, fails)
    return _without_letters(scenario, fails)


def script_of(scenario: Scenario) -> str:
    """Return Python that runs a scenario without a target and prints its violations."""
    shown = "for violation in check(run_scenario(scenario)):\n    print(violation)\n"
    return f"{_IMPORTS}\nscenario = {scenario!r}\n{shown}"


def _without_acts(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    for act in scenario.acts:
        rest = tuple(other for other in scenario.acts if other is not act)
        candidate = attrs.evolve(scenario, acts=rest)
        if fails(candidate):
            scenario = candidate
    return scenario


def _without_letters(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    for candidate in _fewer_letters(scenario):
        if len(candidate.letters) < len(scenario.letters) and fails(candidate):
            scenario = candidate
    return scenario


def _fewer_letters(scenario: Scenario) -> Iterator[Scenario]:
    letters = scenario.letters
    for letter in letters:
        yield attrs.evolve(scenario, letters=(letter,))
    for size in (8, 4, 2, 1):
        for start in range(0, len(letters), size):
            yield attrs.evolve(scenario, letters=letters[:start] + letters[start + size :])
