"""When a second declare of a thing is the same declare, and how RabbitMQ words it when it is not."""

from __future__ import annotations

from collections.abc import Mapping

from craig_mq.core.topology import ExchangeSpec, QueueSpec
from craig_mq.transport.memory.exchange import Exchange
from craig_mq.transport.memory.refusals import (
    EXCHANGE_DECLARE,
    QUEUE_DECLARE,
    Method,
    precondition_failed,
)

_COMPARED_QUEUE_ARGUMENTS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-max-priority",
    "x-queue-mode",
    "x-single-active-consumer",
    "x-queue-type",
    "x-delivery-limit",
)


def check_exchange(existing: Exchange, wanted: ExchangeSpec, vhost: str) -> None:
    """Refuse with 406 unless the declare is equivalent to what exists."""
    where = f"for exchange '{wanted.name}' in vhost '{vhost}'"
    _check_flags(
        {"type": (wanted.kind, existing.kind), "durable": (wanted.durable, existing.durable)},
        where,
        EXCHANGE_DECLARE,
    )
    _check_arguments(wanted.arguments, existing.arguments, ("alternate-exchange",), where, EXCHANGE_DECLARE)


def check_queue(existing: QueueSpec, wanted: QueueSpec, vhost: str, default_type: str) -> None:
    """Refuse with 406 unless the declare is equivalent to what exists.

    A declare that names no type means the vhost's default one (rabbitmq-facts, 3).
    """
    where = f"for queue '{wanted.name}' in vhost '{vhost}'"
    _check_flags(
        {
            "durable": (wanted.durable, existing.durable),
            "auto_delete": (wanted.auto_delete, existing.auto_delete),
        },
        where,
        QUEUE_DECLARE,
    )
    _check_arguments(
        {"x-queue-type": default_type, **wanted.arguments},
        existing.arguments,
        _COMPARED_QUEUE_ARGUMENTS,
        where,
        QUEUE_DECLARE,
    )


def _check_flags(pairs: Mapping[str, tuple[object, object]], where: str, method: Method) -> None:
    for name, (received, current) in pairs.items():
        if received != current:
            text = (
                f"inequivalent arg '{name}' {where}: "
                f"received '{_word(received)}' but current is '{_word(current)}'"
            )
            raise precondition_failed(text, method)


def _check_arguments(
    wanted: Mapping[str, object],
    existing: Mapping[str, object],
    compared: tuple[str, ...],
    where: str,
    method: Method,
) -> None:
    for name in compared:
        received, current = wanted.get(name), existing.get(name)
        if received != current:
            text = (
                f"inequivalent arg '{name}' {where}: "
                f"received {_value(received)} but current is {_value(current)}"
            )
            raise precondition_failed(text, method)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        kind = "longstr"
    elif isinstance(value, bool):
        kind = "bool"
    else:
        kind = "signedint"
    return f"the value '{_word(value)}' of type '{kind}'"
