"""Configuration: every range of ADR-059 §config and every name of field failure NAME-01."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions, validate_names
from craig_mq.core.errors import DlqConfigError

E_ACUTE = "\u00e9"


def _refusal(*names: Any) -> DlqConfigError | None:
    """Why ``validate_names`` refuses these, or None."""
    try:
        validate_names(*names)
    except DlqConfigError as error:
        return error
    return None


def test_the_defaults_are_those_of_the_adr() -> None:
    """By default: 10 min TTL, cap 12, 3 invocations, a sample every 30 s: about two hours of outage."""
    config = DlqRetryConfig()
    assert config.parking_ttl == timedelta(minutes=10)
    assert (config.park_cap, config.handler_attempts) == (12, 3)
    assert config.depth_sample_interval == timedelta(seconds=30)
    assert config.parking_ttl * config.park_cap == timedelta(hours=2)


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("parking_ttl", timedelta(seconds=1), timedelta(hours=24)),
        ("depth_sample_interval", timedelta(seconds=1), timedelta(hours=1)),
        ("park_cap", 1, 100),
        ("handler_attempts", 1, 10),
    ],
)
def test_each_range_includes_its_ends_and_nothing_beyond(field: str, low: Any, high: Any) -> None:
    """Each field takes its two limits and refuses one step beyond, naming field, value and range."""
    step = timedelta(microseconds=1) if isinstance(low, timedelta) else 1
    for value in (low, high):
        assert getattr(DlqRetryConfig(**{field: value}), field) == value
    for value in (low - step, high + step):
        with pytest.raises(DlqConfigError) as refused:
            DlqRetryConfig(**{field: value})
        assert (refused.value.field, refused.value.value) == (field, value)
        assert field in str(refused.value)
        assert repr(value) in str(refused.value)
        assert refused.value.allowed in str(refused.value)


@pytest.mark.parametrize("field", ["park_cap", "handler_attempts"])
@pytest.mark.parametrize("value", [True, 1.0, "3", None])
def test_a_count_is_an_integer(field: str, value: object) -> None:
    """A count that is a bool, a float, a text or None is refused, never coerced."""
    with pytest.raises(DlqConfigError, match=field):
        DlqRetryConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, "10", None, float("nan"), float("inf"), 1e300, -1, 10**400])
def test_a_duration_is_a_timedelta_or_seconds(value: object) -> None:
    """A duration that is no finite number of seconds is refused with the field's name."""
    with pytest.raises(DlqConfigError, match="parking_ttl"):
        DlqRetryConfig(parking_ttl=value)  # type: ignore[arg-type]


def test_numbers_are_seconds() -> None:
    """A number given for a duration is taken as seconds."""
    assert DlqRetryConfig(parking_ttl=90).parking_ttl == timedelta(seconds=90)
    assert SubscriptionOptions(settle_timeout=0.5).settle_timeout == timedelta(milliseconds=500)


def test_the_options_default_to_the_decisions() -> None:
    """The defaults of SubscriptionOptions are those of the decisions."""
    seconds = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in attrs.asdict(SubscriptionOptions()).items()
    }
    assert seconds == {
        "prefetch": 32,
        "concurrency": 16,
        "handler_timeout": 300,
        "drain_timeout": 10,
        "start_timeout": 30,
        "connect_timeout": 10,
        "rpc_timeout": 10,
        "confirm_timeout": 30,
        "settle_timeout": 5,
        "abort_grace": 1,
        "heartbeat": 15,
        "parking_hold_limit": 20,
        "return_route": "exchange",
        "queue_type": "classic",
        "backoff_base": 1,
        "backoff_cap": 30,
        "stable_after": 10,
    }


