"""The loopback listener of a page: Anycorn's connections under Trio, each contained, the whole supervised.

No request may stop the server. A connection that fails ends alone (Anycorn 0.20.1 raises on a malformed
`HTTP2-Settings` header); a failure of the accepting loop itself is logged and the loop starts again on the
same socket. It runs in a process of its own, never in a nursery that consumes from RabbitMQ.
"""

import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Literal, cast

import trio
from anycorn import Config
from anycorn.app_wrappers import ASGIWrapper
from anycorn.tcp_server import tcp_server_handler  # pyright: ignore[reportUnknownVariableType]
from anycorn.typing import ASGIFramework, ConnectionState
from anycorn.worker_context import WorkerContext
from anyio.abc import SocketListener, SocketStream
from starlette.types import ASGIApp

from craig_mq.review.page.app import review_app
from craig_mq.review.page.guard import Guard, loopback_hosts

_LOG: Final = logging.getLogger(__name__)
_MAX_CONNECTIONS: Final = 64
_READ_TIMEOUT_S: Final = 10
_RESTART_DELAY_S: Final = 0.5

Connection = Callable[[SocketStream], Awaitable[None]]


def bind_loopback(port: int, host: Literal["127.0.0.1", "::1"] = "127.0.0.1") -> socket.socket:
    """Return a listening socket on a loopback address; port 0 picks a free one. Raises OSError if taken."""
    family = socket.AF_INET if host == "127.0.0.1" else socket.AF_INET6
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_MAX_CONNECTIONS)
    except OSError:
        listening.close()
        raise
    return listening


async def serve_until_signalled(listening: socket.socket) -> None:
    """Serve the experiment on `listening` until SIGINT or SIGTERM; closes the socket."""
    port = listening.getsockname()[1]
    app = Guard(review_app(), loopback_hosts(port))
    with listening, trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_serving, listening, contained(app))
            async for signal_number in signals:
                nursery.cancel_scope.cancel(reason=signal.Signals(signal_number).name)
                break


async def keep_serving(listening: socket.socket, connection: Connection) -> None:
    """Accept connections until cancelled, starting again after any failure of the accepting loop."""
    while True:
        try:
            with listening.dup() as duplicate:
                async with await SocketListener.from_socket(duplicate) as listener:
                    await listener.serve(connection)
        except* Exception:  # noqa: BLE001 - whatever failed, a closed listener is the worst answer
            _LOG.exception("the page's listener failed; starting it again")
        await trio.sleep(_RESTART_DELAY_S)


def contained(app: ASGIApp) -> Connection:
    """Return a connection handler whose failures, whatever a peer sends, end that connection alone."""
    config = Config()
    config.accesslog = None
    config.errorlog = _LOG
    config.include_server_header = False
    config.read_timeout = _READ_TIMEOUT_S
    wrapped = ASGIWrapper(cast("ASGIFramework", app))  # the same protocol, typed twice
    handle = cast("Connection", tcp_server_handler(wrapped, config, WorkerContext(None), ConnectionState({})))
    limit = trio.CapacityLimiter(_MAX_CONNECTIONS)

    async def connection(stream: SocketStream) -> None:
        try:
            async with limit, stream:
                await handle(stream)
        except* Exception as failures:  # noqa: BLE001 - one peer's bytes end one connection
            _LOG.warning("a connection failed: %r", failures.exceptions)
        await trio.lowlevel.checkpoint()

    return connection
