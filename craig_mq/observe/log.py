"""Events as structured log records: a message, a level, and fields; never a body, never a credential.

Records go to the logger ``craig_mq`` with their fields in ``record.fields``. ``KeyValueFormatter`` and
``JsonFormatter`` render them; a user's own formatter can read the same attribute.
"""

from __future__ import annotations

import datetime as dt
import json
import logging

import attrs

from craig_mq.observe import events as ev

LOGGER = logging.getLogger("craig_mq")

# What an operator must act on is ERROR (ADR-059 §settlement, §quarantine), what they should know of
# is WARNING, the life of a subscription is INFO; each single delivery is DEBUG.
_LEVELS: dict[type[ev.Event], tuple[int, str]] = {
    ev.SessionUp: (logging.INFO, "session consuming"),
    ev.SessionRefused: (logging.ERROR, "the broker refuses the session, somebody must change something"),
    ev.SessionDown: (logging.WARNING, "session ended"),
    ev.BackoffChanged: (logging.INFO, "next session waits"),
    ev.SettlementFailure: (logging.ERROR, "settlement failed, nothing was acked"),
    ev.HandlerFinished: (logging.DEBUG, "handler finished"),
    ev.DeliveryFinished: (logging.DEBUG, "delivery finished"),
    ev.Parked: (logging.INFO, "parked"),
    ev.ParkedReturned: (logging.INFO, "parked message returned"),
    ev.Quarantined: (logging.ERROR, "quarantined"),
    ev.Redriven: (logging.INFO, "redriven"),
    ev.EventFinished: (logging.DEBUG, "event finished"),
    ev.DeadLettered: (logging.WARNING, "dead-lettered"),
    ev.DuplicateAbsorbed: (logging.INFO, "redelivery absorbed without a second copy"),
    ev.Undecodable: (logging.ERROR, "properties or headers could not be decoded"),
    ev.DepthSampled: (logging.DEBUG, "depth sampled"),
    ev.OldestParked: (logging.DEBUG, "oldest parked message"),
    ev.BlockedChanged: (logging.WARNING, "broker changed connection.blocked"),
    ev.InflightChanged: (logging.DEBUG, "deliveries in flight"),
    ev.ClockSkew: (logging.WARNING, "parked_at lies ahead of this clock, wait clamped to one parking_ttl"),
    ev.LoopBlocked: (logging.WARNING, "the event loop was blocked, a handler may be calling blocking code"),
    ev.HandlersStuck: (logging.ERROR, "handlers ignore their cancellation, the next session waits for them"),
    ev.ForeignParked: (logging.ERROR, "no capture of ours in the parking queue, moved to the queue itself"),
    ev.TopologyRepaired: (logging.ERROR, "something of ours was missing and was declared again"),
    ev.TopologyDeclined: (
        logging.WARNING,
        "the broker declined a declare, what stands was checked and accepted",
    ),
    ev.SubscriptionEnded: (logging.INFO, "subscription ended"),
}

_SETTLEMENT_FAILED = "SETTLEMENT_FAILED"
_ASKED_FOR = "SHUTDOWN"


def log_event(event: ev.Event) -> None:
    """Write one record for ``event``. An Observer; it builds nothing when the level is off."""
    level, message = _LEVELS.get(type(event), (logging.INFO, type(event).__name__))
    match event:
        case ev.SessionDown(end=end) if end == _SETTLEMENT_FAILED:
            level = logging.ERROR
        case ev.SessionDown(end=end) if end == _ASKED_FOR:
            level = logging.INFO
        case ev.HandlerFinished(disposition=disposition) if disposition != "ok":
            level = logging.INFO  # It says why a message was parked or quarantined.
        case ev.SubscriptionEnded(error=error) if error is not None:
            level = logging.ERROR
        case _:
            pass
    if LOGGER.isEnabledFor(level):
        fields = attrs.asdict(event, filter=_is_shown)
        LOGGER.log(level, message, extra={"fields": {"event": type(event).__name__, **fields}})


def _is_shown(attribute: attrs.Attribute[object], value: object) -> bool:
    return value is not None and value != "" and attribute.repr is not False


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def _timestamp(record: logging.LogRecord) -> str:
    moment = dt.datetime.fromtimestamp(record.created, tz=dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class KeyValueFormatter(logging.Formatter):
    """``2026-01-01T00:00:00.000Z ERROR quarantined queue=security.dlq reason=malformed …``."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one line; values with spaces or quotes are JSON strings, newlines never survive."""
        pairs = "".join(f" {name}={_value(value)}" for name, value in _fields_of(record).items())
        line = f"{_timestamp(record)} {record.levelname} {record.getMessage()}{pairs}"
        return line if record.exc_info is None else f"{line} error={_value(_error_name(record))}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``message`` and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one line of JSON."""
        entry: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname,
            "message": record.getMessage(),
            **_fields_of(record),
        }
        if record.exc_info is not None:
            entry["error"] = _error_name(record)
        return json.dumps(entry, ensure_ascii=False, default=str)


def _error_name(record: logging.LogRecord) -> str:
    kind = record.exc_info[0] if record.exc_info else None
    return kind.__qualname__ if kind is not None else "unknown"


def _value(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    if text.isascii() and text.isprintable() and not set(text) & set(" \"'=") and text:
        return text
    return json.dumps(text)