def test_only_the_start_timeout_can_be_for_ever() -> None:
    """start_timeout None means for ever; no other wait may be None."""
    assert SubscriptionOptions(start_timeout=None).start_timeout is None
    for field in attrs.fields(SubscriptionOptions):
        if field.name != "start_timeout":
            with pytest.raises(DlqConfigError, match=field.name):
                SubscriptionOptions(**{field.name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["return_route", "queue_type"])
def test_a_choice_is_one_of_its_words(field: str) -> None:
    """An unknown word for a choice is refused and the choices are named."""
    with pytest.raises(DlqConfigError, match="one of"):
        SubscriptionOptions(**{field: "stream"})  # type: ignore[arg-type]


def test_the_prefetch_fits_the_wire() -> None:
    """Prefetch is 1..65535, the wire's unsigned short without its 0, which would mean no limit."""
    for value in (0, 65_536):
        with pytest.raises(DlqConfigError, match="prefetch"):
            SubscriptionOptions(prefetch=value)


def test_a_backoff_cap_below_its_base_is_refused() -> None:
    """backoff_cap must be at least backoff_base."""
    with pytest.raises(DlqConfigError, match=r"at least backoff_base \(2 s\)"):
        SubscriptionOptions(backoff_base=2, backoff_cap=1)


def test_holding_a_parked_delivery_never_reaches_the_consumer_timeout() -> None:
    """The largest parking_hold_limit plus the largest confirm_timeout is below 30 minutes."""
    SubscriptionOptions(parking_hold_limit=600, confirm_timeout=600)
    for field in ("parking_hold_limit", "confirm_timeout"):
        with pytest.raises(DlqConfigError, match=field):
            SubscriptionOptions(**{field: 601})


def test_the_configuration_is_frozen() -> None:
    """Configuration cannot be changed after its validation."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        DlqRetryConfig().park_cap = 200  # type: ignore[misc]


@given(st.one_of(st.integers(), st.floats(), st.timedeltas(), st.text(max_size=3), st.none(), st.booleans()))
def test_any_value_is_in_range_or_refused(value: object) -> None:
    """Whatever is given for parking_ttl, the result is 1 s to 24 h or a DlqConfigError."""
    with contextlib.suppress(DlqConfigError):
        config = DlqRetryConfig(parking_ttl=value)  # type: ignore[arg-type]
        assert timedelta(seconds=1) <= config.parking_ttl <= timedelta(hours=24)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("q" * 245, "256"),  # with .quarantine
        (E_ACUTE * 123, "257"),  # with .quarantine; 254 with .parking
        (E_ACUTE * 124, "256"),  # with .parking
        ("\U0001f600" * 62, "256"),  # with .parking
        ("", "non-empty"),
        ("a\nb", "control"),
        ("a\u2028b", "control"),
        ("amq.gen-1", "amq"),
        ("\ud800", "valid UTF-8"),
        (b"bytes", "control"),
        (None, "control"),
    ],
)
def test_a_bad_queue_name_is_refused_before_dialling(queue: Any, said: str) -> None:
    """NAME-01: an empty, reserved, unprintable or too long name is refused, lengths counted in bytes."""
    with pytest.raises(DlqConfigError, match=said) as refused:
        validate_names(queue, ("dlq.#",))
    assert refused.value.field.startswith("queue")


def test_the_derived_name_and_its_length_are_named() -> None:
    """NAME-01: the refusal names the derived queue and its length in bytes."""
    with pytest.raises(DlqConfigError) as refused:
        validate_names("q" * 245, ("dlq.#",))
    assert refused.value.value == "q" * 245 + ".quarantine"
    assert "256" in str(refused.value)
    assert "255" in refused.value.allowed


@pytest.mark.parametrize("queue", ["q" * 244, E_ACUTE * 122, "\U0001f600" * 60, "security.dlq", " "])
def test_a_name_whose_siblings_fit_is_accepted(queue: str) -> None:
    """NAME-01: a queue whose .parking and .quarantine names fit 255 bytes is accepted."""
    assert _refusal(queue, ("dlq.#",)) is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("dlq.#", "sequence"),
        ((), "at least one"),
        (("k" * 256,), "256"),
        (("dlq.\x00",), "control"),
        ((5,), "control"),
    ],
)
def test_bad_binding_keys_are_refused(keys: Any, said: str) -> None:
    """Binding keys are a non-empty sequence of texts of at most 255 bytes."""
    with pytest.raises(DlqConfigError, match=said) as refused:
        validate_names("security.dlq", keys)
    assert refused.value.field == "binding_keys"


def test_returns_past_the_exchange_need_no_binding() -> None:
    """With return_route "queue" an empty set of binding keys is fine, and 255 bytes of key always are."""
    assert _refusal("security.dlq", (), "queue") is None
    assert _refusal("security.dlq", ("k" * 255, E_ACUTE * 127)) is None
