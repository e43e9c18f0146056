"""What must exist at the broker for one subscription, as data (ADR-059 §parking, §quarantine)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

_NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


@attrs.define(frozen=True, slots=True)
class ExchangeSpec:
    """A durable exchange; ``kind`` is ``topic``, ``direct`` or ``fanout``."""

    name: str
    kind: str = "topic"
    durable: bool = True
    arguments: Mapping[str, object] = _NO_ARGUMENTS


@attrs.define(frozen=True, slots=True)
class QueueSpec:
    """A queue as we would declare it; ``arguments`` always name ``x-queue-type`` (decisions, 13)."""

    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = _NO_ARGUMENTS


@attrs.define(frozen=True, slots=True)
class BindingSpec:
    """A binding from an exchange to a queue."""

    exchange: str
    queue: str
    routing_key: str


@attrs.define(frozen=True, slots=True)
class QueueState:
    """What a declare, active or passive, reported. ``ready`` excludes deliveries held unacked."""

    name: str
    ready: int
    consumers: int
