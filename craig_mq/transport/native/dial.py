"""From a target to an open connection: DNS, TCP, TLS, handshake, all under one deadline."""

from __future__ import annotations

import errno
import ipaddress
import math
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Final

import attrs
import trio

from craig_mq.core.close import ConnectionClose
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.errors import ConnectError, ConnectErrorKind
from craig_mq.transport.native.events import ConnectionEnded, Event, Opened
from craig_mq.transport.native.handshake import MechanismRefused, Proposal
from craig_mq.transport.native.protocol import AmqpProtocol
from craig_mq.transport.native.stream import ByteStream, TcpStream, TlsStream
from craig_mq.transport.native.wire import ProtocolViolation
from craig_mq.transport.url import AmqpUrl

_TEMPORARY_CLOSES: Final = frozenset({320, 541, 506})
"""Closes during the handshake that pass by themselves: forced, internal error, resource error."""

_Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]


@attrs.define(frozen=True, slots=True)
class Target:
    """Where to connect and how to log in. ``context`` None means what the URL asks for."""

    url: AmqpUrl
    context: ssl.SSLContext | None
    external: bool

    def proposal(self, options: ConnectionOptions) -> Proposal:
        """Say what the handshake asks for; the SASL response in it is a secret."""
        mechanism, response = "PLAIN", f"\0{self.url.user}\0{self.url.password}"
        if self.external:
            mechanism, response = "EXTERNAL", ""
        return Proposal(mechanism, response, self.url.vhost, options.name, options.heartbeat)


class Progress:
    """Which step of dialling is under way, for the text of an expired deadline."""

    def __init__(self) -> None:
        """Begin with the name."""
        self.step = "resolving the name"


def unreachable(text: str) -> ConnectError:
    """Nobody's fault but the network's: trying again may help."""
    return ConnectError(ConnectErrorKind.UNREACHABLE, text)


def refused(text: str) -> ConnectError:
    """The broker said no: trying again helps only after somebody changed something."""
    return ConnectError(ConnectErrorKind.REFUSED, text)


async def dial(target: Target, progress: Progress, resolvers: trio.CapacityLimiter) -> ByteStream:
    """Open a byte stream to the broker. Raises ConnectError. Cancelled: nothing is left open."""
    addresses = await _resolve(target.url, resolvers)
    context = _tls_context(target)
    progress.step = "connecting"
    connected = await _connect_any(addresses)
    if context is None:
        return TcpStream(connected)
    progress.step = "the TLS handshake"
    with _closing_on_failure(connected):
        return await _start_tls(connected, context, target.url.host)


def _tls_context(target: Target) -> ssl.SSLContext | None:
    """Return the context to use, None without TLS. Raises ConnectError for files that cannot be used."""
    if not target.url.tls:
        return None
    if target.context is not None:
        return target.context
    try:
        return target.url.ssl_context()
    except OSError as error:
        raise refused(f"TLS files: {_reason(error)}") from None


async def _resolve(url: AmqpUrl, resolvers: trio.CapacityLimiter) -> list[_Address]:
    """Resolve in a thread that is abandoned on cancellation; ``resolvers`` bounds such threads.

    A numeric address needs no thread.
    """
    look_up = partial(socket.getaddrinfo, url.host, url.port, type=socket.SOCK_STREAM)
    try:
        if _is_numeric(url.host):
            found = look_up(flags=socket.AI_NUMERICHOST)
            await trio.lowlevel.checkpoint()
        else:
            found = await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=resolvers)
    except (OSError, UnicodeError) as error:
        raise unreachable(f"{url.host} cannot be resolved: {_reason(error)}") from None
    return [(int(family), address) for family, _, _, _, address in found]  # type: ignore[misc]  # SOCK_STREAM


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _connect_any(addresses: list[_Address]) -> socket.socket:
    """Connect to the first address that answers; each gets an equal share of the time left."""
    failure = unreachable("the name resolves to no address")
    for index, (family, address) in enumerate(addresses):
        left = len(addresses) - index
        seconds = max(0.0, trio.current_effective_deadline() - trio.current_time())  # none once cancelled
        share = seconds / left if left > 1 else math.inf  # the caller bounds the last one
        candidate = socket.socket(family, socket.SOCK_STREAM)
        try:
            with _closing_on_failure(candidate), trio.move_on_after(share):
                await trio.socket.from_stdlib_socket(candidate).connect(address)
                candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return candidate
            failure = unreachable(f"{address[0]} port {address[1]} does not answer")
        except OSError as error:
            failure = unreachable(f"{address[0]} port {address[1]}: {_reason(error)}")
        candidate.close()
    raise failure


async def _start_tls(connected: socket.socket, context: ssl.SSLContext, host: str) -> TlsStream:
    plain = trio.SocketStream(trio.socket.from_stdlib_socket(connected))
    secured = trio.SSLStream(plain, context, server_hostname=host, https_compatible=True)
    try:
        await secured.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError) as error:
        raise unreachable(f"TLS: {_reason(error.__cause__ or error)}") from None
    return TlsStream(secured)


@contextmanager
def _closing_on_failure(opened: socket.socket) -> Generator[None]:
    try:
        yield
    except BaseException:
        opened.close()
        raise


async def shake_hands(
    stream: ByteStream, target: Target, options: ConnectionOptions, progress: Progress
) -> tuple[AmqpProtocol, int, list[Event]]:
    """Perform the AMQP handshake. Return the protocol, the heartbeat and events that came with its end.

    Raises ConnectError; the stream is then still the caller's to close.
    """
    protocol = AmqpProtocol(target.proposal(options))
    try:
        while True:
            if protocol.outbox:
                await stream.send_all(protocol.outbox.take())
            progress.step = f"waiting for {protocol.handshake.awaited}"
            data = await stream.receive()
            if not data:
                raise unreachable(f"the broker closed the connection while {progress.step}")
            happened = protocol.receive(data)
            for index, event in enumerate(happened):
                if isinstance(event, Opened):
                    return protocol, event.heartbeat, happened[index + 1 :]
                if isinstance(event, ConnectionEnded) and event.reason is not None:
                    raise _closed_early(event.reason)
    except MechanismRefused as violation:
        raise refused(str(violation)) from None
    except ProtocolViolation as violation:
        raise unreachable(f"the peer does not speak AMQP 0-9-1 as agreed: {violation}") from None
    except trio.BrokenResourceError as error:
        raise unreachable(
            f"the connection broke while {progress.step}: {_reason(error.__cause__ or error)}"
        ) from None


def _closed_early(reason: ConnectionClose) -> ConnectError:
    text = f"{reason.code} {reason.text}"
    return unreachable(text) if reason.code in _TEMPORARY_CLOSES else refused(text)


def _reason(error: BaseException) -> str:
    """Say what an error means without the object around it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or type(error).__name__)
    if isinstance(error, OSError):
        if error.errno is not None and error.errno in errno.errorcode:
            return f"{errno.errorcode[error.errno]} ({error.strerror or 'no text'})"
        return error.strerror or type(error).__name__
    return type(error).__name__
