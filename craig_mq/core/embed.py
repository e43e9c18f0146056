"""The four ways an original body travels inside a capture (decisions, Size).

Verbatim JSON, base64, compressed base64, or a base64 prefix with the digest of the whole. Each
function sets exactly its own members on the record and clears the others'.
"""

from __future__ import annotations

import binascii
import hashlib
import zlib

import msgspec

from craig_mq.core.capture_format import UNSET, CaptureWire
from craig_mq.core.json_text import MAX_NESTING, nests_deeper

# {"payload":{"craig_capture":{"original_envelope": … }}}
_WRAPPER_LEVELS = 3
_JSON_WHITESPACE = b" \t\r\n"
# Level 6 is where JSON stops shrinking noticeably; 12 MiB take well under a second.
_ZLIB_LEVEL = 6


def embed_whole(wire: CaptureWire, body: bytes, *, is_envelope: bool) -> None:
    """Embed all of ``body``: as the JSON value itself where that gives every byte back, else base64."""
    _clear(wire)
    if is_envelope and survives_as_value(body):
        wire.original_envelope = msgspec.Raw(body)
    else:
        wire.original_body_b64 = _base64(body)


def embed_compressed(wire: CaptureWire, body: bytes) -> None:
    """Embed all of ``body``, compressed, with its length and sha256."""
    _clear(wire)
    wire.original_body_zlib_b64 = _base64(zlib.compress(body, _ZLIB_LEVEL))
    _measure(wire, body)


def embed_prefix(wire: CaptureWire, body: bytes, prefix_bytes: int) -> None:
    """Embed the first ``prefix_bytes`` of ``body`` and mark the capture truncated."""
    _clear(wire)
    wire.original_body_b64 = _base64(body[:prefix_bytes])
    wire.truncated = True
    _measure(wire, body)


def survives_as_value(body: bytes) -> bool:
    """Whether ``body``, a readable envelope, gives every byte back when embedded as a JSON value."""
    # A raw value is read back without the whitespace around it, and the wrapper's own levels must not
    # push a body that could be read beyond what can be (field failures BODY-06, BODY-08).
    return (
        body[0] not in _JSON_WHITESPACE
        and body[-1] not in _JSON_WHITESPACE
        and not nests_deeper(body, MAX_NESTING - _WRAPPER_LEVELS)
    )


def _measure(wire: CaptureWire, body: bytes) -> None:
    wire.body_bytes = len(body)
    wire.body_sha256 = hashlib.sha256(body).hexdigest()


def _clear(wire: CaptureWire) -> None:
    wire.original_envelope = wire.original_body_b64 = wire.original_body_zlib_b64 = UNSET
    wire.truncated = wire.body_bytes = wire.body_sha256 = UNSET


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
