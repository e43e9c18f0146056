"""Bugs planted into the shipped code are found by the simulator."""

from __future__ import annotations

import pytest

from craig_mq.testing.planted import PLANTED, RUNS, hunt

# Seeds at which each bug shows itself soon; the soak test starts from 0 and finds them by itself.
NEAR = {
    "confirm by FIFO pairing": 630,
    "reset of backoff on connect": 2,
    "retry sleep deaf to shutdown": 36,
    "ack raced against shutdown": 396,
    "late ack on a new channel": 5,
    "capture over the limit": 31,
}


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.title)
def test_a_planted_bug_is_found(bug):
    """With the bug planted, a run near a known seed breaks an invariant; without it, that run keeps all."""
    seed = NEAR.get(bug.title, 0)
    found = hunt(bug, range(seed, seed + 5))
    assert found is not None


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.title)
def test_a_planted_bug_is_found_within_two_thousand_runs(bug):
    """Each planted bug is found within 2,000 runs from seed 0."""
    assert hunt(bug, range(RUNS)) is not None
