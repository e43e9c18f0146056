"""A subscriber process that dies by ``os._exit`` at an await of its own, on a real broker, with SQLite."""

from __future__ import annotations

import pytest

from craig_mq.testing.killing.points import PATHS, Place

pytestmark = pytest.mark.broker
CI_POINTS = 3


@pytest.fixture
def place(vhost_url, tmp_path):
    return Place(vhost_url, tmp_path / "audit.db")


def check_deaths(place: Place, path: str, steps: list[int]) -> int:
    """Die at each step; each death must conserve the letter. Returns how many were deaths indeed."""
    deaths = {step: place.die(path, step) for step in steps}
    wrong = {step: death for step, death in deaths.items() if not death.conserved(path)}
    assert wrong == {}
    return sum(death.killed for death in deaths.values())


@pytest.mark.parametrize("path", PATHS)
def test_killed_at_points_spread_over_the_path(place, path):
    """Killed at three awaits spread evenly over a path, its letter ends in the one place it belongs."""
    steps = place.steps(path)
    points = [steps * part // (CI_POINTS + 1) for part in range(1, CI_POINTS + 1)]
    assert check_deaths(place, path, points) >= CI_POINTS - 1


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("path", PATHS)
def test_killed_at_every_await(place, path):
    """Killed at each await of a path, one process after the other, its letter is conserved each time."""
    steps = place.steps(path)
    assert check_deaths(place, path, list(range(steps))) > steps // 2
