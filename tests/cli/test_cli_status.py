"""``craig-mq status`` as an operator types it."""

import http.client
import re
import socket
import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from craig_mq.operator.doctor.management import ManagementApi
from craig_mq.operator.status import ServiceUnreachable, fetch_status
from craig_mq.service.health import health_app, serve_health
from craig_mq.service.status import STARTING, Status

CHILD = {"generation": 3, "timer_at": 112.0, "last_end": "SETTLEMENT_FAILED", "supervisor": None}


def _document(state: str) -> dict[str, object]:
    return {
        "state": state,
        "clock_s": 100.0,
        "depths": {"security.dlq": 7, "security.dlq.parking": None},
        "held": {"security.dlq": 3},
        "oldest_parked_s": 42.4,
        "statistics": {
            "acked": 5,
            "parked": 0,
            "returned": 0,
            "quarantined": 0,
            "duplicates_absorbed": 0,
            "settlement_failures": 1,
            "sessions": 4,
        },
        "tree": {"children": [{"id": "main", "state": "BACKOFF", **CHILD}]},
    }


@pytest.fixture
def serve() -> Iterator[object]:
    """Serve one status at a port of its own."""
    holder: list[Status | None] = [None]
    app = health_app(CollectorRegistry(), lambda: holder[0])
    with serve_health("127.0.0.1", 0, app) as port:

        def at(status: Status | None) -> str:
            holder[0] = status
            return f"127.0.0.1:{port}"

        yield at


def test_a_service_is_shown_with_its_wake_up_time(bench, serve) -> None:
    """The tree tells state, generation, last end and when a backoff ends; not being ready exits 1."""
    shown = bench.run("status", "--service", serve(Status(False, _document("recovering"))), exit_code=1)
    assert "main backoff #3 wakes in 12 s after SETTLEMENT_FAILED" in shown.output
    assert re.search(r"security\.dlq +7 +3", shown.output)
    assert re.search(r"oldest parked +42 s", shown.output)
    document = bench.json("status", "--service", serve(Status(True, _document("ready"))))
    assert document["depths"]["security.dlq"] == 7


def test_a_service_that_starts_or_hangs_is_told_apart(bench, serve) -> None:
    """A service that is starting says so, and one whose loop is stuck is a failure in one line."""
    assert "starting" in bench.run("status", "--service", serve(STARTING), exit_code=1).output
    stuck = bench.run("status", "--service", serve(None), exit_code=1)
    assert "answers 503: loop stuck" in stuck.output
    nobody = bench.run("status", "--service", "127.0.0.1:1", exit_code=1)
    assert "no status from 127.0.0.1:1" in nobody.output


@pytest.mark.parametrize(
    "address", ["http://ops:secret@127.0.0.1:1", "ops:secret@127.0.0.1:1", "ops:secret", "//ops:secret@h:x"]
)
def test_a_login_in_a_service_address_is_never_shown(bench, address) -> None:
    """Whatever is wrong with a service's address, the line about it holds no login (PERM-05)."""
    code = 1 if address.endswith(":1") else 2
    for options in ((), ("--json",)):
        output = bench.run("status", "--service", address, *options, exit_code=code).output
        assert "secret" not in output
        assert "ops" not in output


@pytest.mark.parametrize(
    "address",
    [
        "ops:12/secret@h:1",
        "http://ops:12?secret@h",
        "http://ops:12#secret@h",
        "h:1/a secret",
        "h:1/\x7fsecret",
    ],
)
def test_a_password_that_reads_as_a_path_is_never_shown(bench, address) -> None:
    """An address with an @ behind its host, a space or a control character is refused unquoted (PERM-05)."""
    output = bench.run("status", "--service", address, exit_code=2).output
    assert "is no address: say HOST:PORT" in output
    assert "secret" not in output
    assert "ops" not in output


