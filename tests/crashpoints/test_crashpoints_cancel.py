"""A subscription cancelled at the awaits of every path: nothing is lost, nothing acked without evidence."""

from __future__ import annotations

import pytest

from craig_mq.testing.simulate.crash_points import PATHS, cancelled_at, steps_of


def broken_at(path, stride):
    steps = steps_of(path)
    assert steps > 50
    return {step: found for step in range(0, steps, stride) if (found := cancelled_at(path, step))}


@pytest.mark.parametrize("path", PATHS)
def test_cancelled_at_every_fourth_await(path):
    """Cancelled at every fourth step of its tasks, a path keeps every invariant after the restart."""
    assert broken_at(path, 4) == {}


@pytest.mark.soak
@pytest.mark.parametrize("path", PATHS)
def test_cancelled_at_every_await(path):
    """Cancelled at each step of its tasks, a path keeps every invariant after the restart."""
    assert broken_at(path, 1) == {}
