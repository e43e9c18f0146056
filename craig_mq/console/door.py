"""Who may ask: our own page, with this process's token, in small requests; anything else is refused.

It stands behind the review's ``Guard``, which checks Host and header sizes and sets the security headers.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final

import trio
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from craig_mq.console.asked import MAX_BODY_BYTES, AskSession, decode
from craig_mq.console.refused import Refused

SESSION: Final = "/api/session"
_OPEN: Final = ("/", "/favicon.ico")
_ASSETS: Final = "/assets/"
_BODY_TIMEOUT_S: Final = 10.0


class Door:
    """ASGI wrapper: own origin, JSON bodies of at most 64 KiB, and a session cookie for everything with data.

    ``token`` is what the printed address carries in its fragment; one POST exchanges it for the cookie.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], port: int) -> None:
        self._app = app
        self._origins = frozenset(f"http://{host}" for host in hosts)
        self._cookie = f"craig_mq_console_{port}"
        self._session = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _Headers(scope)
        unsafe = scope["method"] == "POST"
        refusal = self._foreign(headers, unsafe=unsafe) or self._unknown(headers, scope["path"])
        if refusal is not None:
            await refusal(scope, receive, send)
        elif not unsafe:
            await self._app(scope, receive, send)
        else:
            await self._post(scope, receive, send)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read(receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
        elif scope["path"] == SESSION:
            await self._exchange(body)(scope, receive, send)
        else:
            await self._app(scope, _replay(body, receive), send)

    def _foreign(self, headers: _Headers, *, unsafe: bool) -> Response | None:
        """Whether another site asks: by fetch metadata where the browser sends it, else by Origin."""
        site, origin = headers.one("sec-fetch-site"), headers.one("origin")
        if origin is not None and origin not in self._origins:
            return _refuse(403, "the request comes from another origin")
        if unsafe and site != "same-origin" and (site is not None or origin is None):
            return _refuse(403, "the request comes from another origin")
        if unsafe and headers.one("content-type") != "application/json":
            return _refuse(415, "the request must be application/json")
        return None

    def _unknown(self, headers: _Headers, path: str) -> Response | None:
        """Whether it needs the session cookie and has none."""
        if path in _OPEN or path == SESSION or path.startswith(_ASSETS):
            return None
        site = headers.one("sec-fetch-site")
        if site is not None and site not in {"same-origin", "none"}:
            return _refuse(403, "the request comes from another origin")
        if not hmac.compare_digest(self._shown(headers), self._session.encode()):
            return _refuse(401, "open the address that craig-mq console printed: it carries the token")
        return None

    def _shown(self, headers: _Headers) -> bytes:
        try:
            cookies = SimpleCookie(headers.one("cookie") or "")
        except CookieError:
            return b""
        morsel = cookies.get(self._cookie)
        return b"" if morsel is None else morsel.value.encode("utf-8", "replace")

    def _exchange(self, body: bytes) -> Response:
        """A cookie for the token; the cookie's name carries the port, since ports share cookies."""
        try:
            shown = decode(body, AskSession).token.encode("utf-8", "replace")
        except Refused as refused:
            return _refuse(refused.status, str(refused))
        if not hmac.compare_digest(shown, self.token.encode()):
            return _refuse(403, "that is not this console's token: open the address it printed")
        answer = JSONResponse({})
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer


class _Headers:
    """A request's headers; one given twice counts as foreign rubbish, not as the first of them."""

    def __init__(self, scope: Scope) -> None:
        self._found: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def one(self, name: str) -> str | None:
        """Its only value, None if absent, and an impossible value where there are several."""
        values = self._found.get(name)
        return None if values is None else values[0] if len(values) == 1 else "\0"


async def _read(receive: Receive) -> bytes | Response:
    """The whole body, or the refusal of one that is too long or too slow."""
    body = b""
    with trio.move_on_after(_BODY_TIMEOUT_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return _refuse(400, "the request ended early")
            piece: bytes = message.get("body", b"")
            body += piece
            if len(body) > MAX_BODY_BYTES:
                return _refuse(413, f"the request is over {MAX_BODY_BYTES} bytes")
            if not message.get("more_body", False):
                return body
    return _refuse(408, "the request came too slowly")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receiver that gives the body in one piece, then what the server says."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        if left:
            await trio.lowlevel.checkpoint()
            return left.pop()
        return await receive()

    return replayed


def _refuse(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)
