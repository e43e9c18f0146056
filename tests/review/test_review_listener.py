"""The listener: no peer, however malformed, slow or foreign, stops the server."""

import random
import re
import socket
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from craig_mq.review.page import listener

MUTATIONS = 1_500
SEED = 8659
SPLICES = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \xff\xfe!\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AA==\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 99\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\nContent-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Expect: 100-continue\r\nContent-Length: 3\r\n",
    b"Host: other.example\r\n",
    b"X-Fold: a\r\n b\r\n",
    b"X-Null: \x00\r\n",
    b": empty\r\n",
    b"Cookie: " + b"c" * 20_000 + b"\r\n",
]


def address(server):
    """The (host, port) the process listens on."""
    parts = urlsplit(server.url)
    return parts.hostname, parts.port


def request(server, target="/api/run?n=3&i=2", headers=b"", method="GET"):
    """One valid request's bytes, plus given header lines."""
    host, port = address(server)
    kept = b"" if b"Connection:" in headers else b"Connection: close\r\n"
    return f"{method} {target} HTTP/1.1\r\nHost: {host}:{port}\r\n".encode() + kept + headers + b"\r\n"


def exchange(server, sent, *, timeout=5.0):
    """Send bytes on a fresh connection, end the sending side, and return all that comes back."""
    received = b""
    with socket.create_connection(address(server), timeout=timeout) as peer:
        try:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            while chunk := peer.recv(65536):
                received += chunk
        except OSError:
            pass  # cut off, refused further bytes (ENOTCONN is no ConnectionError), or timed out
    return received


def status(received):
    """The status code of a response, or None where there is none."""
    found = re.match(rb"HTTP/1\.1 (\d{3})", received)
    return int(found[1]) if found else None


def answers(server, *, timeout=5.0):
    """Whether a plain valid request is answered now."""
    return server.poll() is None and status(exchange(server, request(server), timeout=timeout)) == 200


def mutated(draw, valid):
    """One seeded mutation of a valid request: spliced headers, or flipped, dropped, doubled, cut bytes."""
    data = bytearray(valid)
    if draw.random() < 0.35:
        end_of_line = valid.index(b"\r\n") + 2
        data[end_of_line:end_of_line] = draw.choice(SPLICES)
    for _ in range(draw.randint(0, 4)):
        at = draw.randrange(len(data))
        kind = draw.randrange(6)
        if kind == 0:
            data[at] = draw.randrange(256)
        elif kind == 1:
            del data[at : at + draw.randint(1, 12)]
        elif kind == 2:
            data[at:at] = data[at : at + draw.randint(1, 40)]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = draw.randbytes(draw.randint(1, 30))
        else:
            data[:0] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + draw.randbytes(draw.randint(0, 60))
        if not data:
            data[:] = b"\r\n"
    return bytes(data)


def test_malformed_requests_never_stop_the_server(server):
    """1,500 seeded mutations of valid requests end at most their own connection; valid ones stay answered."""
    draw = random.Random(SEED)
    valid = [
        request(server),
        request(server, "/"),
        request(server, "/assets/review.css"),
        request(server, method="POST", headers=b"Content-Length: 2\r\n") + b"{}",
    ]
    answered = dict.fromkeys((None, 200, 400, 404, 405, 421, 422, 431), 0)
    for n in range(MUTATIONS):
        code = status(exchange(server, mutated(draw, draw.choice(valid)), timeout=0.1))
        answered[code] = answered.get(code, 0) + 1
        if n % 100 == 0:
            assert answers(server), f"mutation {n} of seed {SEED}"
    assert answers(server)
    assert sum(answered.values()) == MUTATIONS
    assert answered[200] > 50  # enough of them still reach the application
    assert answered[400] > 50  # and enough do not
    assert answered.get(500, 0) == 0


def test_a_bad_upgrade_ends_its_own_connection_only(server):
    """A malformed HTTP2-Settings header closes its connection and leaves an idle one beside it open."""
    beside = HTTPConnection(*address(server), timeout=5)
    beside.request("GET", "/api/run")
    assert beside.getresponse().read()
    idle = beside.sock
    for splice in SPLICES[1:4]:
        exchange(server, request(server, headers=splice), timeout=0.2)
    beside.request("GET", "/api/run?n=0")
    assert beside.getresponse().status == 422
    assert beside.sock is idle
    beside.close()


