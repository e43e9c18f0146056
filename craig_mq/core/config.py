"""What can be configured: frozen, validated at construction, every refusal typed (ADR-059 §config).

A duration is a ``timedelta``; a number is taken as seconds. The tables below are validator,
defaults and documentation at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Literal, TypeAlias, cast

import attrs

from craig_mq.core.config_fields import duration, duration_text, one_of, optional_duration, whole, within
from craig_mq.core.errors import DlqConfigError

MAX_NAME_BYTES = 255
PARKING_SUFFIX = ".parking"
QUARANTINE_SUFFIX = ".quarantine"

ReturnRoute: TypeAlias = Literal["exchange", "queue"]
QueueType: TypeAlias = Literal["classic", "quorum"]
DeadLetterBy: TypeAlias = Literal["client", "broker"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@attrs.define(frozen=True, slots=True)
class DlqRetryConfig:
    """The bounds of retrying (ADR-059 §config). Raises DlqConfigError for a value out of range.

    ``parking_ttl``: how long a parked message waits, 1 s to 24 h. ``park_cap``: parks before
    quarantine, 1..100. ``handler_attempts``: invocations in all per delivery, 1..10.
    ``depth_sample_interval``: 1 s to 1 h. The defaults ride out about two hours of outage.
    """

    parking_ttl: timedelta = attrs.field(
        default=timedelta(seconds=600), converter=duration, validator=within(1, 86_400)
    )
    park_cap: int = attrs.field(default=12, validator=whole(1, 100))
    handler_attempts: int = attrs.field(default=3, validator=whole(1, 10))
    depth_sample_interval: timedelta = attrs.field(
        default=timedelta(seconds=30), converter=duration, validator=within(1, 3_600)
    )


@attrs.define(frozen=True, slots=True)
class SubscriptionConfig:
    """How an ordinary queue is handled (decisions, 19). Raises DlqConfigError for a value out of range.

    ``handler_attempts``: invocations in all per delivery, 1..10; only ``DlqError(TRANSIENT_RETRY)`` is
    tried again in the session, whatever else fails climbs the ladder at once. ``dead_letter_by``:
    "client" publishes the dead letter confirmed, "broker" leaves it to the queue's
    x-dead-letter-exchange, which is at most once.
    """

    handler_attempts: int = attrs.field(default=1, validator=whole(1, 10))
    dead_letter_by: DeadLetterBy = attrs.field(default="client", validator=one_of("client", "broker"))


@attrs.define(frozen=True, slots=True)
class SubscriptionOptions:
    """How a subscription runs. Raises DlqConfigError for a value out of range.

    ``prefetch`` deliveries are held at most, ``concurrency`` handlers run at once. A handler that
    takes longer than ``handler_timeout`` counts as TRANSIENT_PARK. Every wait on a peer has its own
    bound. ``parking_hold_limit`` plus ``confirm_timeout`` stay below the broker's consumer_timeout
    (30 min) whatever their values. ``return_route`` "queue" returns past the exchange (decisions, 11).
    """

    prefetch: int = attrs.field(default=32, validator=whole(1, 65_535))
    concurrency: int = attrs.field(default=16, validator=whole(1, 65_535))
    handler_timeout: timedelta = attrs.field(
        default=timedelta(seconds=300), converter=duration, validator=within(0.001, 1_500)
    )
    drain_timeout: timedelta = attrs.field(
        default=timedelta(seconds=10), converter=duration, validator=within(0, 3_600)
    )
    start_timeout: timedelta | None = attrs.field(
        default=timedelta(seconds=30),
        converter=optional_duration,
        validator=within(0.001, 86_400, or_none=True),
    )
    connect_timeout: timedelta = attrs.field(
        default=timedelta(seconds=10), converter=duration, validator=within(0.001, 300)
    )
    rpc_timeout: timedelta = attrs.field(
        default=timedelta(seconds=10), converter=duration, validator=within(0.001, 300)
    )
    confirm_timeout: timedelta = attrs.field(
        default=timedelta(seconds=30), converter=duration, validator=within(0.001, 600)
    )
    settle_timeout: timedelta = attrs.field(
        default=timedelta(seconds=5), converter=duration, validator=within(0.001, 60)
    )
    abort_grace: timedelta = attrs.field(
        default=timedelta(seconds=1), converter=duration, validator=within(0, 60)
    )
    heartbeat: timedelta = attrs.field(
        default=timedelta(seconds=15), converter=duration, validator=within(1, 3_600)
    )
    parking_hold_limit: timedelta = attrs.field(
        default=timedelta(seconds=20), converter=duration, validator=within(0.001, 600)
    )
    return_route: ReturnRoute = attrs.field(default="exchange", validator=one_of("exchange", "queue"))
    queue_type: QueueType = attrs.field(default="classic", validator=one_of("classic", "quorum"))
    backoff_base: timedelta = attrs.field(
        default=timedelta(seconds=1), converter=duration, validator=within(0.001, 300)
    )
    backoff_cap: timedelta = attrs.field(
        default=timedelta(seconds=30), converter=duration, validator=within(0.001, 3_600)
    )
    stable_after: timedelta = attrs.field(
        default=timedelta(seconds=10), converter=duration, validator=within(0, 3_600)
    )

    def __attrs_post_init__(self) -> None:
        """Check what two fields mean together."""
        if self.backoff_cap < self.backoff_base:
            allowed = f"at least backoff_base ({duration_text(self.backoff_base)})"
            raise DlqConfigError("backoff_cap", self.backoff_cap, allowed)


def validate_names(queue: str, binding_keys: Sequence[str], return_route: ReturnRoute = "exchange") -> None:
    """Check all names of a subscription before anything is dialled (field failure NAME-01).

    Lengths count UTF-8 bytes, the wire's unit, and the derived ``.parking`` and ``.quarantine`` names
    count too. Raises DlqConfigError naming the field, the name and its length.
    """
    validate_queue(queue, binding_keys)
    for suffix in (PARKING_SUFFIX, QUARANTINE_SUFFIX):
        _require_length(f"queue + {suffix!r}", queue + suffix)
    if not binding_keys and return_route == "exchange":
        raise DlqConfigError("binding_keys", binding_keys, "at least one key when returns go by the exchange")


def validate_kinds(**settings: tuple[object, type]) -> None:
    """Check that each setting is of its kind. Raises DlqConfigError."""
    for field, (value, kind) in settings.items():
        if not isinstance(value, kind):
            raise DlqConfigError(field, value, f"a {kind.__name__}")


def validate_queue(queue: str, binding_keys: Sequence[str]) -> None:
    """Check the names of one queue and its bindings, as ``validate_names`` does."""
    _require_name("queue", queue)
    _require_length("queue", queue)
    # An iterator would be empty after this look at it, and nothing would be bound.
    given = cast("object", binding_keys)
    if isinstance(given, str | bytes) or not isinstance(given, Collection):
        raise DlqConfigError("binding_keys", binding_keys, "a sequence of keys, not one string")
    for key in binding_keys:
        validate_routing_key("binding_keys", key)


def validate_exchange(exchange: str) -> None:
    """Check an exchange's name; empty is the default exchange. Raises DlqConfigError."""
    _require_text("exchange", exchange)
    _require_length("exchange", exchange)


def _require_name(field: str, name: str) -> None:
    _require_text(field, name)
    if not name:
        raise DlqConfigError(field, name, "a non-empty name")
    if name.startswith("amq."):
        raise DlqConfigError(field, name, "a name outside the broker's own amq.*")


def _require_text(field: str, text: object) -> None:
    if not isinstance(text, str) or _CONTROL.search(text):
        raise DlqConfigError(field, text, "text without control characters")


def validate_routing_key(field: str, key: str) -> None:
    """Check a routing key against the wire's 255 bytes of UTF-8. Raises DlqConfigError."""
    _require_text(field, key)
    _require_length(field, key)


def _require_length(field: str, name: str) -> None:
    length = len(name.encode("utf-8", "surrogatepass"))
    if length > MAX_NAME_BYTES or not _is_unicode(name):
        allowed = f"valid UTF-8 of at most {MAX_NAME_BYTES} bytes ({name!r} has {length})"
        raise DlqConfigError(field, name, allowed)


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
