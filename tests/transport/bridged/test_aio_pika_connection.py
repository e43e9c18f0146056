"""Connections of the aio-pika transport: dialled, lost, blocked, closed, and never left behind."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import trio

from craig_mq.core.close import ConnectionClose, ConnectionLoss, LocalClose
from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked, Unconfirmed
from craig_mq.core.topology import QueueSpec
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ClosedError, ConnectError, ConnectErrorKind, OperationTimedOut
from craig_mq.transport.opening import open_broker

pytestmark = pytest.mark.broker

OPTIONS = ConnectionOptions(name="connection", rpc_timeout=1.0)
CLASSIC = {"x-queue-type": "classic"}
_SECRET = "s3cr3t-#/@:%"


def _publication(body: bytes = b"b") -> Publication:
    return Publication("", "q", body, Properties(message_id=os.urandom(8).hex(), delivery_mode=2))


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _broker_connections(rabbit) -> int:
    return int(rabbit.eval("length(rabbit_networking:connections())"))


# -- dialling -----------------------------------------------------------------------------------


@asynccontextmanager
async def _listener(greeting: bytes, *, close: bool) -> AsyncIterator[str]:
    async def serve(stream: trio.SocketStream) -> None:
        if greeting:
            await stream.send_all(greeting)
        if close:
            await trio.aclose_forcefully(stream)
        else:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield f"amqp://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel(reason="test over")


@pytest.mark.parametrize(
    ("greeting", "close"),
    [(b"", False), (b"\x01\x00\x00", False), (b"", True), (b"AMQP\x00\x00\x09\x01", True)],
)
async def test_a_listener_that_does_not_speak_is_given_up_within_the_bound(greeting, close):
    """CHRN-01: silence, three bytes, an immediate close: each attempt is bounded, no descriptor leaks."""
    async with (
        _listener(greeting, close=close) as url,
        open_broker(url, transport="aio-pika") as broker,
    ):
        before = _open_files()
        for _ in range(5):
            with trio.fail_after(1.0), pytest.raises(ConnectError) as caught:
                async with broker.connect(ConnectionOptions(name="x", connect_timeout=0.3)):
                    pass
            assert caught.value.kind is ConnectErrorKind.UNREACHABLE
        await trio.sleep(0.05)
        assert _open_files() <= before + 5  # the listener's own ends of the silent ones


async def test_nobody_listening_is_unreachable():
    """A refused TCP connection and an unknown host are UNREACHABLE, with the system's reason."""
    for url in ("amqp://127.0.0.1:1", "amqp://no-such-host.invalid"):
        async with open_broker(url, transport="aio-pika") as broker:
            with trio.fail_after(10), pytest.raises(ConnectError) as caught:
                async with broker.connect(OPTIONS):
                    pass
            assert caught.value.kind is ConnectErrorKind.UNREACHABLE


async def test_a_wrong_login_or_vhost_is_refused_with_the_brokers_text(rabbit):
    """A bad password and a missing vhost are REFUSED, and the broker's own text is kept."""
    for url, text in (
        (rabbit.vhost_url("/", password="wrong"), "403"),
        (rabbit.vhost_url("missing"), "missing"),
    ):
        async with open_broker(url, transport="aio-pika") as broker:
            with trio.fail_after(5), pytest.raises(ConnectError, match=text) as caught:
                async with broker.connect(OPTIONS):
                    pass
            assert caught.value.kind is ConnectErrorKind.REFUSED


async def test_no_error_or_log_line_of_a_refused_login_holds_the_password(rabbit, caplog):
    """PERM-05: a refused password is in no error, traceback local or DEBUG line, raw or encoded."""
    caplog.set_level(logging.DEBUG)
    url = rabbit.vhost_url("/", password=_SECRET)
    async with open_broker(url, transport="aio-pika") as broker:
        with pytest.raises(ConnectError) as caught:
            async with broker.connect(OPTIONS):
                pass
        shown = broker.display_url + repr(broker)
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    inner = [frame for frame in trace.stack if "test_aio_pika_connection" not in frame.filename]
    assert caught.value.__context__ is None
    for text in (str(caught.value), shown, caplog.text, *(str(frame.locals) for frame in inner)):
        assert _SECRET not in text
        assert quote(_SECRET, safe="") not in text


async def test_connects_cancelled_at_any_moment_leave_nothing_open(rabbit, aio_proxied):
    """CMID-03: 20 connects cancelled between 0 and 0.8 s leave no broker connection and no descriptor."""
    before, files = _broker_connections(rabbit), _open_files()
    aio_proxied.proxy.delay(0.1)
    for number in range(20):
        with trio.move_on_after(0.04 * number):
            async with aio_proxied.broker.connect(OPTIONS) as connection:
                await connection.open_channel()
    with trio.fail_after(5):
        while _broker_connections(rabbit) > before or aio_proxied.proxy.connections:
            await trio.sleep(0.1)
    assert _open_files() <= files


