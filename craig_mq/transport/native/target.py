"""Where to connect, read from an AMQP URL. Nothing here ever shows the password."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import attrs

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_TLS_PARAMETERS: Final = {
    "cacertfile": "ca_file",
    "certfile": "cert_file",
    "keyfile": "key_file",
    "server_name_indication": "server_name",
}


@attrs.define(frozen=True, slots=True)
class TlsOptions:
    """How to speak TLS: file names in PEM form; ``ca_file`` None means the system's authorities.

    ``server_name`` is what the broker's certificate must name, by default the host of the URL.
    ``verify`` False accepts any certificate, and is for tests only.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = attrs.field(default=None, repr=False)
    server_name: str | None = None
    verify: bool = True


@attrs.define(frozen=True, slots=True)
class Target:
    """A parsed URL. ``tls`` is None for plain TCP; ``mechanism`` is ``PLAIN`` or ``EXTERNAL``."""

    host: str
    port: int
    vhost: str
    user: str
    password: str = attrs.field(repr=False)
    mechanism: str = "PLAIN"
    tls: TlsOptions | None = None

    @property
    def display_url(self) -> str:
        """The URL without its password and parameters."""
        scheme = "amqp" if self.tls is None else "amqps"
        host = f"[{self.host}]" if ":" in self.host else self.host
        vhost = "" if self.vhost == "/" else quote(self.vhost, safe="")
        return f"{scheme}://{quote(self.user)}@{host}:{self.port}/{vhost}"

    @property
    def sasl_response(self) -> str:
        """The SASL response: a secret."""
        return "" if self.mechanism == "EXTERNAL" else f"\0{self.user}\0{self.password}"


def parse_target(url: str, tls: TlsOptions | None = None) -> Target:
    """Parse ``amqp://`` or ``amqps://``; ``tls`` completes what the URL's parameters do not say.

    Parameters are RabbitMQ's own: cacertfile, certfile, keyfile, server_name_indication, verify
    (verify_peer, verify_none) and auth_mechanism (plain, external). Raises ValueError whose text
    holds no part of the URL (field failure PERM-05).
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the AMQP URL is malformed: percent-encode reserved characters") from None
    if parts.scheme not in _PORTS:
        raise ValueError("the AMQP URL must begin with amqp:// or amqps://")
    if parts.fragment or not parts.hostname:
        raise ValueError("the AMQP URL is malformed: percent-encode reserved characters in user and password")
    options, mechanism = _parameters(parts.query, tls or TlsOptions())
    return Target(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        vhost=_vhost(parts.path),
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password if parts.password is not None else "guest"),
        mechanism=mechanism,
        tls=options if parts.scheme == "amqps" else None,
    )


def _vhost(path: str) -> str:
    """Return the vhost: ``/`` for an empty path, else the one path segment, decoded."""
    if path in {"", "/"}:
        return "/"
    if "/" in path[1:]:
        raise ValueError("the AMQP URL is malformed: a slash inside the vhost is written %2F")
    return unquote(path[1:])


def _parameters(query: str, tls: TlsOptions) -> tuple[TlsOptions, str]:
    mechanism = "PLAIN"
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _TLS_PARAMETERS:
            tls = attrs.evolve(tls, **{_TLS_PARAMETERS[name]: value})  # type: ignore[arg-type]  # text fields only
        elif name == "verify" and value in {"verify_peer", "verify_none"}:
            tls = attrs.evolve(tls, verify=value == "verify_peer")
        elif name == "auth_mechanism" and value.upper() in {"PLAIN", "EXTERNAL"}:
            mechanism = value.upper()
        else:
            raise ValueError("the AMQP URL has a parameter that is unknown or has an unknown value")
    return tls, mechanism
