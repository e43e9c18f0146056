"""craig_mq: a Trio dead-letter runtime for RabbitMQ that settles without losing a message.

The public names are loaded on first use, so that ``import craig_mq`` brings in no AMQP client, no
bridge to asyncio, no database driver and no web framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from craig_mq.audit.classification import classify
    from craig_mq.core.config import DlqRetryConfig, SubscriptionConfig, SubscriptionOptions
    from craig_mq.core.dead_letter import DeadLetter
    from craig_mq.core.disposition import Disposition, DlqError
    from craig_mq.core.envelope import EventEnvelope
    from craig_mq.core.errors import DlqConfigError
    from craig_mq.core.outcome import Acked, Nacked, Returned, Unconfirmed
    from craig_mq.core.received_event import ReceivedEvent
    from craig_mq.publishing.publisher import Publisher, publish_event
    from craig_mq.runtime.errors import SubscribeDlqError, SubscribeError
    from craig_mq.runtime.ladder_subscribe import subscribe
    from craig_mq.runtime.subscribe import subscribe_dlq
    from craig_mq.transport.opening import open_broker

__all__ = [
    "Acked",
    "DeadLetter",
    "Disposition",
    "DlqConfigError",
    "DlqError",
    "DlqRetryConfig",
    "EventEnvelope",
    "Nacked",
    "Publisher",
    "ReceivedEvent",
    "Returned",
    "SubscribeDlqError",
    "SubscribeError",
    "SubscriptionConfig",
    "SubscriptionOptions",
    "Unconfirmed",
    "classify",
    "open_broker",
    "publish_event",
    "subscribe",
    "subscribe_dlq",
]

_HOMES = {
    "Acked": "craig_mq.core.outcome",
    "DeadLetter": "craig_mq.core.dead_letter",
    "Disposition": "craig_mq.core.disposition",
    "DlqConfigError": "craig_mq.core.errors",
    "DlqError": "craig_mq.core.disposition",
    "DlqRetryConfig": "craig_mq.core.config",
    "EventEnvelope": "craig_mq.core.envelope",
    "Nacked": "craig_mq.core.outcome",
    "Publisher": "craig_mq.publishing.publisher",
    "Returned": "craig_mq.core.outcome",
    "SubscriptionOptions": "craig_mq.core.config",
    "Unconfirmed": "craig_mq.core.outcome",
    "SubscribeDlqError": "craig_mq.runtime.errors",
    "SubscribeError": "craig_mq.runtime.errors",
    "ReceivedEvent": "craig_mq.core.received_event",
    "SubscriptionConfig": "craig_mq.core.config",
    "subscribe": "craig_mq.runtime.ladder_subscribe",
    "classify": "craig_mq.audit.classification",
    "open_broker": "craig_mq.transport.opening",
    "publish_event": "craig_mq.publishing.publisher",
    "subscribe_dlq": "craig_mq.runtime.subscribe",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home the first time it is asked for (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names too before they are loaded."""
    return sorted({*globals(), *__all__})
