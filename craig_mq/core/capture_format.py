"""The capture, version 1: wire records and closed sets (decisions, the formats).

A capture is an event envelope whose payload is ``{"craig_capture": {…}}``. Writing and reading use
the same records, so a capture of ours re-encodes to the bytes it was read from.
"""

from __future__ import annotations

import enum
import re
from typing import Annotated, Literal

import msgspec

MAX_CAPTURE_BYTES = 12 * 1024 * 1024
MAX_BODY_BYTES = 128 * 1024 * 1024
MAX_U32 = 2**32 - 1

U32 = Annotated[int, msgspec.Meta(ge=0, le=MAX_U32)]
Length = Annotated[int, msgspec.Meta(ge=0, le=MAX_BODY_BYTES)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
UNSET = msgspec.UNSET
Unset = msgspec.UnsetType

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class CaptureKind(enum.Enum):
    """Where a capture was published to."""

    PARKED = "parked"
    QUARANTINED = "quarantined"

    # Members are equal only to themselves; Enum's own hash is a Python call for every capture.
    __hash__ = object.__hash__


class QuarantineReason(enum.Enum):
    """Why a delivery is quarantined; a closed set, also of metric label values."""

    PERMANENT = "permanent"
    MALFORMED = "malformed"
    NONCANONICAL_ROUTE = "noncanonical_route"
    PARK_CAP_EXHAUSTED = "park_cap_exhausted"
    OVERSIZE = "oversize"

    __hash__ = object.__hash__


DispositionName = Literal["transient_retry", "transient_park", "permanent"]
ReasonName = Literal["permanent", "malformed", "noncanonical_route", "park_cap_exhausted", "oversize"]


class LastErrorWire(msgspec.Struct, forbid_unknown_fields=True):
    """``last_error``."""

    type: str
    text: str
    sha256: Sha256


class CaptureWire(msgspec.Struct, forbid_unknown_fields=True):
    """The object under ``craig_capture``, members in the order they are written."""

    v: Literal[1]
    kind: Literal["parked", "quarantined"]
    capture_id: str
    original_queue: str
    original_routing_key: str
    park_count: U32
    total_parks: U32
    redrive_count: U32
    attempts: U32
    original_properties: msgspec.Raw
    occurrence_token: str | Unset = UNSET
    parked_at: str | Unset = UNSET
    quarantined_at: str | Unset = UNSET
    disposition: DispositionName | Unset = UNSET
    reason: ReasonName | Unset = UNSET
    last_error: LastErrorWire | Unset = UNSET
    original_envelope: msgspec.Raw | Unset = UNSET
    original_body_b64: str | Unset = UNSET
    original_body_zlib_b64: str | Unset = UNSET
    truncated: Literal[True] | Unset = UNSET
    body_bytes: Length | Unset = UNSET
    body_sha256: Sha256 | Unset = UNSET


class PayloadWire(msgspec.Struct, forbid_unknown_fields=True):
    """The payload of a capture; the object stays raw until it is checked."""

    craig_capture: msgspec.Raw


class OuterWire(msgspec.Struct):
    """The outer envelope of a capture as it is written."""

    id: str
    source_service: str
    event_type: str
    occurred_at: str
    payload: PayloadWire


def is_capture_id(text: str) -> bool:
    """Whether ``text`` is a lower-case hyphenated UUIDv7."""
    return _UUID7.fullmatch(text) is not None


def uuid7(unix_ms: int, random_bits: int) -> str:
    """Format a UUIDv7 from 48 bits of milliseconds since the Unix epoch and 74 random bits."""
    high = (unix_ms & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | random_bits >> 62 & 0xFFF
    low = 0b10 << 62 | random_bits & (1 << 62) - 1
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
