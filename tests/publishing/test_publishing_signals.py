"""Signals and exits in the middle of a publish loop."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.broker

SCRIPT = Path(__file__).with_name("publish_loop.py")
BOUND_S = 5.0


def start(url: str, transport: str, what: str) -> subprocess.Popen[str]:
    """Start the loop and return once it publishes."""
    command = [sys.executable, str(SCRIPT), url, transport, what]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "publishing\n"
    return running


def end_within_bound(running: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and stderr, within the bound; a program that hangs is killed and fails."""
    began = time.monotonic()
    try:
        _, errors = running.communicate(timeout=BOUND_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
        pytest.fail(f"it had not ended {time.monotonic() - began:.1f} s later")
    return running.returncode, errors


@pytest.mark.parametrize("runs", [2, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("transport", ["native", "aio-pika"])
def test_a_signal_ends_a_publish_loop(
    vhost_url: str, transport: str, number: signal.Signals, runs: int
) -> None:
    """CLI-02: SIGINT or SIGTERM in a publish loop ends it within 5 s, cleanly, over either transport."""
    for _ in range(runs):
        running = start(vhost_url, transport, "nothing")
        running.send_signal(number)
        assert end_within_bound(running) == (0, "")


def test_an_exit_inside_an_asyncio_callback_ends_the_program(vhost_url: str) -> None:
    """CLI-02: SystemExit raised inside the bridge's asyncio loop ends the program within 5 s."""
    running = start(vhost_url, "aio-pika", "exit")
    assert end_within_bound(running) == (3, "")
