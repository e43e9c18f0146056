"""`craig-mq run` as an operator runs it: a process, a real broker, signals."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.token import inbox_token
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.opening import open_broker

pytestmark = pytest.mark.broker

ROOT = Path(__file__).resolve().parent.parent.parent
QUEUE = "recorder.dlq"
FAILED_AT = "2026-01-01T00:00:00Z"


def _dead_letter(number: int) -> Publication:
    envelope_id = str(uuid.UUID(int=number, version=4))
    document = {
        "id": envelope_id,
        "source_service": "orders",
        "event_type": "order.failed",
        "occurred_at": FAILED_AT,
        "payload": {"number": number},
        "_dlx": {
            "token": inbox_token(envelope_id, "orders.work", FAILED_AT),
            "queue": "orders.work",
            "reason": "handler_failed",
            "failed_at": FAILED_AT,
            "error": "made to fail",
        },
    }
    properties = Properties(delivery_mode=2, message_id=str(uuid.uuid4()))
    return Publication("craig.dlx", "dlq.orders.failed", json.dumps(document).encode(), properties)


async def _publish(url: str, numbers: range) -> None:
    async with open_broker(url) as broker, broker.connect(ConnectionOptions("test publisher")) as connection:
        channel = await connection.open_channel(confirms=True)
        limit = trio.CapacityLimiter(100)

        async def publish(number: int) -> None:
            async with limit:
                assert await channel.publish(_dead_letter(number)) == Acked()

        async with trio.open_nursery() as nursery:
            for number in numbers:
                nursery.start_soon(publish, number)
        await connection.aclose()


@contextlib.contextmanager
def _recorder(url: str, ledger: Path, *, port: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "craig_mq", "run", "--queue", QUEUE, "--audit", f"sqlite:///{ledger}"),
            *("--metrics", f"127.0.0.1:{port}", "--log-level", "warning"),
        ],
        cwd=ROOT,
        env={**os.environ, "CRAIG_MQ_AMQP_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
    except urllib.error.URLError:
        return 0, ""


def _wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)


def _rows(ledger: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        return database.execute("SELECT count(*) FROM occurrence").fetchone()[0]


def _distinct_tokens(ledger: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        return database.execute("SELECT count(DISTINCT token) FROM occurrence").fetchone()[0]


def _stop(process: subprocess.Popen[str], number: signal.Signals) -> int:
    process.send_signal(number)
    return process.wait(timeout=30)


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_restart_in_the_middle_records_each_dead_letter_exactly_once(
    count: int, vhost_url: str, tmp_path: Path, free_port: int
) -> None:
    """SIGTERM in the middle exits 0, and after a restart every dead letter has exactly one row (ACK-09)."""
    ledger = tmp_path / "audit.db"
    with _recorder(vhost_url, ledger, port=free_port) as first:
        _wait_until(lambda: _get(free_port, "/readyz")[0] == 200, "ready")
        trio.run(_publish, vhost_url, range(count // 2))
        _wait_until(lambda: _rows(ledger) > 0, "the first row")
        assert _stop(first, signal.SIGTERM) == 0, first.stderr.read()
    before = _rows(ledger)
    with _recorder(vhost_url, ledger, port=free_port) as second:
        _wait_until(lambda: _get(free_port, "/readyz")[0] == 200, "ready again")
        trio.run(_publish, vhost_url, range(count // 2, count))
        _wait_until(lambda: _rows(ledger) >= count, f"{count} rows")
        status = json.loads(_get(free_port, "/status")[1])
        metrics = _get(free_port, "/metrics")[1]
        assert _stop(second, signal.SIGINT) == 0, second.stderr.read()
    assert before > 0
    assert _rows(ledger) == _distinct_tokens(ledger) == count
    assert status["queue"] == QUEUE
    assert 'dlq_consumer_up{arm="main",queue="recorder.dlq"} 1.0' in metrics
    assert 'dlq_deliveries_total{outcome="acked",queue="recorder.dlq"}' in metrics


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_under_load_ends_the_service(
    number: signal.Signals, runs: int, vhost_url: str, tmp_path: Path, free_port: int
) -> None:
    """CLI-02: SIGINT or SIGTERM under load ends the service within 5 s with code 0, and nothing is lost."""
    ledger, each, slowest = tmp_path / "audit.db", 300, 0.0
    for run in range(runs):
        with _recorder(vhost_url, ledger, port=free_port) as process:
            _wait_until(lambda: _get(free_port, "/readyz")[0] == 200, "ready")
            before = _rows(ledger)
            trio.run(_publish, vhost_url, range(run * each, (run + 1) * each))
            _wait_until(lambda before=before: _rows(ledger) > before, "the next row")
            began = time.monotonic()
            assert _stop(process, number) == 0
            slowest = max(slowest, time.monotonic() - began)
            assert "Traceback" not in process.stderr.read()
    with _recorder(vhost_url, ledger, port=free_port) as last:
        _wait_until(lambda: _rows(ledger) >= runs * each, "every row")
        assert _stop(last, number) == 0
    print(f"\n{number.name}: the slowest of {runs} ended after {slowest:.2f} s")  # noqa: T201
    assert slowest < 5.0
    assert _rows(ledger) == _distinct_tokens(ledger) == runs * each
