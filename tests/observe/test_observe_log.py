"""Events become structured records."""

import json
import logging
import sys

import attrs
import pytest

from craig_mq.observe import events as ev
from craig_mq.observe.log import _LEVELS, LOGGER, JsonFormatter, KeyValueFormatter, log_event

Q = "security.dlq"
QUARANTINED = ev.Quarantined(
    Q, envelope_id="e-1", capture_id="c-1", reason="malformed", target="security.dlq.quarantine"
)


def test_a_quarantine_publish_logs_one_error_with_its_four_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Each quarantine publish logs exactly one ERROR with envelope id, capture id, reason and queue."""
    with caplog.at_level(logging.DEBUG, "craig_mq"):
        log_event(QUARANTINED)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    fields = record.fields
    assert (fields["envelope_id"], fields["capture_id"], fields["reason"], fields["queue"]) == (
        "e-1",
        "c-1",
        "malformed",
        Q,
    )


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (
            ev.SessionDown(Q, "main", generation=1, end="SETTLEMENT_FAILED", text="406 unknown tag"),
            logging.ERROR,
        ),
        (ev.SessionDown(Q, "main", generation=1, end="CONNECTION_LOST", text="reset"), logging.WARNING),
        (ev.SessionDown(Q, "main", generation=1, end="SHUTDOWN", text=""), logging.INFO),
        (ev.SettlementFailure(Q, "main", stage="nacked", target=f"{Q}.parking", text="nack"), logging.ERROR),
        (ev.SubscriptionEnded(Q, error="ValueError"), logging.ERROR),
        (ev.SubscriptionEnded(Q, error=None), logging.INFO),
        (ev.DeliveryFinished(Q, outcome="acked", redelivered=False), logging.DEBUG),
    ],
)
def test_levels_follow_what_an_operator_must_do(
    event: ev.Event, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A settlement failure is an ERROR, an ordinary end warns, a shutdown does not; deliveries are DEBUG."""
    with caplog.at_level(logging.DEBUG, "craig_mq"):
        log_event(event)
    assert [r.levelno for r in caplog.records] == [level]


def test_every_event_has_a_level_and_a_message() -> None:
    """No event type falls through to a nameless record."""
    concrete = {
        kind
        for kind in vars(ev).values()
        if isinstance(kind, type) and issubclass(kind, ev.Event) and kind not in {ev.Event, ev.ArmEvent}
    }
    assert concrete == set(_LEVELS)


def _record(event: ev.Event) -> logging.LogRecord:
    kept: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    handler = Keep()
    LOGGER.addHandler(handler)
    try:
        log_event(event)
    finally:
        LOGGER.removeHandler(handler)
    return kept[0]


def test_key_value_lines_survive_hostile_text() -> None:
    """A broker text with quotes and newlines stays on one line and can be read back."""
    event = ev.SettlementFailure(Q, "main", stage="publish", target="x", text='a "b"\nERROR forged=1')
    line = KeyValueFormatter().format(_record(event))
    assert "\n" not in line
    assert json.loads(line.split(" text=", 1)[1].split(" envelope_id=")[0]) == event.text


def test_json_lines_hold_every_field_once() -> None:
    """The JSON form is one object with time, level, message and the event's own fields."""
    entry = json.loads(JsonFormatter().format(_record(QUARANTINED)))
    assert entry["level"] == "ERROR"
    assert entry["time"].endswith("Z")
    for name, value in attrs.asdict(QUARANTINED).items():
        assert entry[name] == value


def test_an_empty_text_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A field that says nothing is not written: no ``text=""`` behind a graceful shutdown."""
    with caplog.at_level(logging.INFO, "craig_mq"):
        log_event(ev.SessionDown(Q, "main", generation=1, end="SHUTDOWN", text=""))
    line = KeyValueFormatter().format(caplog.records[0])
    assert line.endswith(
        "INFO session ended event=SessionDown queue=security.dlq arm=main generation=1 end=SHUTDOWN"
    )


def test_an_exception_is_named_without_its_text() -> None:
    """A record with an exception names its type; the text, which may quote a body, stays out."""
    try:
        raise ValueError("body: secret")
    except ValueError:
        record = LOGGER.makeRecord("craig_mq", logging.ERROR, __file__, 1, "handler failed", (), None)
        record.exc_info = sys.exc_info()
    for formatter in (JsonFormatter(), KeyValueFormatter()):
        line = formatter.format(record)
        assert "ValueError" in line
        assert "secret" not in line


def test_an_invocation_logs_no_original_properties(caplog: pytest.LogCaptureFixture) -> None:
    """What an event offers to observers on demand, the original's headers, is never in a record."""
    with caplog.at_level(logging.DEBUG, "craig_mq"):
        log_event(ev.HandlerFinished(Q, "ok", 0.1, 1, "e-1", None, lambda: b'{"headers":{"secret":1}}'))
    (record,) = caplog.records
    assert "original_properties" not in record.fields
    assert "secret" not in JsonFormatter().format(record)


def test_a_failed_invocation_is_told_where_its_consequence_is(caplog: pytest.LogCaptureFixture) -> None:
    """At INFO, the level of parking, a handler's failure is named by its type; its success is not told."""
    with caplog.at_level(logging.INFO, "craig_mq"):
        log_event(ev.HandlerFinished(Q, "ok", 0.1, 1, "e-1"))
        log_event(ev.HandlerFinished(Q, "transient_park", 0.1, 1, "e-2", "NameError"))
    (record,) = caplog.records
    assert "error_type=NameError" in KeyValueFormatter().format(record)
