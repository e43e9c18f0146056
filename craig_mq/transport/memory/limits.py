"""What a queue's arguments and its policy make of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from craig_mq.core.topology import QueueSpec
from craig_mq.transport.memory.profiles import Profile

_NUMERIC = ("max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit")


@attrs.define(frozen=True, slots=True)
class Policy:
    """An operator's policy for queues or exchanges whose name matches; the highest priority applies."""

    pattern: str
    definition: Mapping[str, object]
    priority: int = 0

    def matches(self, name: str) -> bool:
        """Tell whether it is meant for this name."""
        return re.search(self.pattern, name) is not None


def policy_for(name: str, policies: Mapping[str, Policy]) -> Mapping[str, object]:
    """Return the definition that applies to a name, or an empty one."""
    fitting = [policy for policy in policies.values() if policy.matches(name)]
    return max(fitting, key=lambda policy: policy.priority).definition if fitting else {}


@attrs.define(frozen=True, slots=True)
class QueueLimits:
    """The effective settings of a queue; times in seconds, None where there is none."""

    quorum: bool = False
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    message_ttl: float | None = None
    expires: float | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    delivery_limit: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether anything has to be checked when a message comes in."""
        return not (self.max_length is None and self.max_length_bytes is None and self.message_ttl is None)

    @property
    def returns_to_head(self) -> bool:
        """Whether a quorum queue takes a refused message back to its head (rabbitmq-facts, 2)."""
        return self.delivery_limit is not None and self.delivery_limit > 0


def effective_limits(spec: QueueSpec, policy: Mapping[str, object], profile: Profile) -> QueueLimits:
    """Merge arguments and policy: the lower number wins, otherwise the argument."""
    settings: dict[str, object] = dict(policy)
    for name, value in spec.arguments.items():
        key = name.removeprefix("x-")
        other = settings.get(key)
        if key in _NUMERIC and isinstance(value, int) and isinstance(other, int):
            settings[key] = min(value, other)
        else:
            settings[key] = value
    quorum = settings.get("queue-type") == "quorum"
    return QueueLimits(
        quorum=quorum,
        max_length=_whole(settings.get("max-length")),
        max_length_bytes=_whole(settings.get("max-length-bytes")),
        overflow=str(settings.get("overflow", "drop-head")),
        message_ttl=_seconds(settings.get("message-ttl")),
        expires=_seconds(settings.get("expires")),
        dead_letter_exchange=_text(settings.get("dead-letter-exchange")),
        dead_letter_routing_key=_text(settings.get("dead-letter-routing-key")),
        delivery_limit=_delivery_limit(_whole(settings.get("delivery-limit")), profile) if quorum else None,
    )


def _delivery_limit(wanted: int | None, profile: Profile) -> int | None:
    if wanted is None:
        return profile.default_delivery_limit
    return None if wanted < 0 and profile.negative_limit_is_none else wanted


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _seconds(value: object) -> float | None:
    return value / 1000 if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
