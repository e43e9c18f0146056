"""``craig-mq doctor`` as an operator, or a pipeline, runs it."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from craig_mq.core.topology import QUORUM_DELIVERY_LIMIT


def _levels(found) -> dict[tuple[str, str], str]:
    return {(one["check"], one["subject"]): one["level"] for one in found["findings"]}


def _failures(found) -> list[tuple[str, str]]:
    return [(one["check"], one["subject"]) for one in found["findings"] if one["level"] == "FAIL"]


def test_a_clean_broker_has_no_failure(bench) -> None:
    """On a clean topology nothing fails, and what AMQP cannot tell is UNKNOWN with what to do."""
    found = bench.json("doctor")
    assert (found["healthy"], _failures(found)) == (True, [])
    levels = _levels(found)
    assert levels["queue type", "security.dlq.quarantine"] == "OK"
    assert levels["unroutable messages", "craig.dlx"] == "OK"
    assert {levels[one, "broker"] for one in ("version", "clock skew", "consumer_timeout")} == {"UNKNOWN"}
    assert all(one["todo"] for one in found["findings"] if one["level"] != "OK")
    assert bench.json("doctor", "--strict", exit_code=1)["healthy"] is False
    assert bench.bodies(bench.queue) == ()


def _recreate(bench, arguments: dict[str, object]) -> None:
    bench.broker.delete_queue(bench.quarantine)
    bench.broker.declare_queue(bench.quarantine, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 60_000},
        {"x-expires": 60_000},
        {"x-max-length": 10},
        {"x-max-length-bytes": 10_000},
        {"x-dead-letter-exchange": "elsewhere"},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_destructive_argument_is_found_over_amqp(bench, arguments) -> None:
    """A queue declared with a setting that destroys is named with that setting, and exits 1."""
    _recreate(bench, {"x-queue-type": "classic", **arguments})
    found = bench.json("doctor", exit_code=1)
    assert _failures(found) == [("destructive setting", bench.quarantine)]
    [text] = [one["text"] for one in found["findings"] if one["level"] == "FAIL"]
    [(name, value)] = arguments.items()
    assert f"{name.removeprefix('x-')} = {value}" in text


def test_a_quorum_queue_needs_its_large_limit(bench) -> None:
    """A quorum queue is fine with the large delivery limit and a failure with any other, or none."""
    for limit, failures in ((QUORUM_DELIVERY_LIMIT, 0), (20, 1), (None, 1)):
        arguments = {"x-queue-type": "quorum", **({} if limit is None else {"x-delivery-limit": limit})}
        _recreate(bench, arguments)
        found = bench.json("doctor", exit_code=failures)
        assert _failures(found) == [("delivery limit", bench.quarantine)] * failures


def test_missing_parts_blindness_and_alarms_are_failures(bench) -> None:
    """A missing queue, an alternate exchange and a resource alarm each fail, one at a time."""
    bench.broker.alarm(on=True)
    assert _failures(bench.json("doctor", exit_code=1)) == [("resource alarm", "broker")]
    bench.broker.alarm(on=False)
    bench.broker.declare_queue("everything", {"x-queue-type": "classic"})
    bench.broker.bind("craig.dlx", "everything", "#")
    assert _failures(bench.json("doctor", exit_code=1)) == [("unroutable messages", "craig.dlx")]
    bench.broker.unbind("craig.dlx", "everything", "#")
    bench.broker.delete_queue(bench.parking)
    assert _failures(bench.json("doctor", exit_code=1)) == [("topology", bench.parking)]


def test_a_user_who_may_not_configure_is_warned(bench) -> None:
    """Without configure the type of a queue is UNKNOWN and the service can only look, which is a warning."""
    bench.broker.set_permissions(configure="^$")
    levels = _levels(bench.json("doctor"))
    assert levels["permission to configure", bench.queue] == "WARN"
    assert levels["queue type", bench.queue] == "UNKNOWN"
    bench.broker.set_permissions(write="^$")
    assert ("permission to write", "craig.dlx") in _failures(bench.json("doctor", exit_code=1))


POLICIES: dict[str, object] = {}


class _Api(http.server.BaseHTTPRequestHandler):
    """As much of a management API as the doctor reads."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Basic b3BzOnNlY3JldA==":
            self.send_error(401)
            return
        queue = {"type": "classic", "arguments": {}, "effective_policy_definition": POLICIES or []}
        answers: dict[str, object] = {
            "/api/overview": {"rabbitmq_version": "3.10.8"},
            "/api/exchanges/%2F/craig.dlx": {"arguments": {}, "policy": "blind" if POLICIES else None},
            "/api/policies/%2F/blind": {"definition": POLICIES},
            "/api/nodes": [{"name": "rabbit@here", "mem_alarm": bool(POLICIES), "disk_free_alarm": False}],
        }
        body = json.dumps(answers.get(self.path, queue)).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


@pytest.fixture
def management() -> Iterator[str]:
    """A management API of the test's own."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    POLICIES.clear()
    yield f"http://ops:secret@127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_management_api_shows_policies_and_alarms(bench, management) -> None:
    """With the management API policies, version and clock are known, and each harm is named."""
    clean = bench.json("doctor", "--management", management)
    assert _failures(clean) == []
    assert _levels(clean)["version", "broker"] == "OK"
    assert _levels(clean)["clock skew", "broker"] == "OK"
    POLICIES.update({"message-ttl": 9, "overflow": "drop-head", "max-length": 5, "alternate-exchange": "x"})
    found = bench.json("doctor", "--management", management, exit_code=1)
    failures = _failures(found)
    assert failures.count(("destructive setting", bench.quarantine)) == 3
    assert ("alternate exchange", "craig.dlx") in failures
    assert ("resource alarm", "rabbit@here") in failures
    refused = bench.json("doctor", "--management", management.replace("ops:", "you:"), exit_code=1)
    assert ("management API", "broker") in _failures(refused)


def test_an_unreachable_broker_is_a_finding(bench, monkeypatch) -> None:
    """A broker that cannot be reached is one FAIL with what to check, not a traceback."""
    bench.broker.crash()
    result = bench.run("doctor", exit_code=1)
    assert "check that the broker runs" in result.output
