"""The last error of a delivery, bounded for a capture (ADR-059 §size safety; field failure BODY-09)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import cast

import msgspec

from craig_mq.core.disposition import DlqError

MAX_ERROR_TEXT_BYTES = 2_048
MAX_ERROR_TYPE_BYTES = 256
_REMEMBERED = 64


class LastError(msgspec.Struct, frozen=True, gc=False):
    """``text`` is at most 2 KiB of valid UTF-8; ``sha256`` is over the UTF-8 of the full text."""

    type: str
    text: str
    sha256: str


def describe_error(error: BaseException) -> LastError:
    """Describe what a handler raised; of a DlqError, its source. Never raises for a hostile ``str``."""
    subject: object = error
    while isinstance(subject, DlqError):
        subject = cast("DlqError[object]", subject).source
    full = _text_of(subject).encode("utf-8", "backslashreplace")
    describe = _describe if len(full) <= MAX_ERROR_TEXT_BYTES else _describe.__wrapped__
    kind = type(subject)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return describe(name, full)


@lru_cache(_REMEMBERED)
def _describe(name: str, full: bytes) -> LastError:
    # In an outage the same error comes thousands of times.
    return LastError(
        cut_text(name.encode("utf-8", "backslashreplace"), MAX_ERROR_TYPE_BYTES),
        cut_text(full, MAX_ERROR_TEXT_BYTES),
        hashlib.sha256(full).hexdigest(),
    )


def cut_text(text: bytes, limit_bytes: int) -> str:
    """Cut valid UTF-8 to at most ``limit_bytes`` at a character boundary."""
    # Only the last character can be incomplete, and "ignore" drops exactly that.
    return text[:limit_bytes].decode("utf-8", "ignore")


def cut_routing_key(key: str) -> str:
    """Cut a routing key to the wire's 255 bytes at a character boundary (decisions, 19)."""
    return cut_text(key.encode("utf-8", "backslashreplace"), 255)


def _text_of(subject: object) -> str:
    try:
        return str(subject)
    except Exception as failure:  # noqa: BLE001 -- a broken __str__ must not lose the delivery
        return f"<str() of {type(subject).__name__} raised {type(failure).__name__}>"