# -- losing -------------------------------------------------------------------------------------


async def test_a_silent_peer_is_reset_after_two_heartbeats(aio_proxied):
    """HB-03: a frozen peer is noticed after two heartbeats and reset at once, not closed politely."""
    options = ConnectionOptions(name="hb", heartbeat=1)
    async with aio_proxied.broker.connect(options) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        consumer = await channel.consume("q", prefetch=1)
        aio_proxied.proxy.freeze()
        with trio.fail_after(4), pytest.raises(ClosedError, match="heartbeat"):
            await consumer.receive()
        assert isinstance(connection.closed, ConnectionLoss)
        started = trio.current_time()
    assert trio.current_time() - started < 0.5


async def test_a_live_but_idle_connection_survives_its_heartbeats(aio_broker):
    """An idle connection to a living broker is still open after four heartbeat intervals."""
    async with aio_broker.connect(ConnectionOptions(name="hb", heartbeat=1)) as connection:
        with trio.move_on_after(4) as waiting:
            await connection.wait_closed()
        assert waiting.cancelled_caught
        await (await connection.open_channel()).declare_queue(QueueSpec("q", arguments=CLASSIC))


async def test_a_reset_ends_every_pending_call_with_the_loss(aio_proxied):
    """A reset connection fails each waiting call with ConnectionLoss, and channels end with it."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        consumer = await channel.consume("q", prefetch=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, lambda: None)
            aio_proxied.proxy.reset()
            with trio.fail_after(2), pytest.raises(ClosedError):
                await consumer.receive()
        assert isinstance(await connection.wait_closed(), ConnectionLoss)
        assert channel.closed == connection.closed
        with pytest.raises(ClosedError):
            await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        with pytest.raises(ClosedError):
            await connection.open_channel()
        with pytest.raises(ClosedError):
            channel.ack_nowait(1)


async def test_a_connection_closed_by_the_broker_keeps_code_and_text(rabbit, vhost_url, aio_broker):
    """A connection.close from the broker ends the connection with its code and text."""
    async with aio_broker.connect(OPTIONS) as connection:
        reason = 'rabbit_networking:close_all_connections("the operator said so")'
        await trio.to_thread.run_sync(rabbit.eval, reason)
        with trio.fail_after(5):
            closed = await connection.wait_closed()
        assert isinstance(closed, ConnectionClose)
        assert closed.code == 320
        assert "the operator said so" in closed.text


async def test_an_offence_names_its_method(aio_broker):
    """A connection-level error keeps the class and method that caused it (decisions, 16)."""
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        number = channel._number
        await channel.aclose()
        # An ack on a channel whose close was answered: RabbitMQ closes the connection over it.
        connection.write(b"\x01" + number.to_bytes(2, "big") + b"\0\0\0\r\0\x3c\0\x50" + bytes(9) + b"\xce")
        with trio.fail_after(5):
            closed = await connection.wait_closed()
        assert isinstance(closed, ConnectionClose)
        assert (closed.code, closed.class_id, closed.method_id) == (504, 60, 80)


# -- cancelling ---------------------------------------------------------------------------------


async def test_a_cancelled_declare_leaves_the_channel_usable(aio_proxied):
    """CMID-01: a passive declare cancelled in a freeze closes no channel and mixes up no answer."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        for queue in ("q", "other"):
            await channel.declare_queue(QueueSpec(queue, arguments=CLASSIC))
        aio_proxied.proxy.freeze()
        with trio.move_on_after(0.2) as bound:
            await channel.declare_queue(QueueSpec("q"), passive=True)
        assert bound.cancelled_caught
        aio_proxied.proxy.thaw()
        state = await channel.declare_queue(QueueSpec("other"), passive=True)
        assert state.name == "other"
        assert channel.closed is None


async def test_a_request_without_answer_times_out(aio_proxied):
    """A request to a frozen peer raises OperationTimedOut at ``rpc_timeout``."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        aio_proxied.proxy.freeze()
        started = trio.current_time()
        with pytest.raises(OperationTimedOut):
            await channel.declare_queue(QueueSpec("q"), passive=True)
        assert 0.9 < trio.current_time() - started < 2.0


async def test_an_open_cancelled_on_its_way_leaves_no_channel(rabbit, aio_proxied):
    """A channel whose opening was cancelled is closed once it opened; the connection goes on."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        aio_proxied.proxy.delay(0.2)
        for _ in range(3):
            with trio.move_on_after(0.1) as bound:
                await connection.open_channel(confirms=True)
            assert bound.cancelled_caught
        await trio.sleep(1.5)
        channels = await trio.to_thread.run_sync(rabbit.eval, "length(rabbit_channel:list())")
        assert channels == "0"
        aio_proxied.proxy.heal()
        await (await connection.open_channel()).declare_queue(QueueSpec("q", arguments=CLASSIC))


