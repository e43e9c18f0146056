"""Dialling: every step is bounded, refusals are told from outages, and no text holds a secret."""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from urllib.parse import quote

import pytest
import trio
from pamqp import commands

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ConnectError, ConnectErrorKind, TransportError
from craig_mq.transport.native import NativeBroker
from craig_mq.transport.url import parse_amqp_url

OPTIONS = ConnectionOptions("dialling")
SECRET = "s3cr3t-#/@:%"


async def _fails(broker) -> ConnectError:
    with pytest.raises(ConnectError) as failed:
        async with broker.connect(OPTIONS):
            pytest.fail("connected")
    return failed.value


@pytest.mark.parametrize("bytes_sent", [b"", b"\x01\x00\x00"])
async def test_a_silent_listener_is_given_up_in_time(scripted, autojump_clock, bytes_sent):
    """CHRN-01: a listener that says nothing, or three bytes, costs connect_timeout and no more."""

    async def script(peer):
        await peer.raw(bytes_sent)
        await trio.sleep_forever()

    async with scripted(script) as server:
        started = trio.current_time()
        error = await _fails(server.broker())
        assert trio.current_time() - started == pytest.approx(10, abs=0.1)
        assert error.kind is ConnectErrorKind.UNREACHABLE
        assert "waiting for Connection.Start" in str(error)


async def test_a_listener_that_closes_at_once_is_unreachable(scripted, autojump_clock):
    """CHRN-01: a listener that accepts and closes is an outage, told at once."""

    async def script(peer):
        await peer.stream.aclose()

    async with scripted(script) as server:
        started = trio.current_time()
        error = await _fails(server.broker())
        assert error.kind is ConnectErrorKind.UNREACHABLE
        assert trio.current_time() == started


async def test_a_listener_that_stalls_the_tls_handshake_is_given_up_in_time(scripted, autojump_clock):
    """PERM-03: a peer that never answers the ClientHello costs connect_timeout and no more."""

    async def script(peer):
        await peer.stream.receive_some(65_536)
        await trio.sleep_forever()

    async with scripted(script) as server:
        broker = NativeBroker(parse_amqp_url(server.url.replace("amqp:", "amqps:")))
        started = trio.current_time()
        error = await _fails(broker)
        assert trio.current_time() - started == pytest.approx(10, abs=0.1)
        assert error.kind is ConnectErrorKind.UNREACHABLE
        assert "TLS" in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (403, ConnectErrorKind.REFUSED),
        (530, ConnectErrorKind.REFUSED),
        (320, ConnectErrorKind.UNREACHABLE),
        (541, ConnectErrorKind.UNREACHABLE),
    ],
)
async def test_a_close_during_the_handshake_says_whose_fault_it_is(scripted, autojump_clock, code, kind):
    """PERM-01: a refused login or vhost is REFUSED; a broker that shuts down is UNREACHABLE."""

    async def script(peer):
        await peer.stream.receive_some(8)
        await peer.send(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0)
        await peer.expect(commands.Connection.StartOk)
        await peer.send(commands.Connection.Close(code, "the broker's text", 0, 0), 0)

    async with scripted(script) as server:
        error = await _fails(server.broker(user=f"app:{quote(SECRET, safe='')}"))
        assert error.kind is kind
        assert "the broker's text" in str(error)


async def test_a_mechanism_that_is_not_offered_is_refused(scripted, autojump_clock):
    """EXTERNAL against a broker that offers only PLAIN is REFUSED before any credential is sent."""
    sent = []

    async def script(peer):
        await peer.stream.receive_some(8)
        await peer.send(commands.Connection.Start(0, 9, {}, "PLAIN AMQPLAIN", "en_US"), 0)
        with pytest.raises(trio.BrokenResourceError):
            sent.append(await peer.stream.receive_some(65_536))

    async with scripted(script) as server:
        error = await _fails(NativeBroker(parse_amqp_url(server.url), external=True))
        assert error.kind is ConnectErrorKind.REFUSED
        await trio.testing.wait_all_tasks_blocked()
    assert sent == []


