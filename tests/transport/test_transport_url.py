"""AMQP URLs: strict parsing, and no way for a password to get out."""

from __future__ import annotations

import traceback
from typing import cast
from urllib.parse import quote

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.transport.opening import TransportName, UnknownTransport, open_broker
from craig_mq.transport.url import AmqpUrl, BrokerUrlError, parse_amqp_url

_SECRET = "s3cr3t-#/@:%"
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


def test_every_part_has_its_default() -> None:
    """A URL of only a scheme and host means guest at the scheme's port in the default vhost."""
    assert parse_amqp_url("amqp://h") == AmqpUrl(
        tls=False, host="h", port=5672, user="guest", password="guest", vhost="/"
    )
    assert parse_amqp_url("amqps://h").port == 5671


@pytest.mark.parametrize("path", ["", "/", "//", "/%2F"])
def test_the_default_vhost_has_four_spellings(path: str) -> None:
    """No path, an empty one, a bare slash and an encoded one all name the vhost ``/``."""
    assert parse_amqp_url(f"amqp://h{path}").vhost == "/"


@given(user=_TEXT, password=_TEXT, vhost=_TEXT)
def test_percent_encoded_parts_come_back_exactly(user: str, password: str, vhost: str) -> None:
    """Whatever is percent-encoded into login and vhost comes out as it was."""
    url = f"amqp://{quote(user, safe='')}:{quote(password, safe='')}@h:1/{quote(vhost, safe='')}"
    parsed = parse_amqp_url(url)
    assert (parsed.user, parsed.password, parsed.vhost) == (user, password, vhost)


@given(user=_TEXT, password=_TEXT, vhost=_TEXT)
def test_the_display_url_parses_to_the_same_place(user: str, password: str, vhost: str) -> None:
    """The display URL names the same host, port, user and vhost, and has an empty password."""
    url = AmqpUrl(tls=True, host="::1", port=5, user=user, password=password, vhost=vhost)
    assert parse_amqp_url(url.display_url) == attrs.evolve(url, password="")


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        (f"amqp://u:{_SECRET}@h/v", "%23"),
        ("amqp://u:s3cr3t/x@h/v", "%2F"),
        ("amqp://u:1/s3cr3t@h/v", "%2F"),
        ("amqp://u:s3cr3t@x@h/v", "%40"),
        ("amqp://u:s3cr3t:x@h/v", "%3A"),
        ("amqp://u:s3cr3t%@h/v", "%25"),
        ("amqp://u:s3cr3t%zz@h/v", "%25"),
        ("amqp://u:s3cr3t%ff@h/v", "UTF-8"),
        ("amqp://u:s3cr3t x@h/v", "percent-encode"),
        ("amqp://u:s3cr3t@h:99999/v", "65535"),
        ("amqp://u:s3cr3t@h:0/v", "65535"),
        ("amqp://u:s3cr3t@h:port/v", "65535"),
        ("amqp://u:s3cr3t@[::1/v", "malformed"),
        ("amqp://u:s3cr3t@/v", "no host"),
        ("http://u:s3cr3t@h/v", "amqps://"),
        ("amqps://u:p@h/v?s3cr3t=1", "cacertfile"),
        ("amqp://u:p@h/v?cacertfile=s3cr3t", "amqps://"),
        ("amqps://u:p@h/v?keyfile=s3cr3t", "certfile"),
        ("amqp://u:p@h/s3cr3t/x", "%2F"),
    ],
)
def test_a_malformed_url_is_refused_without_quoting_it(url: str, hint: str) -> None:
    """PERM-05: a refusal says what to change; its text, chain and locals never hold the secret."""
    with pytest.raises(BrokerUrlError) as caught:
        parse_amqp_url(url)
    assert hint in str(caught.value)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "s3cr3t" not in f"{error!r}"
    inner = traceback.TracebackException.from_exception(error, capture_locals=True).stack[-1]
    assert "s3cr3t" not in str(inner.locals)


@pytest.mark.parametrize("url", [None, b"amqp://u:s3cr3t@h/v", 5672])
def test_a_broker_url_that_is_no_text_is_refused(url: object) -> None:
    """What is no str is a BrokerUrlError at once that names its type, not its value."""
    with pytest.raises(BrokerUrlError, match=f"must be a str, not {type(url).__name__}") as caught:
        open_broker(cast("str", url))
    assert "s3cr3t" not in str(caught.value)


def test_a_transport_that_there_is_not_is_refused() -> None:
    """An unknown transport is an UnknownTransport at once, which names the known ones."""
    for url in ("amqp://u:p@h/v", "memory://"):
        with pytest.raises(UnknownTransport, match="native, aio-pika"):
            open_broker(url, transport=cast("TransportName", "pika"))


def test_a_parsed_url_never_shows_its_password() -> None:
    """PERM-05: neither ``repr`` nor ``str`` nor the display URL of a parsed URL hold the password."""
    encoded = quote(_SECRET, safe="")
    parsed = parse_amqp_url(f"amqp://u:{encoded}@h/v")
    assert parsed.password == _SECRET
    for shown in (repr(parsed), str(parsed), parsed.display_url):
        assert _SECRET not in shown
        assert encoded not in shown


@pytest.mark.parametrize(
    ("url", "transport"), [("amqp://app:s3cr3t@h", "telnet"), (b"amqp://app:s3cr3t@h", "native")]
)
def test_no_frame_of_a_refusal_holds_the_url(url: object, transport: str) -> None:
    """A traceback that shows the local variables of open_broker shows no password."""
    with pytest.raises((UnknownTransport, BrokerUrlError)) as refused:
        open_broker(cast("str", url), transport=cast("TransportName", transport))
    shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
    frame = next(frame for frame in shown.stack if frame.name == "open_broker")
    assert frame.locals
    assert "s3cr3t" not in str(frame.locals)
