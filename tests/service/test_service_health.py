"""The health endpoints read only what the loop left for them."""

import json
import urllib.error
import urllib.request

import pytest
import trio
from prometheus_client import CollectorRegistry, Counter

from craig_mq.service.health import AddressInUse, health_app, serve_health
from craig_mq.service.pulse import Pulse
from craig_mq.service.status import Status


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


READY = Status(ready=True, document={"queue": "q"})
STARTING = Status(ready=False, document={"queue": "q"})


@pytest.mark.parametrize(
    ("status", "path", "code"),
    [
        (READY, "/healthz", 200),
        (READY, "/readyz", 200),
        (STARTING, "/healthz", 200),
        (STARTING, "/readyz", 503),
        (None, "/healthz", 503),
        (None, "/readyz", 503),
        (None, "/status", 503),
        (READY, "/elsewhere", 404),
    ],
)
def test_health_and_readiness_follow_the_loop_and_the_sessions(
    status: Status | None, path: str, code: int
) -> None:
    """Alive means the loop ticks; ready means both sessions consume as well."""
    app = health_app(CollectorRegistry(), lambda: status)
    with serve_health("127.0.0.1", 0, app) as port:
        assert _get(port, path)[0] == code


def test_metrics_and_status_are_served() -> None:
    """`/metrics` is the registry's text and `/status` the document, read-only."""
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc()
    with serve_health("127.0.0.1", 0, health_app(registry, lambda: READY)) as port:
        assert "things_total 1.0" in _get(port, "/metrics")[1]
        assert json.loads(_get(port, "/status")[1]) == {"queue": "q"}


def test_a_taken_address_is_a_clear_error() -> None:
    """Binding a taken port names the address and the option to change."""
    app = health_app(CollectorRegistry(), lambda: READY)
    with (
        serve_health("127.0.0.1", 0, app) as port,
        pytest.raises(AddressInUse, match=rf"127\.0\.0\.1:{port}.*--metrics"),
        serve_health("127.0.0.1", port, app),
    ):
        raise AssertionError("served a taken address")


async def test_a_pulse_goes_stale_when_the_loop_stops(autojump_clock: trio.testing.MockClock) -> None:
    """A value is readable while the loop beats, stale after five seconds without, and gone once it ended."""
    now = 0.0
    pulse = Pulse(lambda: "fine", clock=lambda: now)
    assert pulse.read() is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.run)
        await trio.testing.wait_all_tasks_blocked()
        assert pulse.read() == "fine"
        now = 5.1
        assert pulse.read() is None
        await trio.sleep(1.5)
        assert pulse.read() == "fine"
        nursery.cancel_scope.cancel()
    assert pulse.read() is None
