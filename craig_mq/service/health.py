"""``/metrics``, ``/healthz``, ``/readyz`` and ``/status`` over prometheus_client's own WSGI server.

It runs in a daemon thread and reads only what the loop left for it: whatever happens to it, no arm
of the subscription notices.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, cast
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import (
    CollectorRegistry,
    make_wsgi_app,  # pyright: ignore[reportUnknownVariableType] - annotated upstream as Callable
)
from prometheus_client.exposition import ThreadingWSGIServer

from craig_mq.service.status import Status

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


_POLL_S = 0.05


class AddressInUse(Exception):
    """The metrics address cannot be bound; the text says which and what to do."""


class _QuietHandler(WSGIRequestHandler):
    """No access log: scrapes are not news."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write nothing."""


def health_app(registry: CollectorRegistry, read_status: Callable[[], Status | None]) -> WSGIApplication:
    """Build the WSGI app. ``read_status`` returns None when the loop is stuck or gone.

    ``/healthz`` is 200 while the loop ticks; ``/readyz`` is 200 while it ticks and both sessions
    consume; both are 503 otherwise. ``/status`` is read-only JSON. Anything else is 404.
    """
    metrics = cast("WSGIApplication", make_wsgi_app(registry))

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            return metrics(environ, start_response)
        status = read_status()
        match path:
            case "/healthz":
                return _text(start_response, ok=status is not None, body="alive" if status else "loop stuck")
            case "/readyz":
                ready = status is not None and status.ready
                return _text(start_response, ok=ready, body="ready" if ready else "not ready")
            case "/status" if status is not None:
                return _respond(start_response, "200 OK", "application/json", json.dumps(status.document))
            case "/status":
                return _text(start_response, ok=False, body="loop stuck")
            case _:
                return _respond(start_response, "404 Not Found", "text/plain; charset=utf-8", "not found\n")

    return app


def _text(start_response: StartResponse, *, ok: bool, body: str) -> Iterable[bytes]:
    line = "200 OK" if ok else "503 Service Unavailable"
    return _respond(start_response, line, "text/plain; charset=utf-8", body + "\n")


def _respond(start_response: StartResponse, line: str, content_type: str, body: str) -> Iterable[bytes]:
    start_response(line, [("Content-Type", content_type), ("Cache-Control", "no-store")])
    return [body.encode()]


@contextlib.contextmanager
def serve_health(host: str, port: int, app: WSGIApplication) -> Generator[int]:
    """Serve ``app`` in a daemon thread for the length of the block; yields the port bound.

    Port 0 picks a free one. Raises AddressInUse when the address cannot be bound.
    """
    try:
        server = make_server(host, port, app, ThreadingWSGIServer, handler_class=_QuietHandler)
    except OSError as error:
        raise AddressInUse(
            f"cannot serve metrics on {host}:{port}: {error.strerror}; choose another --metrics"
        ) from error
    thread = threading.Thread(
        target=server.serve_forever, args=(_POLL_S,), name="craig-mq metrics", daemon=True
    )
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
