"""kill -9 of the relay at every step, on a real RabbitMQ, with either database."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1_800)]

SCRIPT = Path(__file__).with_name("relay_to_kill.py")
STEPS = ("after read", "before publish", "before confirm", "after confirm", "before mark", "after mark")
WHOLE = [0, 1, 2, 3]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def outbox_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A service's database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/service.db"
    return str(request.getfixturevalue("database_url"))


def _killed_at(amqp: str, database: str, points: list[str]) -> list[dict[str, Any]]:
    """Kill a relay at each point; what became of its four rows each time."""
    command = [sys.executable, str(SCRIPT), amqp, database, *points]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _check_nothing_lost(run: dict[str, Any]) -> None:
    """Every row came, in order; twice only those whose outcome the killed relay left unknown."""
    seen = run["seen"]
    assert run["code"] == 0, run
    assert list(dict.fromkeys(seen)) == WHOLE, run
    assert max(seen.count(n) for n in seen) <= 2, run
    assert {n for n in seen if seen.count(n) > 1} <= set(run["left"]), run


def test_a_relay_killed_at_a_named_step_loses_nothing(vhost_url, outbox_url):
    """A relay killed at each step of a row loses no row; only rows it had not marked come twice."""
    runs = _killed_at(vhost_url, outbox_url, list(STEPS))
    for run in runs:
        assert run["ended"] == -signal.SIGKILL
        _check_nothing_lost(run)
    assert [run["point"] for run in runs] == list(STEPS)
    doubled = {run["point"]: len(run["seen"]) - len(WHOLE) for run in runs}
    assert doubled["after read"] == 0
    assert doubled["after confirm"] >= 1


@pytest.mark.parametrize("stride", [23, pytest.param(1, marks=pytest.mark.soak)])
def test_a_relay_killed_at_any_await_loses_nothing(vhost_url, outbox_url, stride):
    """A relay killed before any task's step, from its first rows to the last mark, loses nothing."""
    runs = _killed_at(vhost_url, outbox_url, ["every", str(stride)])
    for run in runs:
        _check_nothing_lost(run)
    killed = [run for run in runs if run["ended"] == -signal.SIGKILL]
    print(f"\nkilled at {len(killed)} steps, copies: {sum(len(r['seen']) - 4 for r in killed)}")  # noqa: T201
    assert [run["ended"] for run in runs[:-1]] == [-signal.SIGKILL] * len(killed)
    assert runs[-1]["ended"] == 0
    assert len(killed) >= 100 // stride
