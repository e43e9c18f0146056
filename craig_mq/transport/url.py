"""AMQP URLs: parsed strictly, and never able to show the password (field failure PERM-05).

``amqp[s]://user:password@host:port/vhost?cacertfile=…&certfile=…&keyfile=…``; every part may be
percent-encoded, and what a URL reserves must be. No error below quotes any part of the URL: a
malformed one has its password in an unexpected place.
"""

from __future__ import annotations

import re
import ssl
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import attrs

_DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}
_DEFAULT_LOGIN = "guest:guest"
_MAX_PORT = 65_535
_OPTIONS = ("cacertfile", "certfile", "keyfile")
_ENCODED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")


class BrokerUrlError(ValueError):
    """The URL is not one a broker can be reached at; the text says what to change, never its value."""


@attrs.define(frozen=True, slots=True, kw_only=True)
class AmqpUrl:
    """Where a broker is and how to log in. ``repr`` and ``str`` leave the password out."""

    tls: bool
    host: str
    port: int
    user: str
    password: str = attrs.field(repr=False)
    vhost: str = "/"
    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    @property
    def display_url(self) -> str:
        """The URL without password and options: fit for logs, metrics and errors."""
        scheme = "amqps" if self.tls else "amqp"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{quote(self.user, safe='')}@{host}:{self.port}/{quote(self.vhost, safe='')}"

    def __str__(self) -> str:
        return self.display_url

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context the URL asks for: verifying, always; None without TLS.

        Raises OSError or ssl.SSLError for files that cannot be used.
        """
        if not self.tls:
            return None
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.cacertfile)
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        return context


def parse_amqp_url(text: str) -> AmqpUrl:
    """Parse an AMQP URL; raises BrokerUrlError, which holds no part of it.

    Without login it is ``guest:guest``, without port the scheme's, without vhost ``/``.
    """
    problem = ""
    try:
        return _parse(text)
    except BrokerUrlError as error:
        problem = str(error)
    del text  # raised afresh, so that a traceback showing local variables shows no password either
    raise BrokerUrlError(problem)


def _parse(text: str) -> AmqpUrl:
    if _UNPRINTABLE.search(text):
        raise BrokerUrlError(
            "the broker URL holds a space, a control character or no UTF-8: percent-encode it"
        )
    if "#" in text:
        raise BrokerUrlError("the broker URL holds a '#': in a user name or password write %23")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise BrokerUrlError("the broker URL's host is malformed") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise BrokerUrlError("the broker URL must start with amqp:// or amqps://")
    user, password = _login(parts)
    host, port = _address(parts)
    return AmqpUrl(
        tls=parts.scheme == "amqps",
        host=host,
        port=port,
        user=user,
        password=password,
        vhost=_vhost(parts),
        **_options(parts),
    )


def _login(parts: SplitResult) -> tuple[str, str]:
    login, at, _ = parts.netloc.rpartition("@")
    user, _, password = (login if at else _DEFAULT_LOGIN).partition(":")
    if "@" in login or ":" in password:
        raise BrokerUrlError("the broker URL's login holds a bare '@' or ':': write %40 or %3A")
    return _decoded(user, "user name"), _decoded(password, "password")


def _address(parts: SplitResult) -> tuple[str, int]:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is None:
        port = _DEFAULT_PORTS[parts.scheme]
    if not 1 <= port <= _MAX_PORT:
        raise BrokerUrlError(
            "the broker URL's port is not a number from 1 to 65535 "
            "(a '/' or '?' in a user name or password must be written %2F or %3F)"
        )
    if not parts.hostname:
        raise BrokerUrlError("the broker URL names no host")
    return parts.hostname, port


def _vhost(parts: SplitResult) -> str:
    path = parts.path.removeprefix("/")
    if path in ("", "/"):
        return "/"
    if "/" in path or "@" in path:
        raise BrokerUrlError("the broker URL's vhost holds a bare '/' or '@': write %2F or %40")
    return _decoded(path, "vhost")


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not options.keys() <= set(_OPTIONS):
        raise BrokerUrlError(f"the broker URL has an unknown option; known are {', '.join(_OPTIONS)}")
    if options and parts.scheme != "amqps":
        raise BrokerUrlError("the broker URL has TLS options without amqps://")
    if "keyfile" in options and "certfile" not in options:
        raise BrokerUrlError("the broker URL has a keyfile without a certfile")
    return options


def _decoded(part: str, name: str) -> str:
    if not _ENCODED.fullmatch(part):
        raise BrokerUrlError(f"the broker URL's {name} holds a bare '%': write %25")
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise BrokerUrlError(f"the broker URL's {name} is not UTF-8 when percent-decoded") from None