# -- closing ------------------------------------------------------------------------------------


async def test_a_graceful_close_is_graceful(rabbit, aio_broker):
    """A graceful close answers at once, ends with LocalClose, and the broker logs no warning for it."""
    before = rabbit.log_text().count("closed unexpectedly")
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        with trio.fail_after(1):
            await channel.aclose()
        assert channel.closed == LocalClose(aborted=False)
        with trio.fail_after(1):
            await connection.aclose()
        assert connection.closed == LocalClose(aborted=False)
        await connection.aclose()
    await trio.sleep(0.2)
    assert rabbit.log_text().count("closed unexpectedly") == before


async def test_a_close_behind_a_half_written_publish_ends_within_its_bound(aio_proxied):
    """CLH-01: frozen with 12 MiB half written, aclose ends within rpc_timeout and leaving at once."""
    async with aio_proxied.broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        aio_proxied.proxy.freeze()
        with trio.move_on_after(0.5):
            await channel.publish(_publication(bytes(12 * 1024 * 1024)))
        started = trio.current_time()
        await connection.aclose()
        assert trio.current_time() - started < 1.5
        assert connection.closed == LocalClose(aborted=True)
    assert trio.current_time() - started < 2.0


async def test_a_cancelled_close_aborts(aio_proxied):
    """A close that is cancelled resets the connection instead of leaving it open."""
    async with aio_proxied.broker.connect(ConnectionOptions(name="c", rpc_timeout=30)) as connection:
        aio_proxied.proxy.freeze()
        with trio.move_on_after(0.2) as bound:
            await connection.aclose()
        assert bound.cancelled_caught
        assert connection.closed is not None


async def test_leaving_the_block_resets_what_is_open(rabbit, aio_broker):
    """A block left by an error raises that error, and the broker sees the connection go."""
    before = _broker_connections(rabbit)
    with pytest.raises(ValueError, match="boom"):  # noqa: PT012 - the block is what is tested
        async with aio_broker.connect(OPTIONS) as connection:
            await connection.open_channel()
            raise ValueError("boom")
    assert connection.closed == LocalClose(aborted=True)
    with trio.fail_after(5):
        while _broker_connections(rabbit) > before:
            await trio.sleep(0.05)


async def test_an_abort_is_a_reset_and_what_it_abandons_is_not_executed(rabbit, aio_broker):
    """A publish abandoned with abort during an alarm is never stored: RST, not FIN (decisions, 7)."""
    async with aio_broker.connect(OPTIONS) as watcher:
        queue = await watcher.open_channel()
        await queue.declare_queue(QueueSpec("q", arguments=CLASSIC))
        async with aio_broker.connect(OPTIONS) as connection:
            channel = await connection.open_channel(confirms=True)
            assert await channel.publish(_publication()) == Acked()
            with rabbit.memory_alarm():
                async with trio.open_nursery() as nursery:
                    answers = []

                    async def publish() -> None:
                        answers.append(await channel.publish(_publication()))

                    nursery.start_soon(publish)
                    with trio.fail_after(10):
                        await connection.wait_blocked()
                    assert connection.blocked == "low on memory"
                    nursery.start_soon(publish)
                    await trio.sleep(0.2)
                    connection.abort()
                assert [type(answer) for answer in answers] == [Unconfirmed, Unconfirmed]
                assert connection.blocked is None
        await trio.sleep(1)
        # Only the confirmed one: not even the publish that told us of the alarm was executed.
        assert (await queue.declare_queue(QueueSpec("q"), passive=True)).ready == 1


async def test_unblocking_is_seen(rabbit, aio_broker):
    """Once the alarm clears, wait_unblocked returns and the waiting publish is confirmed."""
    async with aio_broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel(confirms=True)
        await channel.declare_queue(QueueSpec("q", arguments=CLASSIC))
        async with trio.open_nursery() as nursery:
            with rabbit.memory_alarm():
                nursery.start_soon(channel.publish, _publication())
                with trio.fail_after(10):
                    await connection.wait_blocked()
                assert connection.blocked == "low on memory"
            with trio.fail_after(10):
                await connection.wait_unblocked()
        assert connection.blocked is None


async def test_the_connection_name_is_shown_by_the_broker(rabbit, aio_broker):
    """The broker's own tools show the connection under its given name."""
    async with aio_broker.connect(ConnectionOptions(name="craig-mq main arm")):
        listed = await trio.to_thread.run_sync(rabbit.ctl, "list_connections", "client_properties")
        assert "craig-mq main arm" in listed


def test_the_url_of_the_rig_is_what_the_transport_expects(rabbit):
    """The node's URL names its own port, so that no test talks to another broker."""
    assert urlsplit(rabbit.url).port == rabbit.port
