"""How the broker itself dead-letters: the ``x-death`` history a message carries on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

import msgspec

from craig_mq.core.delivery import Properties
from craig_mq.transport.memory.message import Message
from craig_mq.transport.memory.profiles import Profile

DeathReason: TypeAlias = Literal["rejected", "expired", "maxlen", "delivery_limit"]


def dead_letter_properties(
    message: Message, queue: str, reason: DeathReason, *, died_at: int, profile: Profile
) -> Properties:
    """Return the properties of the dead-lettered copy: history first, no expiration.

    ``died_at`` is in whole seconds, the resolution of ``x-death`` (rabbitmq-facts, 18).
    """
    headers = dict(message.properties.headers)
    history = _history(headers, message, profile)
    previous = next(
        (death for death in history if death["queue"] == queue and death["reason"] == reason), None
    )
    if previous is None:
        death: dict[str, object] = {
            "count": 1,
            "exchange": message.exchange,
            "queue": queue,
            "reason": reason,
            "routing-keys": [message.routing_key],
            "time": died_at,
        }
        if message.properties.expiration is not None:
            death["original-expiration"] = message.properties.expiration
    else:
        history.remove(previous)
        death = {**previous, "count": cast("int", previous["count"]) + 1}
    headers["x-death"] = [death, *history]
    headers.setdefault("x-first-death-exchange", message.exchange)
    headers.setdefault("x-first-death-queue", queue)
    headers.setdefault("x-first-death-reason", reason)
    return msgspec.structs.replace(message.properties, headers=headers, expiration=None)


def died_in_a_cycle(message: Message, queue: str, reason: DeathReason) -> bool:
    """Tell whether the message came round to a queue without ever being rejected: RabbitMQ drops it."""
    deaths = _deaths(message.properties.headers)
    reasons = [death.get("reason") for death in deaths]
    seen = any(death.get("queue") == queue for death in deaths)
    return reason != "rejected" and seen and "rejected" not in reasons


def _history(headers: Mapping[str, object], message: Message, profile: Profile) -> list[dict[str, object]]:
    if profile.replaces_x_death and not message.broker_history:
        return []
    known = [dict(death) for death in _deaths(headers)]
    return [
        death
        for death in known
        if {"queue", "reason"} <= death.keys() and isinstance(death.get("count"), int)
    ]


def _deaths(headers: Mapping[str, object]) -> list[Mapping[str, object]]:
    deaths = headers.get("x-death")
    if not isinstance(deaths, list):
        return []
    return [
        cast("Mapping[str, object]", death)
        for death in cast("list[object]", deaths)
        if isinstance(death, Mapping)
    ]
