"""A page's outer door: which requests come in, and which headers go out with every answer.

A browser on this machine can be made to send requests here by any site that rebinds its name to a loopback
address; such requests carry that site's Host, so an allow-list refuses them (421). No CORS header is sent.
"""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_MAX_HEADER_BYTES: Final = 16 * 1024
READING: Final = ("GET", "HEAD")


def loopback_hosts(port: int) -> frozenset[str]:
    """Return the Host values under which a listener on this loopback port may be asked."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


class Guard:
    """ASGI wrapper: no foreign host, other method or oversize header; every answer carries `HEADERS`."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], methods: tuple[str, ...] = READING) -> None:
        self._app = app
        self._hosts = hosts
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; a websocket is closed before it opens."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            await self._choose(scope)(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, send)

    def _choose(self, scope: Scope) -> ASGIApp:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MAX_HEADER_BYTES:
            return PlainTextResponse("The request's headers are too large.\n", 431)
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This server answers on its loopback address only.\n", 421)
        if scope["method"] not in self._methods:
            allowed = ", ".join(self._methods)
            return PlainTextResponse(f"Only {allowed} are answered.\n", 405, {"Allow": allowed})
        return self._app


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return guarded