async def test_another_protocol_version_is_told(scripted, autojump_clock):
    """A peer that answers with its own protocol header is not mistaken for a frame."""

    async def script(peer):
        await peer.raw(b"AMQP\x00\x01\x00\x00")

    async with scripted(script) as server:
        error = await _fails(server.broker())
        assert "another protocol version" in str(error)


async def test_limits_are_negotiated_downwards(scripted, autojump_clock):
    """The lower of both sides' frame_max and channel_max holds, and bodies are cut to it."""
    sizes = []

    async def script(peer):
        await peer.shake_hands(frame_max=4096, channel_max=1)
        await peer.expect(commands.Channel.Open)
        await peer.send(commands.Channel.OpenOk(), 1)
        await peer.expect(commands.Confirm.Select)
        await peer.send(commands.Confirm.SelectOk(), 1)
        await peer.expect(commands.Basic.Publish)
        await peer.read_frame()
        while sum(sizes) < 10_000:
            _, piece = await peer.read_frame()
            sizes.append(len(piece.value))
        await peer.send(commands.Basic.Ack(1), 1)

    async with scripted(script) as server, server.broker().connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        with pytest.raises(TransportError, match="channel number"):
            await connection.open_channel()
        publication = Publication("", "q", bytes(10_000), Properties(message_id="m"))
        assert await channel.publish(publication) == Acked()
    assert sizes == [4088, 4088, 1824]


async def test_a_refused_port_is_unreachable():
    """A port where nobody listens is UNREACHABLE at once, naming address and errno."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    error = await _fails(NativeBroker(parse_amqp_url(f"amqp://127.0.0.1:{port}")))
    assert error.kind is ConnectErrorKind.UNREACHABLE
    assert "ECONNREFUSED" in str(error)


async def test_a_stuck_name_look_up_can_be_abandoned(monkeypatch):
    """CHRN-01: a resolver that hangs is left behind at the deadline, and bounded in number."""
    release, started = threading.Event(), []

    def hang(*args, **kwargs):
        started.append(args)
        release.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    broker = NativeBroker(parse_amqp_url("amqp://broker.invalid/"))
    try:
        for _ in range(9):
            with pytest.raises(ConnectError, match="resolving the name"):
                async with broker.connect(ConnectionOptions("dns", connect_timeout=0.05)):
                    pytest.fail("connected")
        assert len(started) == 8
    finally:
        release.set()


async def test_the_password_is_shown_nowhere(scripted, autojump_clock, caplog):
    """PERM-05: reprs, errors and debug logs of a refused login hold the secret zero times."""
    caplog.set_level(logging.DEBUG)

    async def script(peer):
        await peer.stream.receive_some(8)
        await peer.send(commands.Connection.Start(0, 9, {}, "PLAIN", "en_US"), 0)
        start_ok = await peer.expect(commands.Connection.StartOk)
        assert start_ok["response"] == f"\0app\0{SECRET}"
        await peer.send(commands.Connection.Close(403, "ACCESS_REFUSED", 0, 0), 0)

    async with scripted(script) as server:
        broker = server.broker(user=f"app:{quote(SECRET, safe='')}")
        error = await _fails(broker)
        shown = [repr(broker), broker.display_url, str(error), repr(error), caplog.text]
        shown += traceback.format_exception(error)
        assert not any(SECRET in text or quote(SECRET, safe="") in text for text in shown)


async def test_a_dial_cancelled_while_the_name_is_resolved_is_cancelled(monkeypatch):
    """A cancel that meets the end of the resolution leaves as a cancel, however many addresses there are."""
    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (9, 10)]
    with trio.CancelScope() as scope:

        async def resolve_and_meet_the_cancel(*_: object, **__: object) -> object:
            await trio.lowlevel.checkpoint()
            scope.cancel(reason="test")
            return addresses

        monkeypatch.setattr(trio.to_thread, "run_sync", resolve_and_meet_the_cancel)
        async with NativeBroker(parse_amqp_url("amqp://broker.invalid")).connect(ConnectionOptions("x")):
            pass
    assert scope.cancelled_caught