def test_slow_senders_are_cut_and_starve_nobody(server):
    """Peers that drip a request are closed within their allowance, and others are answered meanwhile."""
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(address(server))) for _ in range(40)]
        for peer in slow:
            peer.sendall(b"GET /api/run HTTP/1.1\r\nHo")
        began = time.monotonic()
        assert answers(server)
        for _ in range(3):
            for peer in slow:
                peer.sendall(b"s")
            assert answers(server)
        for peer in slow:
            peer.settimeout(max(0.1, began + 15 - time.monotonic()))
            with suppress(ConnectionResetError):
                assert peer.recv(1) == b""
    assert answers(server)


def test_more_slow_senders_than_places_only_delay(server):
    """With every place taken by silent peers a request waits for the first cut, and is then answered."""
    with ExitStack() as stack:
        for _ in range(80):
            stack.enter_context(socket.create_connection(address(server))).sendall(b"GET / HT")
        assert answers(server, timeout=20)


def test_oversize_headers_are_refused(server):
    """Headers beyond 16 KiB are answered 431 and read no further."""
    whole = request(server, headers=b"X-Big: " + b"a" * 20_000 + b"\r\n")
    assert status(exchange(server, whole)) == 431
    assert status(exchange(server, whole[:17_500])) == 431
    exchange(server, request(server, headers=b"X-Big: a\r\n" * 100_000))
    assert answers(server)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example:{port}",
        "127.0.0.1:{port}.evil",
        "[::1]",
        "",
    ],
)
def test_a_wrong_host_is_refused(server, host):
    """A Host that is not this loopback address and port is answered 421, whatever it asks for."""
    named = host.replace("{port}", str(address(server)[1]))
    closing = "Connection: close\r\n\r\n"
    for target in ("/", "/api/run", "/nothing"):
        received = exchange(server, f"GET {target} HTTP/1.1\r\nHost: {named}\r\n{closing}".encode())
        assert status(received) == 421
        assert b"content-security-policy" in received


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_a_loopback_host_is_answered(server, name):
    """The three loopback names with this port are answered, in any case."""
    port = address(server)[1]
    assert (
        status(
            exchange(server, f"GET / HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode())
        )
        == 200
    )


def test_no_host_or_two_are_refused(server):
    """A request without a Host, or with two, never reaches the page."""
    host, port = address(server)
    assert status(exchange(server, b"GET / HTTP/1.0\r\n\r\n")) == 421
    twice = f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nHost: {host}:{port}\r\n\r\n".encode()
    assert status(exchange(server, twice)) == 400


class _Listener:
    """A listener that fails, or serves until cancelled."""

    def __init__(self, serve, listening):
        self.serve = serve
        self.listening = listening

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.listening.close()


async def test_a_failed_listener_starts_again(monkeypatch, nursery, autojump_clock, caplog):
    """When the accepting loop itself fails, it is reported and starts again on the same socket."""
    import trio

    attempts = []
    serving = trio.Event()

    async def serve(_connection):
        attempts.append(trio.current_time())
        if len(attempts) < 3:
            raise ExceptionGroup("accept", [OSError(24, "too many open files")])
        serving.set()
        await trio.sleep_forever()

    async def from_socket(listening):
        return _Listener(serve, listening)

    monkeypatch.setattr(listener.SocketListener, "from_socket", from_socket)
    with listener.bind_loopback(0) as listening:
        nursery.start_soon(listener.keep_serving, listening, None)
        await serving.wait()
        nursery.cancel_scope.cancel()
    assert [later - attempts[0] for later in attempts] == [0, 0.5, 1.0]
    assert caplog.text.count("starting it again") == 2


def test_a_taken_port_is_one_clear_error(server):
    """Asking for a port that is taken ends with exit code 1 and one line."""
    from click.testing import CliRunner

    from craig_mq.cli.review import review_group

    done = CliRunner().invoke(review_group, ["serve", "--port", str(address(server)[1])])
    assert done.exit_code == 1
    assert done.output.startswith("Error: cannot listen on 127.0.0.1:")
    assert done.output.endswith("; choose another --port\n")
    assert done.output.count("\n") == 1


def test_an_interrupt_ends_the_server_cleanly():
    """SIGINT and SIGTERM end the process with code 0 and nothing on stderr."""
    import signal
    import subprocess
    import sys

    for number in (signal.SIGINT, signal.SIGTERM):
        command = [sys.executable, "-m", "craig_mq", "review", "serve", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            time.sleep(1)  # the address is printed just before the signals are received
            process.send_signal(number)
            _, errors = process.communicate(timeout=10)
            assert (process.returncode, errors) == (0, "")
