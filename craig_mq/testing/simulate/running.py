"""Runs one scenario under a clock that jumps and a scheduler that repeats itself."""

from __future__ import annotations

from craig_mq.testing.simulate.evidence import Evidence
from craig_mq.testing.simulate.scenario import Scenario
from craig_mq.testing.simulate.world import World
from supervisors.testing import run_seeded


def run_scenario(scenario: Scenario) -> Evidence:
    """Run it in virtual time, in this thread; the same scenario gives the same evidence (rule S57)."""
    return run_seeded(World(scenario).run, seed=scenario.seed)
