"""TLS: authorities, host names and client certificates are checked, and SASL EXTERNAL needs no password."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from pamqp import commands, frame

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import QueueSpec
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ConnectError, ConnectErrorKind
from craig_mq.transport.native import NativeBroker
from craig_mq.transport.opening import open_broker
from craig_mq.transport.url import parse_amqp_url

OPTIONS = ConnectionOptions("tls", connect_timeout=60, rpc_timeout=60)


@attrs.define(frozen=True)
class _Authority:
    """A certificate authority of the test's own, in a folder."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str, *, alternative: str) -> tuple[Path, Path]:
        """Issue a certificate; return the files of certificate and key."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "pem"))
        extension = self.folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={alternative}\n")
        _openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}"
        )
        signing = ("-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial")
        _openssl(
            "x509", "-req", "-in", request, *signing, "-days", "2", "-extfile", extension, "-out", certificate
        )
        return certificate, key


_CA_USAGE = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 verifies strictly


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> _Authority:
    """An authority that no system trusts."""
    folder = tmp_path_factory.mktemp("ca")
    new = ("-newkey", "rsa:2048", "-nodes", "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    _openssl("req", "-x509", *new, "-days", "2", "-subj", "/CN=test authority", *_CA_USAGE)
    return _Authority(folder)


@pytest.fixture(scope="module")
def local_certificate(authority) -> tuple[Path, Path]:
    """A server certificate for 127.0.0.1."""
    return authority.issue("local", alternative="IP:127.0.0.1,DNS:localhost")


@asynccontextmanager
async def _tls_server(certificate, key, client_ca=None) -> AsyncIterator[tuple[int, list[object]]]:
    """Listen with TLS, play the handshake; yield the port and the start-ok methods seen."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    seen: list[object] = []

    async def serve(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await secured.do_handshake()
            await secured.receive_some(8)
            await secured.send_all(
                frame.marshal(commands.Connection.Start(0, 9, {}, "PLAIN EXTERNAL", "en_US"), 0)
            )
            _, _, start_ok = frame.unmarshal(await secured.receive_some(65_536))
            seen.append(start_ok)
            await secured.send_all(frame.marshal(commands.Connection.Tune(2047, 131_072, 60), 0))
            await secured.receive_some(65_536)
            await secured.send_all(frame.marshal(commands.Connection.OpenOk(), 0))
            await secured.receive_some(65_536)
        except trio.BrokenResourceError:
            seen.append("broken")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield listeners[0].socket.getsockname()[1], seen
        nursery.cancel_scope.cancel(reason="the test is over")


async def _refusal(url: str) -> ConnectError:
    with pytest.raises(ConnectError) as failed:
        async with NativeBroker(parse_amqp_url(url)).connect(OPTIONS):
            pytest.fail("connected")
    return failed.value


async def test_a_trusted_broker_is_connected_to(authority, local_certificate):
    """PERM-03: with its authority named, a broker whose certificate names the host is accepted."""
    async with _tls_server(*local_certificate) as (port, seen):
        broker = NativeBroker(parse_amqp_url(f"amqps://127.0.0.1:{port}/?cacertfile={authority.certificate}"))
        async with broker.connect(OPTIONS) as connection:
            assert connection.closed is None
        assert seen[0]["mechanism"] == "PLAIN"


async def test_an_unknown_authority_is_refused(local_certificate):
    """PERM-05: a certificate from an authority nobody named ends the dial before any credential is sent."""
    async with _tls_server(*local_certificate) as (port, seen):
        error = await _refusal(f"amqps://app:s3cr3t@127.0.0.1:{port}/")
    assert error.kind is ConnectErrorKind.UNREACHABLE
    assert "certificate verification failed" in str(error)
    assert "s3cr3t" not in str(error)
    assert seen in ([], ["broken"])


async def test_a_certificate_for_another_host_is_refused(authority):
    """A certificate that names another host ends the dial, whoever signed it."""
    certificate, key = authority.issue("elsewhere", alternative="DNS:elsewhere.example")
    async with _tls_server(certificate, key) as (port, _):
        error = await _refusal(f"amqps://127.0.0.1:{port}/?cacertfile={authority.certificate}")
    assert "certificate verification failed" in str(error)


async def test_external_logs_in_by_certificate(authority, local_certificate):
    """SASL EXTERNAL sends the client certificate and an empty response, and no password."""
    certificate, key = authority.issue("client", alternative="DNS:client")
    options = f"cacertfile={authority.certificate}&certfile={certificate}&keyfile={key}"
    async with _tls_server(*local_certificate, client_ca=authority.certificate) as (port, seen):
        url = parse_amqp_url(f"amqps://127.0.0.1:{port}/?{options}")
        async with NativeBroker(url, external=True).connect(OPTIONS) as connection:
            assert connection.closed is None
        assert (seen[0]["mechanism"], seen[0]["response"]) == ("EXTERNAL", "")


async def test_a_missing_client_certificate_is_told(authority, local_certificate):
    """A broker that demands a certificate and gets none makes the connect fail, not hang."""
    async with _tls_server(*local_certificate, client_ca=authority.certificate) as (port, _):
        with trio.fail_after(50):
            error = await _refusal(f"amqps://127.0.0.1:{port}/?cacertfile={authority.certificate}")
    assert error.kind is ConnectErrorKind.UNREACHABLE


async def test_a_missing_authority_file_is_refused():
    """A file name that leads nowhere is told at once, as a refusal."""
    error = await _refusal("amqps://127.0.0.1:1/?cacertfile=/nowhere/ca.pem")
    assert error.kind is ConnectErrorKind.REFUSED
    assert "ENOENT" in str(error)


@pytest.mark.broker
async def test_a_real_broker_speaks_tls(authority, local_certificate):
    """A message goes to a RabbitMQ with a TLS listener and back, over amqps, through each transport."""
    certificate, key = local_certificate
    lines = {
        "cacertfile": authority.certificate,
        "certfile": certificate,
        "keyfile": key,
        "verify": "verify_none",
    }
    config = "".join(f"ssl_options.{name} = {value}\n" for name, value in lines.items())
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    node = RabbitNode(config=f"listeners.ssl.default = 127.0.0.1:{port}\n{config}")
    try:
        await trio.to_thread.run_sync(node.start)
        trusting = f"amqps://127.0.0.1:{port}/?cacertfile={authority.certificate}"
        for transport in ("native", "aio-pika"):
            async with (
                open_broker(trusting, transport=transport) as broker,
                broker.connect(OPTIONS) as connection,
            ):
                channel = await connection.open_channel(confirms=True)
                await channel.declare_queue(QueueSpec("tls", arguments={"x-queue-type": "classic"}))
                body = bytes(1_000_000)
                assert (
                    await channel.publish(Publication("", "tls", body, Properties(message_id="m"))) == Acked()
                )
                delivery = await channel.get("tls")
                assert delivery is not None
                assert delivery.body == body
                channel.ack_nowait(delivery.delivery_tag)
                await channel.flush()
                await connection.aclose()
            async with open_broker(f"amqps://127.0.0.1:{port}/", transport=transport) as distrusting:
                with pytest.raises(ConnectError, match="certificate verif") as failed:
                    async with distrusting.connect(OPTIONS):
                        pytest.fail("connected")
                assert failed.value.kind is ConnectErrorKind.UNREACHABLE
    finally:
        await trio.to_thread.run_sync(node.close)