def test_a_path_the_http_client_refuses_is_not_quoted(monkeypatch) -> None:
    """Of an InvalidURL only the type is reported, and it is no cause that a traceback could show."""

    def refuse(*arguments: object) -> None:
        raise http.client.InvalidURL(f"URL can't contain control characters: {arguments!r}")

    monkeypatch.setattr(http.client.HTTPConnection, "request", refuse)
    with pytest.raises(ServiceUnreachable) as refused:
        fetch_status("h:1/secret")
    assert str(refused.value) == "no status from h:1: InvalidURL"
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("address", "asked"),
    [("http://[fe80::abc]", ("fe80::abc", 80)), ("https://[::1]", ("::1", 443)), ("[::1]:9", ("::1", 9))],
)
def test_an_ipv6_address_needs_no_port(monkeypatch, address, asked) -> None:
    """An IPv6 address without a port is asked at the scheme's own."""
    met: list[tuple[str, int]] = []

    def refuse(connection: http.client.HTTPConnection, *_: object) -> None:
        met.append((connection.host, connection.port))
        raise OSError("refused")

    monkeypatch.setattr(http.client.HTTPConnection, "request", refuse)
    with pytest.raises(ServiceUnreachable):
        fetch_status(address)
    assert met == [asked]


def test_depths_need_nothing_but_amqp(bench) -> None:
    """Without a service the three queues are counted, a missing one is named, and heads stay in place."""
    bench.fill(bench.capture(at_s=time.time() - 90), bench.capture())
    found = bench.json("status", "--oldest")["queues"]
    assert [(one["queue"], one["ready"]) for one in found] == [
        ("security.dlq", 0),
        ("security.dlq.parking", 0),
        ("security.dlq.quarantine", 2),
    ]
    assert 89 < found[2]["oldest_s"] < 120
    bench.broker.delete_queue(bench.parking)
    assert "missing" in bench.run("status", exit_code=1).output


def test_a_watch_into_a_pipe_prints_every_look(bench, monkeypatch) -> None:
    """Where no terminal can be redrawn, each look is printed below the one before."""
    looks = iter((1, 2))

    def sleep(_seconds: float) -> None:
        if next(looks, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    printed = bench.run("status", "--watch", exit_code=130).output
    assert printed.count("security.dlq.parking") == 3


def test_held_messages_come_from_the_management_api(bench, monkeypatch) -> None:
    """What consumers hold is unknown to AMQP, and counted where a management API is given."""
    bench.fill(bench.capture())
    assert {one["held"] for one in bench.json("status")["queues"]} == {None}
    asked: list[tuple[str, ...]] = []

    def get(api: ManagementApi, *path: str) -> dict[str, object]:
        asked.append((api.vhost, *path))
        return {"messages_unacknowledged": len(asked)}

    monkeypatch.setattr(ManagementApi, "get", get)
    found = bench.json("status", "--management", "http://ops:secret@127.0.0.1:15672")["queues"]
    assert [(one["queue"], one["held"]) for one in found] == [
        ("security.dlq", 1),
        ("security.dlq.parking", 2),
        ("security.dlq.quarantine", 3),
    ]
    assert asked[2] == ("/", "queues", "/", "security.dlq.quarantine")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "nothing listens there"),
        (socket.gaierror(-2, "Name or service not known"), "no host of that name is known"),
        (TimeoutError("timed out"), "no answer within 5 s"),
    ],
)
def test_an_unreachable_service_is_told_in_words(bench, monkeypatch, failure, words) -> None:
    """What keeps a status from coming is said in words, with what to check, and without an error's name."""

    def refuse(*_: object) -> None:
        raise failure

    monkeypatch.setattr(http.client.HTTPConnection, "request", refuse)
    output = bench.run("status", "--service", "foo:9464", exit_code=1).output
    assert f"no status from foo:9464: {words}; check that the service runs" in output
    assert "Err" + "no" not in output
    assert "error" not in output.removeprefix("Error:")


@pytest.mark.parametrize(
    "address", ["h:99999", "h:port", "[::1", "ftp://h", "", "foo", "[::1]", "foo/status"]
)
def test_a_service_address_that_is_none_is_one_line(bench, address) -> None:
    """A port or host that cannot be is named as such, not shown as a traceback."""
    assert "is no address: say HOST:PORT" in bench.run("status", "--service", address, exit_code=2).output


def test_a_url_file_that_is_no_text_is_one_line(bench, tmp_path) -> None:
    """A URL file that is not UTF-8 is refused by its name, and none of its bytes is quoted."""
    file = tmp_path / "url"
    file.write_bytes(b"amqp://u:sekret\xff@h/")
    shown = bench.run("status", "--queue", "q", "--amqp-file", str(file), exit_code=2).output
    assert f"{file}: it is not UTF-8" in shown
    assert "sekret" not in shown
